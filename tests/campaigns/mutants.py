"""The campaign `mutants`: small changes, drawn from the whole library, that its tests must see.

    python3 tools/campaign mutants --count 500 --seed 1
    python3 tools/campaign mutants --only threadloader/order --count 100

A mutant is one place of one file changed: another comparison, `and` for `or`, a condition turned
round, a number off by one, another operator, a call that is not made, an error that is not raised,
a result that is not given. The tests of the room in which it lies run on a copy of the repository,
and count as having seen it when one fails, when they do not end within the limit, or when nothing
can be imported. What no test sees is listed: a gap, or a mutant that does the same by another way,
as where a bound is chosen for speed. (R. DeMillo, R. Lipton and F. Sayward, "Hints on test data
selection", 1978.)

The last line says how many were seen; the exit code is 1 if fewer than `--least` in a hundred were.
"""

import argparse
import ast
import copy
import os
import random
import sys
from collections.abc import Callable, Iterator
from typing import NamedTuple

from .cases import some
from .planted import ROOT, Change, run

TESTS = {
    "__init__.py": "imports random_state",
    "_stdout.py": "stdout cli verify_command",
    "_children.py": "children verify_processes bench bench_processes bench_run",
    "_exit.py": "cli tools tools_env verify_command verify_processes bench bench_processes",
    "_command_line.py": "callables check_code cli children verify_command verify_processes bench"
    " bench_child",
    "_runtime.py": "engine* letting_go stall loader* waiting closing_again",
    "_schema.py": "schema config config_read config_text check",
    "_messages.py": "log check* cli bench* verify_command verify_failures",
    "_dry_run.py": "check* cli sampling_commands terminal log config_fuzz",
    "_first_batch.py": "check_batch check_code terminal log",
    "adapters/_image_checks": "images image_values",
    "adapters/launcher": "launcher",
    "adapters/torch_loader": "torch_loader bench bench_child",
    "adapters/torch_pin": "pin pin_failing pin_memory pin_settings",
    "bench/": "bench* torch_loader",
    "buffers.py": "buffers* take_into rows pieces",
    "cache/": "cache* caching open_files",
    "cli.py": "check* cli terminal tools tools_env",
    "collate/": "collate* rows take_into masking_loader loader loader_errors loader_given",
    "config/": "config config_bytes config_read config_text config_hints check cli log terminal",
    "engine/": "engine* finishing inline letting_go stall waiting interrupts event_loop log_thread"
    " forks loader* simulated protocol",
    "errors/": "errors failure* callables own_handlers changed_handlers inline open_files imports"
    " loader* state_replaced",
    "fingerprint.py": "fingerprint stamp verify verify_differences verify_plan",
    "jobs/": "on_error* no_sample_at_fault quarantine loader* take_into pieces no_label max_bytes"
    " failure* fingerprint",
    "loader/": "loader* resume* skip_steps on_error* no_sample_at_fault quarantine* sampling*"
    " excluded choice series* pace onward lifecycle failure* stall caching fingerprint replaced"
    " max_bytes switching imports",
    "lookup.py": "lookup sampling_commands",
    "masking/": "masking* hiding",
    "order/": "order philox order_exhaustive sampling sampling_lengths excluded lookup oracle",
    "quarantine.py": "quarantine* sampling_config excluded",
    "samplers/": "samplers* sampling* excluded",
    "sizes.py": "sizes max_bytes",
    "sources/": "sources arrays columns take take_into per_thread* source_fingerprint open_files"
    " damaged_files loader*",
    "sources/_array": "arrays sources columns",
    "sources/_csv": "csv* columns damaged_files",
    "sources/_decode": "files_decode images tar",
    "sources/_files": "open_files file_reader npy* text tokens jsonl csv csv_rows damaged_files",
    "sources/_index": "line_index* jsonl text csv csv_rows",
    "sources/_label": "columns files files_labels npy_opening no_label",
    "sources/_line": "line_index* jsonl text csv csv_rows damaged_files",
    "sources/_named": "named_files npz* text own_handlers files*",
    "sources/_npy": "npy* npz* files_decode columns damaged_files",
    "sources/_npz": "npz* columns damaged_files",
    "sources/_path": "sources files* tokens",
    "sources/_open_file": "sources files* open_files log check",
    "sources/_spelling": "files",
    "sources/_sqlite": "sqlite* no_sample_at_fault",
    "sources/_stamp": "stamp caching",
    "sources/csv": "csv* columns damaged_files",
    "sources/files": "files* columns damaged_files",
    "sources/jsonl": "jsonl columns line_index* damaged_files",
    "sources/npy": "npy* columns damaged_files",
    "sources/npz": "npz* columns damaged_files",
    "sources/sqlite": "sqlite* columns damaged_files",
    "sources/_sqlite_database": "sqlite* columns damaged_files",
    "sources/tar": "tar* columns damaged_files",
    "sources/_tar": "tar* damaged_files",
    "sources/text": "text line_index* damaged_files",
    "sources/tokens": "tokens damaged_files",
    "state/": "state* resume* skip_steps sampling sampling_callable sampling_lengths excluded"
    " on_error",
    "stats/": "stats loader loader_stats loader_errors loader_groups caching",
    "transforms.py": "transforms* loader_given",
    "verify/": "verify*",
}
"""Of files whose names begin so: the tests that are to see what is wrong in them, as for `glob`."""

OPERATORS: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.And: ast.Or,
    ast.Or: ast.And,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}


