"""The commands on samplers and excluded samples: check says OK exactly when a loader enters."""

import json
import os
from pathlib import Path

import numpy as np
import pytest

from threadloader import ConfigError, Loader, cli, verify
from threadloader.order import LONGEST

N = 6


@pytest.fixture
def check(tmp_path, monkeypatch, capsys):
    """Gives a function that runs ``threadloader check`` on a config, in another folder than its."""
    folder = tmp_path / "configs"
    folder.mkdir()
    np.savez(folder / "x.npz", x=np.arange(N), y=np.array(["a", "b", "a", "a", "b", "c"]))
    np.save(folder / "weights.npy", np.arange(N))
    np.save(folder / "seven.npy", np.ones(7))
    np.save(folder / "square.npy", np.ones((N, N)))
    np.save(folder / "negative.npy", np.array([0, -1]))
    np.save(folder / "nan.npy", np.array([0, 1, 2, 3, 4, np.nan]))
    np.save(folder / "zeros.npy", np.zeros(N))
    np.save(folder / "labels.npy", np.array([0, 0, 1, 1, 1, 2]))
    np.save(folder / "whole.npy", np.arange(4))
    np.save(folder / "floats.npy", np.arange(4.0))
    (folder / "cut.npy").write_bytes((folder / "weights.npy").read_bytes()[:-1])
    (folder / "lines.txt").write_text("0\n1\n\n3\n")
    (folder / "text.txt").write_text("0\n1\nfour\n")
    (folder / "whole.txt").write_text("0\n2.0\n5e0\n")
    (folder / "half.txt").write_text("0\n2.0\n4.5\n")
    (folder / "jsonl.txt").write_text('{"index": 5}\n')
    (folder / "far.txt").write_text("0\n6\n")
    (folder / "empty.txt").write_text("")
    (tmp_path / "outside.npy").write_bytes((folder / "weights.npy").read_bytes())
    monkeypatch.chdir(tmp_path)

    def run(config, *arguments):
        path = folder / "c.json"
        path.write_text(config if isinstance(config, str) else json.dumps(config), "utf-8")
        code = cli.main(["check", str(path), *arguments])
        out, err = capsys.readouterr()
        assert "" == err
        return code, out.replace(str(path), "c.json").replace(str(folder) + os.sep, "")

    return run


SOURCE = {"type": "npz", "path": "x.npz"}
FILE = "a file with a number a line, or of .npy content"
OUTSIDE = 'a path inside the folder "root"'
WHOLE = "a file with an integer a line, or of .npy content"
EXCLUDE = 'a file with an integer, or an object with an "index", a line, or of .npy content'
EACH = "a number for each of the 6 samples"


def weighted(weights, **more):
    return {"sampler": {"type": "weighted", "weights": weights, **more}}


def without(weights, **more):
    return {"sampler": {"type": "weighted_without_replacement", "weights": weights, **more}}


def balanced(**options):
    return {"sampler": {"type": "balanced", **options}}


def subset(indices, **more):
    return {"sampler": {"type": "subset", "indices": indices, **more}}


GOOD = [
    weighted("weights.npy"),
    weighted("../outside.npy"),
    weighted([1, 2, 3, 4, 5, 2**70], num_samples=2**62),
    {**weighted("weights.npy"), "shuffle": False},
    {**weighted("weights.npy"), "exclude": [5, 4, 3, 2, 0]},
    without("weights.npy", num_samples=5),
    {**without("weights.npy"), "exclude": "lines.txt"},
    balanced(field="y"),
    balanced(labels="labels.npy", num_samples=3),
    subset("lines.txt"),
    subset("whole.npy", shuffle=True),
    subset([]),
    subset("empty.txt"),
    {"exclude": "lines.txt"},
    {"exclude": "jsonl.txt"},
    {"exclude": "whole.txt"},
    {"exclude": "empty.txt"},
    {"exclude": []},
    {"exclude": [3, 3, 0]},
    {"exclude": list(range(N))},
    {**subset([0, 1]), "exclude": list(range(N))},
]

