"""python tools/rooms_picture.py [--check]: draws docs/rooms.svg from the import graph of src/ottla.

Rows are the layers of pyproject's first import contract, arrows are imports between rooms. An arrow
that follows from two others is left out, as are those to the lowest layer, which everybody imports.
`--check` compares the picture that is there with what the code says, and changes nothing.
"""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections import defaultdict
from html import escape
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "ottla"
PICTURE = ROOT / "docs" / "rooms.svg"

WIDTH = 1000
ROW_HEIGHT = 74
BOX_HEIGHT = 34
MARGIN = 24
GAP = 18
CHARACTER_WIDTH = 8.2
BOX_PADDING = 26

# What each row is, for the reader; by one of its rooms.
CAPTIONS = {
    "cli": "commands",
    "testing": "fixtures",
    "sql": "products",
    "queries": "life of Spark queries",
    "engine": "operators with state",
    "spark": "source and sink",
    "rows": "bytes and columns",
    "broker": "servers",
    "rest": "REST servers",
    "client": "over the wire",
    "replica": "decisions",
    "cluster": "metadata and disk",
    "net": "sockets",
    "wire": "no I/O",
    "errors": "for all",
}

Rooms = dict[str, set[str]]


def main() -> int:
    picture = draw(layers(), reduced(imports()))
    if "--check" not in sys.argv[1:]:
        PICTURE.write_text(picture, encoding="utf-8")
        return 0
    if PICTURE.is_file() and PICTURE.read_text(encoding="utf-8") == picture:
        return 0
    print(f"{PICTURE.relative_to(ROOT)} is not what the code says: run tools/rooms_picture.py")
    return 1


def layers() -> list[list[str]]:
    """The rooms of each layer that exist, from the top down."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contract = project["tool"]["importlinter"]["contracts"][0]
    rows = [re.findall(r"ottla\.(\w+)", layer) for layer in contract["layers"]]
    return [row for row in ([room for room in row if exists(room)] for row in rows) if row]


def exists(room: str) -> bool:
    return (SOURCE / room).is_dir() or (SOURCE / f"{room}.py").is_file()


def imports() -> Rooms:
    """Which rooms each room imports, at run time or for types."""
    found: Rooms = defaultdict(set)
    for path in SOURCE.rglob("*.py"):
        room = path.relative_to(SOURCE).parts[0].removesuffix(".py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            for module in modules_of(node):
                parts = module.split(".")
                if parts[0] == "ottla" and len(parts) > 1 and parts[1] != room:
                    found[room].add(parts[1])
    return found


def modules_of(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom) and node.module == "ottla":
        return [f"ottla.{alias.name}" for alias in node.names]
    if isinstance(node, ast.ImportFrom) and node.module:
        return [node.module]
    return []


def reduced(graph: Rooms) -> Rooms:
    """Without the arrows that follow from others."""
    lowest = set(layers()[-1])
    direct = {room: {target for target in graph[room] if target not in lowest} for room in graph}

    def reached(start: str) -> set[str]:
        seen: set[str] = set()
        waiting = [start]
        while waiting:
            for target in direct.get(waiting.pop(), ()):
                if target not in seen:
                    seen.add(target)
                    waiting.append(target)
        return seen

    return {
        room: {
            target
            for target in targets
            if not any(target in reached(other) for other in targets if other != target)
        }
        for room, targets in direct.items()
    }


def draw(rows: list[list[str]], graph: Rooms) -> str:
    boxes = placed(rows)
    height = MARGIN * 2 + ROW_HEIGHT * (len(rows) - 1) + BOX_HEIGHT
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img"'
        ' aria-labelledby="title" font-family="ui-sans-serif, system-ui, sans-serif">',
        "<title id='title'>The rooms of Ottla and who imports whom</title>",
        "<style>.room{fill:#f4f6fa;stroke:#3b5b8c;stroke-width:1.2}"
        ".name{font-size:14px;fill:#1b2a41;text-anchor:middle}"
        ".row{font-size:11px;fill:#6b7789}"
        ".arrow{fill:none;stroke:#7d93b5;stroke-width:1.1}"
        "@media(prefers-color-scheme:dark){.room{fill:#1f2a3a;stroke:#8fb0e0}"
        ".name{fill:#e8eef7}.row{fill:#9aa7ba}}</style>",
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7"'
        ' markerHeight="7" orient="auto"><path d="M0 0 8 4 0 8z" fill="#7d93b5"/></marker></defs>',
    ]
    arrows = sorted((room, target) for room in graph for target in graph[room])
    parts += [arrow(boxes[a], boxes[b]) for a, b in arrows if a in boxes and b in boxes]
    for row in rows:
        _, top, _ = boxes[row[0]]
        caption = next((CAPTIONS[room] for room in row if room in CAPTIONS), "")
        middle = top + BOX_HEIGHT / 2 + 4
        parts.append(f'<text class="row" x="{MARGIN}" y="{middle:g}">{escape(caption)}</text>')
        parts += [box(room, boxes[room]) for room in row]
    return "\n".join([*parts, "</svg>"]) + "\n"


Box = tuple[float, float, float]
"""Left, top, width."""


def placed(rows: list[list[str]]) -> dict[str, Box]:
    boxes: dict[str, Box] = {}
    for number, row in enumerate(rows):
        widths = [len(room) * CHARACTER_WIDTH + BOX_PADDING for room in row]
        left = (WIDTH + 100 - sum(widths) - GAP * (len(row) - 1)) / 2
        for room, width in zip(row, widths, strict=True):
            boxes[room] = (left, MARGIN + number * ROW_HEIGHT, width)
            left += width + GAP
    return boxes


def box(room: str, place: Box) -> str:
    left, top, width = place
    middle, line = left + width / 2, top + BOX_HEIGHT / 2 + 5
    return (
        f'<rect class="room" x="{left:.0f}" y="{top:.0f}" width="{width:.0f}"'
        f' height="{BOX_HEIGHT}" rx="6"/>'
        f'<text class="name" x="{middle:.0f}" y="{line:.0f}">{escape(room)}</text>'
    )


def arrow(upper: Box, lower: Box) -> str:
    """From the bottom of one box to the top of another; a long one swings out to the side."""
    x1, y1 = upper[0] + upper[2] / 2, upper[1] + BOX_HEIGHT
    x2, y2 = lower[0] + lower[2] / 2, lower[1] - 2
    rows = (y2 - y1) / ROW_HEIGHT
    swing = 0.0 if rows < 1 else 46 * (rows - 0.4) * (1 if (x1 + x2) / 2 >= WIDTH / 2 + 50 else -1)
    return (
        f'<path class="arrow" marker-end="url(#tip)" d="M{x1:.0f} {y1:.0f}C{x1 + swing:.0f}'
        f' {y1 + 26:.0f} {x2 + swing:.0f} {y2 - 26:.0f} {x2:.0f} {y2:.0f}"/>'
    )


if __name__ == "__main__":
    raise SystemExit(main())
