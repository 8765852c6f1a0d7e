"""Another process makes the same batches, or what differs is said; none is waited for in vain."""

import itertools
import re
import socket
import sys
import threading
from pathlib import Path

import faults
import numpy as np
import pytest
from faults import SAMPLES
from verified import CONFIG, failing, found, report_of, unhurried

from threadloader import ConfigError, LoaderConfig, LoaderError, verify
from threadloader.verify import Plan, _case, _process, _run

as_it_was = pytest.fixture(unhurried, autouse=True)


@pytest.mark.parametrize(
    ("name", "cause", "says"),
    [
        ("transform hashed", "transform", "depends on how str are hashed"),
        ("transform set_order", "transform", "the same in a second one with the same PYTHONHASHSE"),
        ("transform drawn_once", "transform", "depends on what each process draws, or has, for it"),
        ("source ordered_by_hash", "source", "sorted(...) of a set before its order counts"),
        ("source NamedByHash", "source", "the source's fingerprint gave something else in another"),
        (
            "sampler by_hash",
            "sampler",
            "the order of epochs 0 and 1 gave something else in another",
        ),
    ],
)
def test_what_is_the_same_in_one_process_alone_is_found_by_another_one(name, cause, says):
    """All runs here are the same, and that which goes on in another process is not."""
    part, function = name.split()
    given = {"source": faults.Source, part: getattr(faults, function)}
    names = {"source": "faults:Source", part: f"faults:{function}"}
    report = verify.run(CONFIG, **given, names=names)
    assert [(cause, "other-process")] == found(report)
    assert [True] * 8 + [False] == [same for _, same in report.runs]
    assert report.difference.run.endswith(", in another process")
    assert says in re.sub(r"\s+", " ", str(report))


@pytest.mark.parametrize("transform", [faults.bad_sample, faults.noisy])
def test_what_is_honest_is_the_same_in_another_process(transform):
    """Samples that fail alike there, and what is drawn from `rng`, too."""
    names = {"source": "faults:Source", "transform": f"faults:{transform.__name__}"}
    report = report_of(transform=transform, names=names)
    assert (None, 9) == (report.difference, len(report.runs))
    assert {True} == {same for _, same in report.runs}


def test_one_batch_is_made_anew_in_another_process():
    """There is no state behind it to go on from."""
    config, names = {"batch_size": SAMPLES}, {"source": "faults:Source"}
    report = report_of(config=config, plan=Plan(epochs=1), names=names)
    assert ("num_workers 0, in another process", True) == (
        str(report.runs[-1][0]),
        report.runs[-1][1],
    )


def test_what_one_process_shows_is_not_blamed_on_the_other(monkeypatch):
    """All runs here were the same by chance; the cause is found here."""
    monkeypatch.setattr(_run, "compared", lambda *run: (None, []))
    names = {"source": "faults:Source", "transform": "faults:of_the_system"}
    report = report_of(transform=faults.of_the_system, names=names)
    assert [("transform", "not-repeatable")] == found(report)


def test_a_process_that_ends_without_a_word_is_not_compared(monkeypatch):
    """It is said, with its last words; the other runs stand."""
    monkeypatch.delenv("PYTHONHASHSEED", raising=False)
    source = faults.of_the_main_process
    report = report_of(source, names={"source": "faults:of_the_main_process"})
    assert ("same", 8) == (report.result, len(report.runs))
    assert ("another process: the process ended with code 3: not here",) == report.not_compared


def test_a_process_that_cannot_be_started_is_not_compared(monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "executable", str(tmp_path / "none"))
    report = report_of(names={"source": "faults:Source"})
    assert "same" == report.result
    (said,) = report.not_compared
    assert said.startswith("another process: it could not be started: ")


def test_a_bundle_starts_no_process_and_says_so(monkeypatch):
    """As of PyInstaller: what looks like its Python is the program itself."""
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    (said,) = report_of(names={"source": "faults:Source"}).not_compared
    assert "could not be started" in said
    assert "a bundle, with no Python to start" in said


