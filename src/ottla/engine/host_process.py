"""Host processes: they run beside Spark's workers and stay from batch to batch.

Spark gives the rows of a batch to whichever Python worker is free, so a worker can't keep state for
the next batch. State lives in a host process on the same machine, and Spark's workers call it.

    address    a Unix socket (host_sockets.py): the process that holds the name is the host
    access     processes of the same user only
    callers    one at a time, until it hangs up, or until another one calls while it is silent
    exit       on request, after IDLE_S_MAX without a call, or with Spark's JVM (between two calls,
               or soon after it with `exit_with`)

Messages are pickles with a length prefix. Their users define what they mean: tasks of Streams and
SQL (engine/task_server.py) and tasks of connectors (connect/run).
"""

from __future__ import annotations

import contextlib
import os
import pickle
import select
import signal
import socket
import struct
import sys
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NoReturn, Self

from ottla.engine import host_sockets as places
from ottla.engine.host_sockets import HostSocket
from ottla.spark.fork_server_start import JVM, address, left_alone

IDLE_S_MAX: Final = 600.0
START_S_MAX: Final = 60.0
EXIT_S: Final = 0.5
"""Time to close files; they survive an exit without it."""
PARENTS_MAX: Final = 4
SIZE: Final = struct.Struct(">Q")

HostProcessStarter = Callable[[int], None]
"""Starts a host, which writes to the given descriptor when it listens."""


class HostDisconnect(ConnectionError):
    """The other process has exited or no longer listens."""


@dataclass(frozen=True, slots=True)
class FinalAnswer:
    """The answer after which the host exits."""

    answer: Any = None


class HostConnection:
    """A connection between a host and a caller."""

    def __init__(self, line: socket.socket, peer: int = 0) -> None:
        self._socket = line
        self.peer = peer
        """The host's pid, for a caller; the host may not have accepted the connection yet."""

    def send(self, thing: Any) -> None:
        data = pickle.dumps(thing, pickle.HIGHEST_PROTOCOL)
        try:
            self._socket.sendall(SIZE.pack(len(data)))
            self._socket.sendall(data)
        except OSError as error:
            raise HostDisconnect(f"Connection reset by the other process: {error}") from None

    def receive(self) -> Any:
        (size,) = SIZE.unpack(self._exactly(SIZE.size))
        return pickle.loads(self._exactly(size))

    def ask(self, thing: Any) -> Any:
        self.send(thing)
        return self.receive()

    def has_message(self, within_s: float = 0.0) -> bool:
        """True if a message is waiting, or the other side has hung up."""
        return bool(_ready_descriptors(self.fileno(), within_s=within_s))

    def fileno(self) -> int:
        return self._socket.fileno()

    def close(self) -> None:
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _exactly(self, size: int) -> bytearray:
        data = bytearray(size)
        view = memoryview(data)
        while view:
            try:
                count = self._socket.recv_into(view)
            except OSError as error:
                raise HostDisconnect(f"Connection reset by the other process: {error}") from None
            if not count:
                raise HostDisconnect("Connection reset: the other process closed it")
            view = view[count:]
        return data


HostRequestHandler = Callable[[Any, HostConnection], Any]
"""Answers a message. It may send more on the connection, which raises HostDisconnect if the caller
has gone."""


def connect_or_start(name: str, start: HostProcessStarter) -> HostConnection:
    """A connection to the host of this name; starts the host if there is none."""
    deadline = time.monotonic() + START_S_MAX
    while (line := connect_if_running(name)) is None:
        if time.monotonic() > deadline:
            raise HostDisconnect(f"Connection refused: the host process {name} did not start")
        _start(name, start)
    return line


def connect_if_running(name: str) -> HostConnection | None:
    """A connection, or None if no host of this name runs."""
    found = places.connect_to_host(name)
    return None if found is None else HostConnection(*found)


def owner_pid() -> int:
    """The pid of Spark's JVM, with which hosts exit: from the environment, or an ancestor process.
    Without a JVM, the parent process."""
    if JVM in os.environ:
        return int(os.environ[JVM])
    process = os.getppid()
    for _ in range(PARENTS_MAX):
        try:
            words = Path(f"/proc/{process}/stat").read_text().rpartition(")")
        except OSError:
            break
        if words[0].endswith("(java"):
            return process
        process = int(words[2].split()[1])
    return os.getppid()


