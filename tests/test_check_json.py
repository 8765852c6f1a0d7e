"""``threadloader check --json`` says the same as the lines do, for programs."""

import json
from pathlib import Path

import pytest
from checked import NPZ, checking, with_data, write

folder = pytest.fixture(with_data)
check = pytest.fixture(checking)


def test_a_good_config_has_no_problems(check):
    code, out, err = check(write({"source": NPZ}), "--json")
    answer = {"config": "c.json", "good": True, "problems": [], "batch": []}
    assert (0, answer, "") == (code, json.loads(out), err)


def test_problems_are_those_of_the_lines_in_their_order(check, folder):
    """Also those that are found by trying the config out, which come last."""
    config = '{"seed": -1,\n "source": {"type": "npz", "path": "b.npz"},\n "batch_siz": 4}'
    _, lines, _ = check(write(config))
    code, out, err = check("c.json", "--json")
    answer = json.loads(out)
    assert (1, False, "") == (code, answer["good"], err)
    places = [(it["line"], it["column"], it["pointer"]) for it in answer["problems"]]
    assert [(1, 10, "/seed"), (2, 36, "/source/path"), (3, 2, "/batch_siz")] == places
    for problem, line in zip(answer["problems"], lines.splitlines(), strict=True):
        assert line.startswith(
            "c.json:{line}:{column}: {pointer}: expected {expected}".format_map(problem)
        )
        assert line.endswith(problem["hint"])


def test_the_lines_about_a_batch_come_with_it(check):
    code, out, err = check(write({"source": NPZ}), "--json", "--batch")
    shapes = ["x: shape (6, 2), dtype float64", "y: shape (6,), dtype int64"]
    assert (0, shapes, "") == (code, json.loads(out)["batch"], err)


def test_code_that_fails_is_a_problem_too(check, folder):
    Path("broken_for_json.py").write_text("raise ValueError('at import')")
    code, out, err = check(write({}), "--json", "--source=broken_for_json:source")
    (problem,) = json.loads(out)["problems"]
    told = "--source: broken_for_json:source: ValueError: at import"
    assert (1, told) == (code, problem["got"])
    assert f"threadloader check: {told}\n" == err


def test_there_is_no_answer_about_a_file_that_cannot_be_read(check):
    code, out, err = check("missing.json", "--json")
    assert (2, "", 1) == (code, out, err.count("\n"))


def test_the_effective_config_is_json_of_its_own(check):
    code, out, err = check(write({"source": NPZ}), "--json", "--effective")
    assert (2, "") == (code, out)
    assert "--effective: not allowed with argument --json" in err
