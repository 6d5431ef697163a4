"""`ottla sql-server`: runs an engine and its REST API in the foreground until a signal."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final

from ottla.rest.hypercorn_server import HypercornServer
from ottla.rest.stop_event import stop_event
from ottla.rows.errors import SqlError
from ottla.sql.engine.engine import Engine
from ottla.sql.ksql_config import CONNECT_WORKER, KsqlConfig
from ottla.sql.run.query_executor import QueryExecutor
from ottla.sql.server.access import ServerAccess
from ottla.sql.server.app import make_app
from ottla.sql.server.banner import ServerBanner
from ottla.sql.server.connect_worker import EmbeddedConnectWorker

LOOK_S: Final = 0.5

log = logging.getLogger("ottla.sql")


def run_server(settings: KsqlConfig, *, host: str, port: int, queries_file: Path | None) -> int:
    """The exit code: 0 after a clean stop, 1 if the queries file can't be executed."""
    stopping = stop_event()
    if not settings.get(CONNECT_WORKER):
        return _serve(settings, host, port, queries_file, stopping)
    beside = EmbeddedConnectWorker(settings)
    try:
        return _serve(beside.start(), host, port, queries_file, stopping, on_stop=beside.end)
    finally:
        beside.close()


def _serve(
    settings: KsqlConfig,
    host: str,
    port: int,
    queries_file: Path | None,
    stopping: threading.Event,
    on_stop: Callable[[], None] = lambda: None,
) -> int:
    headless = queries_file is not None
    door = ServerAccess(settings, host, port)
    engine = Engine(settings, QueryExecutor(settings), host=f"{host}:{port}", headless=headless)
    try:
        app = door.guarded(make_app(engine, headless=headless))
        serving = HypercornServer(app, host, port, tls=door.tls)
    except OSError as error:
        raise SqlError(
            f"Can't listen on {host}:{port}: {error.strerror or error}",
            remedy="Is another server running? Use --port for another port.",
        ) from None
    banner = ServerBanner(settings, serving.url, headless=headless)
    banner.start()
    serving.start()
    engine.start()
    try:
        if queries_file is not None:
            run_file(engine, queries_file)
        _wait_for_spark(engine, stopping, banner)
        stopping.wait()
        banner.stopping()
    finally:
        on_stop()
        serving.stop()
        engine.close()
    banner.stopped()
    return 0


def run_file(engine: Engine, path: Path) -> None:
    """Execute the statements of a file, then let queries start."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise SqlError(
            f"Can't read {path}: {error.strerror or error}", remedy="Check --queries-file."
        ) from None
    try:
        for entity in engine.execute_file(text):
            status = entity.get("commandStatus", {})
            log.info("%s", status.get("message") or entity.get("message") or entity["@type"])
    except SqlError as error:
        position = f"{path}:{error.line}:{error.column}: " if error.line else f"{path}: "
        raise SqlError(
            f"{position}{error.message}\n{error.statement}".rstrip(), remedy=error.remedy
        ) from None
    if not engine.state.catalog.queries:
        log.warning("%s contains no query: nothing will run", path)
    engine.ask_to_run()


def _wait_for_spark(engine: Engine, stopping: threading.Event, banner: ServerBanner) -> None:
    """Wait for Spark in a thread, so that signals are handled meanwhile."""

    def tell() -> None:
        assert engine.workers is not None
        trouble = engine.workers.wait_for_spark()
        if stopping.is_set():
            return
        banner.spark(trouble)
        while not engine.command_runner.replayed.wait(LOOK_S):
            if stopping.is_set():
                return
        if not trouble:
            banner.ready()

    threading.Thread(target=tell, name="ottla-sql-banner", daemon=True).start()
