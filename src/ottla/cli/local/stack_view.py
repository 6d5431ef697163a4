"""A stack in a terminal: a table that fills while services start, and how services end.

Without a terminal each step is a line.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from rich import box
from rich.console import Console, RenderableType
from rich.live import Live
from rich.markup import escape
from rich.panel import Panel
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from ottla.cli.console import console
from ottla.cli.local.health import Health
from ottla.cli.local.local_service import LocalService, tail
from ottla.cli.local.run_records import RunRecord
from ottla.cli.local.stack import relative_path

FRAMES_PER_S: Final = 10


@dataclass(slots=True)
class _Row:
    service: LocalService
    began: float = 0.0
    ready_s: float | None = None
    words: str = ""


class StackView:
    """Inside `with`, services start: `starting`, then `show` until each is ready."""

    def __init__(self, services: Sequence[LocalService]) -> None:
        self._rows = {service.name: _Row(service) for service in services}
        self._console: Console = console()
        self._live: Live | None = None
        self._began = time.monotonic()
        self._spinner = Spinner("dots", style="cyan")
        if self._console.is_terminal:
            self._live = Live(
                get_renderable=self._table, console=self._console, refresh_per_second=FRAMES_PER_S
            )

    @property
    def took_s(self) -> float:
        return time.monotonic() - self._began

    def starting(self, service: LocalService) -> None:
        self._rows[service.name].began = time.monotonic()
        if self._live is None:
            self._console.print(f"{service.name} on {service.address} ...")

    def show(self, record: RunRecord, health: Health) -> None:
        row = self._rows[record.name]
        row.words = health.words if health.reached else ""
        if health.ready and row.ready_s is None:
            row.ready_s = time.monotonic() - row.began
            if self._live is None:
                self._console.print(f"{record.name} is ready after {row.ready_s:.1f} s")

    def __enter__(self) -> Self:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._live is not None:
            self._live.stop()
        elif kind is None:
            self._console.print(self._table())

    def _table(self) -> Table:
        table = service_table("service", "address", "state", "log")
        for row in self._rows.values():
            table.add_row(
                row.service.name,
                f"[cyan]{row.service.address}[/]",
                self._state(row),
                f"[dim]{escape(relative_path(row.service.log))}[/]",
            )
        return table

    def _state(self, row: _Row) -> RenderableType:
        if row.ready_s is not None:
            return Text(f"ready after {row.ready_s:.1f} s", style="green")
        if not row.began:
            return Text("waits", style="dim")
        words = row.words or "starts"
        self._spinner.update(text=Text(f"{words} ... {time.monotonic() - row.began:.0f} s"))
        return self._spinner.render(time.monotonic())


def service_table(*columns: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, header_style="bold")
    for column in columns:
        right = column.startswith(">")
        table.add_column(
            column.removeprefix(">"), justify="right" if right else "left", overflow="fold"
        )
    return table


def print_failure(record: RunRecord, words: str) -> None:
    """A service that has ended, with the last lines of its log."""
    title = f"[bold red]{escape(record.name)} {escape(words)}[/]"
    out = console()
    last = tail(Path(record.log))
    if not last:
        out.print(f"{title}; its log is empty")
    elif out.is_terminal:
        source = f"[dim]the last lines of {escape(relative_path(record.log))}[/]"
        panel = Panel(Text(last), title=title, subtitle=source, border_style="red")
        panel.title_align = panel.subtitle_align = "left"
        out.print(panel)
    else:
        out.print(f"{title}; the last lines of {escape(record.log)}:")
        out.print(Text(last))
