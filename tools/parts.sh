#!/usr/bin/env bash
# Runs parts of the checks (targets of the Makefile) in lanes: the parts of a lane one after the other,
# the lanes beside each other, as much of what the parts do is waiting. Says how long each took.
# The first part that fails is the last: the other lanes are ended.
#
#   tools/parts.sh "lint unit clients" "spark delivery"      two lanes
#   tools/parts.sh "unit"                                    one: what it prints is seen as it comes
set -euo pipefail

cd "$(dirname "$0")/.."
begun=$(date +%s)
folder=$(mktemp -d)
lanes=$#
pids=""

clock() { printf '%d:%02d' $(($1 / 60)) $(($1 % 60)); }
say() { printf '== %s, %s since the start\n' "$1" "$(clock $(($(date +%s) - begun)))"; }

# Of several lanes each part is printed when it is done, so that they do not mix.
run_part() {
    if [ "$lanes" = 1 ]; then make --no-print-directory "$1"; return; fi
    code=0
    make --no-print-directory "$1" >"$folder/$1.log" 2>&1 || code=$?
    until mkdir "$folder/printing" 2>/dev/null; do sleep 0.1; done
    printf '== what %s said\n' "$1"
    cat "$folder/$1.log"
    rmdir "$folder/printing"
    return "$code"
}

run_lane() {
    for part in $1; do
        started=$(date +%s)
        say "$part begins"
        code=0
        run_part "$part" || code=$?
        took=$(clock $(($(date +%s) - started)))
        if [ "$code" != 0 ]; then
            say "$part FAILED after $took"
            echo "$part" >"$folder/failed"
            return "$code"
        fi
        say "$part took $took"
        printf '%-14s %6s\n' "$part" "$took" >>"$folder/table"
    done
}

# A lane has a process group of its own: what its part has started ends with it.
end_lanes() {
    for pid in $pids; do kill -TERM -- "-$pid" 2>/dev/null || true; done
    wait
    rm -rf "$folder"
}
trap 'end_lanes; exit 130' INT TERM HUP

set -m
for lane in "$@"; do
    run_lane "$lane" &
    pids="$pids $!"
done
set +m

# A lane that was killed has failed as well, though it could not say so.
left=$pids
while [ -n "$left" ] && [ ! -f "$folder/failed" ]; do
    sleep 1
    still=""
    for pid in $left; do
        if kill -0 "$pid" 2>/dev/null; then still="$still $pid"; continue; fi
        ended=0
        wait "$pid" || ended=$?
        if [ "$ended" != 0 ] && [ ! -f "$folder/failed" ]; then
            echo "a lane that ended with code $ended" >"$folder/failed"
        fi
    done
    left=$still
done
code=0
if [ -f "$folder/failed" ]; then
    code=1
    say "$(cat "$folder/failed") FAILED: it is the first, the rest is not run"
elif [ -f "$folder/table" ]; then
    cat "$folder/table"
    printf '%-14s %6s\n' all "$(clock $(($(date +%s) - begun)))"
fi
end_lanes
exit "$code"
