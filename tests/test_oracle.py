"""The oracle is trusted because these hold: each is a sentence of docs/design.md, or counting."""

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracle import Batch, expected_cursor, expected_epoch, expected_len

Deal = dict[str, Any]

RULES = [(remainder, drop) for remainder in ("pad", "drop", "keep") for drop in (False, True)]


def world(order: list[int], deal: Deal, start: int = 0) -> list[list[Batch]]:
    """The batches of every shard, by shard."""
    count = deal["shard_count"]
    return [expected_epoch(order, shard_index=r, start=start, **deal) for r in range(count)]


def valid_positions(shards: list[list[Batch]]) -> list[int]:
    """The positions of all rows that are no padding, sorted, repeated where they come twice."""
    batches = [batch for shard in shards for batch in shard]
    return sorted(p for _, at, real in batches for p, ok in zip(at, real, strict=True) if ok)


def scrambled(n: int) -> list[int]:
    """An order that is not the identity and whose indices are never their positions."""
    return [1000 + (7 * i + 3) % n if n % 7 else 1000 + n - i for i in range(n)]


def small_cases() -> Iterator[tuple[int, Deal, int]]:
    """Every (n, deal, start) to beyond two global batches, in small worlds, under every rule."""
    for remainder, drop_last in RULES:
        for count in (1, 2, 3, 4):
            for size in (1, 2, 3):
                deal: Deal = {"batch_size": size, "shard_count": count}
                deal |= {"remainder": remainder, "drop_last": drop_last}
                for n in range(0, 2 * count * size + 2):
                    for start in range(0, n + 1):
                        yield n, deal, start


SMALL = list(small_cases())


@st.composite
def cases(draw: st.DrawFn) -> tuple[int, Deal, int]:
    """(n, deal, start) with larger worlds, among them worlds larger than n."""
    remainder, drop_last = draw(st.sampled_from(RULES))
    deal: Deal = {"batch_size": draw(st.integers(1, 20)), "shard_count": draw(st.integers(1, 12))}
    deal |= {"remainder": remainder, "drop_last": drop_last}
    n = draw(st.integers(0, 300))
    start = draw(st.one_of(st.just(0), st.integers(0, n)))
    return n, deal, start


def check_covers(n: int, deal: Deal, start: int) -> None:
    """The valid rows are the positions that the rule says, each exactly once."""
    got = valid_positions(world(scrambled(n), deal, start))
    count, left = deal["shard_count"], n - start
    if deal["drop_last"]:
        left -= left % (count * deal["batch_size"])
    elif deal["remainder"] == "drop":
        left -= left % (count * deal["batch_size"]) % count
    assert list(range(start, start + left)) == got


def check_rows(n: int, deal: Deal, start: int) -> None:
    """Each row has the index that the order holds at its position, and there is no empty batch."""
    order = scrambled(n)
    for shard in world(order, deal, start):
        for indices, positions, valid in shard:
            assert [order[p] for p in positions] == indices
            assert 1 <= len(indices) == len(valid) <= deal["batch_size"]


def check_steps(n: int, deal: Deal, start: int) -> None:
    """All shards make the same steps of the same sizes, under "keep" but for one row at the end."""
    shards = world(scrambled(n), deal, start)
    sizes = [[len(indices) for indices, _, _ in shard] for shard in shards]
    if deal["drop_last"] or deal["remainder"] != "keep":
        assert [sizes[0]] * len(shards) == sizes
        return
    full = (n - start) // (deal["shard_count"] * deal["batch_size"])
    last = [sum(size[full:]) for size in sizes]
    assert sorted(last, reverse=True) == last
    assert last[0] - last[-1] <= 1
    assert [[deal["batch_size"]] * full] * len(shards) == [size[:full] for size in sizes]


def check_padding(n: int, deal: Deal, start: int) -> None:
    """Padding is there under "pad" alone, fewer rows than shards, round from position 0."""
    padding = [
        p
        for shard in world(scrambled(n), deal, start)
        for _, positions, valid in shard
        for p, ok in zip(positions, valid, strict=True)
        if not ok
    ]
    count = deal["shard_count"]
    tail = (n - start) % (count * deal["batch_size"])
    padded = deal["remainder"] == "pad" and not deal["drop_last"]
    assert [k % n for k in range(-tail % count if padded else 0)] == padding


def check_len(n: int, deal: Deal, start: int) -> None:
    """The length is the number of batches, and that of a rest is that of an epoch as long."""
    shards = world(scrambled(n), deal, start)
    lengths = [expected_len(n - start, shard_index=r, **deal) for r in range(len(shards))]
    assert [len(shard) for shard in shards] == lengths


def check_joined(n: int, deal: Deal, start: int) -> None:
    """The batches of one step, joined in shard order, go on in the order where the last ended."""
    shards = world(scrambled(n), deal, start)
    at = start
    for step in range(max(len(shard) for shard in shards)):
        joined = [shard[step] for shard in shards if step < len(shard)]
        rows = [p for _, at_, ok in joined for p, real in zip(at_, ok, strict=True) if real]
        assert list(range(at, at + len(rows))) == rows
        at += len(rows)


def check_cursor_says_delivered(n: int, deal: Deal, start: int) -> None:
    """Until the epoch is over, the state stands after all that the world delivered."""
    shards = world(scrambled(n), deal, start)
    for r, mine in enumerate(shards):
        for step in range(len(mine) + 1):
            position, over = expected_cursor(n, step, shard_index=r, start=start, **deal)
            done = valid_positions([shard[:step] for shard in shards])
            assert (0 if over else start + len(done)) == position


