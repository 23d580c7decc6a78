#!/usr/bin/env bash
# Runs commands as on a fresh machine: in a minimal Debian root made by debootstrap, with a clone of
# the committed HEAD at the path of this checkout. The default commands are those of README.md.
#
# usage: scripts/fresh_root.sh [OPTION...] [COMMAND...]     (default: scripts/quickstart.sh scripts/test.sh)
#   --suite NAME       the Debian release: bookworm (default), trixie
#   --mirror URL       where Debian's packages are (default: where apt of this machine has them from)
#   --security URL     the same for security updates
#   --ccache DIR       a folder of ccache that the root shares (default: none, as on a new machine)
#   --fetch PATH       a folder or file of the clone that at the end replaces that of this checkout; may be repeated
#   --copy PATH[:AS]   a folder or file that the root gets, at the same place or at AS; may be repeated
#   --keep             keep the root, to look inside; its place is printed
#   --quiet            print what the commands print, and why there is no root
#   --help             print this
#
# It needs root, debootstrap, permission to mount (unshare), and about 8 GiB below $TMPDIR. Packages
# come from the mirrors, proxies and certificates of this machine's apt and pip. Mounts are private
# to the commands. Only the variables CI and FP8MOE_TEST_SEED are passed on.
#
# The exit status is 0 if all commands passed and 1 if one failed (the last line says which). It is
# 2 for a wrong option and 3 if no root could be made.

set -euo pipefail

ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
CACHE=/var/cache/ccache
CERTIFICATES=/etc/ssl/certs/ca-certificates.crt

suite=bookworm mirror= security= ccache= keep=0 quiet=0
fetched=() copied=() commands=()

# stop STATUS MESSAGE...
stop() {
  printf 'error: %s\n' "${*:2}" >&2
  exit "$1"
}

say() { ((quiet)) || printf 'fresh root: %s\n' "$*"; }

