"""What the documents say is so: their code runs, their configs load, their links lead somewhere.

How the documents are written, for this to work:

- A ``json`` block whose first line is ``// name.json`` is that file for the other blocks of its
  document; ``// name.json#/section`` says that the config is this section of it.
- A ``python`` block stands by itself. A ``text`` block right behind it is what it prints.
- A ``json`` block may name files that the ``python`` blocks before it make.
- A block that imports an optional package, or has images decoded, runs where that is declared.
- In a ``console`` block ``$ cat FILE`` makes the file of what follows, and what follows the
  other commands is what they print; files are in ``/data``.
- `FILES` are the other files that blocks may name: those of a checkout.

Longer than other files: all that is held against the documents stands together.
"""

import functools
import json
import os
import platform
import re
import runpy
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from configs import read_config
from frameworks import framework
from tool_scripts import loaded

import threadloader
from threadloader import Loader, engine
from threadloader._runtime import Runtime
from threadloader.cli import main
from threadloader.loader._pace import GROUP_SECONDS, GROUPS_AHEAD
from threadloader.loader._recipe import GATHER_BYTES, GROUP_BYTES, GROUP_MOST, PIECE_BYTES
from threadloader.loader._switching import AUTO_SECONDS

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "threadloader"
DOCUMENTS = [
    *sorted(ROOT.glob("*.md")),
    *sorted(ROOT.glob("docs/**/*.md")),
    *sorted(ROOT.glob("examples/**/*.md")),
]
SCHEMA = json.loads((ROOT / "config_schema.json").read_text(encoding="utf-8"))
README = (ROOT / "README.md").read_text(encoding="utf-8")
TUNING = (ROOT / "docs" / "tuning.md").read_text(encoding="utf-8")


FILES = {
    "digits.npz": functools.partial(shutil.copy, ROOT / "examples" / "data" / "digits.npz"),
}

OPTIONAL = ("torch", "jax", "PIL", "sklearn", "tokenizers", "h5py")


@dataclass(frozen=True)
class Block:
    """A fenced block of a document; `output` is the ``text`` block right behind it, if any."""

    document: Path
    line: int
    kind: str
    text: str
    output: str | None

    def __str__(self):
        return f"{self.document.name}:{self.line}"

    @property
    def file(self):
        """The file, perhaps with a section, that a ``json`` block names."""
        named = re.match(r"// (\S+\.json\S*)\n", self.text)
        return named[1] if named else ""


def blocks_of(document):
    """Lists the fenced blocks of a document."""
    text = document.read_text(encoding="utf-8")
    fences = re.compile(
        r"^```(\w*)\n(.*?)^```\n(?:\n```text\n(.*?)^```$)?", re.DOTALL | re.MULTILINE
    )
    return [
        Block(document, text.count("\n", 0, match.start(2)) + 1, *match.groups())
        for match in fences.finditer(text)
    ]


BLOCKS = [block for document in DOCUMENTS for block in blocks_of(document)]


def of_kind(*kinds, naming=""):
    """Parametrizes a test by the blocks of some kinds, perhaps only those that name something."""
    chosen = [block for block in BLOCKS if block.kind in kinds and naming in block.text]
    return pytest.mark.parametrize("block", chosen, ids=map(str, chosen))


@pytest.fixture
def folder(block, tmp_path, monkeypatch):
    """The current folder of a block: it has the files that its document may name."""
    monkeypatch.chdir(tmp_path)
    for name, write in FILES.items():
        write(tmp_path / name)
    for other in BLOCKS:
        if other.document == block.document and other.file:
            name = other.file.partition("#")[0]
            (tmp_path / name).write_text(other.text, encoding="utf-8")
    return tmp_path


def needed(block):
    """Skips a test where an optional package that its block needs is not declared."""
    for name in OPTIONAL:
        if re.search(rf"^ *(?:import|from) {name}\b", block.text, re.MULTILINE):
            framework(name)
    if block.kind != "python" and re.search('"decode".*"image"', block.text):
        framework("PIL")


def run(block, folder):
    """Runs a python block as a script in the current folder."""
    script = folder / f"{block.document.stem}_{block.line}.py"
    # The empty lines give a traceback the line numbers of the document.
    script.write_text("\n" * (block.line - 1) + block.text, encoding="utf-8")
    runpy.run_path(str(script), run_name="__main__")


