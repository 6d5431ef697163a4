"""One partition as this broker holds it: the log, who leads it, and how far it is committed."""

from __future__ import annotations

from typing import Final

from ottla.errors import ErrorCode, KafkaError
from ottla.records.batch import Origin
from ottla.records.control import Marker, build_marker
from ottla.replica.waiting import Waiting
from ottla.slices import FileSlice
from ottla.storage.log import Appended, Log

READ_UNCOMMITTED: Final = 0
READ_COMMITTED: Final = 1
EPOCH_BUMP_FROM: Final = 2  # the transaction version whose markers raise the producer's epoch


class Read:
    """What a fetch found in one partition."""

    __slots__ = ("aborted", "high_watermark", "last_stable_offset", "records", "start_offset")

    def __init__(
        self,
        *,
        records: FileSlice | None,
        high_watermark: int,
        last_stable_offset: int,
        start_offset: int,
        aborted: list[tuple[int, int]] | None,
    ) -> None:
        self.records = records
        self.high_watermark = high_watermark
        self.last_stable_offset = last_stable_offset
        self.start_offset = start_offset
        self.aborted = aborted


class Partition:
    """The leader's view. With one replica everything written is committed at once."""

    __slots__ = ("high_watermark", "index", "leader_epoch", "log", "topic", "topic_id", "waiting")

    def __init__(
        self, topic: str, index: int, *, topic_id: bytes, leader_epoch: int, log: Log
    ) -> None:
        self.topic = topic
        self.index = index
        self.topic_id = topic_id
        self.leader_epoch = leader_epoch
        self.log = log
        self.high_watermark = log.end_offset
        self.waiting = Waiting()

    def __repr__(self) -> str:
        return f"Partition({self.topic}-{self.index})"

    @property
    def last_stable_offset(self) -> int:
        """Up to here every transaction is decided; what is deleted is no longer awaited."""
        log = self.log
        unstable = log.first_unstable_offset
        if unstable is None or unstable > self.high_watermark:
            return self.high_watermark
        return max(unstable, log.start_offset)

    def append(self, data: memoryview, now_ms: int, *, origin: Origin = Origin.CLIENT) -> Appended:
        """A client's or a coordinator's batch, into the log as the leader writes it."""
        log = self.log
        try:
            appended = log.append(
                data, leader_epoch=self.leader_epoch, now_ms=now_ms, origin=origin
            )
        except KafkaError:
            self.high_watermark = log.end_offset  # it may be written, and not be on the disk
            raise
        self.high_watermark = log.end_offset
        if len(self.waiting):
            self.waiting.wake_all(appended.size)
        return appended

    def append_marker(
        self,
        marker: Marker,
        *,
        producer_id: int,
        producer_epoch: int,
        transaction_version: int,
        now_ms: int,
    ) -> Appended:
        """The end of a producer's transaction here, as its coordinator has decided it."""
        producer = self.log.producer(producer_id)
        if producer is not None and transaction_version >= EPOCH_BUMP_FROM:
            producer.check_bumped(producer_epoch)
        batch = build_marker(
            marker, producer_id=producer_id, producer_epoch=producer_epoch, timestamp=now_ms
        )
        appended = self.append(memoryview(bytearray(batch)), now_ms, origin=Origin.COORDINATOR)
        self.log.unstable_offset(self.high_watermark)  # forgets what is decided for good
        return appended

    def read(self, offset: int, *, size_max: int, isolation: int, whole_first_batch: bool) -> Read:
        """Batches from the one that holds `offset`, as far as this reader may see."""
        log = self.log
        stable = self.last_stable_offset
        end = stable if isolation == READ_COMMITTED else self.high_watermark
        # Where there is no room for a byte, all that is left to find out is whether the offset is
        # one of ours.
        visible = end if size_max > 0 or whole_first_batch else offset
        records = log.read(
            offset, size_max=size_max, end_offset=visible, whole_first_batch=whole_first_batch
        )
        aborted = None
        if isolation == READ_COMMITTED:
            aborted = []
            if records is not None:
                aborted = log.aborted(offset, log.end_of(records, offset, end))
        return Read(
            records=records,
            high_watermark=self.high_watermark,
            last_stable_offset=stable,
            start_offset=log.start_offset,
            aborted=aborted,
        )

    def is_cut(self, records: FileSlice, isolation: int) -> bool:
        """Whether more than `records`, which were read from the active segment, can be read now."""
        active = self.log.segments.active
        end = active.size
        if isolation == READ_COMMITTED and self.last_stable_offset < self.log.end_offset:
            end = active.position_of(self.last_stable_offset)
        return records.position + records.size < end

    def is_behind(self, offset: int) -> bool:
        """Whether a reader of `offset` is in an older segment than the one that is written to."""
        return offset < self.log.segments.active.base_offset

    def epoch_end_offset(self, leader_epoch: int) -> tuple[int, int]:
        """The largest epoch up to this one, and where it ended here (KIP-101); -1, -1 if unknown.

        Our own epoch is known before anything was written in it.
        """
        if leader_epoch == self.leader_epoch:
            return leader_epoch, self.log.end_offset
        return self.log.epoch_end_offset(leader_epoch)

    def check_epoch(self, current_leader_epoch: int) -> None:
        """KIP-320: a reader that knows another leader than us is told so. -1 knows none."""
        if current_leader_epoch < 0 or current_leader_epoch == self.leader_epoch:
            return
        if current_leader_epoch < self.leader_epoch:
            raise KafkaError(ErrorCode.FENCED_LEADER_EPOCH)
        raise KafkaError(ErrorCode.UNKNOWN_LEADER_EPOCH)

    def delete_records(self, before_offset: int, now_ms: int) -> int:
        """Move the log's start; -1 means the high watermark. Returns the new start."""
        target = self.high_watermark if before_offset == -1 else before_offset
        if target < 0 or target > self.high_watermark:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"{self.topic}-{self.index} holds offsets {self.log.start_offset} to "
                f"{self.high_watermark}; {before_offset} is not among them",
            )
        start = self.log.delete_records(target, now_ms)
        self.waiting.wake_all()
        return start
