"""A worker in the foreground, until somebody ends it."""

from __future__ import annotations

import logging
import signal
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Final

from rich.console import Console
from rich.logging import RichHandler
from rich.markup import escape
from rich.panel import Panel
from rich.table import Table

import ottla
from ottla.connect import providers
from ottla.connect.errors import ConfigException, ConnectException
from ottla.connect.files import Wanted, wanted_of
from ottla.connect.herder.refusals import Refusal
from ottla.connect.run.connect_spark import connect_spark
from ottla.connect.run.connect_worker import ConnectWorker
from ottla.connect.settings import Settings
from ottla.queries.spark_provider import SparkProvider

SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
OFFSETS_FILE: Final = "offset.storage.file.filename"
READY_LOOK_S: Final = 0.1


def run(properties: Mapping[str, str], files: Sequence[Path] = (), *, alone: bool) -> int:
    """0 after an orderly end; 1 if a connector of a file can't be made."""
    settings = Settings(providers.own(properties))
    if alone and not settings.get(OFFSETS_FILE):
        raise ConfigException(
            f'Missing required configuration "{OFFSETS_FILE}" which has no default value.'
            f" A standalone worker keeps offsets in a file: {OFFSETS_FILE}=/var/lib/connect.offsets"
        )
    spark = connect_spark(settings)
    wanted = [wanted_of(each) for each in files]
    with until_told() as stopping:
        worker = listening(properties, alone, spark)
        banner = Banner(settings, worker.url, alone=alone)
        banner.start()
        try:
            with worker:
                code = _made(worker, wanted)
                if code == 0:
                    threading.Thread(
                        target=_tell_ready, args=(worker, banner, stopping), daemon=True
                    ).start()
                    stopping.wait()
                banner.stopping()
        finally:
            spark.stop()
        banner.stopped()
    return code


@contextmanager
def until_told() -> Iterator[threading.Event]:
    """Set when a signal asks this process to end."""
    stopping = threading.Event()

    def stop(number: int, frame: FrameType | None) -> None:
        stopping.set()

    for each in SIGNALS:
        signal.signal(each, stop)
    yield stopping


def log_to_terminal(verbose: bool) -> None:
    """What happens to connectors, on standard error; Spark's own log is its own."""
    handler = RichHandler(
        console=Console(stderr=True), show_path=False, markup=False, log_time_format="[%X]"
    )
    for name in ("ottla.connect", "ottla.queries", "ottla.spark", "ottla.rest", "ottla.client"):
        logger = logging.getLogger(name)
        logger.setLevel(logging.DEBUG if verbose else logging.INFO)
        logger.addHandler(handler)
        logger.propagate = False


def listening(properties: Mapping[str, str], alone: bool, spark: SparkProvider) -> ConnectWorker:
    """A worker with its port, not started yet."""
    try:
        return ConnectWorker(properties, alone=alone, spark=spark)
    except OSError as error:
        host, port = Settings(properties).listener
        raise ConnectException(
            f"Can't listen on {host}:{port}: {error.strerror or error}. Is a worker running"
            " there? `listeners=http://:8084` in its properties names another port."
        ) from None


def _made(worker: ConnectWorker, wanted: Sequence[Wanted]) -> int:
    """A standalone worker's connectors come from files."""
    for each in wanted:
        try:
            worker.changes.put_config(each.name, each.config, each.target)
        except (Refusal, ConfigException) as error:
            logging.getLogger("ottla.connect").error("%s: %s", each.path, error)
            return 1
    return 0


def _tell_ready(worker: ConnectWorker, banner: Banner, stopping: threading.Event) -> None:
    while not worker.herder.ready and not stopping.is_set():
        time.sleep(READY_LOOK_S)
    if not stopping.is_set():
        banner.ready(len(worker.herder.configs.connectors))


class Banner:
    """On standard error: standard output is nobody's but the user's."""

    def __init__(self, settings: Settings, url: str, *, alone: bool) -> None:
        self._settings = settings
        self._url = url
        self._alone = alone
        self._began = time.monotonic()
        self._console = Console(stderr=True, highlight=False, emoji=False)

    def start(self) -> None:
        settings = self._settings
        facts = Table.grid(padding=(0, 2))
        facts.add_row("[dim]REST[/]", f"[cyan]{escape(self._url)}[/]")
        facts.add_row("[dim]Kafka[/]", escape(settings.get("bootstrap.servers")))
        if self._alone:
            facts.add_row("[dim]offsets[/]", escape(settings.get("offset.storage.file.filename")))
        else:
            facts.add_row("[dim]group[/]", escape(settings.get("group.id")))
        mode = "standalone" if self._alone else "distributed"
        title = f"[bold]Ottla Connect[/] {ottla.__version__} · {mode}"
        self._console.print(Panel(facts, title=title, title_align="left", expand=False))

    def ready(self, connectors: int) -> None:
        took = time.monotonic() - self._began
        self._console.print(
            f"[green]Ready[/] after {took:.1f} s, {connectors} connectors."
            f" [dim]`ottla connect list --url {self._url}` lists them; Ctrl-C ends the worker.[/]"
        )

    def stopping(self) -> None:
        self._console.print("[dim]Stopping: connectors go on from here at the next start.[/]")

    def stopped(self) -> None:
        self._console.print("[dim]Stopped.[/]")
