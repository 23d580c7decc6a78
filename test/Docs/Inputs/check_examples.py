#!/usr/bin/env python3
"""Runs every `mlir` code block of Markdown pages through fp8moe-opt, so that examples stay valid.
It also checks that a generated dialect page has an example for every operation.

usage: check_examples.py FP8MOE_OPT PAGE...

Prints one line per page and exits with 1 when a block does not parse and verify.
"""

import pathlib
import re
import subprocess
import sys

BLOCK = re.compile(r"^```mlir\n(.*?)^```$", re.MULTILINE | re.DOTALL)
OPERATION = re.compile(r"^### `([\w.]+)` \([\w:]+Op\)$", re.MULTILINE)


def check_block(opt, page, text, match):
    """Returns the errors in a block of IR. Blank lines before the block make their line numbers
    those of the page.
    """
    lines_before = text.count("\n", 0, match.start(1))
    source = "\n" * lines_before + match.group(1)
    result = subprocess.run([opt, "-o", "-", "-"], input=source, capture_output=True, text=True)
    if result.returncode:
        return result.stderr.replace("<stdin>", str(page))
    return None


def check_page(opt, page):
    text = page.read_text()
    blocks = list(BLOCK.finditer(text))
    problems = [problem for match in blocks if (problem := check_block(opt, page, text, match))]
    examples = "\n".join(match.group(1) for match in blocks)
    for match in OPERATION.finditer(text):
        if not re.search(rf"\b{re.escape(match.group(1))}\b", examples):
            line = text.count("\n", 0, match.start()) + 1
            problems.append(f"{page}:{line}: no example uses {match.group(1)}\n")
    print(f"{page.name}: {len(blocks)} examples, {len(problems)} problems")
    return problems


def main():
    opt, *pages = sys.argv[1:]
    problems = [problem for page in pages for problem in check_page(opt, pathlib.Path(page))]
    sys.stderr.write("".join(problems))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
