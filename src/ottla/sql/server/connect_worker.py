"""A Connect worker of the server's own: `ksql.connect.worker.config` names its properties.

It is a process beside the server, with a Spark of its own for its connectors, and ends with it.
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
from ottla.sql.settings import BOOTSTRAP_SERVERS, CONNECT_URL, CONNECT_WORKER, Settings

COMMAND: Final = (sys.executable, "-m", "ottla.connect.child")
START_S_MAX: Final = 120.0
STOP_S_MAX: Final = 60.0
AGAIN_S: Final = 5.0

log = logging.getLogger("ottla.sql")


class WorkerBeside:
    """Whoever starts it closes it. A worker that ends by itself is started again."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._path = settings.get(CONNECT_WORKER)
        self._properties = _properties(settings)
        self._process: subprocess.Popen[bytes] | None = None
        self._ending = threading.Event()
        self._lock = threading.Lock()

    def start(self) -> Settings:
        """The server's settings: with the worker's URL, unless another was given."""
        told = self._begin()
        # a port that was any free one stays the same if it is started again
        self._properties["listeners"] = told["listener"]
        threading.Thread(target=self._watch, name="ottla-sql-connect", daemon=True).start()
        log.info("a Connect worker of %s answers at %s", self._path, told["url"])
        given = {CONNECT_URL: told["url"], **self._settings.properties}
        return replace(self._settings, properties=given)

    def end(self) -> None:
        """It begins to end: its connectors stop between two batches."""
        self._ending.set()
        with self._lock:
            process = self._process
        if process is not None:
            _hang_up(process)

    def close(self) -> None:
        """Returns when it has ended."""
        self.end()
        with self._lock:
            process = self._process
        if process is None:
            return
        try:
            process.wait(STOP_S_MAX)
        except subprocess.TimeoutExpired:
            log.warning("the Connect worker does not end: it is killed")
            process.kill()
            process.wait()

    def _begin(self) -> dict[str, str]:
        with self._lock:
            if self._ending.is_set():
                raise SqlError("The server ends, and starts no Connect worker.")
            process = subprocess.Popen(
                COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
            )
            self._process = process
        told = _answer(process, self._properties)
        if "error" not in told:
            return told
        if process.poll() is None:
            process.kill()
        process.wait()
        _hang_up(process)
        raise SqlError(
            f"The Connect worker of {CONNECT_WORKER}={self._path} did not start: {told['error']}",
            remedy=f"Correct that file, or leave {CONNECT_WORKER} out: {CONNECT_URL} names a worker"
            " that runs elsewhere.",
        )

    def _watch(self) -> None:
        while True:
            assert self._process is not None
            code = self._process.wait()
            _hang_up(self._process)
            if self._ending.is_set():
                return
            log.error("the Connect worker has ended by itself (exit code %d); again soon", code)
            if self._ending.wait(AGAIN_S):
                return
            try:
                log.info("the Connect worker answers again at %s", self._begin()["url"])
            except SqlError as error:
                log.error("%s", error.message)


def _hang_up(process: subprocess.Popen[bytes]) -> None:
    """By this it ends."""
    if process.stdin is not None:
        with contextlib.suppress(OSError):  # it has ended already
            process.stdin.close()


def _properties(settings: Settings) -> dict[str, str]:
    """Of the file; the cluster is this server's, if the file names none."""
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
    """Where it answers, or `error`: why it does not."""
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(json.dumps(properties).encode() + b"\n")
        process.stdin.flush()
    except (OSError, ValueError):  # it has gone, or is told to go
        return {"error": "it has ended at once; what it said is above"}
    said = select.poll()  # not select(), which takes no descriptor above a thousand
    said.register(process.stdout, select.POLLIN)
    if not said.poll(START_S_MAX * 1000):
        return {"error": f"it has said nothing for {START_S_MAX:g} s"}
    with process.stdout as told:
        line = told.readline()
    if not line:
        return {"error": f"it has ended (exit code {process.wait()}); what it said is above"}
    found: dict[str, str] = json.loads(line)
    return found
