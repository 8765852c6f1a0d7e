"""The order of batches told a second time, naively, from "Order, exactly" in docs/design.md.

It shares no code with the library: the tests compare the two. It asks for no speed.
A position is a place in the epoch's global order; an index is what stands there.
"""

Batch = tuple[list[int], list[int], list[bool]]


def _check(remainder: str, shard_index: int, shard_count: int, start: int, n: int) -> None:
    """Raises ValueError for a question that has no answer."""
    if remainder not in ("pad", "drop", "keep"):
        raise ValueError(f"remainder: expected pad, drop or keep, got {remainder!r}")
    if not 0 <= shard_index < shard_count:
        raise ValueError(f"shard_index: expected 0 to {shard_count - 1}, got {shard_index}")
    if not 0 <= start <= n:
        raise ValueError(f"start: expected 0 to {n}, got {start}")


def expected_epoch(
    order: list[int],
    *,
    batch_size: int,
    shard_index: int,
    shard_count: int,
    remainder: str,
    drop_last: bool,
    start: int = 0,
) -> list[Batch]:
    """The batches of one shard from global position `start` to the end of the epoch.

    Each is (indices, positions, valid), one entry a row. The position of a padding row is where
    its index stands in `order`. A step without rows is no step and is not listed.
    """
    n = len(order)
    _check(remainder, shard_index, shard_count, start, n)
    batches: list[Batch] = []
    todo = list(range(start, n))
    while len(todo) >= shard_count * batch_size:
        parts = []
        for _ in range(shard_count):
            parts.append(todo[:batch_size])
            todo = todo[batch_size:]
        mine = parts[shard_index]
        batches.append(([order[p] for p in mine], mine, [True] * len(mine)))

    # What is left in `todo` is the tail: less than one global batch. Rows are (position, valid).
    if drop_last:
        return batches
    rows = [(position, True) for position in todo]
    if remainder == "pad":
        missing = 0
        while len(rows) % shard_count != 0:
            rows.append((missing % n, False))
            missing += 1
    if remainder == "drop":
        while len(rows) % shard_count != 0:
            rows.pop()
    sizes = [0] * shard_count
    for i in range(len(rows)):
        sizes[i % shard_count] += 1
    before = sum(sizes[:shard_index])
    tail = rows[before : before + sizes[shard_index]]
    if tail:
        indices = [order[position] for position, _ in tail]
        batches.append((indices, [p for p, _ in tail], [valid for _, valid in tail]))
    return batches


def expected_len(
    n: int,
    *,
    batch_size: int,
    shard_index: int,
    shard_count: int,
    remainder: str,
    drop_last: bool,
) -> int:
    """The number of steps that one shard makes in a whole epoch of `n` positions."""
    _check(remainder, shard_index, shard_count, 0, n)
    full, tail = divmod(n, shard_count * batch_size)
    if drop_last:
        return full
    # The smallest tail of which this shard gets a row.
    enough = {"pad": 1, "drop": shard_count, "keep": shard_index + 1}[remainder]
    return full + 1 if tail >= enough else full


def expected_cursor(
    n: int,
    step: int,
    *,
    batch_size: int,
    shard_index: int,
    shard_count: int,
    remainder: str,
    drop_last: bool,
    start: int = 0,
) -> tuple[int, bool]:
    """Where the state stands after this shard delivered `step` batches from `start` on.

    Returns (position, over). Over means that the delivery of the last batch of the world ended
    the epoch: the position is then 0, in the next epoch. Nothing is over at step 0: an epoch
    without steps, and the shorter epoch of a shard under "keep", end with their iteration,
    which is no delivery.
    """
    _check(remainder, shard_index, shard_count, start, n)
    shard = {"batch_size": batch_size, "shard_index": shard_index, "shard_count": shard_count}
    steps = expected_len(n - start, remainder=remainder, drop_last=drop_last, **shard)
    if not 0 <= step <= steps:
        raise ValueError(f"step: expected 0 to {steps}, got {step}")
    position = start
    for _ in range(step):
        position = min(position + shard_count * batch_size, n)
    # Some shard has a step to make if shard 0 has: no shard ever has more steps than it.
    shard["shard_index"] = 0
    to_come = expected_len(n - position, remainder=remainder, drop_last=drop_last, **shard)
    if step > 0 and to_come == 0:
        return 0, True
    return position, False
