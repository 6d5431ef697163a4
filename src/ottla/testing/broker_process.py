"""A broker in its own process: `ottla serve`, which can be killed as by a power cut."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from typing import IO, Final

from ottla.client.protocol.connection import BrokerConnection
from ottla.errors import KafkaError

START_S_MAX: Final = 60.0
STOP_S_MAX: Final = 30.0
LOOK_EVERY_S: Final = 0.005
LOG_BYTES_SHOWN: Final = 8000

# -P: the broker must not import modules from the tests' working directory.
SERVE: Final = (sys.executable, "-P", "-m", "ottla.cli", "serve")


class BrokerProcess:
    """`start`, then `stop` or `kill`; each start needs a new instance."""

    def __init__(
        self,
        properties: Mapping[str, str],
        port: int,
        *,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        """`settings` are a client's, to check whether the broker answers."""
        self._settings = settings or {}
        self._overrides = [
            word for pair in properties.items() for word in ("--override", "=".join(pair))
        ]
        self._port = port

    def start(self, timeout_s: float = START_S_MAX) -> int:
        """Returns the port once the broker answers. RuntimeError with the broker's log if it does
        not."""
        self.launch()
        self.wait_until_it_answers(timeout_s)
        return self._port

    def launch(self) -> None:
        """Start the process; `wait_until_it_answers` does the rest."""
        self._log: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  open as long as the process
        try:
            self._process = subprocess.Popen(
                [*SERVE, *self._overrides],
                stdin=subprocess.DEVNULL,
                stdout=self._log,
                stderr=self._log,
            )
        except BaseException:
            self._log.close()
            raise

    def wait_until_it_answers(self, timeout_s: float = START_S_MAX) -> None:
        try:
            self._wait_until_it_answers(timeout_s)
        except BaseException:
            self.kill()
            raise

    def stop(self) -> None:
        """SIGTERM: the broker finishes open requests and closes its logs."""
        self._process.terminate()
        self.resume()
        try:
            code = self._process.wait(STOP_S_MAX)
        except subprocess.TimeoutExpired:
            failure = f"did not stop in {STOP_S_MAX:.0f} s:\n{self.log()}"
            self.kill()
            raise RuntimeError(f"the broker {failure}") from None
        failure = f"left with exit code {code}:\n{self.log()}" if code else ""
        self._log.close()
        if failure:
            raise RuntimeError(f"the broker {failure}")

    def kill(self) -> None:
        """SIGKILL: nothing more is written."""
        self._process.kill()
        self._process.wait(STOP_S_MAX)
        self._log.close()

    def pause(self) -> None:
        """SIGSTOP: connections stay open, but the broker does not answer."""
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    @property
    def exit_code(self) -> int | None:
        """None while the process runs."""
        return self._process.poll()

    @property
    def pid(self) -> int:
        return self._process.pid

    def log(self) -> str:
        """The end of the broker's log so far."""
        descriptor = self._log.fileno()
        start = max(0, os.fstat(descriptor).st_size - LOG_BYTES_SHOWN)
        return os.pread(descriptor, LOG_BYTES_SHOWN, start).decode(errors="replace")

    def _wait_until_it_answers(self, timeout_s: float) -> None:
        """An open port is not enough: clients may queue there long before the broker is ready."""
        deadline = time.monotonic() + timeout_s
        while True:
            left_s = deadline - time.monotonic()
            if (code := self._process.poll()) is not None:
                raise RuntimeError(
                    f"the broker did not start: exit code {code}, and its log says\n{self.log()}"
                )
            if left_s <= 0:
                raise RuntimeError(
                    f"the broker did not answer in {timeout_s:g} s; its log says\n{self.log()}"
                )
            try:
                BrokerConnection(
                    "127.0.0.1", self._port, settings=self._settings, timeout_s=left_s
                ).close()
            except KafkaError:
                time.sleep(LOOK_EVERY_S)
            else:
                return
