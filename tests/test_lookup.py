"""``threadloader order`` says what a run would give."""

import json
import re
import signal
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sampler_kinds import needs_64_bits
from strategies import remainders

from threadloader import ConfigError, Loader, SourceError, lookup
from threadloader.cli import main
from threadloader.sources import npz

LONGEST = min(2**62, sys.maxsize)
SHARDS = 2**31 - 1
SHARD = "expected R/W with R from 0 to W - 1 and W"


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    """Writes a config over 53 samples, some of them excluded."""
    folder = tmp_path_factory.mktemp("lookup")
    np.savez(folder / "data.npz", x=np.arange(53))

    def write(**options):
        path = folder / "train.json"
        source = {"type": "npz", "path": "data.npz"}
        path.write_text(json.dumps({"source": source, "seed": 3, **options}))
        return str(path)

    return write


def ask(capsys, *arguments):
    code = main(["order", *map(str, arguments)])
    out, err = capsys.readouterr()
    return code, out, err


def run(path, epochs, shard):
    """Gives indices and valid of every batch, by (epoch, step)."""
    with Loader(path, shard=shard) as batches:
        infos = [batches.info for epoch in batches.epochs(epochs) for _ in epoch]
    return {(it.epoch, it.step): (it.indices.tolist(), it.valid.tolist()) for it in infos}


@settings(max_examples=15, deadline=None)
@given(
    batch_size=st.integers(1, 9),
    count=st.integers(1, 4),
    remainder=remainders,
    drop_last=st.booleans(),
    sampler=st.sampled_from([None, {"type": "weighted", "weights": [1] * 50 + [0] * 3}]),
)
def test_it_gives_the_batches_of_a_run(config, batch_size, count, remainder, drop_last, sampler):
    path = config(
        batch_size=batch_size,
        drop_last=drop_last,
        sampler=sampler,
        exclude=[5, 6],
        num_workers=0,
        shard={"index": 0, "count": 1, "remainder": remainder},
    )
    delivered = 0
    for r in range(count):
        shard = {"index": r, "count": count, "remainder": remainder}
        batches = run(path, 2, shard)
        delivered += sum(sum(valid) for (epoch, _), (_, valid) in batches.items() if epoch == 1)
        for (epoch, step), (indices, valid) in list(batches.items())[:: 9 - count]:
            answer = told(path, "--epoch", epoch, "--step", step, "--shard", f"{r}/{count}")
            assert (indices, valid) == (answer["indices"], answer["valid"])
            for row, index in list(enumerate(indices))[-1:]:
                found = told(path, "--epoch", epoch, "--find", index, "--shard", f"0/{count}")
                here = {"step": step, "shard": r, "row": row, "valid": valid[row]}
                assert any(here.items() <= other.items() for other in found["rows"])
    assert delivered == told(path, "--epoch", 1, "--shard", f"0/{count}")["samples"]


def told(path, *arguments):
    """Asks for JSON; hypothesis and capsys do not go together."""
    import contextlib
    import io

    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        assert main(["order", path, *map(str, arguments), "--json"]) == 0
    return json.loads(out.getvalue())


def test_it_prints_the_samples_of_a_step(config, capsys):
    path = config(batch_size=20, shuffle=False)
    expected = "epoch 0, step 2, shard 0/1: 13 rows\n" + " ".join(map(str, range(40, 53))) + "\n"
    assert (0, expected, "") == ask(capsys, path, "--step", 2)


def test_it_says_where_a_sample_comes_and_where_it_pads(config, capsys):
    path = config(batch_size=20, shuffle=False)
    expected = (
        "epoch 4: sample 0 is row 0 of step 0 on shard 0/2 (position 0)\n"
        "epoch 4: sample 0 is row 6 of step 1 on shard 1/2 (position 0), as padding\n"
    )
    assert (0, expected, "") == ask(capsys, path, "--epoch", 4, "--find", 0, "--shard", "1/2")


def test_it_says_that_a_sample_does_not_come(config, capsys):
    code, out, _ = ask(capsys, config(exclude=[7]), "--find", 7)
    assert (0, "epoch 0: sample 7 does not come") == (code, out[:31])


def test_without_a_question_it_counts_the_steps(config, capsys):
    expected = "epoch 0: 2 steps of 10 on shard 1/3, 51 samples in the world\n"
    path = config(batch_size=10, exclude=[0, 1])
    assert (0, expected, "") == ask(capsys, path, "--shard", "1/3")