@of_kind("python")
def test_a_python_block_runs(block, folder, capsys):
    """Each python block runs by itself and prints the text block that stands right behind it."""
    needed(block)
    run(block, folder)
    printed = capsys.readouterr()
    assert "" == printed.err
    if block.output is not None:
        assert block.output == printed.out


@of_kind("json", "jsonc")
def test_a_json_block_is_a_config(block, folder):
    """Each json block is accepted, as the section that its first line names if it names one."""
    name = block.file
    if not name:
        name = "unnamed.json"
        (folder / name).write_text(block.text, encoding="utf-8")
    read_config(name, unknown="ignore" if "#" in name else "error", source_in_code=True)


@of_kind("json", "jsonc", naming='"source": {')
def test_a_config_with_a_source_gives_a_batch(block, folder, capsys):
    """A json block that names a source can be pasted: it is entered, and gives a first batch.

    On a page under docs/ the python blocks before it make the files that it names.
    """
    needed(block)
    page = [other for other in BLOCKS if other.document == block.document]
    for other in page if "docs" in block.document.parts else []:
        if other.kind == "python" and other.line < block.line:
            needed(other)
            run(other, folder)
    name = block.file or "unnamed.json"
    (folder / name.partition("#")[0]).write_text(block.text, encoding="utf-8")
    with Loader(name, unknown="ignore" if "#" in name else "error") as batches:
        assert next(iter(batches)) is not None
    assert "" == capsys.readouterr().err


def test_every_kind_of_source_has_its_page():
    """docs/sources/ has a page with a pasteable config for each kind that the schema knows."""
    kinds = {
        choice["properties"]["type"]["const"]
        for choice in SCHEMA["properties"]["source"]["anyOf"]
        if choice["type"] == "object"
    }
    assert kinds == {page.stem for page in (ROOT / "docs" / "sources").glob("*.md")}
    told = {
        (block.document.stem, re.search(r'"type": "(\w+)"', block.text)[1])
        for block in BLOCKS
        if block.kind == "json" and block.document.parent.name == "sources"
    }
    assert {(kind, kind) for kind in kinds} == told


@of_kind("console")
def test_a_console_block_is_what_the_command_prints(block, folder, capsys):
    """Each command of a console block prints what follows it, and ends with the code shown."""
    first, *steps = re.split(r"^\$ ", block.text, flags=re.MULTILINE)
    assert "" == first
    code = 0
    for step in steps:
        line, _, expected = step.partition("\n")
        command, *arguments = shlex.split(line)
        if command == "cat":
            (folder / arguments[0]).write_text(expected, encoding="utf-8")
            continue
        if command == "echo":
            assert ["$?"] == arguments
            printed = f"{code}\n"
        else:
            code = main([{"tools/checkcfg": "check", "tools/order": "order"}[command], *arguments])
            out, err = capsys.readouterr()
            printed = (err + out).replace(str(folder) + os.sep, "/data/")
        assert expected == printed


def without_code(document):
    """The text of a document without its fenced blocks."""
    return re.sub(r"^```.*?^```", "", document.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)


def anchors(document):
    """The anchors that GitHub gives to the headings of a document."""
    headings = re.findall(r"^#+ (.+)$", without_code(document), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in headings}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda document: document.name)
def test_links_lead_somewhere(document):
    """Every link within the repository names a file that exists and a heading that it has."""
    dead = []
    for link in re.findall(r"\]\(([^)\s]+)\)", without_code(document)):
        name, _, anchor = link.partition("#")
        target = document.parent / name if name else document
        if link.startswith("https://"):
            continue
        if not target.exists() or (anchor and anchor not in anchors(target)):
            dead.append(link)
    assert [] == dead


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda document: document.name)
def test_files_named_in_passing_exist(document):
    """Every path in backticks that begins with a folder of the repository exists."""
    folders = r"(?:threadloader|benchmarks|tools|tests|examples|docs|\.ci)/[\w./]*"
    named = re.findall(rf"`(?:python3? )?({folders})[^`]*`", without_code(document))
    made = {"examples/data/topics.txt"}
    assert set() == {name for name in named if not (ROOT / name).exists()} - made


