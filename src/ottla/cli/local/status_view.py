"""`ottla status` and `ottla cluster status`: what runs, for how long, and whether it answers."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from rich.markup import escape

from ottla.cli.console import console, print_json
from ottla.cli.local.health import PROBES, Health
from ottla.cli.local.process_identity import PROC
from ottla.cli.local.run_records import RunRecord
from ottla.cli.local.stack import Stack, relative_path
from ottla.cli.local.stack_view import service_table

PROBES_MAX = 16


def print_status(stack: Stack, *, as_json: bool) -> int:
    """Returns 0 if everything is ready, else 1."""
    records = stack.services
    with ThreadPoolExecutor(PROBES_MAX) as pool:
        rows = list(pool.map(_row, records))
    if as_json:
        print_json({"folder": str(stack.folder), "services": rows})
    else:
        _print(stack, rows)
    return 0 if rows and all(row["state"] == "ready" for row in rows) else 1


def _print(stack: Stack, rows: list[dict[str, Any]]) -> None:
    table = service_table("service", "address", "state", ">pid", ">up", ">memory", "log")
    for row in rows:
        color = "green" if row["state"] == "ready" else "red"
        if row["state"] == "starts":
            color = "yellow"
        words = f" [dim]({escape(row['words'])})[/]" if row["words"] else ""
        table.add_row(
            row["service"],
            f"[cyan]{row['address']}[/]",
            f"[{color}]{row['state']}[/]{words}",
            str(row["pid"] or "-"),
            _duration(row["up_s"]),
            _size(row["memory_bytes"]),
            f"[dim]{escape(relative_path(row['log']))}[/]",
        )
    out = console()
    out.print(table)
    down = f"{stack.started_by.removesuffix('up')}down"
    out.print(f"[dim]data in {escape(relative_path(stack.folder))}; `{down}` ends them[/]")


def _row(record: RunRecord) -> dict[str, Any]:
    alive = record.is_alive
    health = PROBES[record.probe](record.address) if alive else Health(False, record.note)
    state = "ready" if health.ready else "starts" if record.is_restarting else "ended"
    if alive and not health.ready:
        state = "starts" if health.reached or (_up_s(record) or 0) < 60 else "no answer"
    return {
        "service": record.name,
        "address": record.address,
        "state": state,
        "words": health.words if state != "starts" or health.reached else "",
        "pid": record.process.pid if alive else None,
        "up_s": _up_s(record) if alive else None,
        "memory_bytes": _memory(record.process.pid) if alive else None,
        "log": record.log,
    }


def _up_s(record: RunRecord) -> float | None:
    """How long the process has run; None if /proc does not say."""
    try:
        ticks = int(record.process.start.rpartition(" ")[2])
        up_s = float((PROC / "uptime").read_text().split()[0])
    except (OSError, ValueError):
        return None
    return max(0.0, up_s - ticks / os.sysconf("SC_CLK_TCK"))


def _memory(pid: int) -> int | None:
    """Of the process and its children, because Spark's JVM is one of them."""
    try:
        pages = int((PROC / str(pid) / "statm").read_text().split()[1])
        listed = [
            children.read_text() for children in (PROC / str(pid) / "task").glob("*/children")
        ]
    except (OSError, ValueError, IndexError):
        return None
    page = os.sysconf("SC_PAGE_SIZE")
    children = " ".join(listed).split()
    return pages * page + sum(_memory(int(child)) or 0 for child in children)


def _duration(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    if seconds < 60:
        return f"{seconds:.0f} s"
    if seconds < 3600:
        return f"{seconds / 60:.0f} min"
    if seconds < 86400:
        return f"{seconds / 3600:.0f} h"
    return f"{seconds / 86400:.0f} days"


def _size(count: int | None) -> str:
    return "-" if count is None else f"{count / (1 << 20):,.0f} MB"