@pytest.mark.parametrize(
    ("options", "samples"),
    [
        ({"drop_last": True}, 40),
        ({"shard": {"index": 0, "count": 4, "remainder": "drop"}}, 52),
        ({"shard": {"index": 0, "count": 4, "remainder": "keep"}}, 53),
        ({"shard": {"index": 0, "count": 4, "remainder": "pad"}}, 53),
    ],
)
def test_what_is_left_out_with_the_tail_does_not_count(config, options, samples):
    """Of 53 samples; padding is none."""
    assert told(config(batch_size=20, **options))["samples"] == samples


def test_json_names_are_documented(config, capsys):
    """docs/order.md explains each name that an answer has, and no other."""
    names = set()
    for question in ([], ["--step", 0], ["--find", 0]):
        _, out, _ = ask(capsys, config(), *question, "--json")
        answer = json.loads(out)
        for part in (answer, answer.get("rows", [{}])[0], answer.get("shard", {})):
            names |= set(part)
    page = (Path(__file__).parent.parent / "docs" / "order.md").read_text(encoding="utf-8")
    told = page.partition("With `--json` it prints")[2].partition("\n- ")[0]
    assert names == set(re.findall(r"`(\w+)`", told))


def test_one_is_not_told_as_many(config, capsys):
    path = config(batch_size=1)
    expected = "epoch 0: 1 step of 1 on shard 0/1, 1 sample in the world\n"
    assert (0, expected, "") == ask(capsys, path, "--samples", 1)
    expected = "epoch 0, step 0, shard 0/1: 1 row\n0\n"
    assert (0, expected, "") == ask(capsys, path, "--samples", 1, "--step", 0)


def test_a_source_that_cannot_be_closed_is_told_behind_the_answer(config, capsys, monkeypatch):
    def refused(self):
        raise SourceError("expected a file that can be closed, got: Input/output error", "x.npz")

    monkeypatch.setattr(npz.NpzSource, "close", refused, raising=False)
    code, out, err = ask(capsys, config(), "--step", 0)
    assert (1, True) == (code, "epoch 0, step 0" in out)
    assert "/source/path: expected a file that can be closed, got Input/output error" in err


@pytest.mark.parametrize(("room", "name"), [(lookup, "length_of"), (npz.NpzSource, "close")])
def test_what_a_signal_handler_raises_is_no_fault_of_the_source(
    config, capsys, monkeypatch, rung, room, name
):
    monkeypatch.setattr(room, name, lambda source: signal.raise_signal(signal.SIGINT))
    with pytest.raises(TimeoutError, match="rung"):
        ask(capsys, config(), "--step", 0)


@needs_64_bits
def test_a_source_that_is_not_there_can_be_counted_by_hand(config, capsys):
    """10**12 samples are answered like any other number, from either side."""
    path = config(batch_size=32)
    samples = ["--samples", 10**12]
    _, out, _ = ask(capsys, path, *samples, "--step", 31_000_000_000, "--json")
    indices = json.loads(out)["indices"]
    assert len(indices) == 32
    _, out, _ = ask(capsys, path, *samples, "--find", indices[3], "--json")
    row = {"position": 992_000_000_003, "step": 31_000_000_000, "shard": 0, "row": 3, "valid": True}
    assert [row] == json.loads(out)["rows"]


@pytest.mark.parametrize("samples", [0, 53, LONGEST])
def test_labels_that_only_the_source_knows_are_not_asked_of_a_number(config, capsys, samples):
    """Whatever the number is; with the source, or with labels in a file, it answers."""
    path = config(sampler={"type": "balanced", "field": "x"}, num_epochs=1)
    code, out, err = ask(capsys, path, "--samples", samples)
    expected = (
        '/sampler/field: expected labels that are known without the source, got "x", which is a '
        'field of its samples; leave out --samples, or name a file of "labels" in place of '
        '"field"\n'
    )
    assert (1, "", expected) == (code, out, err[-len(expected) :])
    assert 0 == ask(capsys, path)[0]
    Path(path).with_name("labels.txt").write_text("0\n1\n" * 9)
    path = config(sampler={"type": "balanced", "labels": "labels.txt"})
    assert 0 == ask(capsys, path, "--samples", 18)[0]


