"""Several SQLite databases are one source, whose rows follow one another as the files do."""

import logging
import threading
from contextlib import closing

import pytest
from conftest import open_files
from databases import made, opened, run
from hypothesis import given
from hypothesis import strategies as st
from links import make_link
from opened_sources import close_at, samples

from threadloader import Loader
from threadloader.errors import ConfigError, SourceError
from threadloader.sources import _progress, fingerprint

ROWS = [(key, f"row {key}", key / 2) for key in (-7, 2, 5, 9)]
EMPTY = []


def save(folder, *parts):
    """Make a database of each part's rows; gives their names."""
    names = [f"part-{number}.db" for number in range(len(parts))]
    for name, rows in zip(names, parts, strict=True):
        made(folder, rows, name)
    return names


@given(cuts=st.lists(st.integers(0, 4), max_size=3))
def test_wherever_they_are_cut_the_rows_are_those_of_one_database(tmp_path_factory, cuts):
    """A database may have no rows."""
    folder = tmp_path_factory.mktemp("several")
    ends = [*sorted(cuts), 4]
    parts = [ROWS[first:last] for first, last in zip([0, *ends], ends, strict=False)]
    with (
        closing(opened(made(folder, ROWS))) as whole,
        closing(opened(folder, path=save(folder, *parts))) as source,
    ):
        assert samples(whole) == samples(source)


def test_each_database_has_keys_of_its_own_and_sorts_by_them(tmp_path):
    names = save(tmp_path, ROWS[::-1], ROWS[1:3])
    with closing(opened(tmp_path, path=names)) as source:
        assert [-7, 2, 5, 9, 2, 5] == [sample["id"] for sample in samples(source)]


def test_a_sample_is_located_by_its_own_database_and_its_key(tmp_path):
    first, _, last = save(tmp_path, ROWS[:1], EMPTY, ROWS[2:])
    with closing(opened(tmp_path, path="part-*.db")) as source:
        expected = [f"{first}: id=-7", f"{last}: id=5", f"{last}: id=9"]
        assert [f"{tmp_path / text}" for text in expected] == [source.locate(i) for i in range(3)]


def test_files_of_a_pattern_are_sorted(tmp_path):
    for number, name in enumerate(["a10.db", "b.db", "a2.db"]):
        made(tmp_path, [(number, name, 0)], name)
    with closing(opened(tmp_path, path="*.db")) as source:
        assert ["a10.db", "a2.db", "b.db"] == [sample["text"] for sample in samples(source)]


def test_indices_end_at_the_length_and_a_closed_source_reads_no_more(tmp_path):
    close_at(opened(tmp_path, path=save(tmp_path, ROWS, ROWS)), 8)


def test_a_file_that_comes_twice_is_refused(tmp_path):
    save(tmp_path, ROWS)
    make_link(tmp_path / "part-1.db", "part-0.db")
    with pytest.raises(SourceError, match="expected each file once"):
        opened(tmp_path, path="*.db")


def test_a_file_outside_of_the_root_is_refused(tmp_path):
    (tmp_path / "in").mkdir()
    made(tmp_path / "in"), made(tmp_path)
    with pytest.raises(SourceError, match='inside the folder "root"'):
        opened(tmp_path / "in", path=["a.db", "../a.db"], root=tmp_path / "in")


def test_other_columns_are_refused_and_every_database_is_closed(tmp_path):
    """A query with ``*`` gives what each table has."""
    save(tmp_path, ROWS, ROWS)
    run(tmp_path, "ALTER TABLE t RENAME COLUMN label TO note", name="part-1.db")
    with pytest.raises(SourceError) as caught:
        opened(tmp_path, "SELECT * FROM t", path="*.db")
    assert (str(tmp_path / "part-1.db"), "") == (caught.value.path, caught.value.place)
    assert caught.value.message == (
        f"expected the columns of {tmp_path / 'part-0.db'}, 'id', 'text', 'label', "
        "got 'id', 'text', 'note'; name those in the query that all databases have"
    )
    assert not [path for path in open_files() if path.endswith(".db")]


