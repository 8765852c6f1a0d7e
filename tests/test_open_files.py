"""How many files sources keep open, and what is said of one that has no size or does not open."""

import errno
import io
import os
import signal
import sys
from contextlib import closing
from pathlib import Path

import pytest

from threadloader import Loader, SourceError
from threadloader.errors import once_free
from threadloader.sources import _open_file, open_source
from threadloader.sources._files import kept_open
from threadloader.sources._open_file import open_regular


@pytest.mark.parametrize(
    ("limit", "expected"),
    [(1, 1), (64, 8), (256, 32), (1024, 128), (1 << 20, 128), (None, 128)],
)
def test_an_eighth_of_what_the_process_may_have_open_is_kept_open(monkeypatch, limit, expected):
    resource = pytest.importorskip("resource")
    soft = resource.RLIM_INFINITY if limit is None else limit
    monkeypatch.setattr(resource, "getrlimit", lambda _: (soft, resource.RLIM_INFINITY))
    assert expected == kept_open()


def test_where_no_limit_can_be_asked_for_as_many_as_anywhere_are_kept_open(monkeypatch):
    """As where a sandbox refuses the question."""
    resource = pytest.importorskip("resource")

    def refused(which):
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

    monkeypatch.setattr(resource, "getrlimit", refused)
    assert 128 == kept_open()


def test_where_each_thread_opens_files_for_itself_few_are_kept_open(monkeypatch):
    """As on Windows: with 64 workers, 128 files would be 8,320."""
    monkeypatch.delattr(os, "pread", raising=False)
    assert 4 == kept_open()


MANY = """
import os
import resource
import sys
from contextlib import ExitStack
from pathlib import Path
from threadloader import Loader

resource.setrlimit(resource.RLIMIT_NOFILE, (128, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
os.chdir(sys.argv[1])
for number in range(200):
    Path(f"{number}.jsonl").write_text(f"{number:2}\\n")
sources = [
    {"type": "text", "path": "*.jsonl"},
    {"type": "jsonl", "path": "*.jsonl"},
    {"type": "tokens", "path": "*.jsonl", "window": 3, "dtype": "uint8"},
]
configs = [{"source": source, "batch_size": 200} for source in sources]
with ExitStack() as stack:
    loaders = [stack.enter_context(Loader(config)) for config in configs * 2]
    print(sorted({batches.info.indices.size for batches in loaders for _ in batches}))
"""


def test_several_sources_of_many_files_fit_into_a_low_limit(run_child, tmp_path):
    pytest.importorskip("resource")
    done = run_child(MANY, str(tmp_path))
    assert ("", "[200]\n") == (done.stderr, done.stdout)


@pytest.mark.parametrize("path", ["no.txt", "*.txt", "no/*.txt"])
def test_where_a_config_has_no_file_a_path_starts_where_the_message_says(
    tmp_path, monkeypatch, path
):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    with pytest.raises(SourceError) as caught:
        Loader({"source": {"type": "text", "path": path}}).__enter__()
    assert "or without one at the current folder" in str(caught.value)
    assert str(tmp_path / "here" / path) in str(caught.value)


def test_where_the_limit_cannot_be_read_as_many_are_kept_open_as_ever(monkeypatch):
    """No file can be opened any more, so that the module of the limit cannot be looked for."""
    monkeypatch.delitem(sys.modules, "resource", raising=False)
    refused = type("Refused", (), {"find_spec": raising(OSError(errno.EMFILE, "too many"))})()
    monkeypatch.setattr(sys, "meta_path", [refused])
    assert (128 if hasattr(os, "pread") else 4) == kept_open()


UNSIZED = Path("/proc/self/status")
"""A file that has content, and 0 bytes as the system says."""

KINDS = [
    {"type": "text"},
    {"type": "jsonl"},
    {"type": "csv"},
    {"type": "tokens", "dtype": "uint8", "window": 4},
    {"type": "tar"},
    {"type": "npz"},
    {"type": "npy"},
    {"type": "npy", "mmap": True},
]


@pytest.mark.skipif(not UNSIZED.exists(), reason="the system knows all sizes")
@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_a_file_whose_size_the_system_does_not_know_is_not_taken_for_an_empty_one(kind):
    with pytest.raises(SourceError) as caught:
        open_source({**kind, "path": str(UNSIZED)})
    told = "expected a file whose size the system knows, got one of 0 bytes that has content"
    assert f"{UNSIZED}: {told}; copy it to a disk first" == str(caught.value)


