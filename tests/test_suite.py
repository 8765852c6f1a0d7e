"""The suite that measures threadloader beside others: that it runs, tells and draws.

No test looks at how long anything took: what real runs give is looked at for its form alone.
"""

import ast
import itertools
import json
import os
import pickle
import subprocess
import sys
import xml.etree.ElementTree as ET
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
from frameworks import framework
from reports import SVG

from benchmarks import loaders, suite, works
from benchmarks._picture import picture
from benchmarks._plan import Plan
from benchmarks._protocol import Cannot, Case, Metric
from benchmarks._results import CaseResult, Results, Row, Shown, WorkResult
from benchmarks._run import run
from benchmarks._table import table
from benchmarks.loaders.threadloader import config_of

ROOT = Path(__file__).resolve().parent.parent
EVERY = (*works.NAMES, *works.BESIDE)


# The whole.


@pytest.fixture(scope="module")
def quick(tmp_path_factory):
    """What a quick run of three works gives: exit code, printed text, JSON, picture."""
    folder = tmp_path_factory.mktemp("suite")
    command = [sys.executable, ROOT / "tools" / "bench", "--suite", "--quick"]
    command += ["--only", "arrays,storage,start", "--loaders", "threadloader"]
    command += ["--json", folder / "out.json", "--svg", folder / "out.svg"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert 0 == done.returncode, done.stderr
    text = (folder / "out.json").read_text(encoding="utf-8")
    return done, json.loads(text), (folder / "out.svg").read_text(encoding="utf-8")


def test_threadloader_does_the_works_beside_the_limit(quick):
    done, told, _ = quick
    rows = [row for work in told["works"] for case in work["cases"] for row in case["rows"]]
    assert ["arrays", "storage", "start"] == [work["name"] for work in told["works"]]
    assert {"ok"} == {row["status"] for row in rows}
    assert {"limit", "threadloader"} == {row["loader"] for row in rows}
    assert "6 of 8: storage, 8 workers: threadloader, turn 1" in done.stderr


def test_the_json_has_what_the_table_shows(quick):
    """The table made of the JSON is the table that was printed."""
    done, told, _ = quick
    assert table(restored(told)) + "\n" == done.stdout


def restored(told):
    """Results, of their JSON."""

    def row(found):
        shown = {name: Shown(**one) for name, one in found["shown"].items()}
        return Row(**{**found, "shown": shown})

    def case(found):
        return CaseResult(found["name"], found["options"], [row(one) for one in found["rows"]])

    def work(found):
        metrics = [Metric(**one) for one in found["metrics"]]
        return WorkResult(
            **{**found, "metrics": metrics, "cases": [case(one) for one in found["cases"]]}
        )

    known = {name: value for name, value in told.items() if name != "format"}
    return Results(**{**known, "works": [work(one) for one in told["works"]]})


def test_the_picture_is_an_svg_with_a_mark_for_each_number(quick):
    """It parses, says what it is, and has threadloader at each case and in the legend."""
    tree = ET.fromstring(quick[2])
    assert f"{SVG}svg" == tree.tag
    assert "threadloader beside other loaders, and the limit" == tree.find(f"{SVG}title").text
    drawn = [
        metric
        for work in quick[1]["works"]
        for _ in work["cases"]
        for metric in work["metrics"]
        if metric["drawn"] and metric["against"] != "over"
    ]
    assert len(drawn) + 1 == len(tree.findall(f"{SVG}circle"))


@pytest.mark.parametrize(
    ("quick_run", "load", "expected"),
    [
        (False, 0.6, None),
        (False, None, None),
        (True, 0.6, "Quick: the numbers mean nothing."),
        (False, 0.7, "Other programs were at work when it began (load 0.7)."),
    ],
)
def test_the_picture_warns_as_the_table_does(quick_run, load, expected, quick):
    """It goes by itself: who sees it on a page has no table beside it."""
    told = warned(restored(quick[1]), quick_run, load)
    tree = ET.fromstring(picture(told))
    warning = [text.text for text in tree.findall(f"{SVG}text")][-1]
    assert (expected is not None) == ("Quick: " in table(told) or "Other prog" in table(told))
    assert expected == (None if "CPython" in warning else warning)


def warned(results, quick_run, load):
    """Results of a run that was quick, or beside others, on a machine of two cores."""
    machines = [{**machine, "cores": 2, "load": load} for machine in results.machines]
    return replace(results, plan={**results.plan, "quick": quick_run}, machines=machines)


@pytest.mark.parametrize("quick_run", [False, True])
def test_every_text_of_the_picture_has_room(quick_run, quick):
    """With all loaders and works the labels stay within the picture and off each other."""
    told = warned(restored(quick[1]), quick_run, 12.3 if quick_run else 0.0)
    every = {name: loaders.loader(name).TITLE for name in loaders.NAMES}
    full = replace(told, titles=every, versions=dict.fromkeys(every, "1.0"), works=list(filled()))
    tree = ET.fromstring(picture(full))
    width, height = (float(tree.get(name)) for name in ("width", "height"))
    boxes = []
    for text in tree.findall(f"{SVG}text"):
        # 6.6 units a character of 12 is above what the fonts in use take on average.
        size = (9 if text.get("class") == "title" else 6.6) * len(text.text)
        x, y = float(text.get("x")), float(text.get("y"))
        left = x - {"start": 0.0, "middle": size / 2, "end": size}[text.get("text-anchor")]
        boxes.append((left, y - 10, left + size, y + 2, text.text))
        assert (0, 10) <= (left, y), text.text
        assert left + size <= width, text.text
        assert y <= height, text.text
    for one, other in itertools.combinations(boxes, 2):
        apart = one[2] <= other[0] or other[2] <= one[0] or one[3] <= other[1] or other[3] <= one[1]
        assert apart, (one[4], other[4])


def filled():
    """Every work with every loader, all at their limit."""
    for name in EVERY:
        kind = works.work(name)
        shown = {metric.name: Shown(7e9, 1.0, 0.0) for metric in kind.METRICS}
        rows = [Row(one, "CPython 3.11.7", shown=shown) for one in loaders.NAMES]
        cases = [CaseResult(case.name, {}, rows) for case in fixed_cases(kind)]
        yield WorkResult(name, kind.SHORT, kind.TITLE, kind.LIMIT, list(kind.METRICS), cases)


def fixed_cases(kind):
    """The full cases of a work, whatever this machine's speed is."""
    with pytest.MonkeyPatch.context() as patch:
        if hasattr(kind, "rounds_of"):
            patch.setattr(kind, "rounds_of", lambda work, milliseconds: 1)
        return kind.cases(quick=False)


@pytest.mark.parametrize("name", EVERY)
def test_a_work_says_all_that_it_promises(name):
    """Its cases differ in name, its options are JSON, and its limit gives every metric."""
    kind = works.work(name)
    for cases in (kind.cases(quick=True), fixed_cases(kind)):
        assert len(cases) == len({case.name for case in cases})
        assert [case.options for case in cases] == json.loads(
            json.dumps([case.options for case in cases])
        )
    if name == "jpeg":
        framework("PIL")
    case: Case = kind.cases(quick=True)[0]
    found = {"seconds": 0.0, "bytes": 0}
    options = {**case.options, "numpy": found, "imported": found, "package": "", "module": ""}
    if name == "gpu" and not framework("torch").cuda.is_available():
        with pytest.raises(Cannot):
            kind.limit(kind.job(options), options, 0.0)
        return
    told = kind.limit(kind.job(options), options, 0.0)
    assert {metric.name for metric in kind.METRICS} <= set(told)


def test_a_python_step_is_measured_told_and_by_default():
    """threadloader shortens the switch interval in the first case, and not in the second."""
    kind = works.work("train_gil")
    for cases in (kind.cases(quick=True), fixed_cases(kind)):
        configs = [config_of(kind.job(case.options))[0] for case in cases]
        assert ["auto", None] == [config.get("switch_interval") for config in configs]


@pytest.mark.parametrize(
    ("torch", "expected"),
    [
        (None, "expected torch with a CUDA device, found no torch"),
        ("0.fake", "expected a CUDA device, torch 0.fake sees none"),
    ],
)
def test_without_a_gpu_it_is_said_that_nothing_can_be_measured(torch, expected, monkeypatch):
    kind = works.work("gpu")
    cuda = SimpleNamespace(is_available=lambda: False)
    fake = torch and SimpleNamespace(__version__=torch, cuda=cuda)
    monkeypatch.setitem(sys.modules, "torch", fake)
    (case, _) = kind.cases(quick=True)
    made = kind.job(case.options)
    for ask in (partial(kind.measure, made, None), partial(kind.limit, made)):
        with pytest.raises(Cannot, match=expected):
            ask(case.options, 0.0)


def test_onto_a_gpu_pinning_is_asked_for_and_is_not():
    kind = works.work("gpu")
    for cases in (kind.cases(quick=True), fixed_cases(kind)):
        configs = [config_of(kind.job({**case.options, "quick": True}))[0] for case in cases]
        asked = [config.get("pin_memory", False) for config in configs]
        assert [case.options["pinned"] for case in cases] == asked
        assert [True, False] == asked[:2]


def test_the_scale_begins_without_workers():
    """There a batch costs what the loader does itself: order, slicing, info, stats."""
    kind = works.work("scale")
    for cases in (kind.cases(quick=True), fixed_cases(kind)):
        sizes = {case.options["samples"] for case in cases}
        alone = {case.options["samples"] for case in cases if case.options["workers"] == 0}
        assert sizes == alone


@pytest.mark.parametrize("name", EVERY)
def test_a_job_can_be_sent_to_another_process(name):
    """Where processes are not forked, a loader that has them pickles its job."""
    kind = works.work(name)
    if name == "jpeg":
        framework("PIL")
    made = kind.job(kind.cases(quick=True)[0].options)
    sent = pickle.loads(pickle.dumps(made))
    assert (len(made.source), made.workers) == (len(sent.source), sent.workers)


def test_torch_runs_where_it_is_declared():
    framework("torch")
    plan = Plan(works=("arrays", "cheap"), loaders=("torch",), quick=True, repeats=1, seconds=0.01)
    rows = [row for work in run(plan).works for case in work.cases for row in case.rows]
    assert {"ok"} == {row.status for row in rows}, [row.why for row in rows]


def printed(text):
    """Print a text as the tool does; here nothing keeps it from being written."""
    print(text)
    return 0


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--only", "nothing"], "--only: expected names of arrays, storage,"),
        (["--loaders", "pytorch"], "--loaders: expected names of threadloader, torch,"),
        (["--repeats", "0"], "--repeats: expected a number above 0, up to 86400, got 0"),
        (["--seconds", "inf"], "--seconds: expected a number above 0, up to 86400, got inf"),
        (["--timeout", "nan"], "--timeout: expected a number above 0, up to 86400, got nan"),
        (["--json", "/no/such/folder/x.json"], "--json: cannot write /no/such/folder/x.json"),
        (["--json", "."], "--json: cannot write ."),
        (["--json", "x" * 5000], "--json: cannot write xxx"),
        (["--json", ""], "--json: expected the name of a file, got ''"),
        (["--svg", "."], "--svg: cannot write ."),
        (["--svg", ""], "--svg: expected the name of a file, got ''"),
        (["--json", "x", "--svg", "./x"], "--svg: expected another file than --json, got ./x"),
        (["--also", ""], "--also: expected a Python interpreter, got ''"),
    ],
)
def test_what_cannot_be_is_said_before_anything_runs(arguments, told, capsys, monkeypatch):
    monkeypatch.setattr(suite, "run", None)
    assert 2 == suite.main(arguments, printed)
    assert told in capsys.readouterr().err


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="Windows has no such files")
def test_a_pipe_is_refused_as_by_the_bench(tmp_path, capsys, monkeypatch):
    """It would wait for its reader when all is measured."""
    monkeypatch.setattr(suite, "run", None)
    os.mkfifo(tmp_path / "pipe")
    assert 2 == suite.main(["--svg", str(tmp_path / "pipe")], printed)
    assert f"--svg: cannot write {tmp_path / 'pipe'}" in capsys.readouterr().err


