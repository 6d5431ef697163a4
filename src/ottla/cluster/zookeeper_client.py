"""kazoo on an event loop: requests are awaited; events and states arrive on the loop, in order.

kazoo maintains the session on a thread: it connects, pings, reconnects and reports an expired
session. This file adds what ZooKeeper has since 3.6 and kazoo lacks: recursive watches (`AddWatch`)
and many reads in one request (`MultiRead`).

kazoo's thread passes answers and events to the loop by `call_soon_threadsafe`, which keeps the
order of ZooKeeper: when an answer arrives, the events of all earlier changes have arrived, too.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import select
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from kazoo.client import KazooClient
from kazoo.exceptions import (
    EXCEPTIONS,
    BadVersionError,
    ConnectionClosedError,
    ConnectionLoss,
    KazooException,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    RolledBackError,
    RuntimeInconsistency,
    SessionExpiredError,
)
from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.protocol.serialization import (
    CheckVersion,
    Create,
    Delete,
    GetChildren,
    GetData,
    MultiHeader,
    SetData,
    Sync,
    Transaction,
    Watch,
    int_struct,
    multiheader_struct,
    read_buffer,
    read_string,
    stat_struct,
    write_string,
)
from kazoo.protocol.states import KazooState, KeeperState, ZnodeStat
from kazoo.retry import KazooRetry
from kazoo.security import CREATOR_ALL_ACL, OPEN_ACL_UNSAFE

from ottla.cluster.layout import SENSITIVE
from ottla.cluster.znode_tree import Znode, ZnodeOperation

EPHEMERAL: Final = 1
READS_MAX: Final = 1000
"""Reads in one request: some 100 kB of paths, of the 1 MB that a server accepts."""
RETRY_S_MAX: Final = 1.0
"""Between two connection attempts; short, because a broker needs the ensemble."""

log = logging.getLogger("ottla.cluster")

CONNECTED: Final = str(KazooState.CONNECTED)
SUSPENDED: Final = str(KazooState.SUSPENDED)
LOST: Final = str(KazooState.LOST)

ZooKeeperError = KazooException
"""ZooKeeper refused the request and did not execute it."""
StalePlanErrors = (NoNodeError, NodeExistsError, BadVersionError, NotEmptyError)
"""The request was planned on a state that has changed since."""
UnknownOutcomeErrors = (ConnectionLoss, ConnectionClosedError, SessionExpiredError)
"""The connection failed, so it is unknown whether the request was executed."""


@dataclass(slots=True, frozen=True)
class AddWatch:
    """A persistent recursive watch on a znode and everything below it (ZooKeeper 3.6)."""

    path: str
    type: ClassVar[int] = 106

    def serialize(self) -> bytes:
        recursive = 1
        return bytes(write_string(self.path) + int_struct.pack(recursive))

    @classmethod
    def deserialize(cls, data: bytes, offset: int) -> bool:
        return True


@dataclass(slots=True, frozen=True)
class MultiRead:
    """Any number of reads in one request (ZooKeeper 3.6); None for a znode that does not exist."""

    operations: Sequence[Any]
    type: ClassVar[int] = 22

    def serialize(self) -> bytes:
        body = bytearray()
        for operation in self.operations:
            body += multiheader_struct.pack(operation.type, False, -1) + operation.serialize()
        return bytes(body + multiheader_struct.pack(-1, True, -1))

    @classmethod
    def deserialize(cls, data: bytes, offset: int) -> list[Any]:
        answers: list[Any] = []
        header, offset = MultiHeader.deserialize(data, offset)
        while not header.done:
            if header.type == GetData.type:
                value, offset = read_buffer(data, offset)
                stat = ZnodeStat._make(stat_struct.unpack_from(data, offset))
                offset += stat_struct.size
                answers.append(Znode(value, stat.version, stat.ephemeralOwner))
            elif header.type == GetChildren.type:
                count = int_struct.unpack_from(data, offset)[0]
                offset += int_struct.size
                names = []
                for _ in range(count):
                    name, offset = read_string(data, offset)
                    names.append(name)
                answers.append(names)
            else:
                code = int_struct.unpack_from(data, offset)[0]
                offset += int_struct.size
                if code != NoNodeError.code:
                    raise EXCEPTIONS[code]()
                answers.append(None)
            header, offset = MultiHeader.deserialize(data, offset)
        return answers


class ZooKeeperClient:
    """One session after the other. `on_state` and `on_event` are called on the loop."""

    def __init__(
        self,
        hosts: str,
        *,
        session_timeout_s: float,
        on_state: Callable[[str], None],
        on_event: Callable[[str], None],
        options: dict[str, Any] | None = None,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._on_state = on_state
        self._on_event = on_event
        self._kazoo = KazooClient(
            hosts,
            timeout=session_timeout_s,
            handler=_KazooHandler(connect_s_max=session_timeout_s / (hosts.count(",") + 1)),
            connection_retry=KazooRetry(max_tries=-1, delay=0.05, max_delay=RETRY_S_MAX),
            logger=_kazoo_log(),
            **(options or {}),
        )
        self._acl = self._kazoo.default_acl or OPEN_ACL_UNSAFE
        self._kazoo.add_listener(lambda state: self._call_on_loop(self._on_state, state))
        # kazoo looks up a watcher by the exact path of the event, but our watch is recursive.
        self._kazoo._connection._read_watch_event = self._read_event

    @property
    def session_id(self) -> int:
        """The id of the session; 0 while there is none."""
        return int(self._kazoo._session_id or 0)

    @property
    def connected(self) -> bool:
        return bool(self._kazoo.connected)

    @property
    def auth_failed(self) -> bool:
        """True if the ensemble rejected our credentials; kazoo does not try again."""
        return bool(self._kazoo.client_state == KeeperState.AUTH_FAILED)

    @property
    def stopped(self) -> bool:
        """True if kazoo has stopped; `start` starts it again."""
        return bool(self._kazoo.client_state == KeeperState.CLOSED)

    def start(self) -> None:
        """Start to connect; `on_state` is called when that is done."""
        self._kazoo.start_async()

    async def close(self) -> None:
        """End the session, and with it the ephemeral znodes."""
        await asyncio.to_thread(self._close)

    def _close(self) -> None:
        try:
            self._kazoo.stop()
            self._kazoo.close()
        except Exception as error:  # then the session expires
            log.warning("Could not close the ZooKeeper session: %r", error)

    def call(self, request: Any) -> asyncio.Future[Any]:
        """Send a request at once; requests are executed in the order of the calls."""
        future: asyncio.Future[Any] = self._loop.create_future()
        result = self._kazoo.handler.async_result()
        result.rawlink(lambda result: self._call_on_loop(_resolve, future, result))
        self._kazoo._call(request, result)
        return future

    async def multi(self, operations: Sequence[ZnodeOperation]) -> list[Any]:
        """Execute all operations or none; KazooException is the error of the one that failed.

        Answers are a path, True, or the znode's stat for a value that was set.
        """
        answers = await self.call(
            Transaction([self._request(operation) for operation in operations])
        )
        failures = [answer for answer in answers if isinstance(answer, KazooException)]
        for failure in failures:
            if not isinstance(failure, RolledBackError | RuntimeInconsistency):
                raise failure
        if failures:
            raise failures[0]
        return list(answers)

    async def make_path(self, path: str) -> None:
        """Create the missing znodes of a path, without data."""
        parts = path.strip("/").split("/")
        for count in range(1, len(parts) + 1):
            node = "/" + "/".join(parts[:count])
            with contextlib.suppress(NodeExistsError):
                await self.call(Create(node, None, self._acl_of(node), 0))

    def watch(self, path: str) -> asyncio.Future[Any]:
        return self.call(AddWatch(path))

    def sync(self, path: str) -> asyncio.Future[Any]:
        """When this is answered, the events of all earlier writes have arrived."""
        return self.call(Sync(path))

    async def read(self, paths: Sequence[str]) -> list[Znode | None]:
        answers: list[Znode | None] = []
        for batch in _batches(paths):
            answers += await self.call(MultiRead([GetData(path, None) for path in batch]))
        return answers

    async def children(self, paths: Sequence[str]) -> list[list[str] | None]:
        answers: list[list[str] | None] = []
        for batch in _batches(paths):
            answers += await self.call(MultiRead([GetChildren(path, None) for path in batch]))
        return answers

    def _request(self, operation: ZnodeOperation) -> Any:
        match operation:
            case ZnodeOperation("create", path, value, _, ephemeral):
                return Create(path, value, self._acl_of(path), EPHEMERAL if ephemeral else 0)
            case ZnodeOperation("set", path, value, version):
                return SetData(path, value, version)
            case ZnodeOperation("delete", path, _, version):
                return Delete(path, version)
            case ZnodeOperation("check", path, _, version):
                return CheckVersion(path, version)
        raise AssertionError(operation.kind)

    def _acl_of(self, path: str) -> Any:
        """Only brokers may read credentials; others may read everything else."""
        if self._acl is not OPEN_ACL_UNSAFE and path.startswith(SENSITIVE):
            return CREATOR_ALL_ACL
        return self._acl

    def _read_event(self, data: bytes, offset: int) -> None:
        watch, _ = Watch.deserialize(data, offset)
        self._call_on_loop(self._on_event, watch.path)

    def _call_on_loop(self, function: Callable[..., None], *arguments: Any) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(function, *arguments)


def _kazoo_log() -> logging.Logger:
    """kazoo's logger without repetitions: why a connection fails is worth one line."""
    logger = logging.getLogger("ottla.cluster.kazoo")
    logger.setLevel(logging.WARNING)
    if not any(isinstance(known, _RepeatFilter) for known in logger.filters):
        logger.addFilter(_RepeatFilter())
    return logger