@pytest.mark.skipif(not UNSIZED.exists(), reason="the system knows all sizes")
def test_a_folder_of_files_whose_sizes_the_system_does_not_know_says_so_at_a_read():
    spec = {"type": "files", "folder": str(UNSIZED.parent), "pattern": UNSIZED.name}
    with closing(open_source(spec)) as source, pytest.raises(SourceError, match="the system knows"):
        source[0]


def test_an_empty_file_that_is_written_to_while_it_is_opened_is_read_from_its_start(
    tmp_path, monkeypatch
):
    """1. It is looked at. 2. It is written to. 3. It is opened."""
    path = tmp_path / "a.txt"
    path.write_bytes(b"")
    real = Path.open
    monkeypatch.setattr(
        Path, "open", lambda path, *a, **k: (os.truncate(path, 3), real(path, *a, **k))[1]
    )
    with open_regular(path) as file:
        assert bytes(3) == file.readall()


def test_an_empty_file_that_cannot_be_read_is_named_and_closed(tmp_path, monkeypatch):
    class Failing(io.FileIO):
        def read(self, size=-1):
            raise OSError(errno.EIO, "Input/output error")

    path = tmp_path / "a.txt"
    path.write_bytes(b"")
    failing = Failing(path)
    monkeypatch.setattr(Path, "open", lambda *args, **options: failing)
    with pytest.raises(SourceError, match="expected a file that can be read, got: Input"):
        open_regular(path)
    assert failing.closed


def test_what_a_handler_raises_where_a_line_is_no_utf_8_passes(tmp_path, monkeypatch, rung):
    """The file is opened once more then, as it may be one of gzip."""
    (tmp_path / "a.txt").write_bytes(b"\xff\n")

    def ringing(path):
        signal.raise_signal(signal.SIGINT)

    with closing(open_source({"type": "text", "path": "a.txt"}, tmp_path)) as source:
        monkeypatch.setattr(_open_file, "open_regular", ringing)
        with pytest.raises(TimeoutError, match="rung"):
            source[0]


def test_what_a_handler_raises_where_the_limit_of_open_files_is_asked_for_passes(monkeypatch, rung):
    resource = pytest.importorskip("resource")
    monkeypatch.setattr(resource, "getrlimit", lambda which: signal.raise_signal(signal.SIGINT))
    with pytest.raises(TimeoutError, match="rung"):
        kept_open()


def test_a_call_during_which_a_handler_raises_is_not_made_again(tmp_path, monkeypatch):
    """Not even where the handler raises what FUSE says of a file that is just being replaced."""

    def ring(number, frame):
        raise FileNotFoundError(errno.ENOENT, "my own")

    calls = []

    def called(path):
        calls.append(path)
        if calls == [path]:
            signal.raise_signal(signal.SIGINT)

    before = signal.signal(signal.SIGINT, ring)
    try:
        with pytest.raises(FileNotFoundError, match="my own"):
            once_free(called, tmp_path)
    finally:
        signal.signal(signal.SIGINT, before)
    assert [tmp_path] == calls


def raising(error):
    def refused(*args, **kwargs):
        raise error

    return refused


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE])
@pytest.mark.parametrize(("where", "name", "path"), [(Path, "open", "a.txt"), (os, "scandir", "*")])
def test_who_has_too_many_files_open_is_told_what_to_do(
    tmp_path, monkeypatch, number, where, name, path
):
    """In the place of a file, and of a folder that a pattern looks into."""
    (tmp_path / "a.txt").write_text("a\n")
    monkeypatch.setattr(where, name, raising(OSError(number, "too many")))
    with pytest.raises(SourceError) as caught:
        open_source({"type": "text", "path": path}, tmp_path)
    monkeypatch.undo()
    limit = "" if os.name == "nt" else "raise the limit of open files (ulimit -n), or "
    advice = f"{limit}open fewer files or loaders at once"
    assert f"got: too many; {advice}" == str(caught.value)[-len(advice) - 15 :]


def test_what_else_keeps_a_file_from_being_opened_is_told_without_that_advice(
    tmp_path, monkeypatch
):
    (tmp_path / "a.txt").write_text("a\n")
    monkeypatch.setattr(Path, "open", raising(PermissionError(errno.EACCES, "no")))
    with pytest.raises(SourceError, match=r"expected a file that can be read, got: no\Z"):
        open_source({"type": "text", "path": "a.txt"}, tmp_path)