def test_a_query_that_one_of_them_does_not_answer_names_it(tmp_path):
    names = save(tmp_path, ROWS, ROWS)
    run(tmp_path, "ALTER TABLE t RENAME TO other", name=names[1])
    with pytest.raises(ConfigError, match=r"/source/query: expected one that .*part-1\.db answers"):
        opened(tmp_path, path=names)


def test_a_damaged_one_is_named(tmp_path):
    names = save(tmp_path, ROWS, ROWS)
    (tmp_path / names[1]).write_bytes(b"no database" * 1000)
    with pytest.raises(SourceError) as caught:
        opened(tmp_path, path=names)
    assert str(tmp_path / names[1]) == caught.value.path


def test_one_that_is_written_to_is_an_error_of_its_own_rows_alone(tmp_path):
    names = save(tmp_path, ROWS, ROWS)
    with closing(opened(tmp_path, path=names)) as source:
        run(tmp_path, "UPDATE t SET label = 3", name=names[1])
        assert ROWS[3][0] == source[3]["id"]
        with pytest.raises(SourceError, match=r"part-1\.db: expected the database as it was"):
            source[4]


def test_the_fingerprint_tells_where_they_are_cut_in_as_many_characters(tmp_path):
    """It stands in each state."""

    def said(*parts):
        folder = tmp_path / f"{len(list(tmp_path.iterdir()))}"
        folder.mkdir()
        with closing(opened(folder, path=save(folder, *parts))) as source:
            return fingerprint(source)

    one, several = said(ROWS), said(ROWS[:1], ROWS[1:])
    assert one.startswith("sqlite, 4 rows, 8192 bytes, sha256 of query and keys ")
    assert several.startswith("sqlite, 4 rows, 2 files of 16384 bytes, sha256 of query and keys ")
    assert several != said(ROWS[:2], ROWS[2:])
    assert several == said(ROWS[:1], ROWS[1:])
    assert len(several) == len(said(*[EMPTY] * 3, ROWS))


def test_opening_many_says_how_far_it_is(tmp_path, caplog, monkeypatch):
    monkeypatch.setattr(_progress, "_TELL_SECONDS", -1)
    with caplog.at_level(logging.INFO, "threadloader"):
        opened(tmp_path, path=save(tmp_path, ROWS, ROWS)).close()
    assert f"{tmp_path / 'part-1.db'}: 2 databases looked through" in caplog.text


def test_a_search_through_all_rows_is_warned_of_once(tmp_path, caplog):
    rows = [(i, i, i) for i in range(1000)]
    names = save(tmp_path, ROWS, rows, rows)
    opened(tmp_path, "SELECT text, label FROM t WHERE text < 999", "label", path=names[:1]).close()
    assert "" == caplog.text
    opened(tmp_path, "SELECT CAST(label AS INT) AS k FROM t", "k", path=names).close()
    assert 1 == caplog.text.count("each sample is searched for in all rows")
    assert "part-1.db" in caplog.text


def test_each_thread_has_a_connection_to_each_and_closing_ends_them_all(tmp_path):
    source, found = opened(tmp_path, path=save(tmp_path, ROWS, ROWS)), []

    def read():
        found.append([source[row]["id"] for row in range(len(source))])

    thread = threading.Thread(target=read)
    thread.start()
    thread.join()
    read()
    assert [[-7, 2, 5, 9] * 2] * 2 == found
    assert {2} == {len(each.connections._made) for each in source._databases}
    source.close()
    assert not [path for path in open_files() if path.endswith(".db")]


@pytest.mark.parametrize("workers", [0, 3])
def test_a_loader_gives_the_rows_of_all(tmp_path, workers):
    save(tmp_path, ROWS, EMPTY, ROWS[:2])
    path = f"{tmp_path}/part-*.db"
    source = {"type": "sqlite", "path": path, "key": "id", "query": "SELECT id FROM t"}
    config = {"source": source, "batch_size": 2, "num_workers": workers, "drop_last": False}
    with Loader(config) as batches:
        ids = [key for batch in batches for key in batch["id"].tolist()]
    assert sorted([-7, 2, 5, 9, -7, 2]) == sorted(ids)
