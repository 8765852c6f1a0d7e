"""The bugs of tools/campaign planted can be planted; that tests catch them, it says itself."""

import ast
import json

import pytest
from campaigns import planted
from campaigns.bugs import BUGS, Bug


def test_there_are_enough():
    """And no two say the same, so that each can be named."""
    assert len(BUGS) >= 40
    assert len(BUGS) == len({bug.says for bug in BUGS})


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.says)
def test_each_can_still_be_planted(bug):
    """What it replaces stands in one place, and what comes of it is still Python, or JSON."""
    text = planted.planted(bug, planted.ROOT)
    (json.loads if bug.file.endswith(".json") else ast.parse)(text)


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.says)
def test_the_tests_that_each_names_are_there(bug):
    assert bug.tests
    for test in bug.tests:
        file, _, name = test.partition("::")
        assert name.partition("[")[0] in (planted.ROOT / file).read_text(encoding="utf-8")


@pytest.fixture
def small(tmp_path, monkeypatch):
    """Gives a repository of one function, whose only test sees one bug of two."""
    root = tmp_path / "root"
    for folder in ("threadloader/loader", "tests", ".git"):
        (root / folder).mkdir(parents=True)
    (root / "threadloader/__init__.py").touch()
    (root / "threadloader/loader/__init__.py").touch()
    (root / "threadloader/cli.py").write_text("def double(x):\n    return 2 * x  # twice\n")
    (root / "tests/test_it.py").write_text(
        "from threadloader.cli import double\n\ndef test_it():\n    assert 6 == double(3)\n"
    )
    monkeypatch.setattr(planted, "ROOT", root)
    seen = Bug("It is three times.", "threadloader/cli.py", "2 *", "3 *", ("tests/test_it.py",))
    unseen = seen._replace(says="It says otherwise.", old="# twice", new="# thrice")
    monkeypatch.setattr(planted, "BUGS", [seen, unseen])
    return root


def test_it_tells_what_is_caught_and_what_nothing_sees(small, capsys):
    """With the test that saw it, and after the whole suite; the repository is left alone."""
    before = (small / "threadloader/cli.py").read_text()
    assert 1 == planted.main([])
    out = capsys.readouterr().out
    assert "caught: It is three times. [tests/test_it.py::test_it]\n" in out
    assert "MISSED: It says otherwise. [no test fails]\n" in out
    assert "planted: 1 of 2 caught" in out
    assert before == (small / "threadloader/cli.py").read_text()


def test_where_all_are_caught_it_ends_well(small, capsys):
    assert 0 == planted.main(["--only", "three times", "--named"])
    assert "planted: 1 of 1 caught" in capsys.readouterr().out


def test_a_bug_that_breaks_the_import_of_a_test_is_caught(small, monkeypatch, capsys):
    """Of what nothing else imports first; pytest then ends with 2, and not with 1."""
    (small / "threadloader/rest.py").write_text("ONE = 1\n")
    (small / "tests/test_it.py").write_text(
        "import threadloader.rest\n\ndef test_it():\n    pass\n"
    )
    bug = Bug("It raises.", "threadloader/rest.py", "ONE", "assert False", ("tests/test_it.py",))
    monkeypatch.setattr(planted, "BUGS", [bug])
    assert 0 == planted.main(["--named"])
    assert "caught: It raises. [tests/test_it.py]\n" in capsys.readouterr().out


def test_tests_that_fail_without_a_bug_catch_nothing(small, capsys):
    (small / "tests/test_it.py").write_text("def test_it():\n    assert False\n")
    assert 1 == planted.main(["--only", "three times"])
    assert "BROKEN: without a bug, tests/test_it.py::test_it fails" in capsys.readouterr().out


def test_a_bug_that_breaks_the_import_is_none(small, monkeypatch, capsys):
    ruin = planted.BUGS[0]._replace(new="2 */")
    monkeypatch.setattr(planted, "BUGS", [ruin])
    assert 1 == planted.main([])
    assert "MISSED: It is three times. [it cannot even be imported" in capsys.readouterr().out


def test_tests_that_do_not_end_have_failed(small, tmp_path):
    """A wake-up that is lost hangs them; they are ended, with what they have started."""
    (small / "threadloader/cli.py").write_text("while True:\n    pass\n")
    failing = planted.Copy(tmp_path / "copy").failing(("tests/test_it.py",), 1)
    assert "no end within 1 s" == failing


def test_a_bug_whose_text_has_gone_is_told_plainly(small, monkeypatch, capsys):
    monkeypatch.setattr(planted, "BUGS", [planted.BUGS[0]._replace(old="4 *")])
    assert 1 == planted.main([])
    told = "threadloader/cli.py: expected '4 *' in one place, got 0; plant it anew: It is three"
    assert told in capsys.readouterr().err


def test_a_sentence_that_no_bug_has_is_bad_usage(capsys):
    with pytest.raises(SystemExit, match="2"):
        planted.main(["--only", "nobody says so"])
    assert "expected a part of a bug's sentence, got 'nobody says so'" in capsys.readouterr().err