def test_without_a_folder_for_temporary_files_another_process_is_not_compared(monkeypatch):
    """As in a container of which nothing can be written."""

    def refused():
        raise FileNotFoundError(2, "No usable temporary directory found")

    monkeypatch.setattr("tempfile.TemporaryFile", refused)
    report = report_of(names={"source": "faults:Source"})
    (said,) = report.not_compared
    assert ("same", True) == (report.result, "No usable temporary directory" in said)


def test_what_fails_in_another_process_alone_is_a_difference_of_the_run():
    """The name says something else than what was given here."""
    report = report_of(names={"source": "faults:bad_sample"})
    assert ("run", [("", "other-process")]) == (report.difference.kind, found(report))
    assert report.difference.what.startswith("--source: TypeError: ")


@pytest.mark.parametrize("names", [{}, {"source": "x"}, {"source": "x", "transfrom": "y"}], ids=str)
def test_names_are_of_the_parts_that_are_given_and_of_no_others(names):
    """The other process would leave one out, and be said to differ."""
    with pytest.raises(ConfigError) as raised:
        report_of(transform=faults.noisy, names=names)
    (problem,) = raised.value.problems
    expected = "a name of each part that is given in code, ['source', 'transform']"
    assert ("names", expected, str(list(names))) == problem[:3]


def test_a_part_that_is_named_and_not_given_is_refused():
    """Here the config's would run, and there the one that is named."""
    names = {"source": "faults:Source", "transform": "faults:noisy"}
    with pytest.raises(ConfigError, match="names: expected a name of each part"):
        report_of(names=names)


def test_a_name_that_is_not_there_is_told_before_the_first_run():
    """Not as a difference between processes."""
    opened = []
    said = r"names\['source'\]: expected MODULE:FUNCTION, .+ got faults:Sauce"
    with pytest.raises(LoaderError, match=said):
        report_of(lambda: opened.append(1), names={"source": "faults:Sauce"})
    assert [] == opened


@pytest.mark.parametrize("name", ["__main__:Source", 3])
def test_a_name_that_another_process_cannot_know_is_refused(name, monkeypatch):
    """That of the program itself is found here, and is another program there."""
    monkeypatch.setattr(sys.modules["__main__"], "Source", faults.Source, raising=False)
    with pytest.raises(ConfigError) as raised:
        report_of(names={"source": name})
    (problem,) = raised.value.problems
    expected = '"module:function" by which another process finds it'
    assert ("names['source']", expected, repr(name)) == problem[:3]


def test_a_source_that_is_no_function_is_told_as_that_and_beside_wrong_names():
    with pytest.raises(ConfigError) as raised:
        report_of(np.arange(20), names={})
    first, second = raised.value.problems
    assert ("source", "a function that opens it", "ndarray") == first[:3]
    assert "names" == second.pointer


def test_a_part_is_not_named_where_experiments_fail_or_show_nothing(monkeypatch):
    case = _case.Case(LoaderConfig(), Path(), faults.Source)
    process = _process.Process(case, Path(), {"source": "faults:Source"})
    cause = process.cause([1, 2])
    shown = ("no call of one part by itself gave something else there",)
    assert ("", shown) == (cause.part, cause.evidence)
    monkeypatch.setattr(process, "_ask", lost)
    assert ("it is gone",) == process.cause([1]).evidence
    monkeypatch.setattr(_process, "results", failing)
    assert ("the experiments themselves failed: OSError: no memory",) == process.cause([1]).evidence


def lost(*arguments):
    raise _process.LostError("it is gone")


def test_what_a_process_has_kept_from_before_is_told_from_how_it_hashes(monkeypatch):
    """Other processes give the same as each other, however they hash."""
    monkeypatch.setattr(faults, "calls", 7)
    case = _case.Case(LoaderConfig(), Path(), faults.Source, faults.of_earlier_calls)
    names = {"source": "faults:Source", "transform": "faults:of_earlier_calls"}
    cause = _process.Process(case, Path(), names).cause([3])
    assert ("transform", "other-process") == (cause.part, cause.kind)
    assert "something that the process has kept from before" in cause.says