@pytest.fixture
def tool(monkeypatch):
    """tools/readme as a module; what it puts on the path of imports goes again."""
    monkeypatch.setattr(sys, "path", sys.path[:])
    return loaded("readme")


def test_the_tables_of_options_are_those_of_the_schema(tool):
    """README.md holds the tables that tools/readme makes of config_schema.json."""
    assert README == tool.with_tables(README, tool.tables(SCHEMA))
    for again in (README + tool.BEGIN, README + tool.END):  # what is theirs is not plain then
        assert tool.with_tables(again, []) is None


def objects(schema):
    """Lists the options of an object of the schema, then those of each object inside it."""
    found = [schema["properties"]]
    for option in schema["properties"].values():
        for choice in option.get("anyOf", ()):
            if choice.get("type") == "object":
                found += objects(choice)
    return found


def test_every_option_is_in_the_tables():
    """Each object of the schema, nested ones too, has a table; each option a row, as it says."""
    made = README.partition("<!-- options")[2]
    told = [
        re.findall(r"^\| `([^`]+)` \|.* \| (.*) \|$", section, re.MULTILINE)
        for section in made.split("| option | type |")[1:]
    ]
    expected = [
        [(name, option["description"]) for name, option in options.items()]
        for options in objects(SCHEMA)
    ]
    assert expected == told


@pytest.mark.parametrize(
    ("text", "expected"), [("stale", 1), ("fresh", 0), ("written", 0), ("no markers", 1)]
)
def test_tools_readme_compares_and_writes(tool, text, expected, tmp_path, monkeypatch, capsys):
    """--check finds stale tables and changes nothing, without it they are written; both say so."""
    monkeypatch.setattr(tool, "ROOT", tmp_path)
    (tmp_path / "config_schema.json").write_text(json.dumps(SCHEMA), encoding="utf-8")
    readme = tmp_path / "README.md"
    stale = README.replace("| `seed` | integer |", "| `seed` | text |")
    before = {"fresh": README, "no markers": "# a title\n"}.get(text, stale)
    readme.write_text(before, encoding="utf-8", newline="\n")
    assert expected == tool.main([] if text == "written" else ["--check"])
    assert capsys.readouterr().out.startswith(("README.md: ", f"{readme}: "))
    after = README if text == "written" else before
    assert after == readme.read_text(encoding="utf-8")


def test_no_keyword_of_a_schema_is_passed_over_in_the_tables(tool):
    """An option with a keyword that the tables do not tell is refused by its name."""
    option = {"description": "A word.", "type": "string", "pattern": "a+"}
    with pytest.raises(SystemExit, match="word: no table tells pattern"):
        tool.tables({"properties": {"word": option}})


def test_readme_names_the_two_commands():
    """A reader of README.md finds the two commands, and what they run exists."""
    for command in ("tools/demo", "tools/test"):
        assert f"`python3 {command}`" in README
        assert (ROOT / command).exists()


def test_readme_tells_the_bands_of_data_wait():
    """Every band that the statistics know has its row in README.md."""
    for _, name in threadloader.stats.BANDS:
        assert f"| {name} |" in README
    assert f"| {threadloader.stats.band(1.0)} |" in README


def test_the_tuning_guide_quotes_what_bench_says():
    """Each sentence that docs/tuning.md explains is one that threadloader bench can print."""
    code = (PACKAGE / "bench" / "_choice.py").read_text(encoding="utf-8")
    code = re.sub(r'"\s*f?"', "", code)  # a sentence stands there in pieces
    quoted = re.findall(r'^\| "([^"]+)" \|', TUNING, re.MULTILINE)
    assert quoted
    assert [] == [sentence for sentence in quoted if sentence not in code]