def fork_host(body: Callable[[int], None]) -> HostProcessStarter:
    """Starts a host by forking: at once and with all imported modules, for fork-safe code only."""

    def start(ready: int) -> None:
        child = os.fork()
        if child:
            os.waitpid(child, 0)
            return
        try:
            os.setsid()
            if os.fork():  # a grandchild, so that no process has to reap it
                os._exit(0)
            _detach_descriptors(ready)
            body(ready)
            _end(0)
        except BaseException:
            traceback.print_exc()
        _end(1)

    return start


def spawn_host(module: str, *words: str, jvm: int) -> HostProcessStarter:
    """Starts a host as `python -m module words... ready`, for users' code. The fork server of
    Spark's processes (fork_server.py), which has imported no users' code, forks it; without a fork
    server it is a new Python."""

    def start(ready: int) -> None:
        with open(os.devnull, "rb") as nothing:
            given = [nothing.fileno(), 1, 2, ready]
            if left_alone(address(jvm), ["-m", module, *words], given):
                return
        command = [sys.executable, "-m", module, *words, str(ready)]
        files = [
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_DUP2, ready, ready),  # it stays open
        ]
        os.posix_spawn(sys.executable, command, os.environ, file_actions=files, setsid=True)

    return start


def serve(name: str, answer: HostRequestHandler, *, owner: int, ready: int) -> None:
    """The host's main loop."""
    with contextlib.suppress(OSError):
        Path("/proc/self/comm").write_text(name)  # for ps and top, which show the first of it
    alive = places.exit_descriptor(owner)
    with open(ready, "wb", buffering=0) as report:
        try:
            listening = HostSocket(name)
        except OSError:
            report.write(b"=")  # another process was faster
            return
        report.write(b"+")
    with listening:
        while _ready_descriptors(alive, listening.fileno()) == {listening.fileno()}:
            line = listening.accept()
            with HostConnection(line) as caller:
                if places.is_same_user(line):
                    _converse(caller, answer, listening, alive)
            if listening.fileno() < 0:
                break
    os.close(alive)


def exit_with(owner: int) -> None:
    """Ends this process EXIT_S after its owner, even in the middle of a call, which nobody awaits:
    it would take the cores and the local copies from the host that replaces it."""
    alive = places.exit_descriptor(owner)

    def wait() -> None:
        select.select([alive], [], [])
        time.sleep(EXIT_S)
        os._exit(1)

    threading.Thread(target=wait, name="exit with owner", daemon=True).start()


def _converse(
    line: HostConnection, answer: HostRequestHandler, listening: HostSocket, alive: int
) -> None:
    """Serves one caller. A new caller replaces a silent one, because only one Spark task can own
    the work, and that is the newer attempt."""
    with contextlib.suppress(HostDisconnect):
        while line.fileno() in _ready_descriptors(line.fileno(), listening.fileno(), alive):
            said = answer(line.receive(), line)
            if isinstance(said, FinalAnswer):
                listening.close()
                line.send(said.answer)
                return
            line.send(said)


def _ready_descriptors(*descriptors: int, within_s: float | None = None) -> set[int]:
    """The descriptors that become readable first; empty after the timeout."""
    poll = select.poll()
    for descriptor in descriptors:
        poll.register(descriptor, select.POLLIN)
    return {
        descriptor
        for descriptor, _ in poll.poll((IDLE_S_MAX if within_s is None else within_s) * 1000)
    }


def _start(name: str, start: HostProcessStarter) -> None:
    """Waits until the new host listens, or has found that another one does."""
    reading, writing = os.pipe()
    with open(reading, "rb", buffering=0) as report:
        try:
            start(writing)
        finally:
            os.close(writing)
        if not _ready_descriptors(reading, within_s=START_S_MAX) or not report.read(1):
            raise HostDisconnect(
                f"Connection refused: the host process {name} could not be started"
            )


def _detach_descriptors(ready: int) -> None:
    """Closes all inherited descriptors: Spark must see its sockets closed when its worker closes
    them."""
    nowhere = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nowhere, 0)
    for descriptor in map(int, os.listdir("/dev/fd")):
        if descriptor > 2 and descriptor != ready:
            with contextlib.suppress(OSError):
                os.close(descriptor)
    # Replacements of these streams may write to descriptors that are closed now.
    sys.stdout = os.fdopen(1, "w", buffering=1, closefd=False)
    sys.stderr = os.fdopen(2, "w", buffering=1, closefd=False)
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _end(code: int) -> NoReturn:
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code)
