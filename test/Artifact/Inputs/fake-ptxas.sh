#!/bin/sh
# Stands in for ptxas in tests of its errors and warnings. Environment variables set what it does:
#   FAKE_PTXAS_LOG        the file that it prints
#   FAKE_PTXAS_ALONE_LOG  the file that it prints instead for PTX with `.minnctapersm 1`
#   FAKE_PTXAS_SILENT     write no cubin
#   FAKE_PTXAS_STATUS     the exit status (default: 0)
#   FAKE_PTXAS_HANGS      compile for ten minutes
[ -z "$FAKE_PTXAS_HANGS" ] || [ "$1" = --help ] || exec sleep 600
log="$FAKE_PTXAS_LOG"
while [ $# -gt 0 ]; do
  case "$1" in
  -o) [ -n "$FAKE_PTXAS_SILENT" ] || printf '\177ELF' > "$2" ;;
  *.ptx)
    if [ -n "$FAKE_PTXAS_ALONE_LOG" ] && grep -q 'minnctapersm 1' "$1"; then
      log="$FAKE_PTXAS_ALONE_LOG"
    fi
    ;;
  esac
  shift
done
cat "$log"
exit "${FAKE_PTXAS_STATUS:-0}"
