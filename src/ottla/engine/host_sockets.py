"""How a host process is found, which users may call it, and how it notices its owner's exit.

On Linux: an abstract Unix socket, the peer's credentials, a pidfd. Elsewhere, as on macOS: a socket
in a folder that only its user may enter, a locked file with the host's pid beside it, and a thread
that polls the owner.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import socket
import stat
import tempfile
import threading
import time
from pathlib import Path
from typing import Final, Self

from ottla.spark.fork_server_start import CREDENTIALS, peer_user

ABSTRACT: Final = hasattr(os, "pidfd_open") and hasattr(socket, "SO_PEERCRED")
WAITING_MAX: Final = 16
LOOK_S: Final = 1.0


class HostSocket:
    """The listening socket of one host. Raises OSError if another process has the name."""

    def __init__(self, name: str) -> None:
        self._file = None if ABSTRACT else _file(name)
        self._lock = None if self._file is None else _locked(self._file)
        self._socket = socket.socket(socket.AF_UNIX)
        try:
            self._socket.bind(_address(name))
            self._socket.listen(WAITING_MAX)
        except OSError:
            self.close()
            raise

    def accept(self) -> socket.socket:
        line, _ = self._socket.accept()
        return line

    def fileno(self) -> int:
        """Negative after `close`."""
        return self._socket.fileno()

    def close(self) -> None:
        """The next caller finds no host and may start a new one."""
        self._socket.close()
        if self._lock is not None and self._file is not None:
            self._file.unlink(missing_ok=True)
            _lock_of(self._file).unlink(missing_ok=True)
            os.close(self._lock)
            self._lock = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def connect_to_host(name: str) -> tuple[socket.socket, int] | None:
    """A connection to a host and the host's pid; None if nobody listens."""
    line = socket.socket(socket.AF_UNIX)
    try:
        line.connect(_address(name))
        if not is_same_user(line):
            raise PermissionError(f"a process of another user has the name {name}")
        return line, _process(line, name)
    except (ConnectionRefusedError, FileNotFoundError):
        line.close()
        return None
    except BaseException:
        line.close()
        raise


def is_same_user(line: socket.socket) -> bool:
    """True if the peer runs as the same user. (Elsewhere, others can't enter the folder.)"""
    return not ABSTRACT or peer_user(line) == os.getuid()


def exit_descriptor(process: int) -> int:
    """A descriptor that becomes readable when the process has exited."""
    if ABSTRACT:
        return os.pidfd_open(process)
    reading, writing = os.pipe()

    def look() -> None:
        with contextlib.suppress(ProcessLookupError):
            while True:
                os.kill(process, 0)
                time.sleep(LOOK_S)
        os.close(writing)

    threading.Thread(target=look, name="keeper", daemon=True).start()
    return reading


def _address(name: str) -> str:
    return f"\0ottla-{os.getuid()}-{name}" if ABSTRACT else str(_file(name))


def _file(name: str) -> Path:
    """Short, because a socket's path has about a hundred characters at most."""
    return _folder() / hashlib.sha256(name.encode()).hexdigest()[:24]


def _folder() -> Path:
    folder = Path(tempfile.gettempdir()) / f"ottla-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o077:
        raise PermissionError(f"{folder} must be a folder that only its user may enter")
    return folder


def _lock_of(file: Path) -> Path:
    return file.with_suffix(".lock")


def _locked(file: Path) -> int:
    """The kernel releases the lock however the host ends. The file of a killed host is removed."""
    lock = os.open(_lock_of(file), os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not os.path.samestat(os.fstat(lock), _lock_of(file).stat()):
            raise BlockingIOError(f"another host has just released {file}")
    except OSError:
        os.close(lock)
        raise
    os.ftruncate(lock, 0)
    os.write(lock, str(os.getpid()).encode())
    file.unlink(missing_ok=True)
    return lock


def _process(line: socket.socket, name: str) -> int:
    if not ABSTRACT:
        return int(_lock_of(_file(name)).read_text())
    held = line.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, CREDENTIALS.size)
    process: int = CREDENTIALS.unpack(held)[0]
    return process