class _RepeatFilter(logging.Filter):
    """Drops a line that equals one of the last two."""

    def __init__(self) -> None:
        super().__init__()
        self._recent: deque[str] = deque(maxlen=2)

    def filter(self, record: logging.LogRecord) -> bool:
        text = record.getMessage()
        known = text in self._recent
        self._recent.append(text)
        return not known


def _batches(paths: Sequence[str]) -> Iterator[Sequence[str]]:
    for start in range(0, len(paths), READS_MAX):
        yield paths[start : start + READS_MAX]


def _resolve(future: asyncio.Future[Any], result: Any) -> None:
    if future.done():  # the waiting task was cancelled
        return
    if result.exception is None:
        future.set_result(result.value)
    else:
        future.set_exception(result.exception)


class _DirectQueue:
    """Replaces a queue and its thread: what is put is executed at once."""

    def put(self, function: Callable[[], None]) -> None:
        function()


class _KazooHandler(SequentialThreadingHandler):  # type: ignore[misc]
    """kazoo's threads without the two for callbacks, because ours only schedule on the loop."""

    def __init__(self, connect_s_max: float) -> None:
        super().__init__()
        self.completion_queue = self.callback_queue = _DirectQueue()
        self._connect_s_max = connect_s_max

    def start(self) -> None:
        self._running = True

    def stop(self) -> None:
        self._running = False

    def select(
        self, readers: Sequence[Any], writers: Sequence[Any], broken: Sequence[Any], timeout: float
    ) -> tuple[list[Any], list[Any], list[Any]]:
        """poll instead of a new selector each time: kazoo calls this for each part of a message."""
        poll = select.poll()
        found = {stream.fileno(): stream for stream in (*readers, *writers)}
        for stream in readers:
            poll.register(stream, select.POLLIN)
        for stream in writers:
            poll.register(stream, select.POLLOUT)
        ready = {number for number, _ in poll.poll(max(0, timeout) * 1000)}
        hit = {found[number] for number in ready}
        return (
            [stream for stream in readers if stream in hit],
            [stream for stream in writers if stream in hit],
            [],
        )

    def create_connection(self, *arguments: Any, timeout: float, **options: Any) -> Any:
        """Limit the time per server, because kazoo would spend a whole session timeout on one."""
        timeout = min(timeout, self._connect_s_max)
        return super().create_connection(*arguments, timeout=timeout, **options)

    def dispatch_callback(self, callback: Any) -> None:
        callback.func(*callback.args)
