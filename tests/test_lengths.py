"""A file holds one subject, and so few lines, or says at its top why it has more."""

import ast

import pytest
from tool_scripts import ROOT

MOST = {"threadloader": 300, "benchmarks": 300, "examples": 300, "tools": 300, "tests": 500}


@pytest.mark.parametrize("folder", MOST)
def test_a_longer_file_says_why(folder):
    """In its docstring, where it speaks of its length. Hidden files are those of tools."""
    texts = {
        name: path.read_text(encoding="utf-8")
        for path in sorted((ROOT / folder).rglob("*"))
        if path.is_file() and path.suffix in ("", ".py")
        if "/." not in (name := path.relative_to(ROOT).as_posix())
    }
    assert texts
    longer = [name for name, text in texts.items() if text.count("\n") > MOST[folder]]
    says = {name: ast.get_docstring(ast.parse(texts[name])) or "" for name in longer}
    silent = [n for n in longer if "300 lines" not in says[n] and "Longer than" not in says[n]]
    assert [] == silent
