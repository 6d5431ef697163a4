"""Processes of ours beside Spark's workers, which stay from batch to batch.

Spark gives the rows of a batch to whichever Python worker is free: what a worker remembers is of
no use to it in the next batch. So what has to stay lives in a host, on the same machine, and
Spark's workers call it.

    found      by a Unix socket (places.py); who has its name is the host
    heard      are processes of the same user, and no others
    answers    one caller at a time, until it hangs up, or another calls while it is silent
    ends       when it is told to, when nobody has called for long, and with Spark's JVM

Messages are pickles behind their length. What is said is the business of who uses this: tasks of
Streams (engine/task_server.py) and of connectors (connect/run/hosts.py).
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
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final, NoReturn, Self

from ottla.engine import host_sockets as places
from ottla.engine.host_sockets import Listening
from ottla.spark.planner_start import JVM, address, left_alone

IDLE_S_MAX: Final = 600.0
START_S_MAX: Final = 60.0
PARENTS_MAX: Final = 4
SIZE: Final = struct.Struct(">Q")

Start = Callable[[int], None]
"""Starts a host; by the descriptor that it is given this one says that it listens."""


class HungUp(ConnectionError):
    """The other side has died, or does not listen any more."""


@dataclass(frozen=True, slots=True)
class Last:
    """An answer behind which the host ends."""

    answer: Any = None


class Line:
    """Between a host and who has called it."""

    def __init__(self, line: socket.socket, peer: int = 0) -> None:
        self._socket = line
        self.peer = peer
        """A caller knows the host's process, perhaps before that has taken the call."""

    def send(self, thing: Any) -> None:
        data = pickle.dumps(thing, pickle.HIGHEST_PROTOCOL)
        try:
            self._socket.sendall(SIZE.pack(len(data)))
            self._socket.sendall(data)
        except OSError as error:
            raise HungUp(f"Connection reset by the other process: {error}") from None

    def receive(self) -> Any:
        (size,) = SIZE.unpack(self._exactly(SIZE.size))
        return pickle.loads(self._exactly(size))

    def ask(self, thing: Any) -> Any:
        self.send(thing)
        return self.receive()

    def says_something(self, within_s: float = 0.0) -> bool:
        """Or has hung up."""
        return bool(_awaited(self.fileno(), within_s=within_s))

    def fileno(self) -> int:
        return self._socket.fileno()

    def close(self) -> None:
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _exactly(self, size: int) -> bytearray:
        data = bytearray(size)
        view = memoryview(data)
        while view:
            try:
                count = self._socket.recv_into(view)
            except OSError as error:
                raise HungUp(f"Connection reset by the other process: {error}") from None
            if not count:
                raise HungUp("Connection reset: the other process has hung up")
            view = view[count:]
        return data


Answer = Callable[[Any, Line], Any]
"""What to say to a message; with the line, for who has more to say, or wants to know if anybody
waits. HungUp: nobody does."""


def reached(name: str, start: Start) -> Line:
    """A line to the host of this name, which is started if there is none."""
    deadline = time.monotonic() + START_S_MAX
    while (line := called(name)) is None:
        if time.monotonic() > deadline:
            raise HungUp(f"Connection refused: no process for {name} came up")
        _start(name, start)
    return line


def called(name: str) -> Line | None:
    """None where nobody listens."""
    found = places.call(name)
    return None if found is None else Line(*found)


def keeper() -> int:
    """Spark's JVM: hosts end with it. We were told its number, or it is some generations up.
    Without one, who has started us."""
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


def forked(body: Callable[[int], None]) -> Start:
    """At once, with all that was imported; for what knows that it may be forked."""

    def start(ready: int) -> None:
        child = os.fork()
        if child:
            os.waitpid(child, 0)
            return
        try:
            os.setsid()
            if os.fork():  # a grandchild, so that nobody has to wait for its end
                os._exit(0)
            _alone(ready)
            body(ready)
            _end(0)
        except BaseException:
            traceback.print_exc()
        _end(1)

    return start


def spawned(module: str, *words: str, jvm: int) -> Start:
    """For other people's code: `python -m module words... ready`. It comes from the process that
    Spark's own come from (planners.py), where nothing of theirs was imported, or is a new Python.
    """

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


def serve(name: str, answer: Answer, *, keeper: int, ready: int) -> None:
    """In the host, until its end."""
    with contextlib.suppress(OSError):
        Path("/proc/self/comm").write_text(name)  # for ps and top, which show the first of it
    alive = places.ends(keeper)
    with open(ready, "wb", buffering=0) as told:
        try:
            listening = Listening(name)
        except OSError:
            told.write(b"=")  # somebody else was first
            return
        told.write(b"+")
    with listening:
        while _awaited(alive, listening.fileno()) == {listening.fileno()}:
            line = listening.accept()
            with Line(line) as caller:
                if places.is_ours(line):
                    _converse(caller, answer, listening, alive)
            if listening.fileno() < 0:
                break
    os.close(alive)


def _converse(line: Line, answer: Answer, listening: Listening, alive: int) -> None:
    """One caller. Another that calls while it is silent has its place: only one has the task now,
    and that is the newer."""
    with contextlib.suppress(HungUp):
        while line.fileno() in _awaited(line.fileno(), listening.fileno(), alive):
            said = answer(line.receive(), line)
            if isinstance(said, Last):
                listening.close()
                line.send(said.answer)
                return
            line.send(said)


def _awaited(*descriptors: int, within_s: float | None = None) -> set[int]:
    """Those on which something happens first; none in so long."""
    poll = select.poll()
    for each in descriptors:
        poll.register(each, select.POLLIN)
    return {each for each, _ in poll.poll((IDLE_S_MAX if within_s is None else within_s) * 1000)}


def _start(name: str, start: Start) -> None:
    """Until it listens, or has found that another does."""
    reading, writing = os.pipe()
    with open(reading, "rb", buffering=0) as told:
        try:
            start(writing)
        finally:
            os.close(writing)
        if not _awaited(reading, within_s=START_S_MAX) or not told.read(1):
            raise HungUp(f"Connection refused: no process for {name} could be started")


def _alone(ready: int) -> None:
    """Spark must see its sockets closed when its worker closes them: none stays open here."""
    nowhere = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nowhere, 0)
    for each in map(int, os.listdir("/dev/fd")):
        if each > 2 and each != ready:
            with contextlib.suppress(OSError):
                os.close(each)
    # What somebody had put in their place may write to files that are closed now.
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
