#!/usr/bin/env bash
# Installs the packages that building and testing fp8moe needs on Debian 12 or later: system
# packages by apt, Python packages in .venv. It is quick and silent if everything is installed. A
# minimal system suffices; git and ca-certificates are needed for cloning already.
#
# usage: scripts/setup.sh [--help]

source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

if [[ "${1:-}" == --help ]]; then
  print_help
  exit
fi
[[ $# -eq 0 ]] || die "unknown argument '$1'; there is only --help"

# If releases name a package differently, an entry has all names, best first. The first one that apt
# knows is installed, without recommended packages.
PACKAGES=(
  ccache
  clang-$LLVM_VERSION
  clang-format-$LLVM_VERSION
  clang-tidy-$LLVM_VERSION
  cmake
  libclang-rt-$LLVM_VERSION-dev
  libgtest-dev
  liblld-$LLVM_VERSION-dev
  libmlir-$LLVM_VERSION-dev
  libxxhash-dev
  libzstd-dev
  lld-$LLVM_VERSION
  llvm-$LLVM_VERSION-dev
  llvm-$LLVM_VERSION-tools
  mlir-$LLVM_VERSION-tools
  ninja-build
  nlohmann-json3-dev
  python3-dev
  python3-venv
  zlib1g-dev
)

# Optional packages: ROCm's device libraries, for AMD kernels that call mathematical functions.
# Debian 12 has them for its own LLVM, Debian 13 for LLVM 17; LLVM reads bitcode of older releases.
OPTIONAL_PACKAGES=(
  "rocm-device-libs rocm-device-libs-17"
)

# NVIDIA's assembler, for machines without a CUDA toolkit.
PTXAS_WHEEL=nvidia-cuda-nvcc==13.0.88

is_installed() {
  dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null | grep -qx installed
}

is_known_to_apt() { [[ -n "$(apt-cache madison "$1" 2>/dev/null)" ]]; }

# find_first TEST NAME...: prints the first name for which TEST succeeds, if any.
find_first() {
  local test="$1" name
  shift
  for name in "$@"; do
    if "$test" "$name"; then
      echo "$name"
      return
    fi
  done
}

# Appends to `missing` the entries without an installed package.
find_missing() {
  local entry
  missing=()
  for entry in "$@"; do
    # shellcheck disable=SC2086  # an entry is a list of names
    [[ -n "$(find_first is_installed $entry)" ]] || missing+=("$entry")
  done
}

install_packages() {
  command -v dpkg-query >/dev/null ||
    die "this script installs Debian packages; on another system install LLVM, MLIR, LLD and clang $LLVM_VERSION," \
      "CMake, Ninja, GoogleTest, nlohmann-json and xxHash yourself and build with: cmake --preset release"
  local missing entry name wanted=()
  find_missing "${PACKAGES[@]}"
  local required=("${missing[@]}")
  find_missing "${OPTIONAL_PACKAGES[@]}"
  [[ ${#required[@]} -eq 0 && ${#missing[@]} -eq 0 ]] && return

  # A missing optional package that apt does not know is no reason for an update.
  if [[ ${#required[@]} -gt 0 ]]; then
    quietly "$ROOT/build/apt-update.log" as_root apt-get update
  fi
  for entry in "${required[@]}"; do
    name="$(find_first is_known_to_apt $entry)"
    [[ -n "$name" ]] ||
      die "apt knows no package '${entry// /\' or \'}'. LLVM $LLVM_VERSION is in Debian 12's security updates and in Debian 13" \
        "(check that bookworm-security, or trixie, is among apt's sources); for other systems add https://apt.llvm.org:" \
        "wget https://apt.llvm.org/llvm.sh && bash llvm.sh $LLVM_VERSION"
    wanted+=("$name")
  done
  for entry in "${missing[@]}"; do
    name="$(find_first is_known_to_apt $entry)"
    if [[ -n "$name" ]]; then
      wanted+=("$name")
    else
      say "apt knows no package '${entry// /\' or \'}': AMD kernels that call mathematical functions will not be linked," \
        "unless --rocm-path or ROCM_PATH names a folder of ROCm; their tests are skipped"
    fi
  done
  [[ ${#wanted[@]} -eq 0 ]] && return

  say "installing ${#wanted[@]} Debian packages: ${wanted[*]}"
  quietly "$ROOT/build/apt-install.log" \
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "${wanted[@]}"
}

# .venv/installed.txt records installed packages, so that an unchanged list needs no work.
install_python_packages() {
  local wanted
  wanted="$(cat "$ROOT/test/requirements.txt")"
  if [[ -z "$(find_ptxas)" ]]; then
    wanted+=$'\n'"$PTXAS_WHEEL"
  fi
  if [[ -x "$VENV/bin/python" && "$(cat "$VENV/installed.txt" 2>/dev/null)" == "$wanted" ]]; then
    return
  fi
  say "installing Python packages in .venv"
  [[ -x "$VENV/bin/python" ]] || quietly "$ROOT/build/venv.log" python3 -m venv "$VENV"
  local pip=("$VENV/bin/python" -m pip install --disable-pip-version-check -q)
  quietly "$ROOT/build/pip.log" "${pip[@]}" -r "$ROOT/test/requirements.txt"
  if [[ "$wanted" == *"$PTXAS_WHEEL"* ]]; then
    # Only ptxas is needed, not the wheel's dependency on the CUDA toolkit. Without it PTX is not
    # assembled, which is not fatal.
    if ! logged "$ROOT/build/pip-ptxas.log" "${pip[@]}" --no-deps "$PTXAS_WHEEL"; then
      say "no ptxas: '$PTXAS_WHEEL' could not be installed (see build/pip-ptxas.log); PTX will not be assembled"
      return
    fi
  fi
  printf '%s\n' "$wanted" >"$VENV/installed.txt"
}

mkdir -p "$ROOT/build"
install_packages
install_python_packages
