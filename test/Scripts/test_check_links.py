# ===- test_check_links.py - The check of links ------------------------------===#
#
# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------===#
"""scripts/check_sources.py finds dead links between pages, by GitHub's rules for heading anchors."""

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

PAGE = """# A page: `f_16`, and *more*
## Twice
## Twice
## What [it](../README.md) does?
```sh
# no heading [none](absent.md)
```
"""


@pytest.fixture
def check(tmp_path, monkeypatch):
    """Returns a function that checks a README.md beside docs/page.md."""
    spec = importlib.util.spec_from_file_location("check_sources", ROOT / "scripts" / "check_sources.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "ROOT", tmp_path)
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "page.md").write_text(PAGE)

    def run(text):
        (tmp_path / "README.md").write_text(text)
        return list(module.check_links(sorted(tmp_path.rglob("*.md")), None))

    return run


@pytest.mark.parametrize(
    "link",
    [
        "docs/page.md",
        "docs",
        "docs/page.md#a-page-f_16-and-more",
        "docs/page.md#twice",
        "docs/page.md#twice-1",
        "docs/page.md#what-it-does",
        "#here",
        "https://example.com/absent.md#x",
    ],
)
def test_links_that_lead_somewhere(check, link):
    assert check(f"# Here\n\nSee [this]({link}) and [that][1].\n\n[1]: {link}\n") == []


@pytest.mark.parametrize(
    "link, problem",
    [
        ("docs/absent.md", "there is no such file"),
        ("page.md#twice", "there is no such file"),
        ("docs/page.md#twice-2", "that page has no such heading"),
        ("docs/page.md#no-heading-none", "that page has no such heading"),
        ("#there", "that page has no such heading"),
    ],
)
def test_links_that_lead_nowhere(check, link, problem):
    assert check(f"# Here\n\nSee [this]({link}).\n") == [f"README.md:3: '{link}': {problem}"]
    assert check(f"# Here\n\n[1]: {link}\n") == [f"README.md:3: '{link}': {problem}"]
    assert check(f"# Here\n\n`[this]({link})`\n\n```\n[1]: {link}\n```\n") == []


def test_readme_of_a_folder_of_sources(check, tmp_path):
    readme = tmp_path / "lib" / "Kernels" / "README.md"
    readme.parent.mkdir(parents=True)
    readme.write_text("See [that](../../docs/page.md#twice) and [this](Cast/README.md).\n")
    assert check("# Here\n") == ["lib/Kernels/README.md:1: 'Cast/README.md': there is no such file"]