def test_what_is_refused_leaves_no_file(tmp_path, monkeypatch):
    """One of the two can be written, and is not made; what stands in it already stays."""
    monkeypatch.setattr(suite, "run", None)
    new, old = tmp_path / "new.json", tmp_path / "old.json"
    old.write_text("{}", encoding="utf-8")
    for file in (new, old):
        assert 2 == suite.main(["--json", str(file), "--svg", str(tmp_path)], printed)
    assert [old] == list(tmp_path.iterdir())
    assert "{}" == old.read_text(encoding="utf-8")


@pytest.mark.parametrize("option", ["--json", "--svg"])
def test_no_file_but_its_own_is_replaced(option, tmp_path, capsys, monkeypatch):
    """Not a config, nor data of which there is no copy."""
    monkeypatch.setattr(suite, "run", None)
    (tmp_path / "train.json").write_text('{"batch_size": 32}', encoding="utf-8")
    assert 2 == suite.main([option, str(tmp_path / "train.json")], printed)
    assert f"{option}: expected a new name, or a file of the suite" in capsys.readouterr().err


def test_a_file_that_cannot_be_read_is_not_replaced(tmp_path, capsys, monkeypatch):
    def refused(path, *arguments, **options):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(suite, "run", None)
    (tmp_path / "out.json").write_text("{}", encoding="utf-8")
    monkeypatch.setattr(Path, "open", refused)
    assert 2 == suite.main(["--json", str(tmp_path / "out.json")], printed)
    assert "--json: expected a new name, or a file of the suite" in capsys.readouterr().err


