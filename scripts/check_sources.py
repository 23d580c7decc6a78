#!/usr/bin/env python3
"""Checks of the sources that need no test runner: formatting, generated documentation,
file length, license headers, leftovers, links between pages. Each check is one test in the JUnit file.
"""

import argparse
import itertools
import pathlib
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

ROOT = pathlib.Path(__file__).resolve().parent.parent
CODE = {".cpp", ".h", ".td", ".py", ".sh", ".mlir"}
MAX_LINES = 800
LEFTOVERS = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")


def source_files():
    """The files that git tracks or would track; without git, all but build products."""
    command = ["git", "-C", str(ROOT), "ls-files", "-co", "--exclude-standard"]
    try:
        names = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        paths = [ROOT / name for name in names.splitlines()]
    except (OSError, subprocess.CalledProcessError):
        folders = [f for f in ROOT.iterdir() if f.name != "build" and not f.name.startswith(".")]
        paths = [path for folder in folders for path in folder.rglob("*")]
        paths = [path for path in paths if "__pycache__" not in path.parts]
    return sorted(path for path in paths if path.is_file())


def check_formatting(files, args):
    sources = [str(path) for path in files if path.suffix in (".cpp", ".h")]
    command = [args.clang_format, "--dry-run", "-Werror", *sources]
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode:
        yield f"{result.stderr}\nrun: {args.clang_format} -i FILE..."


def check_generated_docs(files, args):
    command = ["ninja", "-C", str(args.build), "check-fp8moe-docs"]
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode:
        yield result.stdout + result.stderr


def check_length(files, args):
    for path in files:
        if path.suffix in CODE and (lines := len(path.read_text().splitlines())) > MAX_LINES:
            yield f"{path.relative_to(ROOT)}: {lines} lines; split it, the limit is {MAX_LINES}"


def check_license_headers(files, args):
    for path in files:
        in_sources = path.relative_to(ROOT).parts[0] != "cmake"
        if in_sources and path.suffix in (".cpp", ".h", ".td"):
            head = path.read_text()[:600]
            if "SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception" not in head:
                yield f"{path.relative_to(ROOT)}: no license header; copy that of a neighbour"


def check_leftovers(files, args):
    for path in files:
        if path.suffix not in CODE or path == pathlib.Path(__file__).resolve():
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if LEFTOVERS.search(line):
                yield f"{path.relative_to(ROOT)}:{number}: {line.strip()}"


def lines_outside_fences(text):
    """Numbered lines, those of fenced blocks left out."""
    fence = None
    for number, line in enumerate(text.splitlines(), 1):
        match = re.match(r"\s*(```+|~~~+)", line)
        if fence is None and not match:
            yield number, line
        elif fence is None:
            fence = match[1]
        elif match and match[1].startswith(fence):
            fence = None


def anchors_of(text):
    """What GitHub lets links name: a heading in lower case without punctuation, numbered where it comes again."""
    anchors = set(re.findall(r"<a (?:id|name)=\"([^\"]+)\"", text))
    for _, line in lines_outside_fences(text):
        if match := re.match(r"#{1,6} +(.*?)[ #]*$", line):
            title = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", match[1])
            anchor = re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
            names = (f"{anchor}-{i}" if i else anchor for i in itertools.count())
            anchors.add(next(name for name in names if name not in anchors))
    return anchors


def links_of(text):
    """The targets of links with the numbers of their lines; code has none."""
    for number, line in lines_outside_fences(text):
        prose = re.sub(r"(`+)(?!`).+?(?<!`)\1(?!`)", "code", line)
        for target in re.findall(r"\]\(\s*<?([^\s)>]*)[^)]*\)|^ {0,3}\[[^\]]+\]:\s+(\S+)", prose):
            yield number, target[0] or target[1]


def check_links(files, args):
    """Links between README.md, CONTRIBUTING.md and docs, and from there to other files."""
    for page in files:
        if page.suffix != ".md" or page.parent not in (ROOT, ROOT / "docs"):
            continue
        for number, link in links_of(page.read_text()):
            if re.match(r"[a-z]+:", link):
                continue
            path, _, anchor = link.partition("#")
            target = (page.parent / path).resolve() if path else page
            if not target.exists():
                yield f"{page.relative_to(ROOT)}:{number}: '{link}': there is no such file"
            elif anchor and target.suffix == ".md" and anchor not in anchors_of(target.read_text()):
                yield f"{page.relative_to(ROOT)}:{number}: '{link}': that page has no such heading"


CHECKS = [
    check_formatting,
    check_generated_docs,
    check_length,
    check_license_headers,
    check_leftovers,
    check_links,
]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release")
    parser.add_argument("--clang-format", default="clang-format-22")
    parser.add_argument("--junit", type=pathlib.Path, help="also write the results here")
    args = parser.parse_args()

    files = source_files()
    suite = ElementTree.Element("testsuite", name="checks")
    failed = 0
    for check in CHECKS:
        name = check.__name__.removeprefix("check_")
        problems = list(check(files, args))
        case = ElementTree.SubElement(suite, "testcase", name=name)
        print(f"{name}: {'FAILED' if problems else 'ok'}")
        if problems:
            failed += 1
            print("\n".join(problems))
            ElementTree.SubElement(case, "failure", message=problems[0]).text = "\n".join(problems)
    if args.junit:
        ElementTree.ElementTree(suite).write(args.junit, encoding="utf-8", xml_declaration=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