def check_cursor_ends(n: int, deal: Deal, start: int) -> None:
    """The epoch is over after a step exactly when no shard of the world has another one."""
    shards = world(scrambled(n), deal, start)
    longest = max(len(shard) for shard in shards)
    for r, mine in enumerate(shards):
        for step in range(len(mine) + 1):
            _, over = expected_cursor(n, step, shard_index=r, start=start, **deal)
            assert (step > 0 and step == longest) == over


def check_cursor_goes_on(n: int, deal: Deal, start: int) -> None:
    """In the same world, what is dealt anew from a state is what was still to come."""
    order = scrambled(n)
    for r, mine in enumerate(world(order, deal, start)):
        for step in range(len(mine) + 1):
            position, over = expected_cursor(n, step, shard_index=r, start=start, **deal)
            rest = [] if over else expected_epoch(order, shard_index=r, start=position, **deal)
            assert mine[step:] == rest


CHECKS = [
    check_covers,
    check_rows,
    check_steps,
    check_padding,
    check_len,
    check_joined,
    check_cursor_says_delivered,
    check_cursor_ends,
    check_cursor_goes_on,
]


@pytest.mark.parametrize("check", CHECKS)
def test_every_truth_holds_in_every_small_world(check: Any) -> None:
    """Every truth above holds for each small n, world, batch size, start and rule."""
    for n, deal, start in SMALL:
        check(n, deal, start)


@pytest.mark.parametrize("check", CHECKS)
@given(case=cases())
def test_every_truth_holds_in_larger_worlds(check: Any, case: tuple[int, Deal, int]) -> None:
    """Every truth above holds for n, worlds and batch sizes that nobody chose."""
    check(*case)


@given(first=cases(), second=cases(), data=st.data())
def test_a_run_cut_and_dealt_anew_in_another_world_delivers_each_position_once(
    first: tuple[int, Deal, int], second: tuple[int, Deal, int], data: st.DataObject
) -> None:
    """Under pad and keep, both halves of a run that changed its world make one whole epoch."""
    n, one, _ = first
    two = second[1] | {"drop_last": False}
    two["remainder"] = "pad" if two["remainder"] == "drop" else two["remainder"]
    order = scrambled(n)
    before = world(order, one)
    step = data.draw(st.integers(0, len(before[0])))
    cut, over = expected_cursor(n, step, shard_index=0, **one)
    if over:
        return
    after = world(order, two, start=cut)
    done = valid_positions([shard[:step] for shard in before])
    assert list(range(n)) == sorted(done + valid_positions(after))


def by_hand(n: int, remainder: str, count: int, size: int, start: int = 0) -> list[str]:
    """Each shard as text: steps between bars, positions in the step, padding in brackets."""
    deal: Deal = {
        "batch_size": size,
        "shard_count": count,
        "remainder": remainder,
        "drop_last": False,
    }
    return [
        " | ".join(
            " ".join(str(p) if ok else f"({p})" for p, ok in zip(positions, valid, strict=True))
            for _, positions, valid in shard
        )
        for shard in world(list(range(n)), deal, start)
    ]


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        ((10, "pad", 3, 2), ["0 1 | 6 7", "2 3 | 8 9", "4 5 | (0) (1)"]),
        ((5, "pad", 4, 2), ["0 1", "2 3", "4 (0)", "(1) (2)"]),
        ((2, "pad", 5, 3), ["0", "1", "(0)", "(1)", "(0)"]),
        ((10, "pad", 2, 2, 7), ["7 8", "9 (0)"]),
        ((1, "drop", 2, 4), ["", ""]),
        ((11, "drop", 2, 4), ["0 1 2 3 | 8", "4 5 6 7 | 9"]),
        ((11, "keep", 2, 4), ["0 1 2 3 | 8 9", "4 5 6 7 | 10"]),
        ((4, "keep", 3, 1), ["0 | 3", "1", "2"]),
        ((10, "keep", 3, 2, 2), ["2 3 | 8", "4 5 | 9", "6 7"]),
    ],
)
def test_epochs_dealt_by_hand(case: tuple[Any, ...], expected: list[str]) -> None:
    """Epochs small enough to deal with a pencil come out as the pencil dealt them."""
    assert expected == by_hand(*case)


def test_a_shard_with_one_step_less_is_not_over_by_its_last_delivery() -> None:
    """Under "keep" the state of the short shard is that of the world after the same step."""
    deal: Deal = {"batch_size": 1, "shard_count": 3, "remainder": "keep", "drop_last": False}
    assert (3, False) == expected_cursor(4, 1, shard_index=2, **deal)
    assert (3, False) == expected_cursor(4, 1, shard_index=0, **deal)
    assert (0, True) == expected_cursor(4, 2, shard_index=0, **deal)


@pytest.mark.parametrize(
    "wrong",
    [{"remainder": "Pad"}, {"shard_index": 2}, {"start": 6}, {"step": 4}],
    ids=lambda wrong: next(iter(wrong)),
)
def test_a_question_without_an_answer_is_refused(wrong: dict[str, Any]) -> None:
    """The oracle never answers for a rule, shard, start or step that does not exist."""
    ask: dict[str, Any] = {"batch_size": 1, "shard_index": 0, "shard_count": 2, "step": 1}
    ask |= {"remainder": "pad", "drop_last": False}
    with pytest.raises(ValueError, match=next(iter(wrong))):
        expected_cursor(5, **(ask | wrong))
