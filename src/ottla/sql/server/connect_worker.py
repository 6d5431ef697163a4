"""The embedded Connect worker: `ksql.connect.worker.config` is its properties file.

It is a child process of the server, which has its own Spark and ends with the server.
"""

from __future__ import annotations

import contextlib
import json
import logging
import select
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import Final

from ottla.config import parse_properties
from ottla.rows.errors import SqlError
from ottla.sql.ksql_config import BOOTSTRAP_SERVERS, CONNECT_URL, CONNECT_WORKER, KsqlConfig

COMMAND: Final = (sys.executable, "-m", "ottla.connect.embedded_worker")
START_S_MAX: Final = 120.0
STOP_S_MAX: Final = 60.0
AGAIN_S: Final = 5.0

log = logging.getLogger("ottla.sql")


class EmbeddedConnectWorker:
    """Starts the worker, restarts it if it exits, and stops it in `close`."""

    def __init__(self, settings: KsqlConfig) -> None:
        self._settings = settings
        self._path = settings.get(CONNECT_WORKER)
        self._properties = _properties(settings)
        self._process: subprocess.Popen[bytes] | None = None
        self._ending = threading.Event()
        self._lock = threading.Lock()

    def start(self) -> KsqlConfig:
        """Start the worker; return the server's settings with its URL, unless another one is
        set."""
        message = self._begin()
        # a restarted worker keeps its port, even if any free one was asked for
        self._properties["listeners"] = message["listener"]
        threading.Thread(target=self._watch, name="ottla-sql-connect", daemon=True).start()
        log.info("Started Connect worker %s at %s", self._path, message["url"])
        given = {CONNECT_URL: message["url"], **self._settings.properties}
        return replace(self._settings, properties=given)

    def end(self) -> None:
        """Ask the worker to stop; its connectors stop between two batches."""
        self._ending.set()
        with self._lock:
            process = self._process
        if process is not None:
            _hang_up(process)

    def close(self) -> None:
        """Stop the worker and wait for it."""
        self.end()
        with self._lock:
            process = self._process
        if process is None:
            return
        try:
            process.wait(STOP_S_MAX)
        except subprocess.TimeoutExpired:
            log.warning("The Connect worker did not stop in time; killing it")
            process.kill()
            process.wait()

    def _begin(self) -> dict[str, str]:
        with self._lock:
            if self._ending.is_set():
                raise SqlError("The server is stopping and does not start a Connect worker.")
            process = subprocess.Popen(
                COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
            )
            self._process = process
        message = _answer(process, self._properties)
        if "error" not in message:
            return message
        if process.poll() is None:
            process.kill()
        process.wait()
        _hang_up(process)
        raise SqlError(
            f"The Connect worker of {CONNECT_WORKER}={self._path} did not start:"
            f" {message['error']}",
            remedy=f"Correct that file, or remove {CONNECT_WORKER} and set {CONNECT_URL} to another"
            " worker.",
        )

    def _watch(self) -> None:
        while True:
            assert self._process is not None
            code = self._process.wait()
            _hang_up(self._process)
            if self._ending.is_set():
                return
            log.error("The Connect worker exited with code %d, restarting it", code)
            if self._ending.wait(AGAIN_S):
                return
            try:
                log.info("Restarted the Connect worker at %s", self._begin()["url"])
            except SqlError as error:
                log.error("%s", error.message)


def _hang_up(process: subprocess.Popen[bytes]) -> None:
    """Close its standard input, which makes it stop."""
    if process.stdin is not None:
        with contextlib.suppress(OSError):  # it has exited already
            process.stdin.close()


def _properties(settings: KsqlConfig) -> dict[str, str]:
    """The worker's properties; bootstrap servers default to those of this server."""
    path = settings.get(CONNECT_WORKER)
    try:
        found = parse_properties(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise SqlError(
            f"{CONNECT_WORKER}={path}: {getattr(error, 'strerror', None) or error}",
            remedy="It is the path of a Connect worker's properties file.",
        ) from None
    if BOOTSTRAP_SERVERS in found:
        return found
    return {**settings.client, BOOTSTRAP_SERVERS: settings.bootstrap_servers, **found}


def _answer(process: subprocess.Popen[bytes], properties: dict[str, str]) -> dict[str, str]:
    """The worker's first message: its listener and URL, or an `error`."""
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(json.dumps(properties).encode() + b"\n")
        process.stdin.flush()
    except (OSError, ValueError):  # it has exited, or is being stopped
        return {"error": "it exited at once; see its output above"}
    said = select.poll()  # not select(), which fails for descriptors above 1023
    said.register(process.stdout, select.POLLIN)
    if not said.poll(START_S_MAX * 1000):
        return {"error": f"no response within {START_S_MAX:g} s"}
    with process.stdout as output:
        line = output.readline()
    if not line:
        return {"error": f"it exited with code {process.wait()}; see its output above"}
    found: dict[str, str] = json.loads(line)
    return found
