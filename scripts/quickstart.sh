#!/usr/bin/env bash
# Runs the main workflow: sets up, builds, and compiles examples/moe_backward.mlir for an NVIDIA
# GPU, an AMD GPU and the CPU. It runs the CPU artifact on random jagged input, compares every
# output with an independent NumPy reference, and prints the report.
#
# usage: scripts/quickstart.sh [--help] [TOKENS]     (default: 5000 tokens)

source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

if [[ "${1:-}" == --help ]]; then
  print_help
  exit
fi

tokens="${1:-5000}"
[[ "$tokens" =~ ^[0-9]+$ ]] || die "the number of tokens must be a number, not '$tokens'"
out="$ROOT/build/quickstart"

"$ROOT/scripts/setup.sh"
use_ptxas
say "configuring"
configure
say "building (the first time takes some minutes)"
build fp8moe-compile fp8moe-run fp8moe_runtime fp8moe-python-runtime

say "compiling examples/moe_backward.mlir for sm_90a, gfx942 and cpu"
rm -rf "$out"
mkdir -p "$out"
"$BUILD/bin/fp8moe-compile" examples/moe_backward.mlir --target=sm_90a --target=gfx942 --target=cpu \
  -o "$out" --report >"$out/report.txt"

say "running the CPU artifact on $tokens tokens in random groups"
"$BUILD/bin/fp8moe-run" "$out/cpu" --random=1 --tokens="$tokens" \
  --save-inputs="$out/inputs.safetensors" --outputs="$out/outputs.safetensors"

say "comparing with the NumPy reference"
"$VENV/bin/python" scripts/quickstart_check.py "$out/inputs.safetensors" "$out/outputs.safetensors" \
  >"$out/check.txt" || { cat "$out/check.txt"; die "the outputs differ from the reference"; }

cat "$out/report.txt"
cat "$out/check.txt"
