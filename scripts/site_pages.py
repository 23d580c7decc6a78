# ===- site_pages.py - The pages of the site --------------------------------===#
#
# Part of the fp8moe project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------===#
"""Copies README.md and docs/ to build/site-pages for mkdocs.

README.md is the start page. Repository files that pages link to become pages below source/. The C
and Python references are written from headers and docstrings.
"""

import ast
import pathlib
import posixpath
import re
import shutil
import textwrap

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGES = ROOT / "build/site-pages"
LANGUAGES = {".h": "c", ".c": "c", ".cpp": "cpp", ".td": "tablegen", ".py": "python", ".sh": "bash", ".txt": "cmake", ".mlir": "text"}
MOVED = {"README.md": "index.md", "docs/README.md": "pages.md"}

PYTHON = {
    "Compiling and running": ["fp8moe.compiler", "fp8moe.runtime", "fp8moe.advice"],
    "Programs and their cache": ["fp8moe.programs", "fp8moe.cache"],
    "PyTorch": ["fp8moe.torch.*", "fp8moe.torch.torchtitan"],
}


def slug(title, separator):
    """Returns an anchor by GitHub's rules, which links in pages use."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", separator)


def place_of(path):
    """Returns the place of a repository file in the site. `path` is relative to the root."""
    if path in MOVED:
        return MOVED[path]
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    return f"source/{path}" if path.endswith(".md") else f"source/{path}.md"


def relink(text, page, wanted):
    """Rewrites links for the site. Linked repository files are added to `wanted`."""

    def replace(match):
        target, mark, anchor = match[2].partition("#")
        if not target or re.match(r"[a-z]+:", target):
            return match[0]
        path = posixpath.normpath(posixpath.join(posixpath.dirname(page), target))
        wanted.add(path)
        return match[1] + posixpath.relpath(place_of(path), posixpath.dirname(place_of(page)) or ".") + mark + anchor + match[3]

    # Fenced and inline code has no links.
    parts = re.split(r"(```.*?```|`[^`\n]*`(?!\]))", text, flags=re.DOTALL)
    parts[::2] = [re.sub(r"(\]\()([^\s)]+)(\))", replace, part) for part in parts[::2]]
    return "".join(parts)


def write(place, text):
    path = PAGES / place
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def source_page(path):
    """Returns a page of a repository file with its name as the title, or of a folder's list."""
    file = ROOT / path
    if file.is_dir():
        names = sorted(inner.relative_to(file).as_posix() for inner in file.rglob("*") if inner.is_file() and "__pycache__" not in inner.parts)
        return f"# {path}\n\n" + "\n".join(f"* `{name}`" for name in names) + "\n"
    return f"# {path}\n\n````{LANGUAGES.get(file.suffix, 'text')}\n{file.read_text()}\n````\n"


def c_page():
    """Returns the page of C headers: comments as prose, sections as code."""
    lines = ["# C API\n"]
    for header in sorted((ROOT / "include/fp8moe-c").glob("*.h")):
        text = header.read_text()
        about = re.search(r"//===-+===//\n//\n((?://.*\n)+?)//\n?//===", text[text.index("SPDX") :])
        lines.append(f"## fp8moe-c/{header.name}\n")
        if about:
            lines.append(textwrap.dedent(re.sub(r"^// ?", "", about[1], flags=re.MULTILINE)) + "\n")
        body = text.split('extern "C" {\n#endif\n', 1)[-1].split("#ifdef __cplusplus\n}", 1)[0]
        sections = re.split(r"//===-+===//\n// (.*)\n//===-+===//\n", "General\n" + body)
        sections = [sections[0].removeprefix("General\n"), *sections[1:]]
        for title, code in zip(["General", *sections[1::2]], sections[::2]):
            if code.strip():
                lines.append(f"### {title.rstrip('.')}\n\n```c\n{code.strip()}\n```\n")
    return "\n".join(lines)


def public_names(name):
    """Returns the names of `package.*`, as the package lists them."""
    if not name.endswith(".*"):
        return [name]
    package = name.removesuffix(".*")
    tree = ast.parse((ROOT / "python-bindings" / package.replace(".", "/") / "__init__.py").read_text())
    lists = [node.value for node in tree.body if isinstance(node, ast.Assign) and node.targets[0].id == "__all__"]
    return [f"{package}.{each}" for each in ast.literal_eval(lists[0])]


def python_page():
    lines = ["# Python API\n", "The guides are [Python](../users/python.md) and [PyTorch](../users/pytorch.md).\n"]
    for title, names in PYTHON.items():
        lines.append(f"## {title}\n")
        for name in names:
            lines += [f"::: {each}\n    options:\n      heading_level: 3\n" for each in public_names(name)]
    return "\n".join(lines)


def main():
    shutil.rmtree(PAGES, ignore_errors=True)
    shutil.copytree(ROOT / "docs/images", PAGES / "images")
    shutil.copy(ROOT / "docs/site.css", PAGES)
    pages = {"README.md", *(path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").rglob("*.md"))}
    pages |= {"CONTRIBUTING.md", "CHANGELOG.md"}
    wanted = set()
    for page in sorted(pages):
        text = (ROOT / page).read_text()
        if page.endswith("Dialect.md"):
            # The site has a list of each page's headings, which should not contain the parts of
            # operations and attributes.
            text = re.sub(r"^#### (\w+:)$", r"**\1**", text.replace("[TOC]\n", ""), flags=re.MULTILINE)
        write(place_of(page), relink(text, page, wanted))
    for path in sorted(wanted - pages):
        if not path.startswith("docs/"):
            write(place_of(path), source_page(path))
    write("reference/c-api.md", c_page())
    write("reference/python-api.md", python_page())


if __name__ == "__main__":
    main()
