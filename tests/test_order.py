"""The order is what docs/design.md says, and the deal of it what the oracle says, for ever."""

import itertools
import json
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import dealt
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracle import expected_cursor, expected_epoch, expected_len
from strategies import cuts, deals, epochs, seeds

from threadloader import Loader
from threadloader.order import Deal, Order, _deal, _shuffle, key
from threadloader.order._shuffle import SMALL


def whole(n, seed=0, epoch=0, shuffle=True):
    return Order(n, seed=seed, epoch=epoch, shuffle=shuffle).at(np.arange(n))


def shares(order, deal, start=0):
    return [tuple(part.tolist() for part in share) for share in dealt.shares(deal, order, start)]


SIZES = [0, 1, 2, 3, 5, 100, SMALL - 1, SMALL, SMALL + 1, 2**14 + 1]


@pytest.mark.parametrize("n", [*SIZES, 2**16 - 1, 2**16, 2**16 + 1])
@given(seed=seeds, epoch=epochs)
def test_an_order_is_a_permutation(n, seed, epoch):
    """Each of 0 .. n - 1 comes once, on both sides of the limit between the two methods."""
    assert np.array_equal(np.arange(n), np.sort(whole(n, seed, epoch)))


@given(n=st.integers(0, 3000), seed=seeds, epoch=epochs)
def test_the_same_seed_and_epoch_give_the_same_order(n, seed, epoch):
    assert np.array_equal(whole(n, seed, epoch), whole(n, seed, epoch))


@pytest.mark.parametrize("n", [500, 20_000])
@given(seed=st.integers(0, 2**64 - 2), epoch=epochs)
def test_other_seeds_and_epochs_give_other_orders(n, seed, epoch):
    """Neither the next epoch, nor the next seed, nor the two exchanged repeats an order."""
    orders = [whole(n, seed, epoch), whole(n, seed, epoch + 1), whole(n, seed + 1, epoch)]
    for one, other in itertools.combinations(orders, 2):
        # A pair of unrelated permutations agrees in one place on average.
        assert np.count_nonzero(one == other) < 12


def test_without_shuffle_the_order_is_that_of_the_source():
    assert np.array_equal(np.arange(9), whole(9, seed=3, epoch=4, shuffle=False))


@pytest.mark.parametrize("n", [100, 20_000, 2**31 + 11, 10**12])
@given(data=st.data())
def test_any_position_can_be_had_alone(n, data):
    """A position's index does not depend on which others are asked for with it."""
    order = Order(n, seed=5, epoch=2, shuffle=True)
    positions = np.array(data.draw(st.lists(st.integers(0, n - 1), min_size=1, max_size=20)))
    alone = [int(order.at(np.array([position]))[0]) for position in positions]
    together = order.at(positions)
    assert alone == together.tolist()
    assert np.int64 == together.dtype
    assert ((together >= 0) & (together < n)).all()


def test_keys_of_two_purposes_or_moments_are_apart():
    made = {
        key(purpose, seed, epoch, n)
        for purpose in ("order", "transform")
        for seed in (0, 1, 2**64 - 1)
        for epoch in (0, 1)
        for n in (0, 1)
    }
    assert 24 == len(made)


GOLDENS = json.loads((Path(__file__).parent / "goldens" / "order.json").read_text())


@pytest.mark.parametrize("golden", GOLDENS, ids=lambda g: f"{g['n']}-{g['seed']}-{g['epoch']}")
def test_an_order_is_the_one_it_was_when_it_was_written_down(golden):
    """For ever: on every platform, Python and numpy version."""
    order = Order(golden["n"], seed=golden["seed"], epoch=golden["epoch"], shuffle=True)
    assert golden["indices"] == order.at(np.array(golden["positions"])).tolist()


def in_plain_integers(n, seed, epoch, positions):
    """The arithmetic of the order once more, in Python's integers, a position at a time."""
    stream = np.random.Philox(key=key("order", seed, epoch, n))
    if n <= SMALL:
        draws = stream.random_raw(n).tolist()
        table = sorted(range(n), key=lambda i: (draws[i], i))
        return [table[position] for position in positions]
    keys, word = stream.random_raw(8).tolist(), 2**32 - 1
    bits = (n - 1).bit_length()
    low_bits, high_bits = (bits + 1) // 2, bits // 2

    def mixed(x, draw, keep):
        x = (x * (draw & word | 1) + (draw >> 32)) & word
        x ^= x >> 15
        return ((x * 0x85EBCA6B) & word) >> (32 - keep)

    def permuted(value):
        low, high = value % 2**low_bits, value >> low_bits
        for number, draw in enumerate(keys):
            if number % 2:
                low ^= mixed(high, draw, low_bits)
            else:
                high ^= mixed(low, draw, high_bits)
        return high << low_bits | low

    indices = []
    for position in positions:
        value = permuted(position)
        while value >= n:
            value = permuted(value)
        indices.append(value)
    return indices