@pytest.mark.parametrize(
    "tail", [{"drop_last": True}, {"shard": {"index": 0, "count": 2, "remainder": "drop"}}], ids=str
)
def test_a_sample_that_the_tail_leaves_out_is_told_so(config, capsys, tail):
    """The last of an odd number, where each step takes an even one."""
    path = config(batch_size=26 // tail.get("shard", {}).get("count", 1), shuffle=False, **tail)
    expected = "epoch 0: sample 52 does not come: it is excluded, not drawn, or left out with the"
    code, out, _ = ask(capsys, path, "--find", 52)
    assert (0, f"{expected} tail\n") == (code, out)


def test_a_sample_that_comes_by_the_billion_is_told_of_within_bounds(config, capsys):
    """Among so many shards the one sample is padding on each, and there is no end of lines."""
    asked = ["--samples", 1, "--find", 0, "--shard", f"0/{SHARDS}"]
    code, out, err = ask(capsys, config(), *asked)
    lines = out.splitlines()
    assert (0, "", 100_001) == (code, err, len(lines))
    assert "and more often: these are the first 100,000" == lines[-1]
    answer = json.loads(ask(capsys, config(), *asked, "--json")[1])
    assert (True, 100_000) == (answer["more"], len(answer["rows"]))


def test_a_sample_that_comes_as_often_as_is_told_comes_no_more(config, capsys):
    asked = ["--samples", 1, "--find", 0, "--shard", "0/100000"]
    code, out, _ = ask(capsys, config(), *asked)
    assert (0, 100_000) == (code, len(out.splitlines()))
    assert out.endswith("as padding\n")


def test_a_step_of_an_epoch_that_has_none_is_told_so(config, capsys):
    path = config(batch_size=99, drop_last=True)
    expected = f"{path}: --step: expected no step: shard 1/2 has none in epoch 3, got 0\n"
    answer = ask(capsys, path, "--step", 0, "--epoch", 3, "--shard", "1/2")
    assert (1, "", expected) == answer


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--step", "53"], 1, "--step: expected a step below 2"),
        (["--find", "53"], 1, "--find: expected a sample below 53"),
        (["--step", str(LONGEST)], 1, "--step: expected a step below 2, which is how many sh"),
        (["--find", str(LONGEST)], 1, "--find: expected a sample below 53"),
        (["--shard", "2/2"], 2, f"{SHARD} at most {SHARDS}, got '2/2'"),
        (["--shard", f"0/{SHARDS + 1}"], 2, f"{SHARD} at most {SHARDS}, got '0/{SHARDS + 1}'"),
        (["--shard", "0"], 2, SHARD),
        (["--step", "-1"], 2, f"expected an integer from 0 to {LONGEST}, got '-1'"),
        (["--step", f"{LONGEST + 1}"], 2, f"expected an integer from 0 to {LONGEST}, got '"),
        (["--find", "9" * 5000], 2, f"expected an integer from 0 to {LONGEST}, got '999"),
        (["--epoch", f"{2**64}"], 2, f"expected an integer from 0 to {2**64 - 1}, got '{2**64}'"),
        (["--step", "1", "--find", "1"], 2, "not allowed with"),
        (["--samples", "x"], 2, f"expected an integer from 0 to {LONGEST}, got 'x'"),
        (["--samples", "1_0"], 2, f"expected an integer from 0 to {LONGEST}, got '1_0'"),
        (["--samples", f"{LONGEST + 1}"], 2, f"expected an integer from 0 to {LONGEST}, got '"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_what_cannot_be_answered_is_said(config, capsys, arguments, code, said):
    got, out, err = ask(capsys, config(), *arguments)
    assert (code, "", True) == (got, out, said in err)


@pytest.mark.parametrize("sampler", ["weighted", "weighted_without_replacement", None])
def test_the_last_epoch_is_one(config, capsys, sampler):
    path = config(sampler=sampler and {"type": sampler, "weights": [1] * 53})
    code, out, err = ask(capsys, path, "--epoch", 2**64 - 1, "--step", "0" * 30)
    assert (0, f"epoch {2**64 - 1}, step 0", "") == (code, out[:34], err)


def test_as_many_samples_as_can_be_are_dealt_to_the_last(config, capsys):
    path = config(shuffle=False, batch_size=1)
    shards = ["--samples", LONGEST, "--shard", f"0/{SHARDS}"]
    step = LONGEST // SHARDS - 1
    code, out, err = ask(capsys, path, *shards, "--step", step)
    assert (0, str(step * SHARDS), "") == (code, out.splitlines()[1], err)
    code, out, err = ask(capsys, path, "--samples", LONGEST, "--find", LONGEST - 1)
    assert (0, f"row 0 of step {LONGEST - 1} on shard 0/1 ", "") == (
        code,
        out[out.index("row") : out.index("(")],
        err,
    )


@needs_64_bits
def test_a_file_of_more_samples_than_an_order_has_is_refused(config, capsys):
    """Rows without bytes: as many of them as the header says."""
    path = config(source={"type": "npy", "path": "empty.npy"}, shuffle=False, batch_size=4)
    said = f"expected a source whose len() is an integer from 0 to {LONGEST}, got: {LONGEST + 1}"
    for length, code in (LONGEST, 0), (LONGEST + 1, 1):
        with Path(path).with_name("empty.npy").open("wb") as file:
            header = {"descr": "|u1", "fortran_order": False, "shape": (length, 0)}
            np.lib.format.write_array_header_1_0(file, header)
        got, out, err = ask(capsys, path, "--shard", "2/3", "--step", LONGEST // 12)
        assert (code, not code, bool(code)) == (got, bool(out), said in err)


def test_as_many_shards_are_taken_as_by_a_config(config, capsys):
    with Loader(config(shard={"index": SHARDS - 1, "count": SHARDS})):
        pass
    with pytest.raises(ConfigError, match="/shard/count"):
        Loader(config(shard={"index": 0, "count": SHARDS + 1}))
    assert 0 == ask(capsys, config(), "--shard", f"{SHARDS - 1}/{SHARDS}")[0]


def test_a_shard_that_is_asked_for_takes_the_place_of_what_a_launcher_says(
    config, capsys, monkeypatch
):
    """Even of what makes no sense; what is over of an epoch is padded, as by a launcher's."""
    monkeypatch.setenv("RANK", "5")
    monkeypatch.setenv("WORLD_SIZE", "3")
    path = config(batch_size=10, shard="auto")
    code, out, err = ask(capsys, path)
    assert (1, "", True) == (code, out, "/shard: expected RANK below WORLD_SIZE" in err)
    expected = "epoch 0, step 1, shard 1/4: 4 rows, the last 3 of them padding\n"
    code, out, err = ask(capsys, path, "--step", 1, "--shard", "3/4")
    assert (0, expected.replace("1/4", "3/4"), "") == (code, out[: len(expected)], err)


@pytest.mark.parametrize("names", [["exclude", "sampler"], ["sampler", "exclude"]])
def test_lists_that_are_wrong_are_all_told_in_the_order_of_the_file(config, capsys, names):
    options = {"exclude": [99], "sampler": {"type": "subset", "indices": [99]}}
    path = config(**{name: options[name] for name in names})
    code, out, err = ask(capsys, path)
    told = [line.split(": /")[1].split(":")[0].split("/")[0] for line in err.splitlines()]
    assert (1, "", names) == (code, out, told)


def test_a_config_with_problems_is_told_with_their_places(config, capsys, tmp_path):
    path = config(batch_size=0)
    code, out, err = ask(capsys, path)
    assert (1, "", True) == (code, out, "/batch_size: expected an integer from 1" in err)
    path = config(source={"type": "npz", "path": "gone.npz"})
    code, out, err = ask(capsys, path)
    assert (1, "", True) == (code, out, "/source/path: expected a file" in err)
    code, out, err = ask(capsys, config(exclude=[99]))
    assert (1, "", True) == (code, out, "/exclude: expected indices from 0 to 52" in err)
    code, out, err = ask(capsys, tmp_path / "none.json")
    assert (2, "", True) == (code, out, "cannot read" in err)


def test_a_config_without_a_source_is_told_of_samples(config, capsys):
    path = config(source=None)
    expected = (
        f"{path}:1:12: /source: expected a source here or source=... in code or `--samples N`"
    )
    code, out, err = ask(capsys, path)
    assert (1, "", f"{expected}, got null\n") == (code, out, err)
    assert 0 == ask(capsys, path, "--samples", 10)[0]
