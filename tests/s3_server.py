"""An S3 server of this machine: moto's, in a process of its own."""

from __future__ import annotations

import contextlib
import http.client
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from spark_daemons import await_port, free_port

BUCKET = "state"
CREDENTIALS = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test"}


@contextlib.contextmanager
def s3_server(folder: Path) -> Iterator[str]:
    """Its address, `host:port`, with an empty bucket."""
    port, log = free_port(), folder / "s3.log"
    with log.open("ab") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)],
            stdout=out,
            stderr=out,
        )
    try:
        await_port(port, process, log)
        _make_bucket(port)
        yield f"127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


def s3_uri(address: str, prefix: str) -> str:
    """As pyarrow reads it."""
    return f"s3://{BUCKET}/{prefix}?endpoint_override={address}&scheme=http&region=us-east-1"


def _make_bucket(port: int) -> None:
    for _ in range(100):
        connection = http.client.HTTPConnection("127.0.0.1", port)
        with contextlib.suppress(OSError), contextlib.closing(connection):
            connection.request("PUT", f"/{BUCKET}")
            if connection.getresponse().status == 200:
                return
        time.sleep(0.05)
    raise AssertionError("the S3 server makes no bucket")