@given(n=st.one_of(st.integers(1, 300), st.integers(2**13, 2**62)), seed=seeds, data=st.data())
def test_the_arithmetic_is_that_of_plain_integers(n, seed, data):
    """Words of 32 bits that wrap around, in numpy, are integers modulo 2**32."""
    positions = data.draw(st.lists(st.integers(0, n - 1), min_size=1, max_size=5))
    indices = Order(n, seed=seed, epoch=3, shuffle=True).at(np.array(positions))
    assert in_plain_integers(n, seed, 3, positions) == indices.tolist()


@given(n=st.one_of(st.integers(1, 300), st.integers(2**13, 2**62)), seed=seeds, data=st.data())
@pytest.mark.parametrize("shuffle", [True, False])
def test_a_sample_is_found_where_it_comes(n, seed, shuffle, data):
    order = Order(n, seed=seed, epoch=0, shuffle=shuffle)
    position = data.draw(st.integers(0, n - 1))
    index = int(order.at(np.array([position]))[0])
    assert [position] == order.find(index).tolist()


@given(cut=cuts(), deal=deals(), seed=seeds)
def test_a_shard_gets_what_the_oracle_says(cut, deal, seed):
    """Indices, positions and padding of every step, from the start or from any cut."""
    n, start = cut
    order = Order(n, seed=seed, epoch=1, shuffle=True)
    expected = expected_epoch(whole(n, seed, 1).tolist(), **deal, start=start)
    assert expected == shares(order, Deal(**deal), start)


@given(n=st.integers(0, 80), deal=deals(), seed=seeds)
def test_one_step_alone_is_that_step_of_all(n, deal, seed):
    order = Order(n, seed=seed, epoch=1, shuffle=True)
    expected = shares(order, Deal(**deal), 0)
    steps = range(-1, len(expected) + 2)
    alone = [Deal(**deal).share(order, step) for step in steps]
    assert [None, *expected, None, None] == [
        share and tuple(part.tolist() for part in share) for share in alone
    ]


@given(n=st.integers(0, 40), deal=deals())
def test_every_row_of_a_position_is_known(n, deal):
    """Steps, shards, rows and padding of a position are those in which it comes out."""
    order = Order(n, seed=0, epoch=0, shuffle=False)
    expected = {position: set() for position in range(n)}
    for shard in range(deal["shard_count"]):
        steps = shares(order, Deal(**{**deal, "shard_index": shard}), 0)
        for step, (_, positions, valid) in enumerate(steps):
            for row, position in enumerate(positions):
                expected[position].add((step, shard, row, valid[row]))
    found = {position: list(Deal(**deal).rows(n, position)) for position in range(n)}
    assert expected == {position: set(rows) for position, rows in found.items()}
    for rows in found.values():
        assert sorted(rows, key=lambda row: not row.valid) == rows


@given(n=st.integers(0, 200), deal=deals(), count=st.integers(1, 300), data=st.data())
def test_rows_are_those_of_a_look_through_every_shard(n, deal, count, data):
    """The same rows in the same order, also where there are more shards than samples."""
    deal = Deal(**{**deal, "shard_index": 0, "shard_count": count})
    position = data.draw(st.integers(0, max(n - 1, 0)))
    assert list(dealt.rows(deal, n, position)) == list(deal.rows(n, position))


@pytest.mark.parametrize("remainder", ["pad", "keep"])
def test_rows_of_a_world_that_nobody_can_look_through_are_known(remainder):
    """Of 10**15 shards the first ten have a sample; the others have none, or pad in turn."""
    found = Deal(4, 0, 10**15, remainder).rows(10, 3)
    expected = [(0, 3, 0, True), *((0, 3 + 10 * turn, 0, False) for turn in range(1, 5))]
    assert expected[: 5 if remainder == "pad" else 1] == list(itertools.islice(found, 5))


@given(cut=cuts(), deal=deals())
def test_the_number_of_steps_is_what_the_oracle_says(cut, deal):
    n, start = cut
    assert expected_len(n, **deal) == Deal(**deal).steps(n)
    assert expected_len(n - start, **deal) == Deal(**deal).steps(n, start)


