"""The messages of `ottla sql-server` on the terminal."""

from __future__ import annotations

import time
from typing import Final

from rich.console import Console
from rich.markup import escape
from rich.panel import Panel
from rich.table import Table

import ottla
from ottla.sql.ksql_config import CONNECT_URL, CONNECT_WORKER, QUERIES_FILE, KsqlConfig

WIDE: Final = 100


class ServerBanner:
    """Prints to standard error."""

    def __init__(self, settings: KsqlConfig, url: str, *, headless: bool) -> None:
        self._settings = settings
        self._url = url
        self._headless = headless
        self._began = time.monotonic()
        self._console = Console(stderr=True, highlight=False, emoji=False)

    def start(self) -> None:
        settings = self._settings
        facts = Table.grid(padding=(0, 2))
        facts.add_row("[dim]REST[/]", f"[cyan]{escape(self._url)}[/]")
        facts.add_row("[dim]Kafka[/]", escape(settings.bootstrap_servers))
        facts.add_row("[dim]service id[/]", escape(settings.service_id))
        facts.add_row("[dim]state[/]", escape(str(settings.state_root)))
        if CONNECT_URL in settings.properties:
            own = " [dim](started here)[/]" if settings.get(CONNECT_WORKER) else ""
            facts.add_row("[dim]Connect[/]", escape(settings.get(CONNECT_URL)) + own)
        if self._headless:
            facts.add_row("[dim]statements[/]", escape(settings.get(QUERIES_FILE)))
        mode = " · headless" if self._headless else ""
        title = f"[bold]Ottla SQL[/] {ottla.__version__}{mode}"
        self._console.print(Panel(facts, title=title, title_align="left", expand=False, width=None))
        more = "." if self._headless else "; statements are accepted already."
        self._console.print(f"[dim]Spark is starting{more}[/]")

    def spark(self, trouble: str) -> None:
        if trouble:
            self._console.print(f"[bold red]Spark did not start[/] {escape(trouble)}")

    def ready(self) -> None:
        """Spark is running, and the command topic has been replayed."""
        took = time.monotonic() - self._began
        prompt = "" if self._headless else f"`ottla sql --server {self._url}` is a prompt; "
        self._console.print(
            f"[green]Ready[/] after {took:.1f} s. [dim]{prompt}Ctrl-C stops the server.[/]"
        )

    def stopping(self) -> None:
        self._console.print("[dim]Stopping; queries continue from here at the next start.[/]")

    def stopped(self) -> None:
        self._console.print("[dim]Stopped.[/]")
