#!/usr/bin/env bash
# Sets up, builds, and runs every test that this machine can run. Skipped tests are listed with the
# reason. The last line is `N passed, N failed, N skipped`. The exit status is nonzero if a test
# failed or none ran.
#
# usage: scripts/test.sh [--help] [SUITE...]     (default: all)
#
#   all                           the suites below but torch
#   unit, lit, numerics, python   what the build in build/release does
#   wheel                         the wheel of the package, built from that
#   checks                        sources and documents
#   asan                          the first four once more on build/asan, where everything of
#                                 the project has AddressSanitizer, leaks included, and
#                                 UndefinedBehaviorSanitizer; without comparisons of compilations,
#                                 scripts and documents
#   fuzz                          25,000 hostile inputs on build/asan; FP8MOE_FUZZ_SEED chooses others
#   tsan                          the runtime's unit tests on build/tsan, with ThreadSanitizer
#   torch                         the tests of fp8moe.torch, which python skips, on build/release with torch in
#                                 build/torch-env (scripts/setup_torch.sh), after all others; skipped, with
#                                 the reason, where torch cannot be installed
#
# To run one suite on build/asan, name asan-unit, asan-lit, asan-numerics or asan-python.

source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

if [[ "${1:-}" == --help ]]; then
  print_help
  exit
fi

ORDINARY=(unit lit numerics python wheel)
ASAN=(asan-unit asan-lit asan-numerics asan-python)
ALL=("${ORDINARY[@]}" checks "${ASAN[@]}" fuzz tsan)

suites=()
for suite in "$@"; do
  if [[ "$suite" == all ]]; then
    suites+=("${ALL[@]}")
  elif [[ "$suite" == asan ]]; then
    suites+=("${ASAN[@]}")
  elif [[ " ${ALL[*]} torch " == *" $suite "* ]]; then
    suites+=("$suite")
  else
    die "unknown suite '$suite'; the suites are: ${ALL[*]}, torch, asan for the four of that name, and all for all but torch"
  fi
