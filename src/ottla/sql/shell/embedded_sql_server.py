"""The embedded server: a SQL server in the shell's process.

It starts in the background, so that the prompt appears at once: its modules are imported in its
thread, and Spark starts in another. It logs to a file, so that nothing is printed over the prompt.
"""

from __future__ import annotations

import logging
import socket
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from ottla.rows.errors import SqlError
from ottla.sql.shell.client import KsqlRestClient, KsqlServerUnreachable
from ottla.sql.user_folder import user_folder

if TYPE_CHECKING:
    from ottla.rest.hypercorn_server import HypercornServer
    from ottla.sql.engine.engine import Engine

BROKER_S: Final = 3.0
CLOSE_S: Final = 10.0


class EmbeddedSqlServer:
    """Runs a server on a thread. `settings` are those of clients and of the server."""

    def __init__(self, bootstrap_servers: str, settings: Mapping[str, str]) -> None:
        self._bootstrap = bootstrap_servers
        self._settings = dict(settings)
        self._done = threading.Event()
        self._lock = threading.Lock()
        self._closed = False
        self._engine: Engine | None = None
        self._serving: HypercornServer | None = None
        self._client: KsqlRestClient | None = None
        self._trouble: Exception | None = None

    def __enter__(self) -> Self:
        log_to(user_folder() / "sql.log")
        threading.Thread(target=self._run, name="ottla-sql-own", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._closed = True
            serving, engine = self._serving, self._engine
        if engine is not None and sys.stderr.isatty():
            print("Stopping the server: its queries stop between two batches", file=sys.stderr)
        if serving is not None:
            serving.stop()
        if engine is not None:
            engine.close()

    def connect(self) -> KsqlRestClient:
        """A client of the server; waits until the command topic has been replayed."""
        self._done.wait()
        if self._trouble is not None:
            raise self._trouble
        assert self._client is not None
        if self._engine is not None:
            self._engine.wait_ready()
        return self._client

    def _run(self) -> None:
        try:
            reachable(self._bootstrap)
            self._start()
        except Exception as error:
            expected = (SqlError, KsqlServerUnreachable, OSError)
            self._trouble = (
                error if isinstance(error, expected) else KsqlServerUnreachable(str(error))
            )
            logging.getLogger("ottla.sql").exception("Failed to start the server")
        finally:
            self._done.set()

    def _start(self) -> None:
        from ottla.rest.hypercorn_server import HypercornServer
        from ottla.sql.engine.engine import Engine
        from ottla.sql.ksql_config import (
            BOOTSTRAP_SERVERS,
            KsqlConfig,
            check_no_worker,
            check_spark,
        )
        from ottla.sql.run.query_executor import QueryExecutor
        from ottla.sql.server.app import make_app

        settings = KsqlConfig({**self._settings, BOOTSTRAP_SERVERS: self._bootstrap})
        check_spark(settings)
        check_no_worker(settings)
        engine = Engine(
            settings, QueryExecutor(settings, spark_log=_emptied(user_folder() / "spark.log"))
        )
        serving = HypercornServer(make_app(engine))
        with self._lock:
            if self._closed:
                serving.stop()
                return
            self._engine, self._serving = engine, serving
        engine.start()
        serving.start()
        self._client = KsqlRestClient(serving.url)


def reachable(bootstrap_servers: str) -> None:
    """Fail at once, and not after a timeout, if no broker listens at any of these addresses."""
    reasons = []
    for address in bootstrap_servers.split(","):
        host, _, port = address.strip().rpartition(":")
        try:
            socket.create_connection((host.strip("[]"), int(port)), BROKER_S).close()
            return
        except (OSError, ValueError) as error:
            reasons.append(f"{address.strip()}: {error}")
    raise SqlError(
        f"no broker at {'; '.join(reasons)}",
        remedy="`ottla serve` starts one on localhost:9092; or use --bootstrap-server.",
    )


def _emptied(path: Path) -> Path | None:
    """Truncate the file, so that it has the output of the last shell only. None if not writable."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"")
    except OSError:
        return None
    return path


def log_to(path: Path) -> None:
    """Log to this file; if it is not writable, drop all log messages."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handler: logging.Handler = logging.FileHandler(path, delay=True)
    except OSError:
        handler = logging.NullHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s %(message)s"))
    for name in ("ottla", "ottla.client", "hypercorn", "py4j", "pyspark"):
        logger = logging.getLogger(name)
        logger.handlers = [handler]
        logger.propagate = False
    logging.getLogger("ottla").setLevel(logging.INFO)
