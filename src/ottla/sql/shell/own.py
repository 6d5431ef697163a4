"""A server in the shell's own process: the prompt is there at once, and all this comes behind it.

What it needs is imported in its thread, Spark is started by the engine in another. What it logs
goes into a file, so that nothing is printed over what somebody types.
"""

from __future__ import annotations

import logging
import socket
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from ottla.rows.errors import SqlError
from ottla.sql.shell.client import Client, Unreachable
from ottla.sql.shell.places import log_file, spark_log_file

if TYPE_CHECKING:
    from ottla.spark.serving import Serving
    from ottla.sql.engine.engine import Engine

BROKER_S: Final = 3.0
CLOSE_S: Final = 10.0


class OwnServer:
    """`settings` are the client's, from a properties file, and what the server is to know."""

    def __init__(self, bootstrap_servers: str, settings: Mapping[str, str]) -> None:
        self._bootstrap = bootstrap_servers
        self._settings = dict(settings)
        self._done = threading.Event()
        self._lock = threading.Lock()
        self._closed = False
        self._engine: Engine | None = None
        self._serving: Serving | None = None
        self._client: Client | None = None
        self._trouble: Exception | None = None

    def __enter__(self) -> Self:
        log_to(log_file())
        threading.Thread(target=self._run, name="ottla-sql-own", daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self._lock:
            self._closed = True
            serving, engine = self._serving, self._engine
        if engine is not None and sys.stderr.isatty():
            print("stopping the server: its queries end between two batches", file=sys.stderr)
        if serving is not None:
            serving.close()
        if engine is not None:
            engine.close()

    def connect(self) -> Client:
        """Waits until it has read what was defined in former days."""
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
            told = (SqlError, Unreachable, OSError)
            self._trouble = error if isinstance(error, told) else Unreachable(str(error))
            logging.getLogger("ottla.sql").exception("the server did not start")
        finally:
            self._done.set()

    def _start(self) -> None:
        from ottla.spark.serving import Serving
        from ottla.sql.engine.engine import Engine
        from ottla.sql.run.workers import Workers
        from ottla.sql.server.app import make_app
        from ottla.sql.settings import (
            BOOTSTRAP_SERVERS,
            Settings,
            check_no_worker,
            check_spark,
        )

        settings = Settings({**self._settings, BOOTSTRAP_SERVERS: self._bootstrap})
        check_spark(settings)
        check_no_worker(settings)
        engine = Engine(settings, Workers(settings, spark_log=_emptied(spark_log_file())))
        serving = Serving(make_app(engine))
        with self._lock:
            if self._closed:
                serving.close()
                return
            self._engine, self._serving = engine, serving
        engine.start()
        serving.start()
        self._client = Client(serving.url)


def reachable(bootstrap_servers: str) -> None:
    """A broker listens at one of these addresses; or it is said at once, and not after a minute."""
    reasons = []
    for each in bootstrap_servers.split(","):
        host, _, port = each.strip().rpartition(":")
        try:
            socket.create_connection((host.strip("[]"), int(port)), BROKER_S).close()
            return
        except (OSError, ValueError) as error:
            reasons.append(f"{each.strip()}: {error}")
    raise SqlError(
        f"no broker at {'; '.join(reasons)}",
        remedy="`ottla serve` starts one on localhost:9092; --bootstrap-server names another.",
    )


def _emptied(path: Path) -> Path | None:
    """Spark writes a lot: of the last shell only. None where nothing can be written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"")
    except OSError:
        return None
    return path


def log_to(path: Path) -> None:
    """Everything that Ottla logs in this process; to nobody, if the file can't be written."""
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
