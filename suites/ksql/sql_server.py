"""The `ottla sql-server` of a run: one for all cases, so that Spark starts once."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx
from benchmarks.brokers import HOST, StartError, free_port
from benchmarks.processes import spawn

START_S_MAX = 240.0
LOOK_EVERY_S = 0.5
# As ksqlDB's own runner sets up its server.
PROPERTIES = {
    "ksql.streams.auto.offset.reset": "earliest",
    "ksql.query.pull.table.scan.enabled": "true",
    "ksql.query.push.v2.enabled": "true",
}


@contextmanager
def running_sql_server(bootstrap: str, registry: str, folder: Path) -> Iterator[str]:
    port = free_port()
    properties = {**PROPERTIES, "ksql.schema.registry.url": registry}
    command = [sys.executable, "-P", "-m", "ottla.cli", "sql-server", "-b", bootstrap]
    command += ["--host", HOST, "--port", str(port), "--state-dir", str(folder / "state")]
    for name, value in properties.items():
        command += ["--override", f"{name}={value}"]
    server = spawn(command, log=folder / "sql-server.log")
    url = f"http://{HOST}:{port}"
    try:
        deadline = time.monotonic() + START_S_MAX
        while not _is_ready(url):
            if not server.alive() or time.monotonic() > deadline:
                raise StartError(f"the SQL server is not ready: {server.log_tail()[-500:]}")
            time.sleep(LOOK_EVERY_S)
        yield url
    finally:
        server.stop()


def _is_ready(url: str) -> bool:
    with suppress(httpx.HTTPError):
        return bool(httpx.get(f"{url}/healthcheck").json()["serverState"] == "READY")
    return False
