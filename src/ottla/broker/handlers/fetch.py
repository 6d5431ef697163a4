"""Fetch (key 1), v4 to v18.

Returns each partition's batches from the one that holds the fetch offset, as slices of the log's
files. With fewer than `min_bytes` it waits, at most `max_wait`, for an append to bring more.

Followers fetch from leaders only, up to the end of the log; a follower's fetch offset tells the
leader its progress and so moves the high watermark. Consumers from v11 on may fetch from followers,
and a leader refers them to one in their rack if it has a `replica.selector.class`.

v4   read_committed              v5   log start offset         v6   KAFKA_STORAGE_ERROR
v7   sessions (KIP-227)
v9   leader epoch check (KIP-320)         v11  rack and preferred replica (KIP-392)
v12  diverging epoch (KIP-595)   v13  topic ids (KIP-516)      v15  replica state (KIP-903)
v16  leader hints (KIP-951)      v18  high watermark in the request (KIP-1166)
"""

from __future__ import annotations

import asyncio

from ottla.auth.acls import AclOperation, AclResource
from ottla.broker.delayed_operation import DelayedOperation
from ottla.broker.fetch_reader import FetchReader, replica_of
from ottla.broker.fetch_sessions import NO_SESSION
from ottla.broker.request_context import RequestContext
from ottla.errors import KafkaError
from ottla.replica.partition import READ_COMMITTED
from ottla.replica.watchers import Watchers
from ottla.wire.messages.fetch import FetchRequest, FetchResponse


def handle(
    ctx: RequestContext, request: FetchRequest
) -> FetchResponse | asyncio.Future[FetchResponse]:
    if ctx.rights is not None and _is_false_follower(ctx, request):
        # Each partition will be refused. The request must not end the real follower's session.
        request.session_id, request.session_epoch = 0, NO_SESSION
    try:
        fetch_context = ctx.broker.fetch_sessions.resolve(request, ctx.version, ctx.now_ms)
    except KafkaError as error:
        return FetchResponse(error_code=error.code)
    fetch = FetchReader(ctx, request, fetch_context)
    fetch.collect()
    if (
        fetch.satisfied
        or request.max_wait <= 0
        or not (fetch_context.partitions or fetch_context.session)
    ):
        return fetch.response()
    return DelayedFetch(fetch, request.max_wait).future


def _is_false_follower(ctx: RequestContext, request: FetchRequest) -> bool:
    """True if the client claims to be a follower but may not act as a broker."""
    may = (AclOperation.CLUSTER_ACTION, AclResource.CLUSTER)
    return replica_of(request)[0] >= 0 and not ctx.may(*may, quiet=True)


class DelayedFetch:
    """A fetch that found too few bytes: it reads again when woken, and answers at its deadline."""

    __slots__ = ("_arrived", "_fetch", "_follows", "_missing", "_operation", "_watched")

    def __init__(self, fetch: FetchReader, max_wait_ms: int) -> None:
        self._fetch = fetch
        self._follows = fetch.replica_id >= 0
        self._watched: list[Watchers] = []
        self._missing = 0  # bytes that must arrive before another read is worth it
        self._arrived = 0  # bytes since the last read
        # A follower may send another request behind a waiting one; then this one ends at once.
        self._operation = DelayedOperation(
            self._try_complete, max_wait_ms, on_end=self._unwatch, interruptible=self._follows
        )
        self._wait()

    @property
    def future(self) -> asyncio.Future[FetchResponse]:
        return self._operation.future

    def _wait(self) -> None:
        """Watch the partitions that were found this time: a topic may have been recreated."""
        fetch = self._fetch
        if self._follows:
            fetch.skip_caught_up()
            if fetch.fetch_context.session is not None:
                fetch.fetch_context.session.wake = self._wake
        fetch.release()
        self._arrived = 0
        self._missing = fetch.size_min - fetch.size
        if fetch.isolation == READ_COMMITTED:
            self._missing = 1  # a marker of a few bytes makes a whole transaction readable
        watchers: list[Watchers] = []
        if self._follows:
            watchers += [partition.tail for partition in fetch.partitions]
        if not self._follows or fetch.reports_high_watermark:
            watchers += [partition.waiting for partition in fetch.partitions]
        if watchers != self._watched:
            self._discard_watches()
            self._watched = watchers
            for watched in watchers:
                watched.add(self._wake)

    def _discard_watches(self) -> None:
        for watched in self._watched:
            watched.discard(self._wake)

    def _unwatch(self) -> None:
        self._discard_watches()
        session = self._fetch.fetch_context.session
        if session is not None and session.wake == self._wake:
            session.wake = None

    def _wake(self, size: int) -> None:
        """An append happened. Read once, after everything in this turn of the loop is appended.

        A fetch that waits for many bytes reads only when they have arrived, because with a thousand
        partitions each read takes milliseconds.
        """
        self._arrived += size
        if self._arrived >= self._missing:
            self._operation.look_soon()

    def _try_complete(self, last: bool) -> FetchResponse | None:
        self._fetch.collect()
        if last or self._fetch.satisfied:
            return self._fetch.response()
        self._wait()
        return None
