#!/usr/bin/env bash
# Checks a wheel on a machine with nothing but Python: installs it, runs the example and the tools,
# and compares artifacts with those of the build. scripts/test_wheels.sh runs it in minimal Debian
# roots.
#
# usage: scripts/check_wheel.sh PYTHON DIST EXPECTED
#
# DIST is a folder with wheels, from which pip takes the fitting one. EXPECTED has the build's
# artifacts of examples/moe_backward.mlir for sm_90a, gfx942, gfx950 and cpu, and the version of
# ptxas in ptxas-version.

set -euo pipefail

ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
CHIPS=(sm_90a gfx942 gfx950 cpu)
python="$1" dist="$2" expected="$3"

# measure NAME COMMAND...: runs the command and prints its seconds.
measure() {
  local name="$1" begin="$EPOCHREALTIME"
  shift
  "$@"
  awk -v name="$name" -v begin="$begin" -v end="$EPOCHREALTIME" 'BEGIN { printf "  %-34s %6.1f s\n", name, end - begin }'
}

# check_artifacts FOLDER CHIP...
check_artifacts() {
  local chip
  for chip in "${@:2}"; do
    diff -r "$expected/$chip" "$1/$chip"
  done
}

for program in cc gcc clang clang-22 ld ptxas; do
  if command -v "$program" >/dev/null; then
    echo "error: this machine has $program, so the check says little" >&2
    exit 1
  fi
done
"$python" --version

folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
cd "$folder"
"$python" -m venv "an environment"
bin="$folder/an environment/bin"
export PIP_DISABLE_PIP_VERSION_CHECK=1
measure "pip install fp8moe" "$bin/pip" install -q --no-index --find-links "$dist" fp8moe
echo "  installed: $(du -sm "an environment"/lib/python*/site-packages/fp8moe | cut -f1) MB"

status=0
"$bin/fp8moe-compile" "$ROOT/examples/host/quantize.mlir" --target=sm_90a -o early >early.log 2>&1 || status=$?
grep -q "pip install .*fp8moe\[cuda\]" early.log || {
  cat early.log >&2
  echo "error: without ptxas (status $status) nobody says how to get one" >&2
  exit 1
}
echo "nvidia-cuda-nvcc==$(cat "$expected/ptxas-version")" >constraints.txt
measure "pip install [numpy,cuda]" "$bin/pip" install -q --find-links "$dist" -c constraints.txt "fp8moe[numpy,cuda]"

measure "examples/quickstart.py" "$bin/python" "$ROOT/examples/quickstart.py" >quickstart.log
tail -n 1 quickstart.log
"$bin/python" -I "$ROOT/examples/quickstart.py" >/dev/null
program="$ROOT/examples/moe_backward.mlir"
measure "fp8moe-compile for four targets" "$bin/fp8moe-compile" "$program" "${CHIPS[@]/#/--target=}" -o out
check_artifacts out "${CHIPS[@]}"
"$bin/python" -I -OO -m fp8moe compile "$program" --target=gfx942 --target=cpu -o module
check_artifacts module gfx942 cpu
"$bin/pip" install -q --no-index --find-links "$dist" --target "a folder" fp8moe
PYTHONPATH="a folder" "$bin/python" "a folder/bin/fp8moe-compile" "$program" --target=gfx950 --target=cpu -o target
check_artifacts target gfx950 cpu
"$bin/fp8moe-run" out/cpu --random=1 --tokens=500 --outputs=outputs.safetensors >/dev/null
"$bin/fp8moe-opt" "$program" -o /dev/null
for tool in compile run opt; do "$bin/fp8moe-$tool" --version; done
echo "  artifacts are those of the build"
