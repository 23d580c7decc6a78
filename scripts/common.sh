# Shared by the scripts of this folder: `source` it.

set -euo pipefail

ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
VENV="$ROOT/.venv"
PRESET=release
BUILD="$ROOT/build/$PRESET"
LLVM_VERSION=22
LLVM_BIN="/usr/lib/llvm-$LLVM_VERSION/bin"
cd "$ROOT"

# say MESSAGE: prints a progress line with the seconds since the script began.
say() { printf '[%4ds] %s\n' "$SECONDS" "$*"; }

die() {
  printf 'error: %s\n' "$*" >&2
  exit 1
}

# print_help: prints the comment at the head of the calling script.
print_help() { sed -n '2,/^$/s/^# \{0,1\}//p' "$ROOT/scripts/$(basename "$0")"; }

# shorten WIDTH: prints standard input with lines of at most WIDTH characters. Longer lines lose
# their middle, because their end names the file that is compiled.
shorten() {
  awk -v width="$1" '{ print length($0) <= width ? $0 : substr($0, 1, 12) "..." substr($0, length($0) - width + 16) }'
}

# follow LOG: shows the last line of LOG while the script runs. A terminal shows it in place, other
# outputs get a line from time to time.
follow() {
  local log="$1" pause="${FP8MOE_PROGRESS_SECONDS:-20}" width=100 line
  if [[ -t 1 ]]; then
    # A wrapped line could not be overwritten.
    width=$(($(tput cols 2>/dev/null || echo 80) - 12))
    pause=1
  fi
  # Readers of the script's output must not wait for this sleep.
  while sleep "$pause" >/dev/null 2>&1 && kill -0 "$$" 2>/dev/null; do
    # A progress bar rewrites its line.
    line="$(tail -n 1 "$log" 2>/dev/null | tr '\r' '\n' | grep -v '^$' | tail -n 1 | shorten "$width" || true)"
    # Before the log has output, sudo may be asking for a password.
    [[ -n "$line" ]] || continue
    if [[ -t 1 ]]; then
      printf '\r\033[K[%4ds]   %s' "$SECONDS" "$line"
    else
      say "  $line"
    fi
  done
}

# logged LOG COMMAND...: runs the command with its output in LOG and shows LOG's last line
# meanwhile. Returns the command's status, or that of `die` in it.
logged() {
  local log="$1" status=0 follower
  shift
  mkdir -p "$(dirname "$log")"
  : >"$log"
  follow "$log" &
  follower=$!
  ("$@") >"$log" 2>&1 || status=$?
  kill "$follower" 2>/dev/null || true
  wait "$follower" 2>/dev/null || true
  [[ ! -t 1 ]] || printf '\r\033[K'
  return "$status"
}

# interruptible COMMAND...: lets Ctrl-C end a command with its own process group, such as `timeout`,
# which the terminal's interrupt does not reach.
interruptible() {
  local command
  "$@" &
  command=$!
  trap 'kill -TERM "$command" 2>/dev/null; wait "$command" || true; trap - INT; kill -INT "$BASHPID"' INT
  wait "$command"
}

# quietly LOG COMMAND...: like `logged`, but prints the end of LOG and ends the script if the
# command fails.
quietly() {
  local log="$1"
  if ! logged "$@"; then
    shift
    tail -n 60 "$log" >&2
    die "'$*' failed; the whole output is in $log"
  fi
}

# as_root COMMAND...: runs the command as root, to install Debian packages.
as_root() {
  if [[ $EUID -eq 0 ]]; then
    "$@"
  else
    command -v sudo >/dev/null ||
      die "installing packages needs root or sudo; as root run: scripts/$(basename "$0")"
    sudo "$@"
  fi
}

# is_usable_ptxas PATH: whether it is an executable of CUDA 12.8 or later, which supports the newest
# target's PTX.
is_usable_ptxas() {
  local version
  [[ -x "$1" ]] || return 1
  version="$("$1" --version | sed -n 's/.*release \([0-9]*\)\.\([0-9]*\).*/\1 \2/p')"
  read -r major minor <<<"$version"
  ((${major:-0} > 12 || (${major:-0} == 12 && ${minor:-0} >= 8)))
}

# find_ptxas PATH...: prints the first usable ptxas, if any, of $FP8MOE_PTXAS, PATH, /usr/local/cuda
# and the arguments.
find_ptxas() {
  local candidate
  for candidate in "${FP8MOE_PTXAS:-}" "$(command -v ptxas || true)" \
    /usr/local/cuda/bin/ptxas "$@"; do
    if is_usable_ptxas "$candidate"; then
      echo "$candidate"
      return
    fi
  done
}

# Tools and tests look for ptxas in PATH.
use_ptxas() {
  local ptxas
  ptxas="$(find_ptxas "$VENV"/lib/python3*/site-packages/nvidia/cu13/bin/ptxas)"
  if [[ -n "$ptxas" ]]; then
    PATH="$(dirname "$ptxas"):$PATH"
    export PATH
  fi
}

# use_preset NAME: selects the preset that later functions configure and build.
use_preset() {
  PRESET="$1"
  BUILD="$ROOT/build/$PRESET"
}

# configure: runs CMake for the preset, with ccache where it is installed.
configure() {
  local options=(-DPython3_EXECUTABLE="$VENV/bin/python" -DPython_EXECUTABLE="$VENV/bin/python")
  if command -v ccache >/dev/null; then
    # Precompiled headers hide include times and macros from ccache.
    export CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
    options+=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache -DCMAKE_C_COMPILER_LAUNCHER=ccache)
  fi
  quietly "$BUILD/configure.log" cmake --preset "$PRESET" "${options[@]}"
}

# build TARGET...: builds the targets with all cores.
build() {
  quietly "$BUILD/build.log" ninja -C "$BUILD" "$@"
}