# The config, the pointer, what stands there and is found by it, and what is said.
WRONG = [
    (weighted([1, 2]), "/sampler/weights", f"{EACH}, got float64 of shape (2,)"),
    (weighted("seven.npy"), "/sampler/weights", f"{EACH}, got float64 of shape (7,)"),
    (weighted("nan.npy"), "/sampler/weights", "finite numbers >= 0, got nan for sample 5"),
    (weighted("zeros.npy"), "/sampler/weights", "a weight above 0 of a sample that is kept, got"),
    (
        {**weighted("weights.npy"), "exclude": [1, 2, 3, 4, 5]},
        "/sampler/weights",
        "a weight above 0 of a sample that is kept, got none",
    ),
    (weighted([1, -1, 1, 1, 1, 1]), "/sampler/weights/1", "a number >= 0, got -1"),
    (weighted([]), "/sampler/weights", ""),
    (weighted("square.npy"), "/sampler/weights", f"{FILE}, got square.npy: expected one row of"),
    (weighted("cut.npy"), "/sampler/weights", f"{FILE}, got cut.npy"),
    (weighted("none.npy"), "/sampler/weights", f"{FILE}, got none.npy: expected a file, found"),
    (weighted("[x].npy"), "/sampler/weights", f"{FILE}, got [x].npy: expected a file, found none"),
    (weighted("."), "/sampler/weights", f"{FILE}, got "),
    (weighted(os.devnull), "/sampler/weights", f"{FILE}, got {os.devnull}: expected a regular"),
    (weighted("x.npz"), "/sampler/weights", f"{FILE}, got x.npz: line 1: expected a number"),
    (weighted("weights.npy", num_samples=0), "/sampler/num_samples", "an integer from 1 to"),
    (
        without("weights.npy", num_samples=6),
        "/sampler/num_samples",
        "at most 5, the number of weights above 0 of samples that are kept, got 6",
    ),
    (balanced(), "/sampler", "a field or labels, one of the two, got none of them"),
    (
        balanced(field="y", labels="labels.npy"),
        "/sampler",
        "a field or labels, one of the two, got field and labels",
    ),
    (balanced(field="z"), "/sampler/field", "a field that each sample has, got KeyError: 'z'"),
    (balanced(field=1), "/sampler/field", "a field that each sample has, got KeyError: 1"),
    (balanced(field="y", num_samples=True), "/sampler/num_samples", "an integer"),
    (balanced(labels="floats.npy"), "/sampler/labels", "an integer, text or bool for each of the"),
    (balanced(labels="whole.npy"), "/sampler/labels", "an integer, text or bool for each of the 6"),
    (subset([0, 6]), "/sampler/indices", "indices from 0 to 5, got 6 at position 1"),
    (subset("far.txt"), "/sampler/indices", "indices from 0 to 5, got 6 at position 1"),
    (subset("negative.npy"), "/sampler/indices", "indices from 0 to 5, got -1 at position 1"),
    (subset([0, -1]), "/sampler/indices/1", "an integer >= 0, got -1"),
    (subset([0, True]), "/sampler/indices/1", "an integer"),
    (subset("floats.npy"), "/sampler/indices", "dataset indices: integers in one row, got float64"),
    (subset("text.txt"), "/sampler/indices", f"{WHOLE}, got text.txt: line 3: expected an integer"),
    ({"exclude": [6]}, "/exclude", "indices from 0 to 5, got 6 at position 0"),
    ({"exclude": "far.txt"}, "/exclude", "indices from 0 to 5, got 6 at position 1"),
    ({"exclude": [1.5]}, "/exclude/0", "an integer"),
    ({"exclude": "floats.npy"}, "/exclude", "dataset indices: integers in one row, got float64"),
    ({"exclude": "text.txt"}, "/exclude", f"{EXCLUDE}, got text.txt: line 3: expected an integer"),
    *(
        (config, pointer, f"{expected}, got half.txt: line 3: expected an integer")
        for config, pointer, expected in (
            (subset("half.txt"), "/sampler/indices", WHOLE),
            (balanced(labels="half.txt"), "/sampler/labels", WHOLE),
            ({"exclude": "half.txt"}, "/exclude", EXCLUDE),
        )
    ),
    ({"exclude": "none.txt"}, "/exclude", f"{EXCLUDE}, got none.txt: expected a file, found none"),
    ({**weighted([1] * N), "shuffle": True}, "/shuffle", "false or nothing, since there is a"),
    ({**weighted("../outside.npy"), "root": "."}, "/sampler/weights", OUTSIDE),
    ({**subset("../outside.npy"), "root": "."}, "/sampler/indices", OUTSIDE),
    ({**balanced(labels="../outside.npy"), "root": "."}, "/sampler/labels", OUTSIDE),
    ({"exclude": "../outside.npy", "root": "."}, "/exclude", OUTSIDE),
]


def enters(config):
    """Says whether a loader of the file enters."""
    try:
        with Loader("configs/c.json"):
            return True
    except ConfigError:
        return False


