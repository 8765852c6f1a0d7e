"""The order is dealt as the oracle says in every small case, and after every cut.

"Every" is meant: n up to 64, 1 to 9 shards, batches of 1 to 9 samples, each remainder, with
`drop_last` and without, each shard of them, shuffled and not: 157,950 epochs of a shard, twice.
For n up to 24 also from every position on, 789,750 more. A rule about tails has its edges
where n, the shards and the batch are near each other, and there all of them are.

One call of the oracle answers for both orders: it is given pairs, what stands at a position
in the one and in the other, and it does not look at what it deals.

`python3 tools/campaign shards` draws larger cases.
"""

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from campaigns import shards as campaign
from dealt import after, shares
from oracle import Batch, expected_cursor, expected_epoch, expected_len

from threadloader.order import Deal, Order, Row
from threadloader.order._deal import Share

LARGEST, LARGEST_CUT = 64, 24
WORLDS = range(1, 10)
RULES = list(itertools.product(range(1, 10), ("pad", "drop", "keep"), (False, True)))


def rules(count: int) -> Iterator[list[dict[str, Any]]]:
    """For each batch size and way to treat the tail, how each shard of the world is dealt."""
    for size, remainder, drop_last in RULES:
        deal = {"batch_size": size, "shard_count": count}
        deal |= {"remainder": remainder, "drop_last": drop_last}
        yield [{**deal, "shard_index": index} for index in range(count)]


def plain(share: Share) -> Batch:
    """What a shard gets in one step, as the oracle tells it."""
    indices, positions, valid = share
    return indices.tolist(), positions.tolist(), valid.tolist()


@pytest.mark.parametrize("count", WORLDS)
def test_every_small_epoch_is_dealt_as_the_oracle_says(count: int) -> None:
    """Indices, positions and padding of each step: all of them in turn, and each alone."""
    for n in range(LARGEST + 1):
        orders = [Order(n, seed=n, epoch=3, shuffle=shuffle) for shuffle in (False, True)]
        columns = [order.at(np.arange(n)).tolist() for order in orders]
        pairs: Any = list(zip(*columns, strict=True))
        for shard in itertools.chain.from_iterable(rules(count)):
            dealt, deal = expected_epoch(pairs, **shard), Deal(**shard)
            for column, order in enumerate(orders):
                expected = [
                    ([pair[column] for pair in rows], positions, valid)
                    for rows, positions, valid in dealt
                ]
                assert expected == [plain(share) for share in shares(deal, order)], (n, shard)
                alone = [deal.share(order, step) for step in range(len(expected))]
                found = [plain(share) for share in alone if share is not None]
                assert expected == found, (n, shard)
            assert deal.share(orders[0], len(dealt)) is None, (n, shard)


@pytest.mark.parametrize("count", WORLDS)
def test_every_small_epoch_has_the_steps_and_cursors_that_the_oracle_says(count: int) -> None:
    """Its length on each shard, and where the state stands after each step."""
    for n in range(LARGEST + 1):
        for shards in rules(count):
            lengths = [expected_len(n, **shard) for shard in shards]
            for shard, length in zip(shards, lengths, strict=True):
                deal = Deal(**shard)
                assert length == deal.steps(n), (n, shard)
                # Before the first step an epoch is over if nobody has one.
                cursors = [0 if max(lengths) else None]
                for step in range(1, length + 1):
                    position, over = expected_cursor(n, step, **shard)
                    cursors.append(None if over else position)
                assert cursors == [after(deal, n, 0, step) for step in range(length + 1)], (
                    n,
                    shard,
                )


def left_out(remaining: int, shard: dict[str, Any]) -> int:
    """How many of the remaining positions the rule leaves out, at their end."""
    tail = remaining % (shard["batch_size"] * shard["shard_count"])
    if shard["drop_last"]:
        return tail
    return tail % shard["shard_count"] if shard["remainder"] == "drop" else 0


