#!/usr/bin/env bash
# Sets up, builds, and runs every test that this machine can run. What is skipped is
# listed with the reason. The last line is `N passed, N failed, N skipped`; the exit
# status is not zero when a test failed, or when none ran.
#
# usage: scripts/test.sh [unit] [lit] [numerics] [python] [checks]     (default: all five)

source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

suites=("$@")
[[ ${#suites[@]} -gt 0 ]] || suites=(unit lit numerics python checks)
for suite in "${suites[@]}"; do
  [[ " unit lit numerics python checks " == *" $suite "* ]] ||
    die "unknown suite '$suite'; the suites are: unit lit numerics python checks"
done
wants() { [[ " ${suites[*]} " == *" $1 "* ]]; }

"$ROOT/scripts/setup.sh"
use_ptxas
say "configuring"
configure
say "building (the first time takes some minutes)"
build all

RESULTS="$BUILD/test-results"
rm -rf "$RESULTS"
mkdir -p "$RESULTS"
export FP8MOE_RUNTIME_LIBRARY="$BUILD/lib/libfp8moe_runtime.so"
export FP8MOE_BUILD_DIR="$BUILD"

# run_suite NAME COMMAND...: runs a test runner that writes $RESULTS/NAME.xml. A
# failure is reported with the output at once and counted from the XML at the end; a
# runner that hangs leaves no XML, which counts as a failure too.
run_suite() {
  local name="$1"
  shift
  say "running the $name tests"
  timeout --kill-after=10 1200 "$@" >"$RESULTS/$name.log" 2>&1 || {
    tail -n 60 "$RESULTS/$name.log"
    say "the whole output is in $RESULTS/$name.log"
  }
}

if wants unit; then
  run_suite unit ctest --test-dir "$BUILD" -j "$(nproc)" --output-on-failure \
    --output-junit "$RESULTS/unit.xml"
fi
if wants lit; then
  run_suite lit "$VENV/bin/python" "$LLVM_BIN/lit" -v --xunit-xml-output "$RESULTS/lit.xml" "$BUILD/test"
fi
if wants numerics; then
  run_suite numerics "$VENV/bin/python" -m pytest -q -p no:cacheprovider \
    --junit-xml "$RESULTS/numerics.xml" test/Integration test/fuzz
fi
if wants python; then
  run_suite python "$VENV/bin/python" -m pytest -q -p no:cacheprovider \
    --junit-xml "$RESULTS/python.xml" python-bindings/tests
fi
if wants checks; then
  run_suite checks "$VENV/bin/python" scripts/check_sources.py --build "$BUILD" \
    --clang-format "clang-format-$LLVM_VERSION" --junit "$RESULTS/checks.xml"
fi

say "done"
"$VENV/bin/python" scripts/summarize_tests.py "$RESULTS" "${suites[@]}"