def test_the_tuning_guide_says_how_far_ahead_groups_are_made():
    """The numbers of docs/tuning.md are those of the loader, and what stats() tells."""
    most, usual = GROUP_BYTES >> 20, GATHER_BYTES >> 20
    said = f"groups of up to {usual} MiB, of arrays in memory up to {most} MiB, and of "
    said += f"{GROUP_MOST} batches or {GROUP_SECONDS * 1000:g} ms of work at most "
    said += "(or twice the time of a call, whatever it is asked for). At least three "
    said += f"groups are ahead: with the one in your hands some {(GROUPS_AHEAD + 1) * usual} MiB, "
    said += f"or {(GROUPS_AHEAD + 1) * most}."
    assert said in " ".join(TUNING.split())
    bounds = [(GROUPS_AHEAD + 1) * size for size in (usual, most)]  # with what the loop is in
    ahead = f"up to some {bounds[0]} MiB of them, or {bounds[1]} MiB of arrays in memory."
    assert ahead in SCHEMA["properties"]["prefetch_batches"]["description"]
    with Loader({"batch_size": 1}, np.zeros((3 * GROUP_MOST, 8))) as batches:
        assert 3 * GROUP_MOST == batches.stats().prefetch_batches


def test_the_tuning_guide_says_what_a_kept_batch_keeps():
    """The bounds of a gather that docs/tuning.md names are those of the loader."""
    said = f"keeps all that was gathered with it: up to {GATHER_BYTES >> 20} MiB, and of arrays in "
    said += f"memory up to {PIECE_BYTES >> 20} MiB with neither workers nor `fingerprint`."
    assert f"*Batches that you keep.* Each {said}" in " ".join(TUNING.split())


@pytest.mark.parametrize(
    ("kind", "config", "most"),
    [
        *((kind, {}, PIECE_BYTES) for kind in ("array", "dict", "npz", "csv", "mapped")),
        *((kind, {}, GATHER_BYTES) for kind in ("npy", "tokens", "object")),
        ("array", {"fingerprint": True}, GATHER_BYTES),
        # So that the loop goes on leaving the batches to the worker.
        ("array", {"num_workers": 1, "stall_seconds": 60, "stall_action": "raise"}, GATHER_BYTES),
    ],
    ids=str,
)
def test_a_kept_batch_keeps_as_much_as_the_tuning_guide_says(
    tmp_path, monkeypatch, kind, config, most
):
    """Without workers, arrays in memory are gathered in pieces; all else is in groups."""
    monkeypatch.chdir(tmp_path)
    section, source = kept_source(kind)
    loader = Loader({"num_workers": 0, "batch_size": 1, **section, **config}, source)
    loader._runtime = Runtime()
    loader._runtime.monotonic = lambda: 0.0  # what takes long, on a busy machine, is not grouped
    with loader as batches:  # groups grow from epoch to epoch, up to their bound
        assert most == max(kept_bytes(batch) for epoch in batches.epochs(3) for batch in epoch)


def test_the_copies_of_the_tuning_guide_keep_only_themselves():
    """Of a dict they are those of its arrays, and only of a single array its own `copy`."""
    copy_dict, copy_array = re.search(r"`(\{name: [^`]*)`,\s+while\s`([^`]*)`", TUNING).groups()
    array = np.zeros((3, 9))  # the last two come together
    for source, code in (({"x": array}, copy_dict), (array, copy_array)):
        with Loader({"num_workers": 0, "batch_size": 1}, source) as batches:
            *_, batch = batches
        copied = eval(code, {"batch": batch})
        assert (72, True) == (kept_bytes(copied), 72 < kept_bytes(batch))


def kept_source(kind):
    """Give section and source of a loader whose groups and pieces get as large as they may."""
    array = np.zeros((64, 1 << 14), np.uint32)  # of 64 KiB a row
    if kind == "csv":
        rows = "0,0,0,0,0,0,0,0\n" * (1 << 15)
        Path("x.csv").write_text("a,b,c,d,e,f,g,h\n" + rows, encoding="utf-8")
        section = {"type": "csv", "path": "x.csv", "dtypes": {"*": "int64"}}
        return {"batch_size": 1 << 10, "source": section}, None
    if kind == "npz":
        np.savez("x.npz", x=array)
        return {"source": {"type": "npz", "path": "x.npz"}}, None
    if kind in ("npy", "mapped"):
        np.save("x.npy", array)
        return {"source": {"type": "npy", "path": "x.npy", "mmap": kind == "mapped"}}, None
    if kind == "tokens":
        array.tofile("x.bin")
        window = {"dtype": "uint32", "window": 1 << 14, "output": "stored"}
        return {"source": {"type": "tokens", "path": "x.bin", **window}}, None
    return {}, {"array": array, "dict": {"x": array}, "object": Rows(array)}[kind]


