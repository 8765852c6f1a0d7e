"""``threadloader order`` says what a run would give."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import remainders

from threadloader import Loader
from threadloader.cli import main


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
    for r in range(count):
        shard = {"index": r, "count": count, "remainder": remainder}
        for (epoch, step), (indices, valid) in list(run(path, 2, shard).items())[:: 9 - count]:
            answer = told(path, "--epoch", epoch, "--step", step, "--shard", f"{r}/{count}")
            assert (indices, valid) == (answer["indices"], answer["valid"])
            for row, index in list(enumerate(indices))[-1:]:
                found = told(path, "--epoch", epoch, "--find", index, "--shard", f"0/{count}")
                here = {"step": step, "shard": r, "row": row, "valid": valid[row]}
                assert any(here.items() <= other.items() for other in found["rows"])


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


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--step", "53"], 1, "--step: expected a step below 2"),
        (["--find", "53"], 1, "--find: expected a sample below 53"),
        (["--shard", "2/2"], 2, "expected R/W with R from 0 to W - 1"),
        (["--step", "-1"], 2, "expected an integer >= 0"),
        (["--step", "1", "--find", "1"], 2, "not allowed with"),
        (["--samples", "x"], 2, "expected an integer >= 0"),
    ],
)
def test_what_cannot_be_answered_is_said(config, capsys, arguments, code, said):
    got, out, err = ask(capsys, config(), *arguments)
    assert (code, "", True) == (got, out, said in err)


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
