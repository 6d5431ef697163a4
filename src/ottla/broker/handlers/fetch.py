"""Fetch (key 1), v4 to v18.

Returns each partition's batches from the one that holds the wanted offset, as slices of the log's
files. With fewer than `min_bytes` it waits, at most `max_wait`, for an append to bring more.

Followers ask the same, of leaders only, and are given all that is written; where a follower fetches
from is how far it is, and moves the high watermark. Consumers from v11 on may ask followers, and a
leader sends them to one in their rack if it has a `replica.selector.class`.

v4   read_committed              v5   log start offset         v6   KAFKA_STORAGE_ERROR
v7   sessions (KIP-227)
v9   leader epoch check (KIP-320)         v11  rack and preferred replica (KIP-392)
v12  diverging epoch (KIP-595)   v13  topic ids (KIP-516)      v15  replica state (KIP-903)
v16  leader hints (KIP-951)      v18  high watermark in the request (KIP-1166)
"""

from __future__ import annotations

import asyncio

from ottla.auth.acls import AclOperation, AclResource
from ottla.broker.context import Context
from ottla.broker.fetch_reading import Fetch, replica_of
from ottla.broker.sessions import NO_SESSION
from ottla.errors import KafkaError
from ottla.net.parked import Parked
from ottla.replica.partition import READ_COMMITTED
from ottla.replica.waiting import Waiting
from ottla.wire.messages.fetch import FetchRequest, FetchResponse


def handle(ctx: Context, request: FetchRequest) -> FetchResponse | asyncio.Future[FetchResponse]:
    if ctx.rights is not None and _is_pretender(ctx, request):
        # Each partition will be refused. Until then it must not end the real follower's session.
        request.session_id, request.session_epoch = 0, NO_SESSION
    try:
        plan = ctx.broker.fetch_sessions.resolve(request, ctx.version, ctx.now_ms)
    except KafkaError as error:
        return FetchResponse(error_code=error.code)
    fetch = Fetch(ctx, request, plan)
    fetch.collect()
    if fetch.satisfied or request.max_wait <= 0 or not (plan.wanted or plan.session):
        return fetch.response()
    return ParkedFetch(fetch, request.max_wait).future


def _is_pretender(ctx: Context, request: FetchRequest) -> bool:
    """Says that it is a follower, and may not be one."""
    may = (AclOperation.CLUSTER_ACTION, AclResource.CLUSTER)
    return replica_of(request)[0] >= 0 and not ctx.may(*may, quiet=True)


class ParkedFetch:
    """A fetch that has not found enough: it looks again when woken, and answers in time.

    Its future also goes away by itself when it is cancelled: the client has left.
    """

    __slots__ = (
        "_arrived",
        "_fetch",
        "_follows",
        "_loop",
        "_missing",
        "_parked_on",
        "_scheduled",
        "_timer",
        "future",
    )

    def __init__(self, fetch: Fetch, max_wait_ms: int) -> None:
        self._fetch = fetch
        self._follows = fetch.replica_id >= 0
        self._parked_on: list[Waiting] = []
        self._missing = 0  # bytes that must come before another look is worth it
        self._arrived = 0  # since the last look
        self._scheduled = False
        self._loop = asyncio.get_running_loop()
        self.future: asyncio.Future[FetchResponse] = (
            Parked(self._finish, loop=self._loop) if self._follows else self._loop.create_future()
        )
        self._timer = self._loop.call_later(max_wait_ms / 1000, self._finish)
        self.future.add_done_callback(self._leave)
        self._wait()

    def _wait(self) -> None:
        """To be woken by what was found this time: a topic may have been made anew."""
        fetch = self._fetch
        if self._follows:
            fetch.rest()
            if fetch.plan.session is not None:
                fetch.plan.session.wake = self._wake
        fetch.let_go()
        self._arrived = 0
        self._missing = fetch.size_min - fetch.size
        if fetch.isolation == READ_COMMITTED:
            self._missing = 1  # a transaction's few last bytes make all the others readable
        places: list[Waiting] = []
        if self._follows:
            places += [each.tail for each in fetch.found]
        if not self._follows or fetch.tells_commits:
            places += [each.waiting for each in fetch.found]
        if places != self._parked_on:
            self._unpark()
            self._parked_on = places
            for place in places:
                place.add(self._wake)

    def _unpark(self) -> None:
        for place in self._parked_on:
            place.discard(self._wake)

    def _leave(self, future: asyncio.Future[FetchResponse]) -> None:
        self._timer.cancel()
        self._unpark()
        session = self._fetch.plan.session
        if session is not None and session.wake == self._wake:
            session.wake = None

    def _wake(self, size: int) -> None:
        """An append happened. Look once, after all that came with it has been appended.

        Who waits for many bytes looks when so many have come: with a thousand partitions each
        look takes milliseconds.
        """
        self._arrived += size
        if self._arrived >= self._missing and not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._look)

    def _look(self) -> None:
        self._scheduled = False
        self._try(last=False)

    def _finish(self) -> None:
        """The wait is over: answer with what there is."""
        self._try(last=True)

    def _try(self, *, last: bool) -> None:
        if self.future.done():
            return
        try:
            self._fetch.collect()
            if last or self._fetch.satisfied:
                self.future.set_result(self._fetch.response())
            else:
                self._wait()
        except Exception as error:  # nobody else would ever answer
            self.future.set_exception(error)
