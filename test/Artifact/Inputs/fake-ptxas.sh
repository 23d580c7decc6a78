#!/bin/sh
# Stands in for ptxas: prints the log that FAKE_PTXAS_LOG names, or FAKE_PTXAS_ALONE_LOG
# for PTX that asks for one resident block, writes the beginning of a cubin unless
# FAKE_PTXAS_SILENT is set, and fails when FAKE_PTXAS_STATUS says so. It never
# ends where FAKE_PTXAS_HANGS is set.
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