@pytest.mark.parametrize("count", WORLDS)
def test_after_every_cut_each_remaining_position_is_dealt_once(count: int) -> None:
    """From any position on, to any world: each real row once, less what the rule leaves out.

    Step by step the world's rows go on where the last step ended, and `after` says where. So
    wherever this world is cut, the positions delivered are those below the cut; and as any
    position can be such a cut, a chain of them loses nothing and gives nothing twice.
    """
    for n in range(LARGEST_CUT + 1):
        order = Order(n, seed=n, epoch=4, shuffle=True)
        sequence = order.at(np.arange(n)).tolist()
        for shards, start in itertools.product(rules(count), range(n + 1)):
            case = n, start, shards[0]
            deals = [Deal(**shard) for shard in shards]
            world = [[plain(share) for share in shares(deal, order, start)] for deal in deals]
            expected = [expected_epoch(sequence, start=start, **shard) for shard in shards]
            assert expected == world, case
            assert [len(batches) for batches in world] == [d.steps(n, start) for d in deals], case
            end = n - left_out(n - start, shards[0])
            at: int | None = start
            for step in range(len(world[0])):  # no shard has more steps than the first one
                rows = [batches[step] for batches in world if step < len(batches)]
                real = [
                    p
                    for _, positions, valid in rows
                    for p, ok in zip(positions, valid, strict=True)
                    if ok
                ]
                ends = {after(deal, n, start, step + 1) for deal in deals}
                assert 1 == len(ends), case
                until = ends.pop()
                assert list(range(at, end if until is None else until)) == real, (step, *case)
                at = until
            assert at is None or start == end, case


@pytest.mark.parametrize("count", WORLDS)
def test_every_position_is_found_in_the_rows_in_which_it_is_dealt(count: int) -> None:
    """Where `rows` says that a position comes out, it does, and nowhere else."""
    for n in range(LARGEST_CUT + 1):
        identity = list(range(n))
        for shards in rules(count):
            expected: dict[int, list[Row]] = {position: [] for position in identity}
            for index, shard in enumerate(shards):
                for step, (_, positions, valid) in enumerate(expected_epoch(identity, **shard)):
                    for row, (position, ok) in enumerate(zip(positions, valid, strict=True)):
                        expected[position].append(Row(step, index, row, ok))
            deal = Deal(**shards[-1])
            for position, rows in expected.items():
                # The real row first; padding by shard and row.
                rows.sort(key=lambda found: (not found.valid, found.shard, found.row))
                assert rows == list(deal.rows(n, position)), (n, position, shards[0])


def test_the_campaign_deals_larger_cases(capsys: pytest.CaptureFixture[str]) -> None:
    """And has loaders run some of them."""
    assert 0 == campaign.main(["--count=10000", "--seed=3", "--processes=1"])
    assert capsys.readouterr().out.startswith("shards: 10,000 run, ")
    assert {"pad", "drop", "keep"} == {campaign.drawn(3, n)[-1]["remainder"] for n in range(50)}
    assert max(campaign.drawn(3, n)[0] for n in range(500)) > LARGEST


@pytest.mark.parametrize("change", ["lost", "twice", "swapped", "unmarked"])
def test_the_campaign_sees_a_row_that_is_wrong(change: str) -> None:
    """In one case that has a tail with padding."""
    n, deal = 10, {"batch_size": 2, "shard_count": 3, "remainder": "pad", "drop_last": False}
    world = campaign.dealt(n, 0, 1, 2, False, deal)
    campaign.look(n, 0, world, deal, list(range(n)))
    indices, _, valid = world[2][-1]
    if change == "lost":
        world[0].pop()
    elif change == "twice":
        world[0].append(world[0][-1])
    elif change == "swapped":
        indices[0], indices[1] = indices[1], indices[0]
    else:
        valid[-1] = True
    with pytest.raises(AssertionError):
        campaign.look(n, 0, world, deal, list(range(n)))