@pytest.mark.parametrize("config", GOOD, ids=str)
def test_a_good_one_is_ok(check, config):
    """Its files are found from its own folder; a first batch is built in the same way."""
    assert (0, "c.json: OK\n") == check({"source": SOURCE, **config})
    assert enters(config)
    code, out = check({"source": SOURCE, **config}, "--batch")
    assert (0, "c.json: OK\n") == (code, out[:11])


@pytest.mark.parametrize(("config", "pointer", "said"), WRONG, ids=str)
def test_each_problem_is_told_at_its_option(check, config, pointer, said):
    """With line and column, and exit code 1; and no loader enters."""
    text = json.dumps({"source": SOURCE, **config}, indent=1)
    code, out = check(text)
    value = {"source": SOURCE, **config}
    for key in pointer.split("/")[1:]:
        value = value[int(key) if isinstance(value, list) else key]
    line, column = map(int, out.split(":")[1:3])
    there = text.split("\n")[line - 1][column - 1 :]
    assert there.startswith(json.dumps(value)[: 1 if isinstance(value, list | dict) else None])
    assert (1, 1) == (code, out.count("\n"))
    assert out.startswith(f"c.json:{line}:{column}: {pointer}: expected {said}")
    assert not enters(config)


def test_a_sampler_and_exclude_that_are_wrong_are_both_told(check):
    code, out = check({"source": SOURCE, **subset([50]), "exclude": [99]})
    told = [line.partition(": expected ")[0].rpartition(" ")[2] for line in out.splitlines()]
    assert (1, ["/sampler/indices", "/exclude"]) == (code, told)


def test_shuffle_in_a_section_is_told_in_the_whole_file(check):
    text = '{"a": {"shuffle": true,\n "sampler": {"type": "subset", "indices": [1]}}}'
    Path("configs/c.json").write_text(text)
    with pytest.raises(ConfigError) as caught:
        Loader("configs/c.json#/a", range(3))
    (problem,) = caught.value.problems
    assert ("/a/shuffle", 1, 19) == (problem.pointer, problem.line, problem.column)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no named pipes")
def test_a_pipe_is_refused_and_not_waited_for(check):
    os.mkfifo("configs/pipe")
    code, out = check({"source": SOURCE, "exclude": "pipe"})
    assert (1, True) == (code, "expected a regular file, got a pipe" in out)


WITHOUT_SOURCE = [
    *GOOD,
    weighted("seven.npy"),
    balanced(field="z"),
    balanced(labels="whole.npy"),
    subset("far.txt"),
    {"exclude": "far.txt"},
    {"exclude": [LONGEST - 1]},
    {**weighted("seven.npy"), "exclude": [6]},
    {**subset([9]), "exclude": [3]},
]


@pytest.mark.parametrize("config", WITHOUT_SOURCE, ids=str)
def test_with_the_source_in_code_lists_are_not_held_against_its_length(check, config):
    assert (0, "c.json: OK\n") == check(config, "--source-in-code")


@pytest.mark.parametrize(
    ("config", "pointer", "said"),
    [
        *[wrong for wrong in WRONG if "of the 6" not in wrong[2] and "to 5" not in wrong[2]],
        (
            subset("negative.npy"),
            "/sampler/indices",
            f"indices from 0 to {LONGEST - 1}, got -1 at position 1",
        ),
        (balanced(labels="floats.npy"), "/sampler/labels", "an integer, text or bool for each"),
        ({**weighted("seven.npy"), "exclude": [7]}, "/exclude", "indices from 0 to 6, got 7"),
        *(
            (
                {"exclude": [LONGEST - 1, far]},
                "/exclude",
                f"indices from 0 to {LONGEST - 1}, got {far}",
            )
            for far in (LONGEST, 2**63 - 1)
        ),
    ],
    ids=str,
)
def test_with_the_source_in_code_all_else_is_told(check, config, pointer, said):
    """What a list has in it, and lists that do not fit each other."""
    if config.get("sampler", {}).get("field") is not None and "each sample has" in said:
        return  # only the source can tell
    code, out = check(config, "--source-in-code")
    assert (1, 1) == (code, out.count("\n"))
    assert f": {pointer}: expected {said}" in out


def test_verify_finds_the_lists_beside_the_config_and_stands_by_their_order(check):
    """With the source of the config, and with one in code, from another folder."""
    config = {**weighted("weights.npy", num_samples=20), "exclude": "lines.txt", "batch_size": 3}
    check({"source": SOURCE, **config})
    for source in (None, lambda: list(range(N))):
        report = verify.run("configs/c.json", source=source)
        assert ("same", 40) == (report.result, report.samples)
