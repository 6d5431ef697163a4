"""kazoo for an event loop: requests are awaited, events and states arrive on the loop, in order.

kazoo keeps the session: it connects, pings, reconnects and says when a session has expired, all on
one thread of its own. What ZooKeeper has had since 3.6 and kazoo lacks is added here: a watch on
everything below a node (`AddWatch`), and many reads in one request (`MultiRead`).

Whatever kazoo's thread has to say goes to the loop by `call_soon_threadsafe`, so that the order is
ZooKeeper's own: whoever sees an answer has been told of every change before it.
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
from ottla.cluster.zookeeper_tree import Node, Operation

EPHEMERAL: Final = 1
READS_MAX: Final = 1000
"""In one request: some 100 kB of paths, of the 1 MB that a server takes."""
RETRY_S_MAX: Final = 1.0
"""Between two attempts to reach the ensemble; a broker without it is of no use for long."""

log = logging.getLogger("ottla.cluster")

CONNECTED: Final = str(KazooState.CONNECTED)
SUSPENDED: Final = str(KazooState.SUSPENDED)
LOST: Final = str(KazooState.LOST)

Refused = KazooException
"""An operation that could not be done, and was not."""
Stale = (NoNodeError, NodeExistsError, BadVersionError, NotEmptyError)
"""It was planned on a state that is no longer."""
Unreachable = (ConnectionLoss, ConnectionClosedError, SessionExpiredError)
"""What became of a request that failed in one of these ways is not known."""


@dataclass(slots=True, frozen=True)
class AddWatch:
    """Tell us of every change at this node and below, again and again (ZooKeeper 3.6)."""

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
    """Any number of reads in one request (ZooKeeper 3.6); None for a node that is not there."""

    operations: Sequence[Any]
    type: ClassVar[int] = 22

    def serialize(self) -> bytes:
        body = bytearray()
        for each in self.operations:
            body += multiheader_struct.pack(each.type, False, -1) + each.serialize()
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
                answers.append(Node(value, stat.version, stat.ephemeralOwner))
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


class Client:
    """A session after the other. `on_state` and `on_event` are called on the loop."""

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
            handler=_Handler(connect_s_max=session_timeout_s / (hosts.count(",") + 1)),
            connection_retry=KazooRetry(max_tries=-1, delay=0.05, max_delay=RETRY_S_MAX),
            logger=_kazoo_log(),
            **(options or {}),
        )
        self._acl = self._kazoo.default_acl or OPEN_ACL_UNSAFE
        self._kazoo.add_listener(lambda state: self._tell(self._on_state, state))
        # kazoo looks for a watcher of exactly this path; a recursive watch has one for them all.
        self._kazoo._connection._read_watch_event = self._read_event

    @property
    def session_id(self) -> int:
        """0 while there is none."""
        return int(self._kazoo._session_id or 0)

    @property
    def connected(self) -> bool:
        return bool(self._kazoo.connected)

    @property
    def refused(self) -> bool:
        """The ensemble does not believe who we say that we are; it is not asked again."""
        return bool(self._kazoo.client_state == KeeperState.AUTH_FAILED)

    @property
    def ended(self) -> bool:
        """kazoo does nothing any more; only `start` lets it."""
        return bool(self._kazoo.client_state == KeeperState.CLOSED)

    def start(self) -> None:
        """Begin to connect; `on_state` tells when that is done."""
        self._kazoo.start_async()

    async def close(self) -> None:
        """End the session, and with it what is held."""
        await asyncio.to_thread(self._close)

    def _close(self) -> None:
        try:
            self._kazoo.stop()
            self._kazoo.close()
        except Exception as error:  # the session ends by itself, then
            log.warning("the ZooKeeper session was not closed: %r", error)

    def call(self, request: Any) -> asyncio.Future[Any]:
        """Sent at once, in the order of the calls; KazooException says what went wrong."""
        future: asyncio.Future[Any] = self._loop.create_future()
        result = self._kazoo.handler.async_result()
        result.rawlink(lambda result: self._tell(_resolve, future, result))
        self._kazoo._call(request, result)
        return future

    async def multi(self, operations: Sequence[Operation]) -> list[Any]:
        """All of these or none of them: their answers. A KazooException says what was in the way.

        Answers are a path, True, or for a value that was set the node's state.
        """
        answers = await self.call(Transaction([self._request(each) for each in operations]))
        failures = [each for each in answers if isinstance(each, KazooException)]
        for failure in failures:
            if not isinstance(failure, RolledBackError | RuntimeInconsistency):
                raise failure
        if failures:
            raise failures[0]
        return list(answers)

    async def make_path(self, path: str) -> None:
        """Bare nodes, where there are none."""
        parts = path.strip("/").split("/")
        for count in range(1, len(parts) + 1):
            node = "/" + "/".join(parts[:count])
            with contextlib.suppress(NodeExistsError):
                await self.call(Create(node, None, self._acl_of(node), 0))

    def watch(self, path: str) -> asyncio.Future[Any]:
        return self.call(AddWatch(path))

    def sync(self, path: str) -> asyncio.Future[Any]:
        """Once it is answered, we have been told of all that was written before."""
        return self.call(Sync(path))

    async def read(self, paths: Sequence[str]) -> list[Node | None]:
        answers: list[Node | None] = []
        for batch in _batches(paths):
            answers += await self.call(MultiRead([GetData(path, None) for path in batch]))
        return answers

    async def children(self, paths: Sequence[str]) -> list[list[str] | None]:
        answers: list[list[str] | None] = []
        for batch in _batches(paths):
            answers += await self.call(MultiRead([GetChildren(path, None) for path in batch]))
        return answers

    def _request(self, operation: Operation) -> Any:
        match operation:
            case Operation("create", path, value, _, ephemeral):
                return Create(path, value, self._acl_of(path), EPHEMERAL if ephemeral else 0)
            case Operation("set", path, value, version):
                return SetData(path, value, version)
            case Operation("delete", path, _, version):
                return Delete(path, version)
            case Operation("check", path, _, version):
                return CheckVersion(path, version)
        raise AssertionError(operation.kind)

    def _acl_of(self, path: str) -> Any:
        """Credentials are not for the others, who may read everything else."""
        if self._acl is not OPEN_ACL_UNSAFE and path.startswith(SENSITIVE):
            return CREATOR_ALL_ACL
        return self._acl

    def _read_event(self, data: bytes, offset: int) -> None:
        watch, _ = Watch.deserialize(data, offset)
        self._tell(self._on_event, watch.path)

    def _tell(self, function: Callable[..., None], *arguments: Any) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed, and nobody waits any more
            self._loop.call_soon_threadsafe(function, *arguments)


def _kazoo_log() -> logging.Logger:
    """Why a connection fails is worth a line, the same line again and again is not."""
    logger = logging.getLogger("ottla.cluster.kazoo")
    logger.setLevel(logging.WARNING)
    if not any(isinstance(each, _Changed) for each in logger.filters):
        logger.addFilter(_Changed())
    return logger


class _Changed(logging.Filter):
    """Lets a line pass that is another than the last two."""

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
    if future.done():  # whoever waited was cancelled
        return
    if result.exception is None:
        future.set_result(result.value)
    else:
        future.set_exception(result.exception)


class _Direct:
    """In place of a queue with a thread that empties it: what is put is done."""

    def put(self, function: Callable[[], None]) -> None:
        function()


class _Handler(SequentialThreadingHandler):  # type: ignore[misc]
    """kazoo's threads without the two for callbacks: ours only pass the word to the loop."""

    def __init__(self, connect_s_max: float) -> None:
        super().__init__()
        self.completion_queue = self.callback_queue = _Direct()
        self._connect_s_max = connect_s_max

    def start(self) -> None:
        self._running = True

    def stop(self) -> None:
        self._running = False

    def select(
        self, readers: Sequence[Any], writers: Sequence[Any], broken: Sequence[Any], timeout: float
    ) -> tuple[list[Any], list[Any], list[Any]]:
        """kazoo asks for each of a message's parts, and makes a selector each time."""
        poll = select.poll()
        found = {each.fileno(): each for each in (*readers, *writers)}
        for each in readers:
            poll.register(each, select.POLLIN)
        for each in writers:
            poll.register(each, select.POLLOUT)
        ready = {number for number, _ in poll.poll(max(0, timeout) * 1000)}
        hit = {found[number] for number in ready}
        return (
            [each for each in readers if each in hit],
            [each for each in writers if each in hit],
            [],
        )

    def create_connection(self, *arguments: Any, timeout: float, **options: Any) -> Any:
        """kazoo would wait for one server, and nobody answers there, as long as a session lasts."""
        timeout = min(timeout, self._connect_s_max)
        return super().create_connection(*arguments, timeout=timeout, **options)

    def dispatch_callback(self, callback: Any) -> None:
        callback.func(*callback.args)
