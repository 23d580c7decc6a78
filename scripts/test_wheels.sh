#!/usr/bin/env bash
# Installs the wheels of build/dist (scripts/wheel.sh) on a machine without a compiler or LLVM. In a
# minimal Debian root, an unprivileged user runs scripts/check_wheel.sh with each Python.
#
# usage: scripts/test_wheels.sh [--help] [SUITE [PYTHON...]]     (default: bookworm, with its own Python)
#
# SUITE is a Debian release; `testing` has the newest Python. PYTHON is `debian`, for the release's
# own, or the folder of a Python such as ~/.pyenv/versions/3.12.1, which is copied to the machine.
# It has the requirements of scripts/fresh_root.sh and needs build/release, whose artifacts are
# compared.

source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

if [[ "${1:-}" == --help ]]; then
  print_help
  exit
fi
suite="${1:-bookworm}"
pythons=("${@:2}")
[[ ${#pythons[@]} -gt 0 ]] || pythons=(debian)

DIST="$ROOT/build/dist"
EXPECTED="$ROOT/build/dist-expected"

make_expected() {
  local ptxas
  use_ptxas
  ptxas="$(command -v ptxas)" || die "there is no ptxas: run scripts/setup.sh"
  rm -rf "$EXPECTED"
  "$BUILD/bin/fp8moe-compile" examples/moe_backward.mlir --target={sm_90a,gfx942,gfx950,cpu} --ptxas="$ptxas" -o "$EXPECTED"
  "$ptxas" --version | sed -n 's/.*, V//p' >"$EXPECTED/ptxas-version"
}

# Prints shell commands for the machine: packages that the Python needs, and a user with this
# machine's pip settings.
PREPARE='
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq >/dev/null
apt-get install -qq --no-install-recommends python3-venv libffi8 zlib1g >/dev/null
useradd --create-home user
[[ ! -d /root/.config ]] || cp -r /root/.config /home/user/
chown -R user /home/user
'

copies=(--copy "$DIST" --copy "$EXPECTED")
commands="set -e; $PREPARE"
for python in "${pythons[@]}"; do
  place=/usr
  if [[ "$python" != debian ]]; then
    # The path stays, as a shared Python library is found by it. The user gets access to the folders
    # above.
    place="$(realpath "$python")"
    copies+=(--copy "$place")
    commands+="folder=$place; until [[ \$folder == / ]]; do chmod o+x \$folder; folder=\$(dirname \$folder); done"$'\n'
  fi
  commands+="su user -c '$ROOT/scripts/check_wheel.sh $place/bin/python3 $DIST $EXPECTED'"$'\n'
done
make_expected
say "the wheels in a minimal $suite"
scripts/fresh_root.sh --quiet --suite "$suite" "${copies[@]}" "$commands"
say "the wheels work"
