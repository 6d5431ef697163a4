"""Where a host is found, who may call it, and how it hears of its keeper's end.

On Linux: a socket without a file, the credentials of a peer, a pidfd. Elsewhere, as on macOS: a
socket in a folder that only its user may enter, beside it a file which the host keeps locked and
where its number is, and a thread that looks whether the keeper is there.
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
from types import TracebackType
from typing import Final, Self

from ottla.spark.planner_start import CREDENTIALS, peer_user

ABSTRACT: Final = hasattr(os, "pidfd_open") and hasattr(socket, "SO_PEERCRED")
WAITING_MAX: Final = 16
LOOK_S: Final = 1.0


class Listening:
    """The place of one host. OSError: another has it."""

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
        """Negative behind `close`."""
        return self._socket.fileno()

    def close(self) -> None:
        """Who calls next must not find us, but may start another."""
        self._socket.close()
        if self._lock is not None and self._file is not None:
            self._file.unlink(missing_ok=True)
            _lock_of(self._file).unlink(missing_ok=True)
            os.close(self._lock)
            self._lock = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def call(name: str) -> tuple[socket.socket, int] | None:
    """A line to a host and the host's number; None where nobody listens."""
    line = socket.socket(socket.AF_UNIX)
    try:
        line.connect(_address(name))
        if not is_ours(line):
            raise PermissionError(f"a process of another user has the name {name}")
        return line, _process(line, name)
    except (ConnectionRefusedError, FileNotFoundError):
        line.close()
        return None
    except BaseException:
        line.close()
        raise


def is_ours(line: socket.socket) -> bool:
    """Of the same user. Others can't enter the folder."""
    return not ABSTRACT or peer_user(line) == os.getuid()


def ends(process: int) -> int:
    """A descriptor on which something happens when it has ended."""
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
    """Short: a socket's path has a hundred letters at most."""
    return _folder() / hashlib.sha256(name.encode()).hexdigest()[:24]


def _folder() -> Path:
    folder = Path(tempfile.gettempdir()) / f"ottla-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    its = folder.lstat()
    if not stat.S_ISDIR(its.st_mode) or its.st_uid != os.getuid() or its.st_mode & 0o077:
        raise PermissionError(f"{folder} must be a folder that only its user may enter")
    return folder


def _lock_of(file: Path) -> Path:
    return file.with_suffix(".lock")


def _locked(file: Path) -> int:
    """Kept until the host's end, however that comes; what one that was killed left behind goes."""
    lock = os.open(_lock_of(file), os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not os.path.samestat(os.fstat(lock), _lock_of(file).stat()):
            raise BlockingIOError(f"{file} was given up just now")
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