class Rows:
    """An object with `take` and `sample_bytes`."""

    sample_bytes = 64 << 10

    def __init__(self, array):
        self.array = array

    def __len__(self):
        return len(self.array)

    def __getitem__(self, index):
        return self.array[index]

    def take(self, indices):
        return self.array[indices]


def kept_bytes(batch):
    """Give the bytes of the memory that the arrays of a batch keep from being freed."""
    kept = 0
    for held in batch.values() if isinstance(batch, dict) else [batch]:
        size = 0
        while held is not None:  # a view keeps what it is a view of
            size, held = getattr(held, "nbytes", size), getattr(held, "base", None)
        kept += size
    return kept


@pytest.mark.parametrize(
    "document", ["README.md", "config_schema.json", "docs/design.md", "docs/tuning.md"]
)
def test_the_interval_of_auto_is_the_one_that_is_told(document):
    """Wherever the switch interval is said to be shortened, it is to that of the loader."""
    text = " ".join((ROOT / document).read_text(encoding="utf-8").split())
    told = re.findall(r"shorten\w* (?:the interval |that )?to ([\d.]+) ms", text)
    assert {f"{1000 * AUTO_SECONDS:g}"} == set(told)


def test_the_tuning_guide_tells_every_number():
    """Each name of stats().as_dict() stands in a row of the table in docs/tuning.md."""
    rows = TUNING.partition("| number |")[2].partition("\n\n")[0]
    numbers = threadloader.stats.Stats().as_dict()
    assert set() == {name for name in numbers if f"`{name}`" not in rows}


NUMPY_WORK = """
import resource
import numpy as np

def work():
    x = np.full(1 << 19, 1, np.float32)
    y = x * 2
    return (y + np.sqrt(x))[:10].copy()

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

for _ in range(20):
    work()
before = faults()
for _ in range(100):
    work()
print(faults() - before)
"""


@pytest.mark.skipif(
    platform.libc_ver()[0] != "glibc" or sys.maxsize < 2**32,
    reason="concerns the malloc of glibc with 64 bits",
)
def test_the_line_of_the_tuning_guide_keeps_memory():
    """With the lines of docs/tuning.md before it, numpy's work on 2 MiB touches no new pages."""
    section = TUNING.partition("## Memory that is given back\n")[2]
    lines = section.partition("```python\n")[2].partition("```")[0]

    def faults(first):
        """Count the page faults of a hundred calls in a new process that begins so."""
        code = f"{first}\n{NUMPY_WORK}"
        environment = {k: v for k, v in os.environ.items() if not k.startswith("MALLOC_")}
        run = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, check=True, env=environment
        )
        return int(run.stdout)

    without = faults("")
    assert without > 100  # with pages of 4 KiB 1,500 a call, with huge ones one or more
    assert faults(lines) < without / 10


def test_readme_tells_every_error():
    """Each exception of the tree is in README.md, with the builtin that it also is."""
    for name in threadloader.errors.__all__:
        kind = getattr(threadloader.errors, name)
        if name not in ("LoaderError", "Problem"):
            assert f"| `{name}` | `{kind.__mro__[2].__name__}` |" in README


def test_the_design_shows_every_room():
    """The table of rooms in docs/design.md names every file and folder of the package."""
    design = (ROOT / "docs" / "design.md").read_text(encoding="utf-8")
    rooms = {path.name for path in PACKAGE.glob("*.py")} - {"__init__.py", "__main__.py"}
    rooms |= {f"{path.parent.name}/" for path in PACKAGE.glob("*/__init__.py")}
    assert rooms == set(re.findall(r"^\| \[([^\]]+)\]", design, re.MULTILINE))


def test_the_design_names_guarantees_that_there_are():
    """Each G-number that a document cites stands in the engine's docstring."""
    stated = set(re.findall(r"^(G\d+)\.", engine.__doc__, re.MULTILINE))
    texts = [document.read_text(encoding="utf-8") for document in DOCUMENTS]
    cited = {number for text in texts for number in re.findall(r"\bG\d+\b", text)}
    assert set() == cited - stated
    assert cited
