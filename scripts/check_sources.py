#!/usr/bin/env python3
"""Checks of the sources that need no test runner: formatting, generated documentation, file length,
license headers, leftovers, links between pages, and dependencies of folders.

Each check is one test in the JUnit file.
"""

import argparse
import collections
import itertools
import pathlib
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

ROOT = pathlib.Path(__file__).resolve().parent.parent
CODE = {".cpp", ".h", ".td", ".py", ".sh", ".mlir"}
MAX_LINES = 800
MAX_LIBRARY_LINES = 600
LIBRARY = {"lib", "include", "tools"}
LEFTOVERS = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")
# Lines of comments, docstrings and help texts that do not begin with their subject.
NO_SUBJECT = re.compile(
    r"\s*((///?|#|\*)\s+|\"\"\")(What|Those|That of|The same|Of|Who|Whose|Else|Nobody|Whoever)\b"
    r"|.*\bhelp=f?\"(what|those|that of|of|who|whose)\b"
)
INCLUDE = re.compile(r'\s*#?\s*include\s+"([^"]+)"')

# A folder of lib/ and the one of the same name in include/fp8moe/ count as one: lib/Kernels and
# include/fp8moe/Kernels are Kernels. Includes between these folders must not form a cycle.
LAYERS = ("Transforms", "Conversion", "Kernels", "Target", "Dialect")
# Folders for the chips of all vendors, except subfolders with a vendor's name.
NEUTRAL = ("Transforms", "Conversion/FP8MoEToGPU", "Kernels", "Dialect/FP8MoE")
# SinglePassOuter is for NVIDIA only, as it reads by tensor maps. Its folder has the name of its
# tile.
VENDOR = {"NVIDIA", "AMD", "Hopper", "Blackwell", "CDNA", "CDNA3", "CDNA4", "SinglePassOuter"}
# Calibration tables name chips, and the cards and compilers of the measurements.
CALIBRATION = re.compile(r"\wCalibration\.(h|cpp)$")
VENDOR_WORDS = re.compile(
    r"NVVM|nvvm|NVPTX|nvgpu|ROCDL|rocdl|AMDGPU|amdgcn|[wW]gmma|mfma|MFMA|tcgen05|[mM][bB]arrier"
    r"|griddepcontrol|[lL]d[mM]atrix|[sS]t[mM]atrix|InlineAsm|\bptx\b|\bPTX\b|ptxas|cuTensorMap"
    r"|Hopper|Blackwell|CDNA\d|/NVIDIA/|/AMD/|\bH[12]00\b|\bsm_\d|\bgfx\d|[wW]arpgroup"
    r"|setmaxnreg|cp\.async"
)

# Tiles have the names of one vendor's instructions.
TILES = ("FP8MoETiles.td", "FP8MoEEnums.td", "Tile.cpp")
# Descriptions of operations and passes may name chips in examples.
EXAMPLE = re.compile(r'target<"|\bExample, for \w+|^ +\S+\.mlir:\d+:\d+: error: ')
# Exceptions from these two rules during a migration. An unnecessary entry is an error, too.
NOT_YET_EDGES = set()
NOT_YET_NEUTRAL = set()


def source_files():
    """Returns the files that git tracks or would track. Without git, returns all files except build
    products.
    """
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
        limit = MAX_LIBRARY_LINES if path.relative_to(ROOT).parts[0] in LIBRARY else MAX_LINES
        if path.suffix in CODE and (lines := len(path.read_text().splitlines())) > limit:
            yield f"{path.relative_to(ROOT)}: {lines} lines; split it, the limit is {limit}"


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


def check_subjects(files, args):
    """Checks that comments, docstrings and help texts begin with their subject."""
    for path in files:
        if path.suffix not in CODE | {".def"}:
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if NO_SUBJECT.match(line):
                yield f"{path.relative_to(ROOT)}:{number}: begins without its subject, name it: {line.strip()}"


def lines_outside_fences(text):
    """Yields numbered lines outside of fenced blocks."""
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
    """Returns the anchors that GitHub gives to headings: lower case without punctuation, numbered
    if repeated.
    """
    anchors = set(re.findall(r"<a (?:id|name)=\"([^\"]+)\"", text))
    for _, line in lines_outside_fences(text):
        if match := re.match(r"#{1,6} +(.*?)[ #]*$", line):
            title = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", match[1])
            anchor = re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
            names = (f"{anchor}-{i}" if i else anchor for i in itertools.count())
            anchors.add(next(name for name in names if name not in anchors))
    return anchors


def links_of(text):
    """Yields the targets of links with their line numbers. Code has no links."""
    for number, line in lines_outside_fences(text):
        prose = re.sub(r"(`+)(?!`).+?(?<!`)\1(?!`)", "code", line)
        for target in re.findall(r"\]\(\s*<?([^\s)>]*)[^)]*\)|^ {0,3}\[[^\]]+\]:\s+(\S+)", prose):
            yield number, target[0] or target[1]


def check_links(files, args):
    """Checks links between README.md, CONTRIBUTING.md, docs and READMEs of lib, and from there to
    other files.
    """
    for page in files:
        if page.suffix != ".md" or page.parent != ROOT and not {ROOT / "docs", ROOT / "lib"} & set(page.parents):
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


