"""One instance's copy of `_schemas`: follows the topic, and appends the records of decisions.

    async with SchemaLog(...) as log:
        answer = await log.write(lambda state: decide(state))

Any number of instances may do so. A decision is made on the state at the end of the log, and its
records are appended only if no other record came in between (topic.py); otherwise the decision is
made again. The state belongs to the event loop's thread; the other threads only talk to brokers.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final, Generic, Protocol, TypeVar

from ottla.client.protocol.retries import LEADER_MOVED, LOST_CONNECTION, NOT_YET
from ottla.errors import ErrorCode, KafkaError
from ottla.records.record import Record
from ottla.registry.registry_change import KeyValue, RegistryChange
from ottla.registry.topic import LoggedBatch, SchemaTopic, TopicRead, WriteToken

T = TypeVar("T")
S = TypeVar("S", bound="ReplayedState")

FOLLOW_WAIT_MS: Final = 1000
RETRY_S: Final = 0.2
ATTEMPTS_MAX: Final = 200
EPOCH_LIFE_S: Final = 12 * 3600.0
"""A broker forgets an idle producer after a day (producer.id.expiration.ms), and a transactional id
after a week: after half a day an instance takes a new epoch before it writes."""
EPOCH_MAX: Final = 32767  # coordinators stop one below
EPOCHS_MANY: Final = 1 << 14  # no producer of another program gets near this
SEQUENCE_MAX: Final = (1 << 31) - 1
NOOP: Final = b'{"keytype":"NOOP","magic":0}'
# Errors of an append that may mean that another writer was first, or that leave the outcome open:
# the log has the answer.
LOST: Final = frozenset(
    {
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.DUPLICATE_SEQUENCE_NUMBER,
        ErrorCode.UNKNOWN_PRODUCER_ID,
    }
)
UNCERTAIN: Final = LOST_CONNECTION | LEADER_MOVED | NOT_YET

log = logging.getLogger("ottla.registry")


class ReplayedState(Protocol):
    def apply(self, record: Record) -> None: ...


class PendingAppend:
    """Whether our batch has been seen in the log."""

    def __init__(self, token: WriteToken, pairs: list[KeyValue]) -> None:
        last_sequence = (token.next_sequence + len(pairs) - 1) & SEQUENCE_MAX
        self._place = (token.producer_id, token.producer_epoch, last_sequence)
        self._pairs = pairs
        self.is_in_log = False

    def see(self, batch: LoggedBatch) -> None:
        place = (batch.producer_id, batch.producer_epoch, batch.last_sequence)
        if place == self._place:
            self.is_in_log = [(record.key, record.value) for record in batch.records] == self._pairs


class SchemaLog(Generic[S]):
    """`reader` and `writer` are two connections, because the reader waits at the end of the
    topic."""

    def __init__(
        self,
        reader: SchemaTopic,
        writer: SchemaTopic,
        new_state: Callable[[], S],
        *,
        now_ms: Callable[[], int] = lambda: int(time.time() * 1000),
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._new_state = new_state
        self._now_ms = now_ms
        self.state = new_state()
        self.position = -1  # the offset of the next record to apply
        self.cluster_id = ""
        self._sequences: dict[int, tuple[int, int]] = {}  # producer id -> epoch, last sequence
        self._producer_id = -1
        self._epoch_ends = 0.0
        self._pending: PendingAppend | None = None
        self._writing = asyncio.Lock()
        self._threads = ThreadPoolExecutor(1, thread_name_prefix="ottla-registry-writer")
        self._follow_thread = ThreadPoolExecutor(1, thread_name_prefix="ottla-registry-reader")
        self._follower: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Read the whole topic, creating it if need be; then follow it."""
        await self.load()
        self._follower = asyncio.create_task(self._follow())

    async def load(self) -> None:
        """`start`, for callers that need the state once."""
        self.cluster_id = await self._blocking(self._writer.prepare)
        await self._reload()

    async def stop(self) -> None:
        if self._follower is not None:
            self._follower.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._follower
        self._writer.give_up()
        self._reader.give_up()
        await asyncio.to_thread(self._threads.shutdown)
        await asyncio.to_thread(self._follow_thread.shutdown)  # waits for the Fetch in flight
        self._writer.close()
        self._reader.close()

    async def catch_up(self) -> None:
        """Wait until the state has everything that was committed before this call."""
        while True:
            read = await self._blocking(partial(self._writer.read, self.position, wait_ms=0))
            self._take(read)
            if self.position >= read.high_watermark:
                return

    async def write(self, decide: Callable[[S], RegistryChange[T]]) -> T:
        """Decide at the end of the log, append, answer. An exception of `decide` is final."""
        async with self._writing:
            for attempt in range(ATTEMPTS_MAX):
                await self.catch_up()
                decision = decide(self.state)
                if not decision.records or await self._append(decision.records):
                    return decision.answer
                if attempt:
                    await asyncio.sleep(min(attempt, 20) * 0.005)
        raise KafkaError(
            ErrorCode.REQUEST_TIMED_OUT, f"other writers came first {ATTEMPTS_MAX} times"
        )

    async def _append(self, pairs: Sequence[KeyValue]) -> bool:
        """True if exactly these records are in the log, directly behind all that the state has."""
        token = self._next_token()
        if token is None:
            await self._take_epoch()
            return False  # the log has grown meanwhile: decide again
        return await self._append_and_confirm(token, pairs)

    async def _append_and_confirm(self, token: WriteToken, pairs: Sequence[KeyValue]) -> bool:
        """The log decides, not the response: an append that seems to have failed may be in the log,
        and one that seems successful may be another writer's with the same sequence number."""
        self._pending = pending = PendingAppend(token, list(pairs))
        now = self._now_ms()
        records = [Record(timestamp=now, key=key, value=value) for key, value in pairs]
        try:
            await self._blocking(lambda: self._writer.append(token, records))
        except KafkaError as error:
            if error.code not in LOST | UNCERTAIN:
                raise
            if error.code in UNCERTAIN:
                log.warning("Append to %s may have failed: %s", self._writer.name, error)
        await self.catch_up()
        self._pending = None
        return pending.is_in_log

    def _next_token(self) -> WriteToken | None:
        """Continues the last batch of the shared producer, whichever instance wrote it."""
        epoch, last = self._sequences.get(self._producer_id, (EPOCH_MAX, 0))
        if epoch == EPOCH_MAX or time.monotonic() > self._epoch_ends:
            return None
        return WriteToken(self._producer_id, epoch, (last + 1) & SEQUENCE_MAX)

    async def _take_epoch(self) -> None:
        token = await self._blocking(self._writer.take_epoch)
        epoch_ends = time.monotonic() + EPOCH_LIFE_S
        for exhausted in self._exhausted(token):
            await self._append_and_confirm(exhausted, [(NOOP, None)])
        if await self._append_and_confirm(token, [(NOOP, None)]):
            self._producer_id, self._epoch_ends = token.producer_id, epoch_ends

    def _exhausted(self, token: WriteToken) -> list[WriteToken]:
        """A coordinator without epochs left returns another producer id. The old one could still
        write with its last epoch, until a batch with a higher epoch fences it."""
        return [
            WriteToken(producer_id, EPOCH_MAX, 0)
            for producer_id, (epoch, _) in self._sequences.items()
            if producer_id != token.producer_id and EPOCHS_MANY <= epoch < EPOCH_MAX
        ]

    async def _follow(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            call = partial(self._reader.read, self.position, wait_ms=FOLLOW_WAIT_MS)
            try:
                read = await loop.run_in_executor(self._follow_thread, call)
                self._take(read)
            except KafkaError as error:
                if error.code == ErrorCode.OFFSET_OUT_OF_RANGE:
                    async with self._writing:
                        await self._reload()
                    continue
                log.warning("Failed to read %s: %s", self._reader.name, error)
                await asyncio.sleep(RETRY_S)

    async def _reload(self) -> None:
        """Read from the first record: at the start, and if the topic was recreated."""
        if self.position >= 0:
            log.error(
                "%s has no offset %d any more, rereading it",
                self._writer.name,
                self.position,
            )
        self.state, self._sequences = self._new_state(), {}
        self.position = await self._blocking(self._writer.start_offset)
        await self.catch_up()

    def _take(self, read: TopicRead) -> None:
        """Both connections read the same batches: each is applied once, in order."""
        for batch in read.batches:
            if batch.next_offset <= self.position:
                continue
            for record in batch.records:
                if record.offset >= self.position:
                    self.state.apply(record)
            self._note(batch)
            self.position = batch.next_offset
        self.position = max(self.position, read.next_offset)

    def _note(self, batch: LoggedBatch) -> None:
        if batch.producer_id < 0:
            return
        self._sequences[batch.producer_id] = (batch.producer_epoch, batch.last_sequence)
        if self._pending is not None:
            self._pending.see(batch)

    async def _blocking(self, call: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, call)