def test_what_has_changed_here_since_is_not_blamed_on_the_other_process(monkeypatch):
    """As by a clock of whole seconds, which goes on until the other process has begun."""
    clock = map(str, itertools.count())

    def anew(*asked):
        return {"source": {}, "transform": {"transform(source[3])": next(clock)}}

    monkeypatch.setattr(_process, "results", anew)
    case = _case.Case(LoaderConfig(), Path(), faults.Source, faults.noisy)
    process = _process.Process(case, Path(), {})
    monkeypatch.setattr(process, "_ask", lambda *asked: {"results": anew()})
    cause = process.cause([3])
    assert ("transform", "not-repeatable") == (cause.part, cause.kind)


LEAVING = """
import os, socket, subprocess, sys, threading
from concurrent.futures import ProcessPoolExecutor
import numpy as np

def connect(port):
    global line
    line = socket.create_connection(("127.0.0.1", port))

def wait(port):
    connect(port)
    line.recv(1)

def leaves(what):
    port = int(os.environ["WAITED_FOR"])
    if what == "thread":
        threading.Thread(target=wait, args=[port]).start()
    elif what == "pool":
        global pool
        pool = ProcessPoolExecutor(1)
        pool.submit(connect, port).result()
    else:
        code = f"import socket; socket.create_connection(('127.0.0.1', {port})).recv(1)"
        subprocess.Popen([sys.executable, "-c", code])
    return np.arange(8.0)

def thread():
    return leaves("thread")

def process():
    return leaves("process")

def pool_of_one():
    return leaves("pool")
"""


def leaving(what, folder, monkeypatch):
    """Other processes, in which the source leaves something."""
    (folder / "leaving.py").write_text(LEAVING, encoding="utf-8")
    monkeypatch.syspath_prepend(str(folder))
    case = _case.Case(LoaderConfig(), Path())
    return _process.Process(case, Path(), {"source": f"leaving:{what}"})


def test_a_process_that_waits_for_work_from_another_process_is_ended(tmp_path, monkeypatch):
    """That of a pool, which would learn from nobody that there is no more of it."""
    asked = leaving("pool_of_one", tmp_path, monkeypatch)
    with socket.create_server(("127.0.0.1", 0)) as server:
        monkeypatch.setenv("WAITED_FOR", f"{server.getsockname()[1]}")
        assert {"source"} == set(asked._ask({"indices": [3]}, "1")["results"])
        line, _ = server.accept()
    with line:
        line.settimeout(30)
        assert b"" == line.recv(1)  # closed, since the process that held it has ended


@pytest.mark.parametrize("what", ["thread", "process"])
def test_what_user_code_has_left_in_another_process_is_not_waited_for(what, tmp_path, monkeypatch):
    """A thread, which ends with its process; a process, which has its stderr and goes on."""
    asked = leaving(what, tmp_path, monkeypatch)
    with socket.create_server(("127.0.0.1", 0)) as server:
        monkeypatch.setenv("WAITED_FOR", f"{server.getsockname()[1]}")
        given_up = threading.Event()

        def give_up():
            given_up.set()
            server.close()

        # Whoever waits for it all the same goes on, and is seen.
        late = threading.Timer(60, give_up)
        late.start()
        try:
            answer = asked._ask({"indices": [3]}, "1")
            waited = given_up.is_set()
        finally:
            late.cancel()
            late.join()
    assert not waited
    assert {"source"} == set(answer["results"])


def test_what_user_code_has_left_in_the_command_itself_is_not_waited_for(tmp_path, run_child):
    """Its exit code is that of the answer."""
    (tmp_path / "mine.py").write_text(
        "import threading\n"
        "def source():\n"
        "    threading.Thread(target=threading.Event().wait).start()\n"
        "    return list(range(8))\n",
        encoding="utf-8",
    )
    (tmp_path / "c.json").write_text('{"batch_size": 4}', encoding="utf-8")
    arguments = ["verify", str(tmp_path / "c.json"), "--source", "mine:source"]
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r}); sys.argv[1:] = {arguments!r}\n"
        "from threadloader.cli import program\n"
        "program()\n"
    )
    child = run_child(code)
    assert 0 == child.returncode, child.stderr
    assert "c.json: OK: the same 4 batches" in child.stdout
