"""`examine`: files, sections, unknown keys, and where a problem stands."""

import errno
import json
import os
from pathlib import Path

import pytest
from configs import SOURCE, read_config, told

from threadloader import Loader, per_thread
from threadloader.config import LoaderConfig, examine
from threadloader.errors import ConfigError, Problem


@pytest.fixture
def file(tmp_path):
    """Gives a function that writes a config file and gives its name."""

    def write(text, name="c.json"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return str(path)

    return write


def test_the_section_of_another_programs_config_loads_as_it_stands(file):
    name = file(
        """{
          "model": {"layers": 4, "width": 128},
          "training": {               // what the trainer reads
            "learning_rate": 1e-3,
            "batch_size": 16,
            "num_epochs": 3,
            "prefetch_batches": 3,    /* 2 to 3 on fast hardware */
            "num_workers": 2,
            "shuffle": true
          }
        }"""
    )
    config, base = read_config(f"{name}#/training", unknown="ignore", source_in_code=True)
    expected = LoaderConfig(
        batch_size=16, num_epochs=3, prefetch_batches=3, num_workers=2, shuffle=True
    )
    assert (expected, Path(name).parent) == (config, base)
    (said,) = told(f"{name}#/training")
    assert said.startswith(
        f'{name}:4:13: /training/learning_rate: expected a known key, got "learning_rate"; '
    )


def test_everything_that_is_wrong_is_said_at_once_in_the_order_of_the_document(file):
    name = file(
        """{"other": {"a": 1},
        "mine": {
          "shard": {"index": 4, "count": 4},
          "num_worker": 2, "batch_size": 0, "batch_size": 1,
          "seed": NaN,
          "collate": {"type": "pad", "truncate": true, "value": "x", "pad": 1},
          "source": {"type": "npx"},
          "shuffle": [1,],
        }}"""
    )
    assert [
        "3:30: /mine/shard/index: expected less than the count, 4, got 4",
        '4:11: /mine/num_worker: expected a known key, got "num_worker"; did you mean "num_workers"?',  # noqa: E501 - one line of output
        "4:42: /mine/batch_size: expected an integer from 1 to 2147483647, got 0",
        '4:45: /mine/batch_size: expected each key once, got "batch_size" again; the first stands at 4:28',  # noqa: E501 - the same
        "5:19: /mine/seed: expected a finite number, got NaN",
        '6:50: /mine/collate/truncate: expected false, or a "length" to cut to, got true',
        '6:65: /mine/collate/value: expected a number or a non-empty object, got "x"',
        '6:70: /mine/collate/pad: expected a known key, got "pad"',
        '7:30: /mine/source/type: expected one of "npz", "npy", "csv", "jsonl", "text", "tokens", "files", "tar", "sqlite", got "npx"; did you mean "npz"?',  # noqa: E501 - the same
        "8:22: /mine/shuffle: expected true or false, got an array of 1",
        '8:24: /mine/shuffle: expected another item after the comma, got "]"; take the comma away',
        '8:26: /mine: expected another item after the comma, got "}"; take the comma away',
    ] == [line.removeprefix(f"{name}:") for line in told(f"{name}#/mine")]


@pytest.mark.parametrize("second", ["NaN", "1e999", '{"a": NaN}'])
def test_the_first_value_of_a_key_that_comes_twice_is_checked_whatever_the_second_is(file, second):
    said = told(file(f'{{"batch_size": 0, "batch_size": {second}}}'))
    assert any("/batch_size: expected an integer from 1 to 2147483647, got 0" in it for it in said)


def test_the_error_carries_the_same_facts(file):
    name = file('{\n  "batch_size": 0\n}')
    with pytest.raises(ConfigError) as caught:
        read_config(name, source_in_code=True)
    expected = Problem("/batch_size", "an integer from 1 to 2147483647", "0", "", 2, 17)
    assert ((expected,), name) == (caught.value.problems, caught.value.file)


@pytest.mark.parametrize("source", [{}, {"source": None}])
def test_a_config_without_a_source_is_enough_only_if_it_is_given_in_code(source):
    got = "null" if source else "nothing"
    expected = f"/source: expected a source here or source=... in code, got {got}"
    assert [expected] == told(source, source_in_code=False)
    assert [] == told(source)
    with pytest.raises(ConfigError, match=r"source=\.\.\. in code"):
        read_config(LoaderConfig())


def test_a_missing_source_stands_where_the_section_begins(file):
    name = file('{"a":\n  {"seed": 1}}')
    expected = f"{name}:2:3: /a/source: expected a source here or source=... in code, got nothing"
    assert [expected] == told(f"{name}#/a", source_in_code=False)


def test_paths_are_relative_to_the_file_or_to_the_current_folder(file, tmp_path, monkeypatch):
    file("{}", "sub/c.json")
    monkeypatch.chdir(tmp_path)
    for name in ("sub/c.json", Path("sub/c.json"), Path("sub") / "c.json#"):
        assert tmp_path / "sub" == read_config(name, source_in_code=True)[1]
    assert tmp_path == read_config({}, source_in_code=True)[1]
    assert tmp_path == read_config(LoaderConfig(), source_in_code=True)[1]


@pytest.mark.parametrize(
    ("fragment", "seed"),
    [
        ("#", 1),
        ("#/a", 2),
        ("#/a~1b", 3),
        ("#/~0", 4),
        ("#/list/1", 5),
        ("#/", 6),
        ("#/x#y", 7),
        ("#/a/é ü", 8),
    ],
)
def test_a_section_is_named_by_a_json_pointer(file, fragment, seed):
    text = {"seed": 1, "a": {"seed": 2, "é ü": {"seed": 8}}, "a/b": {"seed": 3}, "~": {"seed": 4}}
    text |= {"list": [0, {"seed": 5}], "": {"seed": 6}, "x#y": {"seed": 7}}
    name = file(json.dumps(text))
    read, _ = read_config(name + fragment, unknown="ignore", source_in_code=True)
    assert seed == read.seed


@pytest.mark.parametrize(
    ("fragment", "said"),
    [
        (
            "#/trainin",
            '1:1: /trainin: expected a section here, got nothing; did you mean "training"?',
        ),
        (
            "#/training/x",
            '1:14: /training/x: expected a section here, got nothing; did you mean "a"?',
        ),
        ("#/list/2", "1:32: /list/2: expected a section here, got nothing"),
        ("#/list/01", "1:32: /list/01: expected a section here, got nothing"),
        ("#/list/-", "1:32: /list/-: expected a section here, got nothing"),
        ("#/list/\u0660", "1:32: /list/\u0660: expected a section here, got nothing"),
        (
            "#/list/" + "9" * 5000,
            "1:32: /list/" + "9" * 1994 + "...: expected a section here, got nothing",
        ),
        ("#/list/0", "1:33: /list/0: expected an object, got 3"),
        ("#/list", "1:32: /list: expected an object, got an array of 1"),
        ("#/training/a/b", "1:20: /training/a/b: expected a section here, got nothing"),
    ],
    ids=lambda it: it[:20],
)
def test_a_section_that_is_not_there_is_said_where_it_should_be(file, fragment, said):
    name = file('{"training": {"a": 1}, "list": [3]}')
    assert [f"{name}:{said}"] == told(name + fragment)


@pytest.mark.parametrize("fragment", ["#training", "#/a~2", "#/a~"])
def test_what_is_no_json_pointer_is_a_wrong_argument(file, fragment):
    expected = "config: expected a JSON pointer after the #, as in train.json#/training, got "
    name = file("{}")
    (said,) = told(name + fragment)
    assert said == f"{expected}{json.dumps(fragment[1:])} after {name}"


def test_a_file_whose_name_has_a_hash_is_taken_before_a_section(file):
    name = file('{"seed": 1, "a": {"seed": 2}}', "c#/x#y.json")
    assert 1 == read_config(name, source_in_code=True, unknown="ignore")[0].seed
    assert 2 == read_config(f"{name}#/a", source_in_code=True)[0].seed
    with pytest.raises(FileNotFoundError) as caught:
        read_config(name.replace("x#y", "gone"), source_in_code=True)
    assert name.replace("x#y", "gone") == caught.value.filename


def test_a_config_that_is_not_there_is_told_with_the_folder_it_was_looked_for_in(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FileNotFoundError) as caught:
        read_config("none.json")
    (note,) = caught.value.__notes__
    assert note == (
        "threadloader: expected a config file, found none; "
        f"a relative path starts at the current folder, {Path.cwd()}"
    )


@pytest.mark.skipif(os.name == "nt", reason="Windows removes no current folder")
def test_of_a_current_folder_that_is_gone_the_error_says_so(tmp_path, run_child):
    folder = tmp_path / "gone"
    folder.mkdir()
    child = run_child(
        """
import os, sys
from threadloader import Loader
os.chdir(sys.argv[1])
os.rmdir(sys.argv[1])
try:
    Loader("none.json")
except FileNotFoundError as error:
    print(error.filename, *error.__notes__, sep="\\n")
""",
        str(folder),
    )
    name, note = child.stdout.splitlines()
    assert "none.json" == name
    assert note.endswith("starts at the current folder, which is gone; give a whole path")


def test_of_a_config_named_from_the_root_no_relative_path_is_told(tmp_path):
    with pytest.raises(FileNotFoundError) as caught:
        read_config(tmp_path / "none.json")
    assert not hasattr(caught.value, "__notes__")


def test_what_the_system_cannot_read_is_the_systems_own_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        read_config(tmp_path / "none.json#/a")
    with pytest.raises(OSError, match=r"(?i)directory|denied"):
        read_config(tmp_path)
    with pytest.raises(OSError):  # noqa: PT011 - each system has its own words
        read_config(str(tmp_path / ("n" * 5000)))


needs_fifos = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no FIFOs")


@needs_fifos
def test_a_fifo_is_refused_before_it_is_opened(run_child, tmp_path):
    """Opening it would wait for a writer; the test has none, and a child that can be ended."""
    os.mkfifo(tmp_path / "c.json")
    child = run_child(
        "import sys; from threadloader.cli import main; sys.exit(main(['check', sys.argv[1]]))",
        str(tmp_path / "c.json"),
        timeout=30,
    )
    expected = f"cannot read {tmp_path / 'c.json'}: expected a regular file, got a FIFO\n"
    assert (2, "", f"threadloader: {expected}") == (child.returncode, child.stdout, child.stderr)


@needs_fifos
def test_a_device_is_refused():
    with pytest.raises(OSError, match="expected a regular file, got a character device") as caught:
        read_config("/dev/zero")
    assert "/dev/zero" == caught.value.filename


@needs_fifos
@pytest.mark.parametrize("name", ["/dev/fd/{}", "/proc/self/fd/{}"])
def test_what_a_shell_hands_over_is_read(name):
    """A process substitution, ``check <(make-config)``, is a FIFO under a number."""
    reading, writing = os.pipe()
    name = name.format(reading)
    try:
        os.write(writing, b'{"seed": 7}')
        os.close(writing)
        if not os.path.exists(name):
            pytest.skip("the system has no such names")
        assert 7 == read_config(name, source_in_code=True)[0].seed
    finally:
        os.close(reading)


@pytest.mark.parametrize("config", [5, None, b"c.json", ["c.json"], LoaderConfig])
def test_what_is_no_config_is_a_wrong_argument(config):
    (said,) = told(config)
    assert said.startswith("config: expected a path, a mapping or a LoaderConfig, got ")
    assert "; give data as the source: Loader({...}, source=...)" in said


@pytest.mark.parametrize("config", ["", "#/training"])
def test_a_path_of_a_variable_that_is_not_set_names_no_file(config):
    """It is no data that somebody took for a config."""
    (said,) = told(config)
    assert said == (
        f'config: expected the name of a file, got "{config}"; '
        "give its path, as in train.json; where a variable has it, see that this is set"
    )


def test_other_wrong_arguments_are_named():
    (said,) = told("a\0b")
    assert said.startswith('config: expected the name of a file, got "a\\u0000b"; ')
    assert ['unknown: expected one of "error", "ignore", got "x"'] == told({}, unknown="x")
    assert ['unknown: expected one of "error", "ignore", got true'] == told({}, unknown=True)


def test_the_schema_may_be_named_for_editors(file):
    assert [] == told(file('{"$schema": "../config_schema.json"}'))
    assert [] == told({"$schema": "x"}, unknown="ignore")
    assert ["/$schema: expected a string, got 1"] == told({"$schema": 1})


def test_unknown_keys_are_let_through_at_the_top_of_the_section_only(file):
    own = {"learning_rate": 1, "schema": {"any": [None]}, "batch": {}, "Seed_": 1}
    assert [] == told(own, unknown="ignore")
    assert [] == told(file(json.dumps(own)), unknown="ignore")
    assert len(own) == len(told(own))
    (said,) = told({**own, "shard": {"rank": 0}}, unknown="ignore")
    assert '/shard/rank: expected a known key, got "rank"' == said


def test_what_is_let_through_is_not_looked_at():
    inside = []
    inside.append(inside)
    assert [] == told({"callback": print, "inside": inside, 3: {4}}, unknown="ignore")
    assert ["the config: expected keys that are text, got 3"] == told({3: 4})


def test_only_the_first_hundred_problems_get_hints():
    said = told({f"key_{number}": 1 for number in range(150)})
    assert (150, 100) == (len(said), sum(";" in line for line in said))


@pytest.mark.parametrize("text", ["\ufeff{}", b"\xef\xbb\xbf{}"])
def test_a_byte_order_mark_is_skipped(file, text):
    assert [] == told(file(text))


def test_a_file_of_4_mib_is_read_to_its_end_and_a_longer_one_is_refused(tmp_path):
    path = tmp_path / "large.json"
    path.write_text('{"seed": 7'.ljust(4 * 1024 * 1024 - 1) + "}")
    assert 7 == examine(path, source_in_code=True).checked().seed
    path.write_text('{"seed": 7}'.ljust(4 * 1024 * 1024 + 1))
    with pytest.raises(ConfigError, match="expected at most 4194304 bytes, got more"):
        examine(path, source_in_code=True).checked()


def test_the_error_of_another_loader_in_user_code_keeps_its_place(file):
    """A factory makes a loader of its own, from a dict: its options do not stand in this file."""
    path = file('{"batch_size": 4}')

    def made():
        return Loader({"batch_size": 0}, [1, 2])

    with pytest.raises(ConfigError) as caught:
        Loader(path, per_thread(made)).__enter__()
    assert str(caught.value).startswith("/batch_size: expected an integer from 1")


def test_a_problem_of_a_part_is_located_in_the_document(file):
    name = file('{"a": {"source": {"type": "text", "path": ["x",\n "y"]}}}')
    report = examine(f"{name}#/a")
    assert (report.base.path, report.file) == (Path(name).parent, name)
    assert {"type": "text", "path": ["x", "y"], "skip_blank": False, "index": "memory"} == {
        **report.source
    }
    located = report.locate(Problem("/source/path/1", "a file", "none", "make it"))
    assert Problem("/a/source/path/1", "a file", "none", "make it", 2, 2) == located
    assert Problem("/a", "x", "y", "", 1, 7) == report.locate(Problem("", "x", "y"))
    assert Problem("n", "x", "y") == report.locate(Problem("n", "x", "y"))


@pytest.mark.parametrize(
    ("text", "source"),
    [
        ('{"source": %s, "seed": -1}', True),
        ('{"source": %s, "seed": NaN}', True),
        ('{"source": %s, "sourc": 1}', True),
        ('{"source": %s, "source": 1}', True),
        ('{"source": [%s]}', False),
        ('{"sources": %s}', False),
        ('{"source": %s', False),
    ],
)
def test_the_source_is_reported_when_it_is_right_whatever_else_is_wrong(file, text, source):
    report = examine(file(text % json.dumps(SOURCE)))
    assert report.problems
    assert ({**SOURCE, "fields": None} if source else None) == report.source


def test_reading_a_config_opens_the_file_and_imports_nothing(run_child, file):
    """An audit hook hears of every import, open and unpickled class in a process of its own."""
    name = file(json.dumps({"source": {"type": "os.system", "path": "!!python"}, "_target_": "os"}))
    schema = Path(__file__).parent.parent / "config_schema.json"
    child = run_child(
        """
import sys
import pathlib  # what is imported for a file at all
from threadloader import ConfigError, LoaderConfig
from threadloader.config import examine
LoaderConfig()  # reads the schema
heard = []
names = ("import", "open", "exec", "compile", "pickle.find_class", "os.system", "subprocess.Popen")
sys.addaudithook(lambda name, args: heard.append(f"{name} {args[0]}") if name in names else None)
try:
    examine(sys.argv[1]).checked()
except ConfigError:
    print(*heard, sep="\\n")
""",
        name,
    )
    assert schema.exists()
    assert ("", [f"open {name}"]) == (child.stderr, child.stdout.splitlines())


def test_a_folder_is_told_as_one_wherever_it_cannot_be_opened(tmp_path, monkeypatch):
    """Windows says that it must not be read."""

    def opened(path, *args):
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(Path, "open", opened)
    with pytest.raises(IsADirectoryError):
        examine(str(tmp_path))
