#!/usr/bin/env bash
# Runs parts of the checks (targets of the Makefile) in lanes: the parts of a lane one after the other,
# the lanes beside each other, as much of what the parts do is waiting. Says how long each took.
# The first part that fails is the last: the other lanes end, with every process that they started.
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

# The processes that the lanes started and that still run. Spark's daemons, brokers and ZooKeeper leave
# the lane's process group (setsid), and their parents die before them, so neither group nor parent
# finds them: the mark in their environment does. Without /proc only the groups are ended.
marked() {
    { grep -lsz "^OTTLA_PARTS_RUN=$OTTLA_PARTS_RUN\$" /proc/[0-9]*/environ || true; } | cut -d/ -f3
}

signal_all() { for pid in $(marked); do kill "-$1" "$pid" 2>/dev/null || true; done; }

end_lanes() {
    for pid in $pids; do kill -TERM -- "-$pid" 2>/dev/null || true; done
    signal_all TERM
    for _ in $(seq 50); do
        if [ -z "$(marked)" ]; then break; fi
        sleep 0.2
    done
    signal_all KILL
    wait
    rm -rf "$folder"
}
trap 'end_lanes; exit 130' INT TERM HUP

# `marked` finds this run's processes by it. A nested run has its own mark.
export OTTLA_PARTS_RUN="$$-$begun"

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
    grep -hs '^failing: ' "$folder"/*.log | sort -u || true
    say "$(cat "$folder/failed") FAILED: it is the first, the rest is not run"
elif [ -f "$folder/table" ]; then
    cat "$folder/table"
    printf '%-14s %6s\n' all "$(clock $(($(date +%s) - begun)))"
fi
end_lanes
exit "$code"