class Mutant(NamedTuple):
    """A mutant.

    Attributes:
        file: the file, from the root of the repository.
        line: where it begins there, from 1.
        old: the code that is changed.
        new: what stands there instead.
        text: the whole file with it.
    """

    file: str
    line: int
    old: str
    new: str
    text: str

    def change(self) -> Change:
        """Give it as what `run` plants: with the tests of its room."""
        key = _key(self.file)
        says = f"{self.file}:{self.line}: `{_line(self.new)}` for `{_line(self.old)}`"
        folder, names = ROOT / "tests", TESTS[key].split()
        found = [sorted(folder.glob(f"test_{name}.py")) for name in names]
        tests = tuple(file.relative_to(ROOT).as_posix() for files in found for file in files)
        return Change(says, self.file, self.text, tests, runs=False)


def _key(file: str) -> str:
    """Give the longest key of `TESTS` with which a file's name in the package begins; "": none."""
    name = file.partition("/")[2]
    return max(filter(name.startswith, TESTS), key=len, default="")


def _line(code: str) -> str:
    short = " ".join(code.split())
    return short if len(short) <= 100 else short[:97] + "..."


def mutants_of(file: str, text: str) -> Iterator[Mutant]:
    """Give each mutant of a file.

    Args:
        file: its name.
        text: what stands in it.
    """
    lines = text.encode().splitlines(keepends=True)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    whole = b"".join(lines)
    for node in _code(ast.parse(text)):
        first = starts[node.lineno - 1] + node.col_offset
        last = starts[node.end_lineno - 1] + node.end_col_offset
        old = whole[first:last].decode()
        for new in _changed(node):
            changed = whole[:first] + new.encode() + whole[last:]
            yield Mutant(file, node.lineno, old, new, changed.decode())


def _code(tree: ast.AST) -> Iterator[ast.expr | ast.stmt]:
    """Give the expressions and statements of a file that do something when it runs.

    Left out are annotations, defaults of arguments, what only a type checker reads, texts and
    what is formatted into them: messages are looked at by readers.
    """
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, (ast.JoinedStr, ast.arguments)):
            continue
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("cast", "TypeVar"):
            continue
        if isinstance(node, ast.AnnAssign):
            if node.value is not None:
                yield from _code(ast.Expression(node.value))
            continue
        if isinstance(node, (ast.expr, ast.stmt)):
            yield node
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            for statement in node.body:
                yield from _code(ast.Module([statement], []))
        else:
            yield from _code(node)


def _changed(node: ast.expr | ast.stmt) -> Iterator[str]:
    """Give the code of each change of one node."""
    match node:
        case ast.Compare(ops=[operator]) if type(operator) in OPERATORS:
            yield _with(node, lambda it: it.ops.__setitem__(0, OPERATORS[type(operator)]()))
        case ast.BoolOp(op=operator) | ast.BinOp(op=operator) if type(operator) in OPERATORS:
            yield _with(node, lambda it: setattr(it, "op", OPERATORS[type(operator)]()))
        case ast.AugAssign(op=operator) if type(operator) in OPERATORS:
            yield _with(node, lambda it: setattr(it, "op", OPERATORS[type(operator)]()))
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield f"({ast.unparse(operand)})"
        case ast.Constant(value=bool(value)):
            yield str(not value)
        case ast.Constant(value=int(value) | float(value)):
            yield str(value + 1)
        case ast.IfExp(test=test):
            yield _with(node, lambda it: setattr(it, "test", ast.UnaryOp(ast.Not(), test)))
        case ast.Return(value=value) if value is not None and ast.unparse(value) != "None":
            yield "return None"
        case ast.Expr(value=ast.Call()) | ast.Raise() | ast.Delete():
            yield "pass"
        case ast.Break():
            yield "continue"
        case ast.Continue():
            yield "break"


def _with(node: ast.AST, change: Callable[..., object]) -> str:
    """Give the code of a node of which a copy is changed."""
    changed = copy.deepcopy(node)
    change(changed)
    code = ast.unparse(changed)
    return f"({code})" if isinstance(node, ast.expr) else code


def drawn(only: str, count: int, seed: int) -> list[Mutant]:
    """Draw mutants of the library, each as likely as any.

    Args:
        only: how the names of the files begin.
        count: how many, or all that there are.
        seed: of the draw.
    """
    names = sorted(path.relative_to(ROOT).as_posix() for path in ROOT.glob("threadloader/**/*.py"))
    found = [
        mutant
        for name in names
        if name.startswith(only) and _key(name)
        for mutant in mutants_of(name, (ROOT / name).read_text(encoding="utf-8"))
    ]
    return random.Random(seed).sample(found, min(count, len(found)))


def main(args: list[str]) -> int:
    """Give the exit code."""
    parser = argparse.ArgumentParser("tools/campaign mutants", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    processors = os.cpu_count() or 1
    parser.add_argument("--only", default="", help="files whose names begin so, from the root")
    parser.add_argument("--count", type=some, default=100, help="how many are drawn (100)")
    parser.add_argument("--seed", type=int, default=0, help="of the draw (0)")
    parser.add_argument("--least", type=float, default=90, help="percent that must be seen (90)")
    parser.add_argument("--processes", type=some, default=processors, help=f"({processors})")
    parser.add_argument("--limit", type=some, default=300, help="seconds for the tests (300)")
    options = parser.parse_args(args)
    changes = [mutant.change() for mutant in drawn(options.only, options.count, options.seed)]
    if not changes:
        parser.error(f"--only: expected the beginning of a file's name, got {options.only!r}")
    try:
        seen = run("mutants", changes, options.processes, options.limit, whole=False)
    except KeyboardInterrupt:
        return 130
    return 0 if seen.good and 100 * seen.caught >= options.least * len(changes) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
