#!/usr/bin/env bash
# Builds the site of the documents in build/site: HTML with navigation, search, and a light and a
# dark theme. Warnings and dead links are errors. The first run needs Python's package index, for
# build/docs-env.
#
# usage: scripts/site.sh [--help]

source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

if [[ "${1:-}" == --help ]]; then
  print_help
  exit
fi
[[ $# -eq 0 ]] || die "unknown argument '$1'; there is only --help"

ENVIRONMENT="$ROOT/build/docs-env"
WANTED="$ROOT/docs/requirements.txt"
if ! cmp -s "$WANTED" "$ENVIRONMENT/installed.txt"; then
  say "installing the generator in build/docs-env"
  [[ -x "$ENVIRONMENT/bin/python" ]] || quietly "$ROOT/build/docs-env.log" python3 -m venv "$ENVIRONMENT"
  quietly "$ROOT/build/docs-env.log" "$ENVIRONMENT/bin/python" -m pip install --disable-pip-version-check -q -r "$WANTED"
  cp "$WANTED" "$ENVIRONMENT/installed.txt"
fi

export PYTHONPATH="$ROOT/scripts" NO_MKDOCS_2_WARNING=1 DISABLE_MKDOCS_2_WARNING=true
"$ENVIRONMENT/bin/python" scripts/site_pages.py
"$ENVIRONMENT/bin/mkdocs" build --strict --quiet
say "the site is in build/site; python3 -m http.server -d build/site serves it, with search"