done
[[ ${#suites[@]} -gt 0 ]] || suites=("${ALL[@]}")
wants() { [[ " ${suites[*]} " == *" $1 "* ]]; }
wants_any() {
  local suite
  for suite in "$@"; do
    if wants "$suite"; then return 0; fi
  done
  return 1
}

RESULTS="$ROOT/build/test-results"

# build_preset NAME TARGET...: configures and builds. Later suites test that build.
build_preset() {
  use_preset "$1"
  shift
  say "configuring $PRESET"
  configure
  say "building $PRESET (the first time takes some minutes)"
  build "$@"
  export FP8MOE_RUNTIME_LIBRARY="$BUILD/lib/libfp8moe_runtime.so"
  export FP8MOE_BUILD_DIR="$BUILD"
}

# disturb_memory: glibc fills allocated and freed memory with this value, so that reads of
# uninitialized memory do not find zeros or old data.
disturb_memory() {
  export MALLOC_PERTURB_="${MALLOC_PERTURB_:-$((RANDOM % 255 + 1))}"
  say "MALLOC_PERTURB_=$MALLOC_PERTURB_"
}

# run_suite NAME COMMAND...: runs a test runner that writes $RESULTS/NAME.xml. A failing runner's
# output is shown at once, and the XML gives the final counts. A runner that hangs leaves no XML,
# which counts as a failure.
run_suite() {
  local name="$1" start="$SECONDS"
  shift
  say "running the $name tests"
  suite_failed=0
  logged "$RESULTS/$name.log" interruptible timeout --kill-after=10 1800 "$@" || {
    suite_failed=1
    tail -n 60 "$RESULTS/$name.log"
    say "the whole output is in $RESULTS/$name.log"
  }
  say "the $name tests took $((SECONDS - start)) s"
}

run_unit() {
  run_suite "$1" ctest --test-dir "$2" -j "$(nproc)" --output-on-failure --output-junit "$RESULTS/$1.xml"
}

run_lit() {
  run_suite "$1" "$VENV/bin/python" "$LLVM_BIN/lit" -v --xunit-xml-output "$RESULTS/$1.xml" "$BUILD/test"
}

# run_pytest NAME [-n N] FOLDER...: runs pytest, with -n in N processes by test file. TEST_PYTHON
# replaces the interpreter if it is set.
run_pytest() {
  # A hanging test prints its stack.
  local name="$1" options=(-q -p no:cacheprovider --dist loadfile -o faulthandler_timeout=600) python="${TEST_PYTHON:-$VENV/bin/python}"
  shift
  if [[ "$PRESET" == asan ]]; then
    python="$BUILD/bin/fp8moe-python"
    options+=(-p sanitizer_plugin)
    # A sanitizer report ends the process together with pytest's captured output, so it goes to a
    # file.
    local -x PYTHONPATH="$ROOT/test/sanitizers" ASAN_OPTIONS="log_path=$RESULTS/$name.report"
  fi
  run_suite "$name" "$python" -m pytest "${options[@]}" --junit-xml "$RESULTS/$name.xml" "$@"
  # Python's own leaks are in reports of suites that passed.
  ((suite_failed)) || return 0
  local report
  for report in "$RESULTS/$name".report.*; do
    if [[ -s "$report" ]]; then
      say "$report:"
      head -n 60 "$report"
    fi
  done
}

run_numerics() {
  local folders=(test/Integration)
  # Comparisons of compilations, scripts and documents gain nothing from a sanitizer.
  if [[ "$PRESET" == asan ]]; then
    folders+=(--ignore=test/Integration/test_{determinism,emitted_tensor,public_models}.py)
  else
    folders+=(test/fuzz test/Docs test/Scripts)
  fi
  run_pytest "$1" -n "$(nproc)" "${folders[@]}"
}

# skip_suite NAME REASON: writes results with one skipped test, as a suite without tests counts as
# failed.
skip_suite() {
  say "the $1 tests are skipped: $2"
  "$VENV/bin/python" - "$@" "$RESULTS/$1.xml" <<'END'
import sys
import xml.etree.ElementTree as ElementTree

name, reason, path = sys.argv[1:]
suite = ElementTree.Element("testsuite", name=name)
case = ElementTree.SubElement(suite, "testcase", classname=name, name="all")
ElementTree.SubElement(case, "skipped", message=reason)
ElementTree.ElementTree(suite).write(path)
END
}

run_torch() {
  local log="$RESULTS/setup-torch.log"
  # The last line of its output gives the reason.
  if ! "$ROOT/scripts/setup_torch.sh" 2>&1 | tee "$log"; then
    skip_suite torch "$(tail -n 1 "$log" | sed 's/^error: //')"
    return
  fi
  # Inductor uses all processors itself. Some tests of the runtime need torch, too.
  TEST_PYTHON="$ROOT/build/torch-env/bin/python" run_pytest torch -n 2 --show-capture=no python-bindings/tests/{pytorch,test_runtime.py}
}

"$ROOT/scripts/setup.sh"
use_ptxas
rm -rf "$RESULTS"
mkdir -p "$RESULTS"

if wants_any "${ORDINARY[@]}" checks; then
  build_preset release all
  disturb_memory
  if wants unit; then run_unit unit "$BUILD"; fi
  if wants lit; then run_lit lit; fi
  if wants numerics; then run_numerics numerics; fi
  if wants python; then run_pytest python -n "$(nproc)" python-bindings/tests --ignore=python-bindings/tests/test_wheel.py; fi
  # This suite runs alone, as it builds in the folder that others use.
  if wants wheel; then run_pytest wheel python-bindings/tests/test_wheel.py; fi
  unset MALLOC_PERTURB_
fi
if wants checks; then
  run_suite checks "$VENV/bin/python" scripts/check_sources.py --build "$BUILD" \
    --clang-format "clang-format-$LLVM_VERSION" --junit "$RESULTS/checks.xml"
fi
if wants_any "${ASAN[@]}"; then
  build_preset asan all
  if wants asan-unit; then run_unit asan-unit "$BUILD"; fi
  if wants asan-lit; then run_lit asan-lit; fi
  if wants asan-numerics; then run_numerics asan-numerics; fi
  if wants asan-python; then run_pytest asan-python -n "$(nproc)" python-bindings/tests; fi
fi
if wants fuzz; then
  # In a run of all suites, the targets were built already.
  build_preset asan fp8moe-fuzzers fp8moe-compile
  # A fixed seed begins with the same inputs every time. Their coverage determines later ones.
  seed="${FP8MOE_FUZZ_SEED:-20261122}"
  say "FP8MOE_FUZZ_SEED=$seed"
  run_suite fuzz "$VENV/bin/python" scripts/fuzz.py --seed="$seed" "$RESULTS"
fi
if wants tsan; then
  build_preset tsan FP8MoERuntimeTests
  run_unit tsan "$BUILD/unittests/Runtime"
fi

if wants torch; then
  build_preset release fp8moe-python
  disturb_memory
  run_torch
fi

say "done"
"$VENV/bin/python" scripts/summarize_tests.py "$RESULTS" "${suites[@]}"
