"""Runs a worker in the foreground until a signal ends it."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.logging import RichHandler
from rich.markup import escape
from rich.panel import Panel
from rich.table import Table

import ottla
from ottla.connect import config_providers
from ottla.connect.connector_files import ConnectorFile, read_connector_file
from ottla.connect.errors import ConfigException, ConnectException
from ottla.connect.herder.rest_exceptions import ConnectRestException
from ottla.connect.run.connect_spark import connect_spark
from ottla.connect.run.connect_worker import ConnectWorker
from ottla.connect.worker_config import WorkerConfig
from ottla.queries.spark_provider import SparkProvider
from ottla.rest.stop_event import stop_event

OFFSETS_FILE: Final = "offset.storage.file.filename"
READY_LOOK_S: Final = 0.1


def run_worker_process(
    properties: Mapping[str, str], files: Sequence[Path] = (), *, alone: bool
) -> int:
    """0 after an orderly end; 1 if a connector file is rejected."""
    settings = WorkerConfig(config_providers.resolve_worker_config(properties))
    if alone and not settings.get(OFFSETS_FILE):
        raise ConfigException(
            f'Missing required configuration "{OFFSETS_FILE}" which has no default value.'
            f" A standalone worker keeps offsets in a file: {OFFSETS_FILE}=/var/lib/connect.offsets"
        )
    spark = connect_spark(settings)
    wanted = [read_connector_file(path) for path in files]
    stopping = stop_event()
    worker = bind_worker(properties, alone, spark)
    banner = WorkerBanner(settings, worker.url, alone=alone)
    banner.start()
    try:
        with worker:
            code = _create_connectors(worker, wanted)
            if code == 0:
                threading.Thread(
                    target=_show_ready, args=(worker, banner, stopping), daemon=True
                ).start()
                stopping.wait()
            banner.stopping()
    finally:
        spark.stop()
    banner.stopped()
    return code


def log_to_terminal(verbose: bool) -> None:
    """Log Connect's events to standard error; Spark has its own log."""
    handler = RichHandler(
        console=Console(stderr=True), show_path=False, markup=False, log_time_format="[%X]"
    )
    for name in ("ottla.connect", "ottla.queries", "ottla.spark", "ottla.rest", "ottla.client"):
        logger = logging.getLogger(name)
        logger.setLevel(logging.DEBUG if verbose else logging.INFO)
        logger.addHandler(handler)
        logger.propagate = False


def bind_worker(properties: Mapping[str, str], alone: bool, spark: SparkProvider) -> ConnectWorker:
    """A worker that has bound its port but is not started yet."""
    try:
        return ConnectWorker(properties, alone=alone, spark=spark)
    except OSError as error:
        host, port = WorkerConfig(properties).listener
        raise ConnectException(
            f"Can't listen on {host}:{port}: {error.strerror or error}. Is a worker running"
            " there? `listeners=http://:8084` in its properties names another port."
        ) from None


def _create_connectors(worker: ConnectWorker, wanted: Sequence[ConnectorFile]) -> int:
    """Create the connectors from the files on a standalone worker's command line."""
    for file in wanted:
        try:
            worker.requests.put_config(file.name, file.config, file.target)
        except (ConnectRestException, ConfigException) as error:
            logging.getLogger("ottla.connect").error("%s: %s", file.path, error)
            return 1
    return 0


def _show_ready(worker: ConnectWorker, banner: WorkerBanner, stopping: threading.Event) -> None:
    while not worker.herder.ready and not stopping.is_set():
        time.sleep(READY_LOOK_S)
    if not stopping.is_set():
        banner.ready(len(worker.herder.configs.connectors))


class WorkerBanner:
    """Written to standard error; standard output is left to the connectors."""

    def __init__(self, settings: WorkerConfig, url: str, *, alone: bool) -> None:
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
        self._console.print("[dim]Stopping: connectors resume from here at the next start.[/]")

    def stopped(self) -> None:
        self._console.print("[dim]Stopped.[/]")
