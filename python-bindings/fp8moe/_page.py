# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Self-contained HTML pages, with light and dark colors, of compilations, plans and training runs. _svg.py draws their plots."""

from __future__ import annotations

import html
import os
from typing import Iterable, Sequence, Union

from ._folder import write

STYLE = """
:root { color-scheme: light dark; }
body { font: 15px/1.5 Helvetica, Arial, sans-serif; max-width: 1080px; margin: 2em auto; padding: 0 1em; }
table { border-collapse: collapse; margin: 1em 0; } td, th { text-align: left; padding: .2em 1em .2em 0; vertical-align: top; }
.bar { display: inline-block; height: .8em; background: #0b6e99; } .copy .bar, .bad .bar { background: #d9730d; }
.number { text-align: right; white-space: nowrap; } .good { color: #2f8f5b; } .bad { color: #d9730d; }
svg { max-width: 100%; height: auto; } code { font-size: 90%; }
"""


class Markup(str):
    """Text that is HTML already. Other text is escaped."""


def escape(text: object) -> Markup:
    return text if isinstance(text, Markup) else Markup(html.escape(str(text)))


def lines(texts: Iterable[object]) -> Markup:
    """Joins texts by line breaks."""
    return Markup("<br/>".join(escape(text) for text in texts))


def bar(share: float) -> Markup:
    """A horizontal bar whose length is a share from 0 to 1."""
    return Markup(f'<span class="bar" style="width: {300 * share:.0f}px"></span>')


def heading(level: int, text: object) -> Markup:
    return Markup(f"<h{level}>{escape(text)}</h{level}>")


def paragraph(text: object) -> Markup:
    return Markup(f"<p>{escape(text)}</p>")


class Table:
    """A table. `kinds` has a letter for each column: "n" for numbers, aligned on the right, and "t" for text."""

    def __init__(self, kinds: str, head: Sequence[object] = ()) -> None:
        self._kinds = kinds
        self._rows = [self._row("th", head)] if head else []

    def _row(self, name: str, cells: Sequence[object], kind: str = "") -> str:
        begins = [f'<{name} class="number">' if letter == "n" else f"<{name}>" for letter in self._kinds]
        inner = "".join(f"{begin}{escape(cell)}</{name}>" for begin, cell in zip(begins, cells))
        return f'<tr class="{kind}">{inner}</tr>' if kind else f"<tr>{inner}</tr>"

    def add(self, *cells: object, kind: str = "") -> None:
        """Adds a row; `kind` is its CSS class in STYLE."""
        self._rows.append(self._row("td", cells, kind))

    def total(self, *cells: object) -> None:
        self._rows.append(self._row("th", cells))

    def __str__(self) -> str:
        return f"<table>{''.join(self._rows)}</table>"


def make(title: str, parts: Iterable[object], path: Union[str, "os.PathLike[str]", None] = None) -> str:
    """Builds a page of HTML `parts`: results of the functions above, and pictures. Also writes it to `path`, if given."""
    head = f'<head><meta charset="utf-8"/><title>{escape(title)}</title><style>{STYLE}</style></head>'
    body = "\n".join(map(str, [heading(1, title), *parts]))
    page = f'<!doctype html>\n<html lang="en">{head}\n<body>\n{body}\n</body></html>\n'
    if path is not None:
        write(path, [page.encode()])
    return page
