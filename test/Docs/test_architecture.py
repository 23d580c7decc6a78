# ===- test_architecture.py - The architecture page names what there is ---===#
#
# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------===#
"""docs/design/architecture.md names only passes, folders and libraries that exist, and all of them."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/design/architecture.md").read_text()


def read(*patterns):
    return "\n".join(path.read_text() for pattern in patterns for path in sorted(ROOT.glob(pattern)))


def test_passes():
    defined = set(re.findall(r'\b(?:Interface)?Pass<\s*"([\w-]+)"', read("include/**/*Passes.td")))
    named = set(re.findall(r"\b(?:convert-)?fp8moe-[a-z0-9-]+", PAGE)) - {"fp8moe-compile", "fp8moe-c"}
    assert len(defined) > 20
    assert named == defined


def test_libraries():
    makes = read("lib/**/CMakeLists.txt", "lib/CMakeLists.txt")
    defined = set(re.findall(r"\b(?:fp8moe_)?add_library\(\s*(\w+)", makes))
    named = set(re.findall(r"`(FP8MoE\w+|fp8moe_(?:runtime|compiler|dialect))`", PAGE))
    assert len(defined) > 15
    assert named == defined


def test_folders():
    # `a/{b,c}` names two paths. Tables write `lib/...` for a path that mirrors `include/...`.
    spans = [span for span in re.findall(r"`([^`\n]+)`", PAGE) if re.match(r"(lib|include|tools|test)/", span)]
    named = set()
    for span in spans:
        head, _, rest = span.partition("{")
        named |= {head + name for name in rest.rstrip("}").split(",")} if rest else {span}
    assert [name for name in sorted(named - {"lib/..."}) if not (ROOT / name).exists()] == []
    folders = {path.relative_to(ROOT).as_posix() for path in ROOT.glob("lib/*") if path.is_dir()}
    folders |= {path.relative_to(ROOT).as_posix() for path in ROOT.glob("lib/Conversion/*") if path.is_dir()}
    assert [f for f in sorted(folders) if not any(n == f or n.startswith(f + "/") for n in named)] == []
