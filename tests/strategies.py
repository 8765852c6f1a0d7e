"""What the properties draw from: small on purpose, since small cases hold the edges."""

from hypothesis import strategies as st

remainders = st.sampled_from(["pad", "drop", "keep"])
seeds = st.integers(0, 2**64 - 1)
epochs = st.integers(0, 2**32)


@st.composite
def deals(draw, max_batch=7, max_shards=5):
    """Draws how an order is dealt, as keyword arguments."""
    shard_count = draw(st.integers(1, max_shards))
    return {
        "batch_size": draw(st.integers(1, max_batch)),
        "shard_index": draw(st.integers(0, shard_count - 1)),
        "shard_count": shard_count,
        "remainder": draw(remainders),
        "drop_last": draw(st.booleans()),
    }


@st.composite
def cuts(draw, max_n=80):
    """Draws a length and a position at which an epoch of it may be cut."""
    n = draw(st.integers(0, max_n))
    return n, draw(st.integers(0, n))
