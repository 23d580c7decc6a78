# ===- test_readme.py - The front page is short ----------------------------===#
#
# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------===#
"""README.md has at most 120 lines. Sentences of most pages and of the package's docstrings have at
most 25 words.

Handwritten pages have at most 4,500 lines in all. Pages that scripts write are current.
"""

import ast
import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
GENERATED = {"FP8MoEDialect.md", "KernelDialect.md", "PlanDialect.md", "Passes.md"}
FOLDERS = ("users", "design", "reference")
PAGES = [ROOT / name for name in ("README.md", "docs/README.md")]
PAGES += [page for folder in FOLDERS for page in sorted((ROOT / "docs" / folder).glob("*.md"))]

# The end of a sentence, which may be in bold or in brackets.
END = re.compile(r"(?<=[.:!?])\s+|(?<=[.:!?]\*\*)\s+|(?<=[.:!?]\))\s+")


def sentences(text):
    """Returns the sentences of prose, without code, tables and pictures. The text of a link counts,
    its target does not.
    """
    text = re.sub(r"```[\s\S]*?```|<table>[\s\S]*?</table>|^\|.*$|^#.*$|!\[.*?\]\(.*?\)|<!--.*?-->", "\n\n", text, flags=re.MULTILINE)
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
    for paragraph in re.split(r"\n\s*\n|^\s*[*-] ", text, flags=re.MULTILINE):
        yield from (s for s in END.split(" ".join(paragraph.split())) if s)


def test_length():
    assert len((ROOT / "README.md").read_text().splitlines()) <= 120


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_sentences(page):
    assert [s for s in sentences(page.read_text()) if len(s.split()) > 25] == []


def docstrings(path):
    """Yields the docstrings of a Python file, without code in them."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            yield re.sub(r"^    .*$", "\n", ast.get_docstring(node) or "", flags=re.MULTILINE)


def test_sentences_of_docstrings():
    files = sorted((ROOT / "python-bindings/fp8moe").rglob("*.py"))
    long = [(path.name, s) for path in files for text in docstrings(path) for s in sentences(text) if len(s.split()) > 25]
    assert files and long == []


def test_sentences_are_counted():
    text = "# Long heading here\n\nOne [two](x.md) three. **Four\nfive.** (Five.) 5.\n\n* Six.\n* Seven eight\n\n```\nnot this\n```\n| nor | this |\n"
    assert list(sentences(text)) == ["One two three.", "**Four five.**", "(Five.)", "5.", "Six.", "Seven eight"]


def test_pages_are_few():
    pages = [p for p in (ROOT / "docs").rglob("*.md") if p.parent.name not in ("lab", "results") and p.name not in GENERATED]
    assert sum(len(page.read_text().splitlines()) for page in pages) <= 4500


def figures(text, pattern):
    """Returns the figures of prose and tables, without code, pictures and the rows that results.py
    writes.
    """
    text = re.sub(r"<!-- results: .*?results end -->|```.*?```|!\[.*?\]", "", text, flags=re.DOTALL)
    return set(re.findall(pattern, text))


def test_figures_stand_in_one_place():
    """Measured ratios are only in docs/results and docs/lab. Every other figure is on one page."""
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    places = {}
    for page in pages:
        if page.parent.name == "lab" or page.name.endswith("Dialect.md"):
            continue
        if page.parent.name != "results":
            assert figures(page.read_text(), r"(?<![\w.,])\d+\.\d\d+x\b") == set(), page
        for figure in figures(page.read_text(), r"(?<![\w.,])\d[\d,.]*\d (?:us|ms|TFLOP/s|GiB)\b"):
            places.setdefault(figure, []).append(str(page.relative_to(ROOT)))
    assert {figure: found for figure, found in places.items() if len(found) > 1} == {}


def test_figures_are_found():
    text = "![1.23x](a.svg) 4.56x, 2.5x, 78 us and 1,234.5 us\n```\n9.99x\n```\n"
    assert figures(text, r"(?<![\w.,])\d+\.\d\d+x\b") == {"4.56x"}
    assert figures(text, r"(?<![\w.,])\d[\d,.]*\d (?:us|ms|TFLOP/s|GiB)\b") == {"78 us", "1,234.5 us"}


def test_results_are_added(tmp_path, monkeypatch):
    """Rows of a benchmark's JSON replace those of a topic. Its title, text and commands stay."""
    spec = importlib.util.spec_from_file_location("results", ROOT / "scripts/results.py")
    results = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(results)
    monkeypatch.setattr(results, "DATA", tmp_path)
    (tmp_path / "h100").mkdir()
    (tmp_path / "h100/linear.json").write_text(json.dumps({"title": "Dense", "commands": ["run"], "columns": ["a"], "rows": [[1]]}))
    (tmp_path / "saved.json").write_text(json.dumps([{"shape": [1, 2], "us": {"ours": 3.5, "torch": 7.0}}]))
    results.add(tmp_path / "saved.json", "h100/linear", "2026-11-30")
    about = json.loads((tmp_path / "h100/linear.json").read_text())
    assert about["columns"] == ["shape", "us ours", "us torch"]
    assert about["rows"] == [["1,2", 3.5, 7.0]]
    assert (about["title"], about["commands"], about["date"]) == ("Dense", ["run"], "2026-11-30")


@pytest.mark.parametrize("script", ["results.py", "drawings.py"])
def test_what_scripts_write_is_current(script):
    result = subprocess.run([sys.executable, ROOT / "scripts" / script, "--check"], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
