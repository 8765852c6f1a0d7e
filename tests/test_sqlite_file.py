"""A sound database is read, whatever its name; what is none is an error that says what is wrong."""

import os
import sqlite3
from contextlib import closing
from pathlib import PurePosixPath, PureWindowsPath

import pytest
from databases import made, opened, refused, run
from links import make_link
from opened_sources import samples

from threadloader.errors import SourceError
from threadloader.sources import _sqlite_connections, _sqlite_errors, open_source

STOPPED = """
import os, signal, sqlite3, sys
database = sqlite3.connect(sys.argv[1])
database.execute("PRAGMA cache_size = 1")
rows = [(str(number) * 500, number) for number in range(999)]
database.executemany("UPDATE t SET text = ? WHERE id = ?", rows)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.skipif(os.name == "nt", reason="Windows kills no process by a signal")
def test_a_database_whose_writer_was_killed_is_told_with_what_to_do(tmp_path, run_child):
    """SQLite would have to write what takes back the half of it."""
    made(tmp_path, [(number, "x" * 500, 0) for number in range(999)])
    run_child(STOPPED, str(tmp_path / "a.db"))
    said = refused(tmp_path)
    assert "a readonly database; its writer was stopped: open it once with a program that" in said
    run(tmp_path, "SELECT id FROM t")
    assert 999 == len(samples(opened(tmp_path)))


@pytest.mark.parametrize(
    ("code", "hint"),
    [
        ("SQLITE_BUSY", "end what writes to it, or give a copy"),
        ("SQLITE_CANTOPEN", "look at the permissions of the file and of its folder"),
        ("SQLITE_CORRUPT", "copy the database again"),
        (1544, "it is in WAL mode: make its folder writable, or end that mode there"),
    ],
)
def test_what_sqlite_says_is_told_with_what_to_do(code, hint):
    error = sqlite3.DatabaseError("so it is")
    error.sqlite_errorcode = getattr(sqlite3, code) if isinstance(code, str) else code
    said = f"expected a database that can be read, got: so it is; {hint}"
    assert (said, error) == _sqlite_errors.in_words(error)


def test_the_database_may_not_lie_outside_of_root(tmp_path):
    made(tmp_path)
    (tmp_path / "in").mkdir()
    make_link(tmp_path / "in" / "link.db", "../a.db")
    for path in ("a.db", "in/../a.db", "in/link.db"):
        assert "expected a path inside the folder" in refused(
            tmp_path, path=path, root=tmp_path / "in"
        )


def test_what_is_no_database_is_refused(tmp_path):
    (tmp_path / "text.db").write_bytes(b"no database " * 100)
    (tmp_path / "empty.db").write_bytes(b"")
    assert "text.db: expected a database that can be read, got: file is not a database" in refused(
        tmp_path, path="text.db"
    )
    assert "empty.db: expected a database, got an empty file" in refused(tmp_path, path="empty.db")
    assert "no.db: expected a file, found none" in refused(tmp_path, path="no.db")
    assert "expected a regular file, got a folder" in refused(tmp_path, path=".")
    assert "expected a file that can be read, got: " in refused(tmp_path, path="a\0b")
    assert not (tmp_path / "no.db").exists()
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "pipe")
        assert "got a pipe, socket or device" in refused(tmp_path, path="pipe")


def test_a_name_with_the_characters_of_a_uri_is_a_name(tmp_path):
    name = "a mode=rw&#%20 é.db" if os.name == "nt" else "a?mode=rw&#%20 é.db"
    made(tmp_path, name=name)
    assert 3 == len(samples(opened(tmp_path, path=name)))


# From 3.14 on that is a matter of a Path alone, which cannot be one of another system.
@pytest.mark.filterwarnings("ignore:pathlib.PurePath.as_uri:DeprecationWarning")
@pytest.mark.parametrize(
    ("path", "uri"),
    [
        (PureWindowsPath(r"\\server\share\a b.db"), "file:////server/share/a%20b.db?mode=ro"),
        (PureWindowsPath(r"C:\data\a.db"), "file:///C:/data/a.db?mode=ro"),
        (PurePosixPath("/data/a.db"), "file:///data/a.db?mode=ro"),
    ],
)
def test_a_share_of_windows_is_a_uri_without_an_authority(path, uri):
    """Which is all that SQLite takes: "invalid uri authority: server", it says of another."""
    assert uri == _sqlite_connections._uri(path)


def test_a_database_cut_anywhere_is_an_error(tmp_path):
    made(tmp_path, [(i, "x" * 40, i) for i in range(40)], page_size=512)
    whole = (tmp_path / "a.db").read_bytes()
    assert 40 == len(samples(opened(tmp_path)))
    for length in range(0, len(whole), 13):
        (tmp_path / "a.db").write_bytes(whole[:length])
        assert f"{tmp_path / 'a.db'}: " in refused(tmp_path)
    for length in range(512, len(whole), 512):
        (tmp_path / "a.db").write_bytes(whole[:length])
        assert "database disk image is malformed" in refused(tmp_path)


def test_a_damaged_page_is_an_error_of_the_rows_on_it(tmp_path):
    made(tmp_path, [(i, "x" * 40, i) for i in range(40)], page_size=512)
    source = opened(tmp_path, "SELECT id, text FROM t")
    source.close()
    whole = bytearray((tmp_path / "a.db").read_bytes())
    whole[-512:] = b"\xff" * 512
    (tmp_path / "a.db").write_bytes(whole)
    assert "expected a database that can be read, got: database disk image is malformed" in refused(
        tmp_path, query="SELECT id, text FROM t"
    )


def test_a_damaged_schema_is_an_error_of_the_file(tmp_path):
    """SQLite quotes the damaged bytes in what it says, which is then no UTF-8."""
    made(tmp_path)
    path = tmp_path / "a.db"
    whole = path.read_bytes()
    at = whole.index(b"TABLE")
    path.write_bytes(whole[: at + 4] + b"\xc5" + whole[at + 5 :])
    assert f"{path}: expected a database that can be read" in refused(tmp_path)


def test_a_damaged_name_of_a_column_is_an_error_of_the_file(tmp_path):
    """And not of the query, though it is the query that asks for the name."""
    made(tmp_path)
    path = tmp_path / "a.db"
    path.write_bytes(path.read_bytes().replace(b"label", b"la\xffel"))
    assert f"{path}: expected a database that can be read" in refused(
        tmp_path, query="SELECT * FROM t"
    )


def test_a_length_beyond_all_memory_is_an_error_of_the_file(tmp_path):
    """SQLite has no memory for what damaged bytes announce: no MemoryError for the user."""
    made(tmp_path, [(0, "zero", 1)], page_size=512)
    whole = bytearray((tmp_path / "a.db").read_bytes())
    # The cell of the table in the schema begins with its length.
    cell = int.from_bytes(whole[108:110], "big")
    whole[cell : cell + 8] = b"\xff" * 8
    (tmp_path / "a.db").write_bytes(whole)
    said = refused(tmp_path)
    assert f"{tmp_path / 'a.db'}: expected a database that can be read, got: " in said


@pytest.mark.skipif(os.name == "nt", reason="Windows has neither pipes with names nor such links")
@pytest.mark.parametrize(
    ("ending", "said"),
    [
        ("-journal", "x.db-journal, which is no regular file"),
        ("-wal", "x.db-wal, which is no regular file"),
        ("-shm", "x.db-shm to be SQLite's alone, got a file with further names"),
    ],
)
def test_what_lies_beside_a_database_is_looked_at_before_sqlite_opens_it(tmp_path, ending, said):
    """A pipe would be waited for, and a file with another name written into."""
    path, beside, other = tmp_path / "x.db", tmp_path / f"x.db{ending}", tmp_path / "other"
    with closing(sqlite3.connect(path)) as database:
        database.execute("create table t(id integer primary key)")
        database.execute("insert into t values(1)")
        database.commit()
    other.write_bytes(b"somebody's")
    if ending == "-shm":
        os.link(other, beside)
    else:
        os.mkfifo(beside)
    spec = {"type": "sqlite", "path": str(path), "query": "SELECT id FROM t", "key": "id"}
    with pytest.raises(SourceError, match=said):
        open_source(spec)
    assert b"somebody's" == other.read_bytes()
    beside.unlink()
    with closing(open_source(spec)) as source:
        assert {"id": 1} == source[0]
