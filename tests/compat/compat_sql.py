"""A SQL server process beside the shared broker."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

from ottla.testing.ports import reserve_port

START_S_MAX = 60.0
STOP_S_MAX = 60.0
# Spark's JVM lives for a minute here: its second compiler would be half of its CPU time. One that
# was given options leaves nothing behind that works on (ottla.spark.class_data_archive).
SHORT_LIVED = {"OTTLA_SPARK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}


class SqlServer:
    """`ottla sql-server` with a state directory and a port that outlive a restart."""

    def __init__(self, bootstrap: str, folder: Path, service_id: str, *arguments: str) -> None:
        self._reserved = reserve_port()
        self.port: int = self._reserved.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.log = folder / "sql-server.log"
        self._command = [
            *(sys.executable, "-m", "ottla.cli", "sql-server"),
            *("--bootstrap-server", bootstrap, "--port", str(self.port)),
            *("--state-dir", str(folder / "state"), "--service-id", service_id),
            *("--master", "local[2]"),
            *arguments,
        ]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command,
                stdout=log,
                stderr=log,
                env={**SHORT_LIVED, **os.environ, "TERM": "dumb"},
            )
        deadline = time.monotonic() + START_S_MAX
        while True:
            try:
                urllib.request.urlopen(f"{self.url}/info", timeout=5).close()
                return
            except (urllib.error.URLError, OSError):
                assert self._process.poll() is None, f"it did not start:\n{self.tail()}"
                assert time.monotonic() < deadline, f"it does not answer:\n{self.tail()}"
                time.sleep(0.1)

    def stop(self) -> int:
        """Sends SIGTERM; returns the exit code."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        code = self._process.wait(STOP_S_MAX)
        self._process = None
        return code

    def kill(self) -> None:
        """Sends SIGKILL, which allows no cleanup."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def kill_spark(self) -> None:
        """The pid of its JVM."""
        assert self._process is not None
        os.kill(_jvm_of(self._process.pid), signal.SIGKILL)

    def close(self) -> None:
        self.kill()
        self._reserved.close()

    def tail(self) -> str:
        return self.log.read_text(errors="replace")[-4000:]


def _jvm_of(pid: int) -> int:
    children = Path(f"/proc/{pid}/task").glob("*/children")
    found = [int(part) for child in children for part in child.read_text().split()]
    (jvm,) = [entry for entry in found if Path(f"/proc/{entry}/exe").resolve().name == "java"]
    return jvm
