"""One field of every sample, and lists of numbers in files: what samplers ask of them."""

import collections
import io
import logging
import os
import sys
import time

import numpy as np
import pytest
from links import make_link
from own_sources import Delegating

from threadloader import ConfigError, Loader, SourceError
from threadloader.quarantine import Quarantine, is_torn
from threadloader.sources import as_source, column, columns, open_source, read_numbers

Pair = collections.namedtuple("Pair", "x y")


class Samples:
    """A list of samples that counts how often each is read."""

    def __init__(self, samples):
        self.samples = samples
        self.read = []

    def __len__(self):
        return len(self.samples)

    def __getitem__(self, index):
        self.read.append(index)
        return self.samples[index]


class TestColumn:
    @pytest.mark.parametrize(
        ("source", "field"),
        [
            ({"x": np.zeros((3, 2)), "y": np.array([4, 5, 6])}, "y"),
            ((np.zeros((3, 2)), np.array([4, 5, 6])), 1),
            ([(0, 4), (1, 5), (2, 6)], 1),
            ([(0, 4), (1, 5), (2, 6)], -1),
            ([Pair(0, 4), Pair(1, 5), Pair(2, 6)], "y"),
            ([Pair(0, 4), Pair(1, 5), Pair(2, 6)], 1),
            (Pair(np.zeros((3, 2)), np.array([4, 5, 6])), "y"),
            (Pair(np.zeros((3, 2)), np.array([4, 5, 6])), 1),
            ([{"y": 4}, {"y": np.int8(5)}, {"y": np.array(6)}], "y"),
            (np.array([(0, 4), (1, 5), (2, 6)], [("x", "i4"), ("y", "i4")]), "y"),
            (np.array([[0, 4], [1, 5], [2, 6]]), 1),
            (np.array([[4, 0], [5, 1], [6, 2]]), 0),
            (np.array([(4, 0), (5, 1), (6, 2)], [("y", "i4"), ("x", "f8")]), "y"),
            (np.array([(4, 0), (5, 1), (6, 2)], [("y", "i4"), ("x", "f8")]), 0),
        ],
    )
    def test_a_field_is_found_by_name_or_by_position(self, source, field):
        assert [4, 5, 6] == [int(value) for value in column(as_source(source), field, "")]

    def test_what_lies_in_memory_is_not_read(self):
        """Arrays give their field as it is."""
        labels = np.array([1, 2, 3])
        assert column(as_source({"y": labels}), "y", "") is labels
        for kind in (Pair, collections.namedtuple("array", "x y")):
            assert column(as_source(kind(np.zeros(3), labels)), "y", "") is labels

    @pytest.mark.parametrize("field", ["name", "n", "kind"])
    def test_csv_gives_its_columns(self, tmp_path, field):
        """Numbers, categories and texts, of whatever length."""
        (tmp_path / "t.csv").write_text("name,n,kind\né,1,b\n,2,a\nlong one,3,b\n", "utf-8")
        spec = {"type": "csv", "path": "t.csv", "categories": {"kind": ["a", "b"]}}
        source = open_source(spec, tmp_path)
        assert [row[field] for row in source] == list(column(source, field, ""))

    def test_files_give_their_labels_without_being_read(self, tmp_path):
        """The class that a folder's name says; what is in the files may be anything."""
        for name in ("cat/1.npy", "dog/2.npy", "cat/3.npy"):
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).write_bytes(b"no array")
        spec = {"type": "files", "folder": ".", "pattern": "**/*.npy", "label": "folder"}
        source = open_source(spec, tmp_path)
        assert [0, 0, 1] == list(column(source, "label", ""))

    @pytest.mark.parametrize("kind", ["npz", "npy"])
    def test_arrays_in_files_give_theirs(self, tmp_path, kind):
        np.savez(tmp_path / "d.npz", x=np.zeros((3, 2)), y=[4, 5, 6])
        np.save(tmp_path / "y.npy", [4, 5, 6])
        where = {"path": "d.npz"} if kind == "npz" else {"fields": {"y": "y.npy"}}
        source = open_source({"type": kind, **where}, tmp_path)
        assert [4, 5, 6] == [int(value) for value in column(source, "y", "")]
        getattr(source, "close", lambda: None)()

    def test_other_sources_are_read_once(self):
        """Each sample, in order."""
        source = Samples([{"y": index} for index in range(5)])
        assert list(range(5)) == column(source, "y", "") == source.read

    def test_labels_of_another_object_are_not_taken_for_those_of_the_samples(self):
        class Doubled(Delegating):
            def __getitem__(self, index):
                return {"y": 2 * self.inner[index]["y"]}

        source = as_source(Doubled(as_source({"y": np.arange(3)})))
        assert [0, 2, 4] == list(column(source, "y", "/sampler/field"))

    def test_a_loader_reads_for_its_labels_when_it_is_entered_and_never_again(self):
        source = Samples([{"y": index % 2} for index in range(6)])
        config = {"sampler": {"type": "balanced", "field": "y"}, "num_workers": 0}
        with Loader(config, source) as batches:
            assert list(range(6)) == source.read
            for epoch in batches.epochs(3):
                list(epoch)
        assert 6 + 3 * 6 == len(source.read)

    @pytest.mark.parametrize(
        ("samples", "field", "got"),
        [
            ([{"y": 0}, {"x": 0}], "y", "KeyError: 'y', in sample 1"),
            ([(0, 1), (0,)], 1, "IndexError: tuple index out of range, in sample 1"),
            ([{"y": 0}, {"y": 0}], 0, "KeyError: 0, in sample 0"),
            ([(0, 1)], "y", "TypeError: "),
            ([5], 0, "TypeError: "),
            (["abc"], 0, "str, sample 0, which has none"),
            ([b"abc"], 0, "bytes, sample 0, which has none"),
            (np.array([[0, 1]]), "y", "IndexError: "),
            (np.array([(0,)], [("x", "i4")]), "y", "ValueError: "),
            ({"x": np.zeros(1)}, "y", "KeyError: 'y', in sample 0"),
        ],
    )
    def test_a_field_that_a_sample_has_not_is_an_error_of_the_config(self, samples, field, got):
        """At the option that names it, with the first sample that has none."""
        with pytest.raises(ConfigError) as caught:
            column(as_source(samples), field, "/sampler/field")
        (problem,) = caught.value.problems
        assert ("/sampler/field", "a field that each sample has", got) == (
            problem.pointer,
            problem.expected,
            problem.got[: len(got)],
        )

    @pytest.mark.parametrize(
        ("sample", "hint"),
        [
            ((0, 1), "give its position: a tuple has no names"),
            (Pair(0, 1), "there are 'x', 'y'"),
            (Pair(np.zeros(1), np.zeros(1)), "there are 'x', 'y'"),
        ],
        ids=["tuple", "named tuple", "named tuple of arrays"],
    )
    def test_of_a_tuple_that_has_no_such_name_it_is_said_what_there_is(self, sample, hint):
        source = as_source(sample if isinstance(sample[0], np.ndarray) else [sample])
        with pytest.raises(ConfigError) as caught:
            column(source, "label", "/sampler/field")
        assert [hint] == [problem.hint for problem in caught.value.problems]

    def test_of_a_dict_that_has_no_such_field_it_is_said_what_there_is(self):
        for source in (
            {"images": np.zeros(1), "labels": np.zeros(1)},
            [{"images": 0, "labels": 1}],
        ):
            with pytest.raises(ConfigError) as caught:
                column(as_source(source), "label", "/sampler/field")
            hint = "there are 'images', 'labels'; did you mean 'labels'?"
            assert [hint] == [problem.hint for problem in caught.value.problems]

    @pytest.mark.parametrize("error", [KeyError("mine"), TypeError("mine"), SourceError("mine")])
    def test_what_the_source_itself_raises_is_its_own(self, error):
        """With a note of the sample, and of what it was read for."""

        class Broken(Samples):
            def __getitem__(self, index):
                if index == 1:
                    raise error
                return {"y": 0}

        with pytest.raises(type(error)) as caught:
            column(Broken([0, 1]), "y", "")
        assert error is caught.value
        assert ["threadloader: raised for sample 1, read for its 'y'"] == error.__notes__

    def test_what_is_passed_over_gets_no_note(self):
        """One object that is raised for each of many would get as many."""
        error = OSError("gone")

        class Broken(Samples):
            def __getitem__(self, index):
                raise error

        assert [None] * 9 == column(Broken([0] * 9), "y", "/y", lambda index, error: True)
        assert not hasattr(error, "__notes__")

    def test_what_the_source_raises_is_not_lost_if_it_refuses_notes(self):
        class Refusing(Exception):
            def add_note(self, note):
                raise TypeError("no notes")

        error = Refusing("mine")

        class Broken(Samples):
            def __getitem__(self, index):
                raise error

        with pytest.raises(Refusing) as caught:
            column(Broken([0]), "y", "")
        assert error is caught.value

    def test_the_log_tells_how_far_a_long_reading_is(self, caplog, monkeypatch):
        ticks = iter(range(0, 100, 2))
        monkeypatch.setattr(time, "monotonic", lambda: next(ticks))
        with caplog.at_level(logging.INFO, "threadloader"):
            column(Samples([(7,)] * 3), 0, "")
        assert [f"field 0: read {done} of 3 samples" for done in (1, 2, 3)] == caplog.messages