@given(cut=cuts(), deal=deals(), data=st.data())
def test_the_position_after_a_step_is_what_the_oracle_says(cut, deal, data):
    n, start = cut
    step = data.draw(st.integers(0, Deal(**deal).steps(n, start)))
    position, over = expected_cursor(n, step, **deal, start=start)
    after = dealt.after(Deal(**deal), n, start, step)
    if step:
        assert (None if over else position) == after
    else:
        assert after in (None, start)


@given(n=st.integers(0, 60), deal=deals())
def test_every_shard_stands_at_the_same_position_after_the_same_step(n, deal):
    everyone = [Deal(**{**deal, "shard_index": r}) for r in range(deal["shard_count"])]
    for step in range(max(each.steps(n) for each in everyone) + 1):
        assert 1 == len({dealt.after(each, n, 0, step) for each in everyone})


def test_blocks_do_not_show_in_the_steps(monkeypatch):
    """Steps computed a few at a time are those computed all at once."""
    order = Order(1000, seed=1, epoch=0, shuffle=True)
    expected = shares(order, Deal(7, 1, 3))
    for block in (1, 20, 70):
        monkeypatch.setattr(_deal, "BLOCK", block)
        assert expected == shares(order, Deal(7, 1, 3))


def test_the_first_block_is_small_where_somebody_waits_for_it(monkeypatch):
    """And the steps are the same."""
    monkeypatch.setattr(_deal, "FIRST", 40)
    order, deal = Order(1000, seed=1, epoch=0, shuffle=True), Deal(7, 1, 3)
    (whole,), blocks = deal.blocks(order, 2), list(deal.blocks(order, 2, soon=True))
    assert [(5, 7), (42, 7)] == [positions.shape for _, positions in blocks]
    for part, parts in zip(whole, zip(*blocks, strict=True), strict=True):
        assert np.array_equal(part, np.concatenate(parts))


@pytest.mark.parametrize("num_workers", [0, 2])
def test_only_the_first_epoch_of_a_run_is_waited_for(monkeypatch, num_workers):
    seen, real = [], Deal.blocks

    def blocks(*args, soon):
        seen.append(soon)
        return real(*args, soon=soon)

    monkeypatch.setattr(Deal, "blocks", blocks)
    config = {"num_workers": num_workers, "num_epochs": 3}
    with Loader(config, source=np.arange(100)) as batches:
        for epoch in batches.epochs():
            list(epoch)
    assert [True, False, False] == seen


def test_chunks_do_not_show_in_the_order(monkeypatch):
    expected = whole(70_000, seed=3)  # too many for a table
    for chunk in (1000, 6667, 2**15):
        monkeypatch.setattr(_shuffle, "CHUNK", chunk)
        assert np.array_equal(expected, whole(70_000, seed=3))


@pytest.mark.parametrize("n", [SMALL + 1, 2**14, 20_000, 60_000, 2**16 - 1, 2**16, 2**16 + 1])
def test_worked_out_as_a_whole_an_order_is_what_it_is_piece_by_piece(n):
    """Where many are asked for at once, of two bytes at most; of 20,000 a half has fewer bits."""
    for seed in range(3):
        whole, pieces = (Order(n, seed=seed, epoch=1, shuffle=True) for _ in range(2))
        positions = np.arange(n)
        expected = np.concatenate([pieces.at(part) for part in np.array_split(positions, 50)])
        assert np.array_equal(expected, whole.at(positions))
        assert (n <= 2**16, False) == (whole._table is not None, pieces._table is not None)
        assert np.int64 == whole.at(positions[:3]).dtype
        assert np.array_equal(expected[:6].reshape(2, 3), whole.at(positions[:6].reshape(2, 3)))
        assert [n - 1] == whole.find(int(expected[-1])).tolist()


def test_several_threads_may_ask_one_order():
    """Each works in memory of its own, which the next one to ask uses again."""
    order, expected = Order(20_000, seed=3, epoch=0, shuffle=True), whole(20_000, seed=3)
    begin = threading.Barrier(4)

    def ask(first):
        begin.wait()
        parts = [np.arange(at, 20_000, 40) for at in range(first, 40, 4)]
        return all(np.array_equal(order.at(part), expected[part]) for part in parts * 5)

    with ThreadPoolExecutor(4) as threads:
        assert all(threads.map(ask, range(4)))
    assert 1 <= len(order._scratch) <= 4


def test_what_is_handed_out_cannot_be_written():
    """The arrays are shared by batches: a user who writes into one gets an error."""
    order = Order(10, seed=0, epoch=0, shuffle=True)
    tail = Deal(4).tail(order)
    for part in (*next(Deal(4).blocks(order)), *tail, *Deal(4).share(order, 0)):
        assert not part.flags.writeable
