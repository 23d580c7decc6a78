# ===- test_labels.py - Code quotes the rules of the semantics -------------===#
#
# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------===#
"""Labels such as (Q3) connect a rule of docs/reference/semantics.md with its implementations.

Both lowerings and the oracle quote each label of a quantization. No code quotes a label that the
page lacks.
"""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/reference/semantics.md").read_text()
LABEL = re.compile(r"\([FQJPVXGR]\d+\)")
# A rule of the page begins with its label in bold.
RULES = {label for bold in re.findall(r"\*\*(.+?)\*\*", PAGE) for label in LABEL.findall(bold)}

QUANTIZATION = [f"(Q{number})" for number in range(1, 9)]
IMPLEMENTATIONS = ["lib/Conversion/FP8MoEToLoops", "lib/Kernels/Quantize", "test/Integration/oracle.py"]


def quoted(path):
    files = [path] if path.is_file() else [p for p in sorted(path.rglob("*")) if p.suffix in (".cpp", ".h", ".py", ".td")]
    return {label: file.relative_to(ROOT) for file in files for label in LABEL.findall(file.read_text())}


def test_the_page_has_the_rules():
    assert set(QUANTIZATION) <= RULES


@pytest.mark.parametrize("path", IMPLEMENTATIONS)
def test_each_rule_of_a_quantization_is_quoted(path):
    labels = quoted(ROOT / path)
    assert [label for label in QUANTIZATION if label not in labels] == []


@pytest.mark.parametrize("folder", ["include", "lib", "test/Integration"])
def test_quotes_are_of_rules(folder):
    assert {label: str(file) for label, file in quoted(ROOT / folder).items() if label not in RULES} == {}
