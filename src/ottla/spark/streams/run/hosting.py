"""Processes where tasks are at home, one for each partition of Spark's state on a machine.

Spark gives the rows of a batch to whichever Python worker is free: what a worker remembers is of
no use to it in the next batch. So workers hand the rows on to a process of ours, which stays. The
first that finds none forks one. It listens on a socket without a file, ends with the daemon that
Spark's workers come from, and when nobody has called for long.

    worker -> host   ("knows", task, nonce)            True, or the pages are wanted
                     ("load", task, nonce, pages)
                     ("run", task, rows, now_ms)       Done
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import pickle
import select
import signal
import socket
import struct
import sys
import time
import traceback
from collections.abc import Iterable, Sequence
from typing import Any, Final, NoReturn, Protocol

from ottla.spark.planner_start import peer_user
from ottla.spark.streams.failures import StreamsError
from ottla.spark.streams.run.home import Done, Home
from ottla.spark.work import unpickled

IDLE_S_MAX: Final = 600.0
START_S_MAX: Final = 30.0
LOOK_S: Final = 0.005
WAITING_MAX: Final = 16
SIZE: Final = struct.Struct(">Q")
POSSIBLE: Final = hasattr(os, "pidfd_open") and hasattr(socket, "SO_PEERCRED")


class AnyHome(Protocol):
    def knows(self, number: int, nonce: bytes | None) -> bool: ...

    def load(self, number: int, nonce: bytes, pages: Iterable[tuple[int, bytes]]) -> None: ...

    def run(self, number: int, cells: Sequence[bytes], now_ms: int | None) -> Done: ...


class HostGone(ConnectionError):
    """It has died, or was ended; the batch runs again, with another one."""


class HostTrouble(RuntimeError):
    """Not of the topology: the words say of whom."""


_here: dict[str, Home] = {}


def home_of(name: str, plan: bytes) -> AnyHome:
    """The home of the tasks of one partition: `name` says of which, `plan` is a pickled Plan."""
    digest = hashlib.sha256(plan).hexdigest()
    if not POSSIBLE:
        return _here.setdefault(f"{name} {digest}", Home(unpickled(plan)))
    address = f"\0ottla-streams-{os.getuid()}-{os.getppid()}-{name}"
    deadline = time.monotonic() + START_S_MAX
    while True:
        line = _called(address, digest)
        if line is not None:
            return Distant(line)
        if time.monotonic() > deadline:
            raise HostGone(f"no process for {name} came up: Connection refused")
        _fork(address, digest, plan)
        _await(address)


class Distant:
    """A home, from a worker's side."""

    def __init__(self, line: socket.socket) -> None:
        self._line = line

    def knows(self, number: int, nonce: bytes | None) -> bool:
        return bool(self._ask("knows", number, nonce))

    def load(self, number: int, nonce: bytes, pages: Iterable[tuple[int, bytes]]) -> None:
        self._ask("load", number, nonce, list(pages))

    def run(self, number: int, cells: Sequence[bytes], now_ms: int | None) -> Done:
        done: Done = self._ask("run", number, list(cells), now_ms)
        return done

    def close(self) -> None:
        self._line.close()

    def end(self) -> None:
        """The process goes, and what it has in its memory."""
        with contextlib.suppress(OSError, EOFError):
            _send(self._line, ("end",))
            self._line.recv(1)
        self.close()

    def _ask(self, *words: Any) -> Any:
        try:
            _send(self._line, words)
            kind, answer = _receive(self._line)
        except (OSError, EOFError) as error:
            raise HostGone(f"Connection reset by the process of the task: {error}") from None
        if kind == "failed":
            raise StreamsError(answer)
        if kind == "broken":
            raise HostTrouble(answer)
        return answer


def _called(address: str, digest: str) -> socket.socket | None:
    """A line to the host that has this plan. One that has another plan ends when it hears of it."""
    line = socket.socket(socket.AF_UNIX)
    try:
        line.connect(address)
        if peer_user(line) == os.getuid():
            _send(line, digest)
            if _receive(line):
                return line
    except (OSError, EOFError):
        pass
    line.close()
    return None


def _await(address: str) -> None:
    """Until somebody listens."""
    deadline = time.monotonic() + START_S_MAX
    while time.monotonic() < deadline:
        with socket.socket(socket.AF_UNIX) as line, contextlib.suppress(OSError):
            line.connect(address)
            return
        time.sleep(LOOK_S)


def _fork(address: str, digest: str, plan: bytes) -> None:
    """A grandchild, so that nobody has to wait for its end."""
    daemon = os.getppid()
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        return
    try:
        os.setsid()
        if os.fork():
            os._exit(0)
        _alone()
        _serve(address, digest, plan, daemon)
    except BaseException:
        traceback.print_exc()
    _end(1)


def _alone() -> None:
    """Spark must see its sockets closed when its worker closes them: none stays open here."""
    nowhere = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nowhere, 0)
    for each in os.listdir("/proc/self/fd"):
        if int(each) > 2:
            with contextlib.suppress(OSError):
                os.close(int(each))
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


def _serve(address: str, digest: str, plan: bytes, daemon: int) -> None:
    alive = os.pidfd_open(daemon)
    with socket.socket(socket.AF_UNIX) as listening:
        try:
            listening.bind(address)
        except OSError:
            _end(0)  # somebody else was first
        listening.listen(WAITING_MAX)
        home = Home(unpickled(plan))
        poll = select.poll()
        poll.register(alive, select.POLLIN)
        poll.register(listening, select.POLLIN)
        while True:
            events = poll.poll(IDLE_S_MAX * 1000)
            if not events or any(which == alive for which, _ in events):
                break
            line, _ = listening.accept()
            with line:
                if peer_user(line) == os.getuid() and not _converse(
                    line, digest, home, (alive, listening.fileno())
                ):
                    break
    home.close()
    _end(0)


def _converse(line: socket.socket, digest: str, home: Home, others: tuple[int, int]) -> bool:
    """One worker, until it hangs up, or another calls while it is silent: only one has the task
    now, and that is the newer. False: it has another plan, or no use for us any more."""
    poll = select.poll()
    for each in (line.fileno(), *others):
        poll.register(each, select.POLLIN)
    with contextlib.suppress(OSError, EOFError):
        theirs = _receive(line)
        _send(line, theirs == digest)
        if theirs != digest:
            return False
        while any(which == line.fileno() for which, _ in poll.poll()):
            words = _receive(line)
            if words == ("end",):
                return False
            _send(line, _answer(home, words))
    return True


def _answer(home: Home, words: Sequence[Any]) -> tuple[str, Any]:
    verb, *arguments = words
    try:
        return "done", getattr(home, verb)(*arguments)
    except StreamsError as error:
        traceback.print_exc()
        return "failed", str(error)
    except Exception as error:
        traceback.print_exc()
        return "broken", f"{type(error).__name__}: {error}"


def _send(line: socket.socket, thing: Any) -> None:
    data = pickle.dumps(thing, pickle.HIGHEST_PROTOCOL)
    line.sendall(SIZE.pack(len(data)))
    line.sendall(data)


def _receive(line: socket.socket) -> Any:
    (size,) = SIZE.unpack(_exactly(line, SIZE.size))
    return pickle.loads(_exactly(line, size))


def _exactly(line: socket.socket, size: int) -> bytearray:
    data = bytearray(size)
    view = memoryview(data)
    while view:
        count = line.recv_into(view)
        if not count:
            raise EOFError("the other side has hung up")
        view = view[count:]
    return data
