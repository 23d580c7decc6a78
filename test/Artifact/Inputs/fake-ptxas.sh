#!/bin/sh
# Stands in for ptxas: prints the log that FAKE_PTXAS_LOG names, writes an empty
# cubin, and fails when FAKE_PTXAS_STATUS says so.
cat "$FAKE_PTXAS_LOG"
while [ $# -gt 0 ]; do
  if [ "$1" = -o ]; then
    : > "$2"
  fi
  shift
done
exit "${FAKE_PTXAS_STATUS:-0}"
