"""`ottla sql-server`: an engine and its REST in the foreground, until somebody ends it."""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Final

from ottla.rows.errors import SqlError
from ottla.spark.serving import Serving
from ottla.sql.engine.engine import Engine
from ottla.sql.run.workers import Workers
from ottla.sql.server.access import ServerAccess
from ottla.sql.server.app import make_app
from ottla.sql.server.banner import Banner
from ottla.sql.server.connect_worker import WorkerBeside
from ottla.sql.settings import CONNECT_WORKER, Settings

SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)

LOOK_S: Final = 0.5

log = logging.getLogger("ottla.sql")


def run(settings: Settings, *, host: str, port: int, queries_file: Path | None) -> int:
    """0 after an orderly end; 1 if the statements of the file can't be carried out."""
    stopping = threading.Event()

    def stop(number: int, frame: FrameType | None) -> None:
        stopping.set()

    for each in SIGNALS:
        signal.signal(each, stop)
    if not settings.get(CONNECT_WORKER):
        return _serve(settings, host, port, queries_file, stopping)
    beside = WorkerBeside(settings)
    try:
        return _serve(beside.start(), host, port, queries_file, stopping, on_stop=beside.end)
    finally:
        beside.close()


def _serve(
    settings: Settings,
    host: str,
    port: int,
    queries_file: Path | None,
    stopping: threading.Event,
    on_stop: Callable[[], None] = lambda: None,
) -> int:
    headless = queries_file is not None
    door = ServerAccess(settings, host, port)
    engine = Engine(settings, Workers(settings), host=f"{host}:{port}", headless=headless)
    try:
        app = door.guarded(make_app(engine, headless=headless))
        serving = Serving(app, host, port, tls=door.tls)
    except OSError as error:
        raise SqlError(
            f"Can't listen on {host}:{port}: {error.strerror or error}",
            remedy="Is a server running there? --port names another port.",
        ) from None
    banner = Banner(settings, serving.url, headless=headless)
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
        serving.close()
        engine.close()
    banner.stopped()
    return 0


def run_file(engine: Engine, path: Path) -> None:
    """The statements of a file, carried out; then the queries may run."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise SqlError(
            f"Can't read {path}: {error.strerror or error}", remedy="--queries-file names the file."
        ) from None
    try:
        for each in engine.execute_file(text):
            status = each.get("commandStatus", {})
            log.info("%s", status.get("message") or each.get("message") or each["@type"])
    except SqlError as error:
        place = f"{path}:{error.line}:{error.column}: " if error.line else f"{path}: "
        raise SqlError(
            f"{place}{error.message}\n{error.statement}".rstrip(), remedy=error.remedy
        ) from None
    if not engine.state.catalog.queries:
        log.warning("there is no query in %s: nothing will run", path)
    engine.ask_to_run()


def _wait_for_spark(engine: Engine, stopping: threading.Event, banner: Banner) -> None:
    """In a thread: Spark takes seconds, and a signal has to be heard meanwhile."""

    def tell() -> None:
        assert engine.workers is not None
        trouble = engine.workers.wait_for_spark()
        if stopping.is_set():
            return
        banner.spark(trouble)
        while not engine.follower.replayed.wait(LOOK_S):
            if stopping.is_set():
                return
        if not trouble:
            banner.ready()

    threading.Thread(target=tell, name="ottla-sql-banner", daemon=True).start()
