#!/usr/bin/env bash
# Makes and checks all files of a release in build/dist, with checksums: a wheel for each Python,
# the runtime wheel and the sdist. The version is that of python-bindings/fp8moe/__init__.py.
# CHANGELOG.md must begin with it and a date.
#
# usage: scripts/release.sh [--help] [--reuse] PYTHON...
#
# PYTHON and --reuse are passed to scripts/wheel.sh. A release has Pythons 3.10, 3.11 and 3.12.
# Nothing is uploaded. scripts/test_wheels.sh installs the wheels on other machines.

source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

if [[ "${1:-}" == --help ]]; then
  print_help
  exit
fi
DIST="$ROOT/build/dist"

check_version() {
  version="$(sed -n 's/^__version__ = "\(.*\)"/\1/p' python-bindings/fp8moe/__init__.py)"
  [[ "$(grep -m 1 '^## ' CHANGELOG.md)" =~ ^"## $version ("[0-9]{4}-[0-9]{2}-[0-9]{2}")"$ ]] ||
    die "CHANGELOG.md begins with '$(grep -m 1 '^## ' CHANGELOG.md)', expected '## $version (DATE)'"
  [[ -z "$(git status --porcelain)" ]] || die "the working tree differs from the last commit: commit first"
}

# The sdist contains the committed files.
check_sdist() {
  local folder="$ROOT/build/dist-sdist"
  rm -rf "$folder"
  mkdir -p "$folder/git"
  tar -C "$folder" -xzf "$DIST/fp8moe-$version.tar.gz"
  git archive HEAD | tar -C "$folder/git" -x
  diff -r --exclude=PKG-INFO "$folder/git" "$folder/fp8moe-$version" || die "the sdist differs from the commit"
}

# check_wheel FILE: checks the version and the programs of a wheel.
check_wheel() {
  local listed
  listed="$("$ROOT/build/dist-tools/bin/python" -m zipfile -l "$1" | awk '{ print $1 }')"
  [[ "$(basename "$1")" == *-"$version"-* ]] || die "$(basename "$1") is not of version $version"
  grep -q "^fp8moe/libfp8moe_runtime.so$" <<<"$listed" || die "$1 has no runtime"
  [[ "$1" == */fp8moe_runtime-* ]] || grep -q "^fp8moe/fp8moe-run$" <<<"$listed" || die "$1 has no fp8moe-run"
}

check_version
scripts/wheel.sh "$@"
check_sdist
for wheel in "$DIST"/*.whl; do
  check_wheel "$wheel"
done
"$ROOT/build/dist-tools/bin/python" -m pip install -q --disable-pip-version-check twine
"$ROOT/build/dist-tools/bin/python" -m twine check "$DIST"/*.whl "$DIST"/*.tar.gz
(cd "$DIST" && sha256sum -- *.whl *.tar.gz >SHA256SUMS && cat SHA256SUMS)
say "version $version is in $DIST"
