"""The mutants of tools/campaign mutants are Python that differs; what came of them is told."""

import ast

import pytest
from campaigns import mutants, planted

FUNCTION = '''"""Said."""


def least(numbers, bound=3):
    """What is said stays: 1 < 2."""
    found = None
    for number in numbers:
        if number < bound and (found is None or number < found):
            found = number
    return found
'''


def test_a_mutant_is_one_place_changed():
    """The rest of the file stands as it did, with texts and defaults of arguments."""
    found = [
        (mutant.line, mutant.old, mutant.new) for mutant in mutants.mutants_of("x.py", FUNCTION)
    ]
    assert (10, "return found", "return None") in found
    assert (8, "number < bound", "(number <= bound)") in found
    assert (8, "found is None", "(found is not None)") in found
    assert {6, 8, 10} >= {line for line, _, _ in found}
    for mutant in mutants.mutants_of("x.py", FUNCTION):
        assert FUNCTION.replace(mutant.old, mutant.new, 1) == mutant.text
        assert ast.dump(ast.parse(FUNCTION)) != ast.dump(ast.parse(mutant.text))


def test_mutants_of_the_library_are_python_and_have_tests():
    """A draw of them, the same each time, each with the tests of its room."""
    drawn = mutants.drawn("", 300, 5)
    assert drawn == mutants.drawn("", 300, 5)
    for mutant in drawn:
        ast.parse(mutant.text)
        change = mutant.change()
        assert change.tests


def test_every_file_of_the_library_has_tests_named_for_it():
    """But for what needs packages that the tests may have or not."""
    files = [path.relative_to(planted.ROOT) for path in planted.ROOT.glob("threadloader/**/*.py")]
    without = {file.as_posix() for file in files if not mutants._key(file.as_posix())}
    expected = {f"adapters/{name}.py" for name in ("__init__", "pillow", "progress")}
    assert {f"threadloader/{name}" for name in (*expected, "__main__.py")} == without


@pytest.fixture
def small(tmp_path, monkeypatch):
    """Gives a repository of one function, whose test sees one of three mutants."""
    root = tmp_path / "root"
    for folder in ("threadloader/loader", "tests"):
        (root / folder).mkdir(parents=True)
    (root / "threadloader/__init__.py").touch()
    (root / "threadloader/loader/__init__.py").touch()
    (root / "threadloader/cli.py").write_text("def small(x):\n    return x < 10\n")
    (root / "tests/test_cli.py").write_text(
        "from threadloader.cli import small\n\ndef test_it():\n    assert small(9)\n"
    )
    monkeypatch.setattr(planted, "ROOT", root)
    monkeypatch.setattr(mutants, "ROOT", root)
    monkeypatch.setattr(mutants, "TESTS", {"cli.py": "cli"})
    return root


def test_it_tells_what_was_seen_and_what_no_test_sees(small, capsys):
    """That 10 may be 11 and < be <= no test tells; without a result one fails."""
    assert 1 == mutants.main(["--count", "9"])
    out = capsys.readouterr().out
    assert "caught: threadloader/cli.py:2: `return None` for `return x < 10` [" in out
    assert "MISSED: threadloader/cli.py:2: `11` for `10` [no test fails]\n" in out
    assert "mutants: 1 of 3 caught" in out
    assert 0 == mutants.main(["--count", "9", "--least", "33"])


def test_a_name_with_which_no_file_begins_is_bad_usage(small, capsys):
    with pytest.raises(SystemExit) as caught:
        mutants.main(["--only", "nothing"])
    assert 2 == caught.value.code
    assert "--only: expected the beginning of a file's name" in capsys.readouterr().err


def test_each_key_of_the_table_begins_the_name_of_a_file():
    """One that was renamed would be tried with the tests of its whole room."""
    package = planted.ROOT / "threadloader"
    names = [path.relative_to(package).as_posix() for path in package.rglob("*.py")]
    assert [] == [key for key in mutants.TESTS if not any(it.startswith(key) for it in names)]


def test_each_name_in_the_table_is_that_of_a_file_of_tests():
    names = {name for names in mutants.TESTS.values() for name in names.split()}
    tests = planted.ROOT / "tests"
    assert [] == sorted(name for name in names if not any(tests.glob(f"test_{name}.py")))
