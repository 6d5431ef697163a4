"""The life of an external server: a port, a log, a process that ends with ours."""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from ottla.testing.ports import reserve_port

STOP_S_MAX: Final = 60.0
LOOK_EVERY_S: Final = 0.02
LOG_BYTES_SHOWN: Final = 8000


class ServerProcess:
    """`start`, and any number of `stop`, `kill` and `start` again, with the same data and port.

    A subclass gives the server's name, its command, its directory and its readiness check. If the
    process that started it is killed, the server is killed as well.
    """

    name: str
    start_s_max = 60.0
    stopped_by = signal.SIGTERM
    killed_by = signal.SIGKILL
    user: str | int | None = None
    """None: the current user."""
    group: int | None = None

    def __init__(self, *, port: int | None = None, apart: bool = False) -> None:
        """With `apart`, the server gets no Ctrl-C."""
        self._given_port = port
        self._apart = apart
        self._reserved: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def port(self) -> int:
        if self._given_port is not None:
            return self._given_port
        if self._reserved is None:
            self._reserved = reserve_port()
        port: int = self._reserved.getsockname()[1]
        return port

    @property
    def directory(self) -> Path:
        """Exists from the first start on."""
        raise NotImplementedError

    def command(self) -> Sequence[str]:
        """The command that runs the server in the foreground; also prepares all that it needs."""
        raise NotImplementedError

    def serves(self) -> bool:
        raise NotImplementedError

    def start(self, *, wait: bool = True) -> Self:
        """Returns once the server serves, or at once with `wait` off."""
        if self._process is not None:
            raise RuntimeError(f"the {self.name} server runs already")
        command = [*_ends_with_us(self.killed_by), *self.command()]
        with open(self._log_path, "ab") as output:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                # Our directory may be closed to the server's user.
                cwd=None if self.user is None else self.directory,
                start_new_session=self._apart,
                user=self.user,
                group=self.group,
            )
        if wait:
            self.wait_until_it_serves()
        return self

    def wait_until_it_serves(self) -> None:
        deadline = time.monotonic() + self.start_s_max
        while not self.serves():
            if self._process is None or self._process.poll() is not None:
                self._process = None
                raise RuntimeError(f"{self.name} did not start; its log says\n{self.log()}")
            if time.monotonic() > deadline:
                self.kill()
                raise RuntimeError(f"{self.name} does not serve; its log says\n{self.log()}")
            time.sleep(LOOK_EVERY_S)

    def stop(self) -> None:
        """Stop cleanly, so that everything acknowledged to clients is durable."""
        self._end(self.stopped_by)

    def kill(self) -> None:
        """At once."""
        self._end(self.killed_by)

    def pause(self) -> None:
        """SIGSTOP: connections stay open, but the server does not answer."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def close(self) -> None:
        self.kill()
        if self._reserved is not None:
            self._reserved.close()
            self._reserved = None

    def log(self) -> str:
        """The end of the server's log."""
        try:
            text = self._log_path.read_bytes()
        except FileNotFoundError:
            return ""
        return text[-LOG_BYTES_SHOWN:].decode(errors="replace")

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def _log_path(self) -> Path:
        return self.directory / "server.log"

    def _signal(self, number: int) -> None:
        if self._process is None:
            raise RuntimeError(f"the {self.name} server does not run")
        self._process.send_signal(number)

    def _end(self, number: int) -> None:
        if self._process is None:
            return
        self._process.send_signal(number)
        self._process.send_signal(signal.SIGCONT)  # a paused process would not handle the signal
        try:
            self._process.wait(STOP_S_MAX)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(STOP_S_MAX)
        self._process = None


def _ends_with_us(number: signal.Signals) -> list[str]:
    """The kernel sends the signal when the thread that started the server ends; only the end of the
    main thread means the end of the process. (util-linux has setpriv; without it a server may
    stay.)"""
    setpriv = shutil.which("setpriv")
    if setpriv is None or threading.current_thread() is not threading.main_thread():
        return []
    return [setpriv, "--pdeathsig", number.name.removeprefix("SIG"), "--"]
