#!/usr/bin/env bash
# Installs the wheels of build/dist (scripts/wheel.sh) on a machine without a compiler or LLVM: a minimal Debian in a folder, in
# which a user without rights runs scripts/check_wheel.sh with each Python.
#
# usage: scripts/test_wheels.sh [--help] [SUITE [PYTHON...]]     (default: bookworm, with its own Python)
#
# SUITE is a Debian release; `testing` has the newest Python. PYTHON is `debian`, for the release's own, or the folder of a
# Python, such as ~/.pyenv/versions/3.12.1, which the machine gets. It takes what scripts/fresh_root.sh takes, and the build in
# build/release, whose artifacts are compared.

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

# Lines of shell for the machine: what a Python of Debian or of a folder needs, and a user with this machine's settings of pip.
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
    # At the same place, which the library of a shared Python is named by; a user passes the folders above it.
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
