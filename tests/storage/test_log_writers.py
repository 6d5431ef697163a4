"""Only `Log` writes to a log's attributes; all others call its methods."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import ottla
from ottla.storage.log import Log

SOURCE = Path(ottla.__file__).parent
ROOMS = ("storage", "replica", "broker")


def written(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Assigned attributes of variables that hold a log."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Attribute) or not isinstance(node.ctx, ast.Store | ast.Del):
            continue
        holder = node.value
        name = holder.id if isinstance(holder, ast.Name) else getattr(holder, "attr", "")
        if name in ("log", "_log", "partition_log") and node.attr in (*Log.__slots__, "config"):
            yield node.lineno, node.attr


def test_only_the_partition_writes_to_its_log() -> None:
    found = [
        f"{path.relative_to(SOURCE)}:{line}: {name}"
        for room in ROOMS
        for path in sorted((SOURCE / room).rglob("*.py"))
        for line, name in written(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert found == []