def get_folder(path):
    """Returns the folder of a source: X/Y for lib/X/Y and include/fp8moe/X/Y, else nothing."""
    parts = path.relative_to(ROOT).parent.parts
    if parts[:2] == ("include", "fp8moe"):
        return "/".join(parts[2:])
    return "/".join(parts[1:]) if parts[:1] == ("lib",) else ""


def is_source_of(path, folders):
    """Returns whether the file is in or below one of `folders`."""
    below = tuple(f"{folder}/" for folder in folders)
    return path.suffix in (".cpp", ".h", ".td") and f"{get_folder(path)}/".startswith(below)


def find_included(path, name):
    """Returns the file that `#include "NAME"` in `path` means, or nothing for LLVM's and generated
    headers.
    """
    for base in (path.parent, ROOT / "include", ROOT / "lib"):
        if (base / name).is_file():
            return (base / name).resolve()
    return None


def find_edges(files):
    """Returns the pairs of folders of which one includes the other, each with an example FILE:LINE."""
    edges = {}
    for path in files:
        if not is_source_of(path, LAYERS):
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            match = INCLUDE.match(line)
            included = match and find_included(path, match[1])
            if included and is_source_of(included, LAYERS):
                edge = (get_folder(path), get_folder(included))
                if edge[0] != edge[1]:
                    edges.setdefault(edge, f"{path.relative_to(ROOT)}:{number}")
    return edges


def find_path(edges, start, end):
    """Returns the folders on the shortest path from `start` to `end`, or nothing."""
    paths = {start: [start]}
    queue = collections.deque([start])
    while queue and end not in paths:
        folder = queue.popleft()
        for source, target in sorted(edges):
            if source == folder and target not in paths:
                paths[target] = paths[folder] + [target]
                queue.append(target)
    return paths.get(end)


def check_include_cycles(files, args):
    edges = find_edges(files)
    for source, target in sorted(NOT_YET_EDGES):
        if (source, target) not in edges or not find_path(edges, target, source):
            yield f"{source} -> {target} is in no cycle; take it out of NOT_YET_EDGES"
    edges = {edge: example for edge, example in edges.items() if edge not in NOT_YET_EDGES}
    # Each shortest path from the end of an edge back to its beginning is a cycle. One edge of each
    # reported cycle is removed before the next search.
    while ways := [way for a, b in sorted(edges) if (way := find_path(edges, b, a))]:
        cycle = min(ways, key=len)
        cycle = list(zip([cycle[-1], *cycle], cycle))
        steps = [f"  {a} -> {b}: {edges[a, b]}" for a, b in cycle]
        yield "\n".join(["folders include each other in a cycle:", *steps])
        del edges[cycle[0]]


def check_hidden_edges(files, args):
    """Checks that a function in Kernels is defined in the folder that declares it.

    Otherwise folders depend on each other without an include that check_include_cycles sees. The
    table of families, in the folder above, is exempt.
    """
    texts = {path: path.read_text() for path in files if is_source_of(path, ["Kernels"]) and path.suffix in (".cpp", ".h")}
    declared = collections.defaultdict(set)
    for path, text in texts.items():
        if path.suffix == ".h":
            for name in re.findall(r"^\w[^;{}=#]*?\b(\w+)\(", text, re.MULTILINE):
                declared[name].add(get_folder(path))
        else:
            for name in re.findall(r"^(?!static\b)\w[\w:<>&* ]* [&*]?(\w+)\([^;{}()]*\);", text, re.MULTILINE):
                yield f"{path.relative_to(ROOT)}: '{name}' is declared in a source; include the header that declares it"
    for path, text in texts.items():
        folder = get_folder(path)
        for name in re.findall(r"^\w[^;{}()=#]*?\bfp8moe::(\w+)\(", text, re.MULTILINE):
            if folder != "Kernels" and declared[name] and folder not in declared[name]:
                yield f"{path.relative_to(ROOT)}: defines '{name}', which {sorted(declared[name])[0]} declares; move one of them"


def check_neutral_folders(files, args):
    stale = set(NOT_YET_NEUTRAL)
    for path in files:
        if not is_source_of(path, NEUTRAL) or VENDOR & set(get_folder(path).split("/")):
            continue
        if CALIBRATION.search(path.name) or path.name.endswith(TILES):
            continue
        name = path.relative_to(ROOT).as_posix()
        for number, line in enumerate(path.read_text().splitlines(), 1):
            is_example = path.suffix == ".td" and EXAMPLE.search(line)
            if is_example or not (match := VENDOR_WORDS.search(line)):
                continue
            stale.discard(name)
            if name not in NOT_YET_NEUTRAL:
                yield f"{name}:{number}: '{match[0]}' in a folder of all vendors: {line.strip()}"
    for name in sorted(stale):
        yield f"{name}: no neutral source with a vendor's word; take it out of NOT_YET_NEUTRAL"


CHECKS = [
    check_formatting,
    check_generated_docs,
    check_length,
    check_license_headers,
    check_leftovers,
    check_subjects,
    check_links,
    check_include_cycles,
    check_hidden_edges,
    check_neutral_folders,
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