class TestNumbers:
    def read(self, folder, data, *, whole=False, objects=True):
        """As for `exclude`, which takes the most, if not told otherwise."""
        (folder / "n").write_bytes(data)
        return read_numbers("n", folder, None, whole=whole, torn=is_torn if objects else None)

    @pytest.mark.parametrize(
        ("data", "expected"),
        [
            (b"1\n2\n3\n", [1, 2, 3]),
            (b"1\r\n2\r\n\r\n3", [1, 2, 3]),
            (b"\n\n  1\t\n \n2 \n3", [1, 2, 3]),
            (b'{"index": 1, "why": "blurred"}\n{"index": 2}\n\n{"index": 3}\n', [1, 2, 3]),
            (b'1\n{"index": 2}\n3\n', [1, 2, 3]),
            (b"\xef\xbb\xbf1\n2\n3\n", [1, 2, 3]),
            (b"-1\n0\n", [-1, 0]),
            (b"0.5\n1e-3\n2\n", [0.5, 0.001, 2.0]),
            (b".5\n5.\n-.5e1\n", [0.5, 5.0, -5.0]),
            (b"+1\n01\n-007\n", [1, 1, -7]),
            (b"9223372036854775807\n", [2**63 - 1]),
        ],
        ids=repr,
    )
    def test_a_number_a_line(self, tmp_path, data, expected):
        """Integers stay integers; empty lines do not count."""
        numbers = self.read(tmp_path, data)
        kind = np.int64 if isinstance(expected[0], int) else np.float64
        assert (expected, kind) == (numbers.tolist(), numbers.dtype)

    def test_where_integers_are_wanted_3_0_is_one(self, tmp_path):
        """Exactly, beyond what a float holds as well; it stays a float among weights."""
        data = b'3.0\n1e2\n-0.0e30\n{"index": 4.0}\n5\n9007199254740993.0\n+9007199254740995.\n'
        numbers, exact = self.read(tmp_path, data, whole=True), [2**53 + 1, 2**53 + 3]
        assert ([3, 100, 0, 4, 5, *exact], np.int64) == (numbers.tolist(), numbers.dtype)
        assert np.float64 == self.read(tmp_path, b"3.0\n5\n").dtype

    @pytest.mark.parametrize("line", ["17.5", "true", "1e-400", f"1e{9**20}", '{"index": 2.5}'])
    def test_where_integers_are_wanted_another_number_is_told_by_its_line(self, tmp_path, line):
        with pytest.raises(SourceError) as caught:
            self.read(tmp_path, f"1\n\n{line}\n2\n".encode(), whole=True)
        expected = f'expected an integer, or an object with an "index", got {line!r}'
        assert ("line 3", expected) == (caught.value.place, caught.value.message)

    @pytest.mark.parametrize("whole", [False, True])
    @pytest.mark.parametrize("end", [b"\n", b""])
    @pytest.mark.parametrize("line", ['{"index": 3, "weight": 0}', "{}", '{"index": 3', "{"])
    def test_where_no_objects_are_wanted_one_is_told_by_its_line(self, tmp_path, line, end, whole):
        """Its index is no weight and no label; nor is a part of it, at the end, passed over."""
        with pytest.raises(SourceError) as caught:
            self.read(tmp_path, b"1\n" + line.encode() + end, whole=whole, objects=False)
        expected = f"expected {'an integer' if whole else 'a number'}, got {line!r}"
        assert ("line 2", expected) == (caught.value.place, caught.value.message)

    @pytest.mark.parametrize("before", [b"", b"7\n", b'{"index": 7}\r\n\n'])
    def test_a_last_line_that_a_kill_has_torn_does_not_count(self, tmp_path, before, caplog):
        """Wherever a line of a quarantine file was cut; the log tells of it."""
        line = b'{"index": 4, "path": "a}\\u00e9\\n", "error": "no", "traceback": null}'
        for length in range(1, len(line)):
            caplog.clear()
            expected = [7] if before else []
            assert expected == self.read(tmp_path, before + line[:length]).tolist()
            (told,) = caplog.messages
            assert f"line {len(before.splitlines()) + 1} is cut short" in told
        assert [*expected, 4] == self.read(tmp_path, before + line).tolist()

    @pytest.mark.parametrize(
        "damaged",
        [
            b'7\n{"index": 4, "pa\n',
            b'7\r{"index": 4, "pa\r',
            b'{"index": 4, "pa\n7',
            b'7\n {"index": 4, "pa',
            b'7\n{"index":4, "pa',
            b'7\n{"path": "a", "ind',
            b'7\n{"index": \xff',
            b'7\n{"index": "4"}',
            b'7\n{"index": ' + b"9" * 5000 + b"}",
            b'7\n{"index": ' + b"[" * 100_000,
            b"7\n4x",
            b'{"index": 4} # blurred',
            b'{"index": 4}{"index": 5}',
            b'{"index": 4, why: "x"}',
            b'{"index": 4, "why": x',
        ],
        ids=lambda data: repr(data[:24]),
    )
    def test_any_other_damaged_line_is_refused(self, tmp_path, damaged):
        """One with an end, one in the middle, one that begins as no line of ours."""
        with pytest.raises(SourceError, match="expected a number, or an object"):
            self.read(tmp_path, damaged)

    @pytest.mark.parametrize(
        "last",
        [
            b"{",
            b'{"index": ',
            b'{"index": 4, "pa',
            b'{"index": 4, "pa\0\0',
            b'{"index": 4, "path": "a\xff',
            b'{"index": 4, "path": "\xed\xa0\x80"}',
            b'{"index": ' + b"1" * 5000 + b', "p',
            b'{"index": 4, "x": ' + b"[" * 100_000,
            b'{"index": 4, "pa\r',
            b'{"index": 4}',
            b'{"path": "a", "ind',
            b"5",
            b'{"index": 4} # blurred',
            b'{"index": 4}{"index": 5}',
            b'{"index": 4, why: "x"}',
            b'{"index": 4, "why": "x',
        ],
        ids=lambda data: repr(data[:24]),
    )
    def test_what_is_passed_over_is_what_the_writer_cuts_off(self, tmp_path, last):
        """A last line is torn for both or for neither."""
        file, before = tmp_path / "bad.jsonl", b'{"index": 7}\n'
        file.write_bytes(before + last)
        try:
            passed_over = [7] == read_numbers(file.name, tmp_path, None, torn=is_torn).tolist()
        except SourceError:
            passed_over = False
        Quarantine(file).add([{"index": 9}])
        assert passed_over == (before + b'{"index": 9}\n' == file.read_bytes())

    def test_what_a_run_writes_is_torn_for_both_wherever_it_is_cut(self, tmp_path):
        file = tmp_path / "bad.jsonl"
        config = {"batch_size": 1, "on_error": {"skip": 1, "quarantine": str(file)}}

        def broken(sample):
            raise ValueError(sample)

        with Loader(config, source=["a"], transform=broken) as batches:
            assert [] == list(batches)
        line = file.read_bytes().removesuffix(b"\n")
        assert [0] == read_numbers(file.name, tmp_path, None, torn=is_torn).tolist()
        for length in (*range(1, 40), *range(40, len(line), 20)):  # most of it is a traceback
            file.write_bytes(line[:length])
            assert [] == read_numbers(file.name, tmp_path, None, torn=is_torn).tolist()
            Quarantine(file).add([{"index": 9}])
            assert b'{"index": 9}\n' == file.read_bytes()

    def test_zeros_at_the_end_of_a_torn_line_are_of_it(self, tmp_path):
        """As some file systems leave them where the power went."""
        line = b'{"index": 4, "path": null, "error": "no"}'
        for length in range(12, len(line)):
            assert [7] == self.read(tmp_path, b"7\n" + line[:length] + b"\0\0").tolist()

    @pytest.mark.parametrize("text", [b"\n1\n", b"1\n", b'{"index": 1}'])
    def test_a_byte_order_mark_is_no_part_of_the_first_line(self, tmp_path, text):
        assert [1] == self.read(tmp_path, b"\xef\xbb\xbf" + text).tolist()

    @pytest.mark.parametrize("data", [b"", b"\n \n\r\n", b"\xef\xbb\xbf"])
    def test_an_empty_file_has_no_number(self, tmp_path, data):
        assert (0,) == self.read(tmp_path, data).shape

    def test_an_integer_of_any_size_is_one(self, tmp_path):
        """Given as it is; whoever asked says whether it fits."""
        assert [2**63, 2**2000] == self.read(tmp_path, f"{2**63}\n{2**2000}\n".encode())

    @pytest.mark.parametrize("most", [1, 5])
    def test_a_list_of_numpy_is_known_where_the_system_gives_a_part(
        self, tmp_path, monkeypatch, most
    ):
        class Short(io.FileIO):
            def read(self, size=-1):
                return super().read(min(size, most))

        np.save(tmp_path / "n.npy", [3, 4])
        monkeypatch.setattr(columns, "open_regular", Short)
        assert [3, 4] == read_numbers("n.npy", tmp_path, None).tolist()

    @pytest.mark.parametrize("dtype", ["i1", "u8", ">i4", "f2", "f8"])
    def test_a_npy_file_gives_what_stands_in_it(self, tmp_path, dtype):
        """Told by its first bytes, whatever its name is."""
        np.save(tmp_path / "n.npy", np.array([3, 0, 2], dtype))
        (tmp_path / "n.npy").rename(tmp_path / "n")
        numbers = read_numbers("n", tmp_path, None)
        assert ([3, 0, 2], np.dtype(dtype).kind) == (numbers.tolist(), numbers.dtype.kind)

    @pytest.mark.parametrize(
        ("line", "got"),
        [
            (b"x", "'x'"),
            (b"true", "'true'"),
            (b'"3"', "'\"3\"'"),
            (b"null", "'null'"),
            (b"[1]", "'[1]'"),
            (b"1 2", "'1 2'"),
            (b"1,", "'1,'"),
            (b"0x1", "'0x1'"),
            (b"{}", "'{}'"),
            (b'{"index": true}', "'{\"index\": true}'"),
            (b'{"index": "1"}', '\'{"index": "1"}\''),
            (b'{"index": 1, "index": 2}', '\'{"index": 1, "index": 2}\''),
            (b"1\0", "'1\\x00'"),
            (b"\xff", "'\ufffd'"),
            (b"9" * 5000, repr("9" * 40)),
            (b"[" * 100_000, repr("[" * 40)),
        ],
        ids=lambda value: repr(value)[:20],
    )
    def test_a_line_that_is_none_is_told_by_its_number(self, tmp_path, line, got):
        with pytest.raises(SourceError) as caught:
            self.read(tmp_path, b"1\n\n" + line + b"\n2\n")
        expected = f'expected a number, or an object with an "index", got {got}'
        assert (str(tmp_path / "n"), "line 3", expected) == (
            caught.value.path,
            caught.value.place,
            caught.value.message,
        )

    def test_a_damaged_npy_file_is_refused(self, tmp_path):
        """Cut anywhere, or longer than its header says."""
        np.save(tmp_path / "n.npy", np.arange(4.0))
        data = (tmp_path / "n.npy").read_bytes()
        for damaged in (data[:7], data[:40], data[:-1], data + b"\0"):
            with pytest.raises(SourceError):
                self.read(tmp_path, damaged)

    @pytest.mark.parametrize("shape", [(), (2, 2), (3, 1)])
    def test_a_npy_file_with_another_shape_is_refused(self, tmp_path, shape):
        np.save(tmp_path / "n.npy", np.zeros(shape))
        with pytest.raises(SourceError):
            read_numbers("n.npy", tmp_path, None)

    def test_a_pickle_in_a_npy_file_is_refused(self, tmp_path):
        np.save(tmp_path / "n.npy", np.array([{}, 1], object), allow_pickle=True)
        with pytest.raises(SourceError):
            read_numbers("n.npy", tmp_path, None)

    def test_what_is_no_file_is_refused(self, tmp_path):
        """Nothing, a folder, a device; and a pipe, which nobody writes to."""
        names = ["none", ".", os.devnull]
        if hasattr(os, "mkfifo"):
            os.mkfifo(tmp_path / "pipe")
            names.append("pipe")
        for name in names:
            with pytest.raises(SourceError, match=r"expected a (regular )?file"):
                read_numbers(name, tmp_path, None)

    def test_a_name_is_no_pattern(self, tmp_path):
        """So none is taken silently out of several that match."""
        (tmp_path / "a1").write_bytes(b"1")
        with pytest.raises(SourceError, match="expected a file, found none"):
            read_numbers("a[1]", tmp_path, None)
        (tmp_path / "a[1]").write_bytes(b"2")
        assert [2] == read_numbers("a[1]", tmp_path, None).tolist()

    def test_it_does_not_leave_the_root(self, tmp_path):
        """By no path, and by no link."""
        (tmp_path / "in").mkdir()
        (tmp_path / "out").write_bytes(b"1")
        (tmp_path / "in" / "n").write_bytes(b"1")
        make_link(tmp_path / "in" / "link", tmp_path / "out")
        root = tmp_path / "in"
        assert [1] == read_numbers("in/n", tmp_path, root).tolist()
        assert [1] == read_numbers(str(root / "n"), tmp_path, root).tolist()
        for name in ("out", "in/../out", str(tmp_path / "out"), "in/link"):
            with pytest.raises(SourceError, match='expected a path inside the folder "root"'):
                read_numbers(name, tmp_path, root)


