#!/usr/bin/env bash
# Installs what building and testing fp8moe needs on Debian 12 or later: system
# packages with apt, Python packages in .venv. Does nothing, quickly and silently,
# when everything is there.
#
# usage: scripts/setup.sh

source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

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
  lld-$LLVM_VERSION
  llvm-$LLVM_VERSION-dev
  llvm-$LLVM_VERSION-tools
  mlir-$LLVM_VERSION-tools
  ninja-build
  nlohmann-json3-dev
  python3-dev
  python3-venv
  rocm-device-libs
)

# NVIDIA's assembler, for machines without a CUDA toolkit.
PTXAS_WHEEL=nvidia-cuda-nvcc==13.0.88

as_root() {
  if [[ $EUID -eq 0 ]]; then
    "$@"
  else
    command -v sudo >/dev/null ||
      die "installing packages needs root or sudo; as root run: apt-get install ${missing[*]}"
    sudo "$@"
  fi
}

install_packages() {
  command -v dpkg-query >/dev/null ||
    die "this script installs Debian packages; on another system install LLVM, MLIR, LLD and clang $LLVM_VERSION," \
      "CMake, Ninja, GoogleTest, nlohmann-json and xxHash yourself and build with: cmake --preset release"
  missing=()
  local package
  for package in "${PACKAGES[@]}"; do
    dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null | grep -qx installed ||
      missing+=("$package")
  done
  [[ ${#missing[@]} -eq 0 ]] && return

  say "installing ${#missing[@]} Debian packages: ${missing[*]}"
  quietly "$ROOT/build/apt-update.log" as_root apt-get update
  for package in "${missing[@]}"; do
    [[ -n "$(apt-cache madison "$package")" ]] ||
      die "apt knows no package '$package'. LLVM $LLVM_VERSION is in Debian 12's security updates (check that bookworm-security" \
        "is among apt's sources); for other systems add https://apt.llvm.org: wget https://apt.llvm.org/llvm.sh && bash llvm.sh $LLVM_VERSION"
  done
  quietly "$ROOT/build/apt-install.log" \
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "${missing[@]}"
}

# The wanted packages are written to .venv/installed.txt once they are installed, so
# that an unchanged list costs nothing.
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
    # Only ptxas is wanted, not the CUDA toolkit that the wheel depends on. Without
    # it everything works, but PTX is not assembled: that is no reason to stop.
    if ! "${pip[@]}" --no-deps "$PTXAS_WHEEL" >"$ROOT/build/pip-ptxas.log" 2>&1; then
      say "no ptxas: '$PTXAS_WHEEL' could not be installed (see build/pip-ptxas.log); PTX will not be assembled"
      return
    fi
  fi
  printf '%s\n' "$wanted" >"$VENV/installed.txt"
}

mkdir -p "$ROOT/build"
install_packages
install_python_packages
