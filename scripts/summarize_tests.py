#!/usr/bin/env python3
"""Sums the JUnit files of scripts/test.sh.

Prints every skipped test with its reason (tests with the same reason together), every
failed test with its message and the end of its report, and as the last line
`N passed, N failed, N skipped`. The exit status is 1 when a test failed or none passed.
"""

import argparse
import collections
import pathlib
import sys
import xml.etree.ElementTree as ElementTree

# Upper bound of listed failures per suite.
MAX_LISTED = 30
# Lines of the first failure's report per suite, as the results of a fresh root may be deleted
# later.
MAX_REPORTED = 60


def describe_failure(element):
    """Returns the first line of a failure's message and the last lines of its report."""
    message = next(iter((element.get("message") or "").splitlines()), "")
    report = (element.text or "").strip("\n").splitlines()
    return message[:500], report[-MAX_REPORTED:]


def read_suite(path):
    """Yields (test name, outcome, reason) for each test of a JUnit file. A failure's reason is its
    description.
    """
    for case in ElementTree.parse(path).getroot().iter("testcase"):
        parts = (case.get("classname"), case.get("name"))
        name = "::".join(part for part in parts if part)
        outcomes = {child.tag: child for child in case}
        failures = [outcomes[tag] for tag in ("failure", "error") if tag in outcomes]
        if failures or case.get("status") == "fail":
            yield name, "failed", describe_failure(failures[0]) if failures else ("", [])
        elif "skipped" in outcomes or case.get("status") in ("notrun", "disabled"):
            skipped = outcomes.get("skipped")
            reason = skipped.get("message") if skipped is not None else None
            yield name, "skipped", reason or "disabled"
        else:
            yield name, "passed", None


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", type=pathlib.Path, help="folder of the JUnit files")
    parser.add_argument("suites", nargs="+", help="names of the suites that ran")
    args = parser.parse_args()

    totals = collections.Counter()
    for suite in args.suites:
        counts = collections.Counter()
        failed = []
        skipped = collections.defaultdict(list)
        try:
            tests = list(read_suite(args.results / f"{suite}.xml"))
        except (OSError, ElementTree.ParseError) as error:
            print(f"FAILED {suite}: the runner left no results ({error})")
            totals["failed"] += 1
            continue
        for name, outcome, reason in tests:
            counts[outcome] += 1
            if outcome == "failed":
                failed.append((name, *reason))
            elif outcome == "skipped":
                skipped[reason].append(name)
        for name, message, _ in failed[:MAX_LISTED]:
            print(f"FAILED {suite}: {name}{': ' if message else ''}{message}")
        if failed:
            print("\n".join(f"  {line}" for line in failed[0][2]), end="\n" if failed[0][2] else "")
        if len(failed) > MAX_LISTED:
            print(f"FAILED {suite}: and {len(failed) - MAX_LISTED} more, see {args.results}")
        for reason, names in sorted(skipped.items()):
            more = f" and {len(names) - 1} more" if len(names) > 1 else ""
            print(f"skipped {suite}: {names[0]}{more}: {reason}")
        print(", ".join(f"{counts[o]} {o}" for o in ("passed", "failed", "skipped")) + f" ({suite})")
        totals += counts

    print(", ".join(f"{totals[o]} {o}" for o in ("passed", "failed", "skipped")))
    return 1 if totals["failed"] or not totals["passed"] else 0


if __name__ == "__main__":
    sys.exit(main())
