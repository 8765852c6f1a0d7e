"""SplitMix64 in Python's own integers: G. Steele, D. Lea and C. Flood (2014)."""

GOLDEN = 0x9E3779B97F4A7C15
"""From one word of a stream to the next."""


def mix(x: int) -> int:
    """The finalizer, with the constants of the paper."""
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB % 2**64
    return x ^ (x >> 31)
