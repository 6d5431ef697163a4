#!/bin/sh
# Runs parts of the checks (targets of the Makefile) one after the other, and says how long each took.
# Stops at the first that fails.
#
#   tools/parts.sh lint unit spark
set -eu

clock() { printf '%d:%02d' $(($1 / 60)) $(($1 % 60)); }

cd "$(dirname "$0")/.."
begun=$(date +%s)
table=""
for part in "$@"; do
    started=$(date +%s)
    printf '== %s\n' "$part"
    code=0
    make --no-print-directory "$part" || code=$?
    now=$(date +%s)
    took=$(clock $((now - started)))
    so_far="$(clock $((now - begun))) since the start"
    if [ "$code" != 0 ]; then
        printf '== %s FAILED after %s (%s)\n' "$part" "$took" "$so_far"
        exit "$code"
    fi
    printf '== %s took %s (%s)\n' "$part" "$took" "$so_far"
    table="$table$(printf '%-14s %6s' "$part" "$took")
"
done
printf '%s%-14s %6s\n' "$table" all "$(clock $(($(date +%s) - begun)))"