@pytest.mark.parametrize("dtype", ["<f8", "|V0"])
def test_rows_without_bytes_are_not_made_to_be_refused(tmp_path, dtype):
    """A file of a hundred bytes may announce as many as it likes."""
    many = min(10**12, sys.maxsize // 8)  # numpy counts bytes
    shape = (many, 0) if dtype == "<f8" else (many,)
    text = str({"descr": dtype, "fortran_order": False, "shape": shape}).encode() + b"\n"
    (tmp_path / "n.npy").write_bytes(b"\x93NUMPY\1\0" + len(text).to_bytes(2, "little") + text)
    with pytest.raises(SourceError, match=rf"expected one row of numbers, got shape \({many},"):
        read_numbers("n.npy", tmp_path, None)


@pytest.mark.parametrize("line", [b"1" * 300_000 + b"x", b"." + b"1" * 300_000 + b"e" * 9])
def test_a_line_of_digits_is_refused_at_once(tmp_path, line):
    """It ends: a pattern that tries each of its parts twice would take hours."""
    (tmp_path / "n.txt").write_bytes(line + b"\n")
    with pytest.raises(SourceError, match="line 1"):
        read_numbers("n.txt", tmp_path, None)


def test_zeros_behind_a_text_are_looked_at_once():
    """So is this: zeros are also part of the text."""
    assert is_torn(b'{"index": 1, "' + b"\0" * 300_000)
    assert not is_torn(b'{"index": 1 "' + b"\0" * 300_000 + b'"x')
