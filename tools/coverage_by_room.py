"""Coverage by room, from coverage's JSON, held against the floors of tests/coverage_floors.txt.

    python tools/coverage_by_room.py .cache/coverage.json            a table; fails below a floor
    python tools/coverage_by_room.py .cache/coverage.json --write    what it is now are the floors

`make coverage` runs it. A floor is a whole percent, at least MARGIN below what was measured. A
room without a floor is shown and can't fail.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from pathlib import Path

FLOORS = Path(__file__).parent.parent / "tests" / "coverage_floors.txt"
PACKAGE = "src/ottla/"
MARGIN = 1.0
"""Percent by which one run may differ from another: some lines run only if threads meet."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("report", type=Path)
    parser.add_argument("--write", action="store_true", help="make the floors what it is now")
    given = parser.parse_args()
    now = by_room(json.loads(given.report.read_text(encoding="utf-8"))["files"])
    if given.write:
        FLOORS.write_text(floors_of(now), encoding="utf-8")
    below = show(now, floors(FLOORS.read_text(encoding="utf-8")))
    if below:
        sys.exit(f"below their floors: {', '.join(below)}")


def by_room(files: dict[str, dict[str, dict[str, int]]]) -> dict[str, float]:
    """Percent of statements that ran, by folder of src/ottla; `.` is its top-level files."""
    statements: Counter[str] = Counter()
    covered: Counter[str] = Counter()
    for path, found in files.items():
        inside = path.partition(PACKAGE)[2]
        room = inside.partition("/")[0] if "/" in inside else "."
        statements[room] += found["summary"]["num_statements"]
        covered[room] += found["summary"]["covered_lines"]
    rooms = sorted(room for room, count in statements.items() if count)
    shares = {room: 100 * covered[room] / statements[room] for room in rooms}
    return {**shares, "all": 100 * covered.total() / statements.total()}


def floors_of(now: dict[str, float]) -> str:
    return "".join(f"{room} {max(int(percent - MARGIN), 0)}\n" for room, percent in now.items())


def floors(text: str) -> dict[str, int]:
    return {room: int(percent) for room, percent in map(str.split, text.splitlines())}


def show(now: dict[str, float], wanted: dict[str, int]) -> list[str]:
    print(f"{'room':14} {'covered':>8} {'floor':>6}")
    below = []
    for room, percent in now.items():
        floor = wanted.get(room)
        print(f"{room:14} {percent:7.1f}% {'-' if floor is None else f'{floor}%':>6}")
        if floor is not None and percent < floor:
            below.append(room)
    return below


if __name__ == "__main__":
    main()
