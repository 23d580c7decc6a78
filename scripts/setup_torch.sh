#!/usr/bin/env bash
# Makes build/torch-env, an environment with PyTorch and its clients for the tests of fp8moe.torch.
# The package itself does not need them. It is quick and silent if everything is installed. It needs
# scripts/setup.sh and Python's package index. If torch cannot be installed, the last line gives the
# reason.
#
# usage: scripts/setup_torch.sh [--help]
#
# A CPU build of torch is preferred if the configured indexes have one. FP8MOE_TORCH is another
# requirement for pip, such as torch==2.12.0. torch.compile needs a C++ compiler: g++ is installed
# if there is none, unless CXX names one.

source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

if [[ "${1:-}" == --help ]]; then
  print_help
  exit
fi
[[ $# -eq 0 ]] || die "unknown argument '$1'; there is only --help"

TORCH_ENV="$ROOT/build/torch-env"
PYTHON="$TORCH_ENV/bin/python"
OLDEST=2.10
# Clients that are tested if they can be installed. Tests of missing ones are skipped with a
# message.
CLIENTS=(transformers torchao triton accelerate)

has() { "$PYTHON" -c "import $1" 2>/dev/null; }

# find_torch: prints the requirement for pip. pip installs a local version such as 2.13.0+cpu only
# by its full name.
find_torch() {
  local newest
  if [[ -n "${FP8MOE_TORCH:-}" ]]; then
    echo "$FP8MOE_TORCH"
    return
  fi
  newest="$("$PYTHON" -m pip index versions torch 2>/dev/null | sed -n 's/^Available versions: //p' |
    tr ',' '\n' | tr -d ' ' | grep '+cpu$' | sort -V | tail -n 1)" || newest=""
  if [[ -n "$newest" ]]; then
    echo "torch==$newest"
  else
    echo "torch>=$OLDEST"
  fi
}

# cannot WHAT LOG: ends with pip's or apt's message.
cannot() {
  tail -n 20 "$2" >&2
  die "$1 cannot be installed ($(grep -m 1 -E '^(E|ERROR):' "$2" || true)); the whole output is in $2"
}

install_torch() {
  local requirement log="$ROOT/build/torch-env.log"
  [[ -x "$PYTHON" ]] || quietly "$log" "$VENV/bin/python" -m venv "$TORCH_ENV"
  if has torch && has pytest && has xdist && has ml_dtypes; then return; fi
  requirement="$(find_torch)"
  say "installing $requirement in build/torch-env (the first time takes some minutes)"
  logged "$log" "$PYTHON" -m pip install "$requirement" ml_dtypes numpy pytest pytest-xdist || cannot "$requirement" "$log"
}

install_compiler() {
  local log="$ROOT/build/torch-env-g++.log"
  if [[ -n "${CXX:-}" ]] || command -v g++ >/dev/null; then return; fi
  say "installing g++ for torch.compile"
  logged "$log" as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends g++ || cannot g++ "$log"
}

install_torch
install_compiler
for client in "${CLIENTS[@]}"; do
  has "$client" || logged "$ROOT/build/torch-env-$client.log" "$PYTHON" -m pip install "$client" ||
    say "$client cannot be installed, so its tests are skipped ($(tail -n 1 "$ROOT/build/torch-env-$client.log"))"
done