parse_options() {
  while [[ $# -gt 0 ]]; do
    case "$1" in
      --suite | --mirror | --security | --ccache | --fetch | --copy)
        [[ $# -gt 1 ]] || stop 2 "$1 needs a value; see --help"
        ;;&
      --suite) suite="$2" && shift ;;
      --mirror) mirror="$2" && shift ;;
      --security) security="$2" && shift ;;
      --ccache) ccache="$2" && shift ;;
      --fetch) fetched+=("$2") && shift ;;
      --copy) copied+=("$2") && shift ;;
      --keep) keep=1 ;;
      --quiet) quiet=1 ;;
      --help)
        source "$ROOT/scripts/common.sh"
        print_help
        exit 0
        ;;
      -*) stop 2 "unknown option '$1'; see --help" ;;
      *) commands+=("$1") ;;
    esac
    shift
  done
  [[ "$suite" =~ ^[a-z]+$ ]] || stop 2 "a suite is the name of a Debian release, such as trixie, not '$suite'"
  [[ -z "$ccache" || -d "$ccache" ]] || stop 2 "there is no folder '$ccache' for --ccache"
  local i
  for i in "${!fetched[@]}"; do
    check_fetched "${fetched[i]}"
    fetched[i]="$(realpath -ms --relative-to="$ROOT" "$ROOT/${fetched[i]}")"
  done
  [[ ${#commands[@]} -gt 0 ]] || commands=(scripts/quickstart.sh scripts/test.sh)
}

# check_fetched PATH: refuses paths outside of the checkout, the whole checkout, and its history.
check_fetched() {
  [[ -n "$1" && "$1" != /* && "/$1/" != */../* && "$(realpath -ms "$ROOT/$1")" != "$ROOT" ]] ||
    stop 2 "--fetch takes a path inside the checkout, not '$1'"
  [[ "/$1/" != */.git/* ]] || stop 2 "--fetch does not replace what is git's own, such as '$1'"
}

check_requirements() {
  [[ $EUID -eq 0 ]] || stop 3 "making a root needs root: sudo scripts/fresh_root.sh"
  local message
  message="$(git -C "$ROOT" rev-parse --verify HEAD 2>&1 >/dev/null)" ||
    stop 3 "$ROOT is no checkout of git with a commit that can be cloned: $message"
  PATH="$PATH:/usr/sbin:/sbin"
  command -v debootstrap >/dev/null || stop 3 "debootstrap is not installed: apt-get install debootstrap"
  unshare --mount --pid --fork --kill-child true 2>/dev/null ||
    stop 3 "this system does not let unshare make a mount namespace (a container without CAP_SYS_ADMIN?)"
}

# find_source LABEL: prints the mirror of this machine's apt for Debian packages with that label.
find_source() {
  { apt-get indextargets --format '$(ORIGIN)|$(LABEL)|$(REPO_URI)' 'Identifier: Packages' 2>/dev/null || true; } |
    awk -F'|' -v label="$1" '$1 == "Debian" && $2 == label && !found++ { print $3 }'
}

# debootstrap uses apt's proxy, too, but reads only the environment.
use_proxy_of_apt() {
  command -v apt-config >/dev/null || return 0
  local proxy=
  eval "$(apt-config shell proxy Acquire::http::Proxy)"
  [[ -z "$proxy" || "$proxy" == DIRECT ]] || export http_proxy="${http_proxy:-$proxy}"
}

# enter_namespaces COMMAND...: runs the command in its own mount and process namespaces, which end
# with it. It runs in the background, so that a signal ends this script at once.
enter_namespaces() {
  local status=0
  unshare --mount --propagation private --pid --fork --kill-child "$@" </dev/null &
  child=$!
  wait "$child" || status=$?
  child=
  return "$status"
}

make_root() {
  mirror="${mirror:-$(find_source Debian)}"
  security="${security:-$(find_source Debian-Security)}"
  [[ -n "$mirror" && -n "$security" ]] ||
    stop 3 "apt of this machine has no Debian sources; name them with --mirror and --security"
  use_proxy_of_apt
  say "making a minimal $suite"
  # Cloning needs git and ca-certificates.
  enter_namespaces debootstrap --variant=minbase --include=ca-certificates,git \
    "$suite" "$tree" "$mirror" >"$work/debootstrap.log" 2>&1 || {
    tail -n 20 "$work/debootstrap.log" >&2
    stop 3 "debootstrap could not make a $suite from $mirror"
  }
}

# Copies this machine's settings for package downloads to the root.
copy_settings() {
  printf 'deb %s %s main\n' "$mirror" "$suite" "$mirror" "$suite-updates" "$security" "$suite-security" >"$tree/etc/apt/sources.list"
  if command -v apt-config >/dev/null; then
    apt-config dump | grep -E '^Acquire::(http|https|Check|Force)' >"$tree/etc/apt/apt.conf.d/90host" || true
  fi
  echo 'Acquire::Retries "5";' >>"$tree/etc/apt/apt.conf.d/90host"
  local file
  for file in /etc/resolv.conf /etc/hosts /etc/pip.conf "$CERTIFICATES"; do
    [[ ! -f "$file" ]] || cp -L "$file" "$tree$file"
  done
  # pip warns about and ignores folders of this machine in these files.
  for file in "${XDG_CONFIG_HOME:-$HOME/.config}/pip/pip.conf" "$HOME/.pip/pip.conf"; do
    [[ ! -f "$file" ]] || install -D -m 644 "$file" "$tree/root/.config/pip/pip.conf"
  done
}

# Copies the files of --copy to the root.
copy_files() {
  local entry from to
  for entry in "${copied[@]}"; do
    from="$(realpath -m "${entry%%:*}")" to="$(realpath -ms "${entry##*:}")"
    [[ -e "$from" ]] || stop 2 "there is nothing at '$from' for --copy"
    mkdir -p "$tree$(dirname "$to")"
    cp -a "$from" "$tree$to"
  done
}

# Prints the environment of the commands, one NAME=VALUE a line.
list_environment() {
  printf '%s\n' HOME=/root LANG=C.UTF-8 TERM=dumb PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
  [[ ! -f "$tree$CERTIFICATES" ]] || printf '%s\n' "SSL_CERT_FILE=$CERTIFICATES" "PIP_CERT=$CERTIFICATES"
  [[ -z "$ccache" ]] || echo "CCACHE_DIR=$CACHE"
  local name
  for name in {http,https,no}_proxy {HTTP,HTTPS,NO}_PROXY PIP_{INDEX_URL,EXTRA_INDEX_URL,TRUSTED_HOST,PROXY,DEFAULT_TIMEOUT,RETRIES} \
    CI FP8MOE_TEST_SEED; do
    [[ -z "${!name:-}" ]] || echo "$name=${!name}"
  done
}

# run_inside COMMAND
run_inside() {
  local environment
  readarray -t environment < <(list_environment)
  # shellcheck disable=SC2016  # the inner shell expands
  enter_namespaces bash -c '
    set -e
    tree=$1 ccache=$2 cache=$3 folder=$4 command=$5
    shift 5
    mount -t proc proc "$tree/proc"
    mount --rbind /dev "$tree/dev"
    mount -t tmpfs tmpfs "$tree/dev/shm"
    if [[ -n $ccache ]]; then
      mkdir -p "$tree$cache"
      mount --bind "$ccache" "$tree$cache"
    fi
    exec env -i "$@" chroot "$tree" bash -c "cd \"\$0\" || exit; $command" "$folder"
  ' fresh-root "$tree" "$ccache" "$CACHE" "$ROOT" "$1" "${environment[@]}"
}

run_commands() {
  local command begin
  for command in "${commands[@]}"; do
    say "running $command"
    begin=$SECONDS
    if run_inside "$command"; then
      say "$command passed in $((SECONDS - begin)) s"
    else
      failure="$command failed after $((SECONDS - begin)) s"
      return
    fi
  done
}

# An old file is removed only after its whole replacement was copied next to it.
fetch_files() {
  local path target beside
  for path in "${fetched[@]}"; do
    target="$ROOT/$path"
    [[ -e "$tree$target" ]] || continue
    mkdir -p "$(dirname "$target")"
    beside="$(mktemp -d "$target.XXXXXX")"
    cp -r "$tree$target" "$beside/new" || {
      rm -rf "$beside"
      stop 1 "cannot copy $path from the root"
    }
    [[ ! -e "$target" ]] || mv -T "$target" "$beside/old"
    mv -T "$beside/new" "$target"
    rm -rf "$beside"
  done
}

# Ending the first process of the namespace ends all others. unshare ignores signals and then ends,
# too.
stop_commands() {
  local first=
  read -r first <"/proc/$child/task/$child/children" || true # the file has no final newline
  kill -KILL ${first:-"$child"}
  wait "$child"
}

# No mounts are visible here. --one-file-system guards against unforeseen ones.
finish() {
  [[ -z "$child" ]] || stop_commands 2>/dev/null || true
  if ((keep)) && [[ -d "$tree" ]]; then
    printf 'fresh root: kept in %s\n' "$tree" >&2
  else
    rm -rf --one-file-system "$work"
  fi
}

main() {
  parse_options "$@"
  check_requirements
  work="$(mktemp -d "${TMPDIR:-/tmp}/fresh-root.XXXXXX")"
  tree="$work/root" child='' failure=''
  trap finish EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM HUP
  make_root
  copy_settings
  mkdir -p "$tree$(dirname "$ROOT")"
  git clone -q --no-hardlinks "$ROOT" "$tree$ROOT" || stop 3 "cannot clone $ROOT"
  copy_files
  run_commands
  fetch_files
  say "${failure:-passed on $suite}"
  [[ -z "$failure" ]]
}

# A single command, so that editing this file does not affect a running script.
main "$@"; exit
