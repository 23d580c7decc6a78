# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Every verifier error of the lit tests is a Python exception with its location."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
#: Files whose only command is fp8moe-opt without a pass.
RUN = re.compile(r"RUN: fp8moe-opt %s --split-input-file --verify-diagnostics\s*$", re.M)
EXPECTED = re.compile(r"expected-error(-re)?\s*@(below|above|[+-]\d+)\s*\{\{(.*?)\}\}\s*$")


def chunks():
    """Yields (file, first line, text) of each part that expects an error."""
    for file in sorted((ROOT / "test" / "Dialect").rglob("*.mlir")):
        text = file.read_text()
        if not RUN.search(text):
            continue
        line = 0
        for part in re.split(r"^// -----.*$", text, flags=re.M):
            if "expected-error" in part:
                yield pytest.param(file, line, part, id=f"{file.stem}:{line + 1}")
            line += part.count("\n")


def expectations(part, first_line):
    lines = part.split("\n")
    for number, line in enumerate(lines):
        if "expected-error" not in line:
            continue
        match = EXPECTED.search(line)
        assert match, f"this test cannot read: {line}"
        assert not match[1], "this test knows no regular expressions"
        at = {"below": number + 1, "above": number - 1}.get(match[2])
        if at == number + 1:  # the next line without an expectation of its own
            while "expected-" in lines[at]:
                at += 1
        if at is None:
            at = number + int(match[2])
        yield first_line + at + 1, match[3]


PARTS = list(chunks())


def test_the_suite_is_there():
    assert len(PARTS) > 200


@pytest.mark.parametrize("file, first_line, part", PARTS)
def test_error(ir, file, first_line, part):
    source = "\n" * first_line + part
    with pytest.raises(ir.CompilerError) as info:
        ir.Module.parse(source, str(file))
    found = [(d.line, d.message) for d in info.value.diagnostics if d.severity == "error"]
    for line, message in expectations(part, first_line):
        assert any(at == line and message in text for at, text in found), (line, message, found)
    assert all(d.file == str(file) for d in info.value.diagnostics)