def test_its_own_files_are_replaced(quick, tmp_path, monkeypatch):
    results, out = restored(quick[1]), [tmp_path / "out.json", tmp_path / "out.svg"]

    def measured(plan, tell, done):
        done(results)
        return results

    monkeypatch.setattr(suite, "run", measured)
    for _ in range(2):
        assert 0 == suite.main(["--json", str(out[0]), "--svg", str(out[1])], printed)


@pytest.mark.parametrize("stream", [None, "full"])
def test_what_cannot_be_told_ends_nothing(stream, monkeypatch):
    if stream:
        stream = SimpleNamespace(write=None, flush=None)
        stream.write = lambda text: (_ for _ in ()).throw(BrokenPipeError)
    monkeypatch.setattr(sys, "stderr", stream)
    suite._tell("1 of 5")


def test_an_interpreter_is_found_from_the_folder_in_which_it_was_named(tmp_path, monkeypatch):
    """The runs have another one; a name without a folder is looked up in the PATH."""
    monkeypatch.chdir(tmp_path)
    asked = suite.parser().parse_args(["--also", "venv/bin/python", "--also", "python3.13"])
    expected = (sys.executable, str(tmp_path / "venv/bin/python"), "python3.13")
    assert expected == suite.plan_of(asked).pythons


def test_another_loader_is_not_timed_where_it_closes_nothing():
    close = works.work("close")
    options = {"closes": 1, "workers": 0, "package": "torch"}
    with pytest.raises(Cannot, match="nothing of it is closed here"):
        close.measure(close.job(options), None, options, 1.0)


def test_an_interpreter_that_is_none_is_bad_usage(tmp_path, capsys):
    """It is found out when it is asked what it has, before anything is measured."""
    none = str(tmp_path / "python")
    asked = ["--quick", "--only", "close", "--loaders", "threadloader", "--also", none]
    assert 2 == suite.main(asked, printed)
    said = capsys.readouterr().err
    assert f"{none}: expected a Python interpreter with numpy: no process could be started" in said


@pytest.fixture
def disk(monkeypatch):
    """Gives a list that says for each write of a JSON file whether the disk is full by then."""
    full = []

    def write_text(path, text, encoding):
        if ".json" in path.name and full.pop(0):
            with path.open("w", encoding=encoding) as file:
                file.write(text[:10])
            raise OSError(28, "No space left on device")
        with path.open("w", encoding=encoding) as file:
            return file.write(text)

    monkeypatch.setattr(Path, "write_text", write_text)
    return full


@pytest.mark.parametrize(
    ("full", "code", "told"),
    [([True, True], 2, 1), ([False, True], 2, 1), ([True, False], 0, 1), ([False, False], 0, 0)],
    ids=str,
)
def test_a_file_that_can_be_written_no_more_is_told_once(
    full, code, told, disk, quick, tmp_path, capsys, monkeypatch
):
    """What is measured goes on; its table, the other file and what was written before are there."""
    results, (out, svg) = restored(quick[1]), (tmp_path / "out.json", tmp_path / "out.svg")
    disk[:] = full

    def measured(plan, tell, done):
        for _ in full:
            done(results)
        return results

    monkeypatch.setattr(suite, "run", measured)
    assert code == suite.main(["--json", str(out), "--svg", str(svg)], printed)
    said = capsys.readouterr()
    line = f"tools/bench --suite: --json: cannot write {out}: No space left on device\n"
    assert (line * told, table(results) + "\n") == (said.err, said.out)
    assert svg.exists()
    assert all(full) or json.loads(out.read_text(encoding="utf-8"))["format"]
    assert {"out.json", "out.svg"} >= set(os.listdir(tmp_path))


def test_a_picture_with_nothing_in_it_is_told_and_not_written(quick, tmp_path, capsys, monkeypatch):
    """Of the works that are asked for by name no number is drawn; the JSON has them all."""
    beside = [work for work in filled() if work.name in works.BESIDE]
    results = replace(restored(quick[1]), works=beside)
    out, svg = tmp_path / "out.json", tmp_path / "out.svg"

    def measured(plan, tell, done):
        done(results)
        return results

    monkeypatch.setattr(suite, "run", measured)
    monkeypatch.setattr(suite, "table", lambda results: "")
    assert 0 == suite.main(["--json", str(out), "--svg", str(svg)], printed)
    kinds = ", ".join(works.BESIDE)
    said = f"tools/bench --suite: --svg: nothing of {kinds} to draw: {svg} is not written\n"
    assert said == capsys.readouterr().err
    assert (True, False) == (out.exists(), svg.exists())


def test_a_table_that_cannot_be_printed_is_told_by_the_exit_code(quick, tmp_path, monkeypatch):
    """And what was asked for is written all the same."""
    results, out = restored(quick[1]), tmp_path / "out.json"

    def measured(plan, tell, done):
        done(results)
        return results

    monkeypatch.setattr(suite, "run", measured)
    assert 2 == suite.main(["--json", str(out)], lambda text: 2)
    assert out.exists()


def test_nothing_that_could_be_run_is_told_by_the_exit_code(quick, monkeypatch):
    """As the works with Pillow or CUDA where these are missing: their table has dashes alone."""
    results = restored(quick[1])
    rows = [Row(name, "", status="cannot", why="x") for name in ("limit", "threadloader")]
    works = [replace(results.works[0], cases=[replace(results.works[0].cases[0], rows=rows)])]
    monkeypatch.setattr(suite, "run", lambda plan, tell, done: replace(results, works=works))
    assert 2 == suite.main([], printed)


def test_the_docs_name_what_is_measured_only_by_name():
    text = (Path(__file__).parent.parent / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    *first, last = (f"`{name}`" for name in works.BESIDE)
    named = f"{', '.join(first)} and {last}"
    assert f"| all but {named} | the kinds of work |" in text
    assert f"nothing that was measured is drawn, as of {named}, a line" in text


def test_a_system_that_makes_no_process_is_told(capsys, monkeypatch):
    """It takes a folder for the answer, for which the disk may have no space."""

    def full(plan, tell, done):
        raise OSError(28, "No space left on device", "answer")

    monkeypatch.setattr(suite, "run", full)
    assert 2 == suite.main([], printed)
    assert "No space left on device: 'answer'" in capsys.readouterr().err


# The house.


def test_a_package_is_imported_by_its_own_file_alone():
    """No file of the suite imports a loader's package, or Pillow, but the one that is for it."""
    theirs = {name: loaders.loader(name).MODULE.partition(".")[0] for name in loaders.NAMES}
    wrong = [
        (file.name, found)
        for file in sorted((ROOT / "benchmarks").rglob("*.py"))
        for found in imported(file) & set(theirs.values())
        if file.parent.name != "loaders" or found != theirs[file.stem]
    ]
    assert [] == wrong


def imported(file):
    """The packages that a file imports, at its top or later."""
    found = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            found.add(node.module.partition(".")[0])
    return found


def test_every_file_of_works_and_loaders_is_listed():
    for room, names in ((works, EVERY), (loaders, loaders.NAMES)):
        folder = Path(room.__file__).parent
        assert {path.stem for path in folder.glob("*.py")} - {"__init__"} == set(names)
