"""What a partition knows of its producers: sequences, epochs, open transactions (KIP-98).

An idempotent producer numbers its records; a batch is taken only if its first number follows the
last one taken. The last five batches are remembered, so that one which is sent again, because its
answer was lost, is recognised and answered with the offset that it got the first time.

    epoch below the known one                          INVALID_PRODUCER_EPOCH
    a new epoch that does not begin with sequence 0    OUT_OF_ORDER_SEQUENCE_NUMBER
    a sequence that does not follow the last           OUT_OF_ORDER_SEQUENCE_NUMBER
    a producer of which nothing is known               any sequence is taken: retention may have
                                                       removed its records (no UNKNOWN_PRODUCER_ID
                                                       since Kafka 2.5, KIP-360)
    a record outside the transaction that is open      INVALID_TXN_STATE
    a marker of a coordinator that was replaced        TRANSACTION_COORDINATOR_FENCED
    a marker that does not raise the epoch, while its  INVALID_PRODUCER_EPOCH (transaction
    producer's transaction is open                     version 2, KIP-890)

`check` decides and changes nothing, `update` follows what is in the log: the one before the write,
the other after it, so that a write which fails leaves no trace.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from ottla.errors import ErrorCode, KafkaError
from ottla.records.batch import TRANSACTIONAL_BIT, BatchHeader, Origin
from ottla.records.control import Marker

BATCHES_MAX = 5  # max.in.flight.requests.per.connection of an idempotent producer
ENDED_MAX = 10_000  # transactions whose markers may still be above the high watermark
NO_EPOCH = -1
EPOCH_MAX = 0x7FFF
NO_OFFSET = -1
NO_SEQUENCE = -1
SEQUENCE_MAX = 0x7FFFFFFF
EXPIRATION_MS = 86_400_000  # producer.id.expiration.ms


class Batch(NamedTuple):
    """One of a producer's last batches."""

    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @staticmethod
    def of(header: BatchHeader) -> Batch:
        delta = header.last_offset_delta
        last_sequence = header.base_sequence
        if last_sequence != NO_SEQUENCE:
            last_sequence = (last_sequence + delta) & SEQUENCE_MAX
        return Batch(last_sequence, header.base_offset + delta, delta, header.max_timestamp)

    @property
    def first_offset(self) -> int:
        return self.last_offset - self.offset_delta

    @property
    def first_sequence(self) -> int:
        return (self.last_sequence - self.offset_delta) & SEQUENCE_MAX


class Completed(NamedTuple):
    """A transaction that a marker has ended."""

    producer_id: int
    first_offset: int
    last_offset: int
    aborted: bool


class Producer:
    """One producer id."""

    __slots__ = (
        "batches",
        "coordinator_epoch",
        "epoch",
        "last_timestamp",
        "producer_id",
        "transaction_offset",
    )

    def __init__(
        self,
        producer_id: int,
        *,
        epoch: int = NO_EPOCH,
        coordinator_epoch: int = -1,
        last_timestamp: int = -1,
        transaction_offset: int = NO_OFFSET,
        batches: Iterable[Batch] = (),
    ) -> None:
        self.producer_id = producer_id
        self.epoch = epoch
        self.coordinator_epoch = coordinator_epoch
        self.last_timestamp = last_timestamp
        self.transaction_offset = transaction_offset  # of the open transaction's first record
        self.batches = list(batches)  # at most BATCHES_MAX, the newest last

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    @property
    def last_offset(self) -> int:
        return self.batches[-1].last_offset if self.batches else NO_OFFSET

    def in_transaction(self, epoch: int) -> bool:
        """Whether a transaction that was begun in this epoch is open here."""
        return self.transaction_offset >= 0 and self.epoch == epoch

    def check_bumped(self, epoch: int) -> None:
        """KIP-890: a marker of transaction version 2 has the epoch after the transaction's own.

        So one that is late, because it was sent twice, cannot end the next transaction. The one
        that comes again when nothing is open does no harm; and the last epoch of all can only be
        followed by itself.
        """
        again = epoch == self.epoch and (self.transaction_offset < 0 or epoch == EPOCH_MAX)
        if epoch <= self.epoch and not again:
            raise KafkaError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"producer {self.producer_id} has epoch {self.epoch}; a marker of transaction "
                f"version 2 needs a later one than {epoch}",
            )


class Producers:
    """All producers of one partition, and its open transactions."""

    __slots__ = ("_ended", "_open", "_producers")

    def __init__(self) -> None:
        self._producers: dict[int, Producer] = {}
        # Producer id -> first offset. Transactions open in the order of their first offsets, so
        # the first one in the dict is the lowest.
        self._open: dict[int, int] = {}
        # First offset -> offset of the marker, of transactions that have ended of late.
        self._ended: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._producers)

    def __iter__(self) -> Iterator[Producer]:
        return iter(self._producers.values())

    def get(self, producer_id: int) -> Producer | None:
        return self._producers.get(producer_id)

    # Appending

    def check(self, header: BatchHeader, origin: Origin) -> Batch | None:
        """HOT. The batch that this one repeats, if any; KafkaError if it may not be appended."""
        producer = self._producers.get(header.producer_id)
        if producer is None:
            return None
        epoch = producer.epoch
        first = header.base_sequence
        if header.producer_epoch != epoch:
            if header.producer_epoch < epoch:
                raise _fenced(header, epoch)
            if origin is Origin.CLIENT and first != 0:
                raise _out_of_order(header, f"a new epoch begins with 0; the last was {epoch}")
        elif origin is Origin.CLIENT:
            batches = producer.batches
            last = batches[-1].last_sequence if batches else NO_SEQUENCE
            if first != (last + 1) & SEQUENCE_MAX:
                last_sequence = (first + header.last_offset_delta) & SEQUENCE_MAX
                for batch in batches:
                    if batch.last_sequence == last_sequence and batch.first_sequence == first:
                        return batch
                raise _out_of_order(header, f"the last one is {last}")
        if producer.transaction_offset >= 0 and not header.attributes & TRANSACTIONAL_BIT:
            raise KafkaError(
                ErrorCode.INVALID_TXN_STATE,
                f"producer {header.producer_id} has a transaction open, and writes outside of it",
            )
        return None

    def check_marker(self, header: BatchHeader, marker: Marker) -> None:
        producer = self._producers.get(header.producer_id)
        if producer is None:
            return
        if header.producer_epoch < producer.epoch:
            raise _fenced(header, producer.epoch)
        if marker.coordinator_epoch < producer.coordinator_epoch:
            raise KafkaError(
                ErrorCode.TRANSACTION_COORDINATOR_FENCED,
                f"marker of coordinator epoch {marker.coordinator_epoch}, "
                f"{producer.coordinator_epoch} is known",
            )

    def update(self, header: BatchHeader) -> None:
        """HOT. A data batch is in the log, at the offsets that its header has."""
        producer = self._of(header)
        batches = producer.batches
        if len(batches) >= BATCHES_MAX:
            del batches[0]
        batches.append(Batch.of(header))
        producer.last_timestamp = header.max_timestamp
        if header.attributes & TRANSACTIONAL_BIT and producer.transaction_offset < 0:
            producer.transaction_offset = header.base_offset
            self._open[header.producer_id] = header.base_offset

    def end_transaction(self, header: BatchHeader, marker: Marker) -> Completed | None:
        """A marker is in the log. None if no record of the transaction was written here."""
        producer = self._of(header)
        first_offset = producer.transaction_offset
        producer.coordinator_epoch = marker.coordinator_epoch
        producer.last_timestamp = header.max_timestamp
        producer.transaction_offset = NO_OFFSET
        self._open.pop(header.producer_id, None)
        if first_offset < 0:
            return None
        if len(self._ended) >= ENDED_MAX:
            del self._ended[next(iter(self._ended))]
        self._ended[first_offset] = header.base_offset
        return Completed(header.producer_id, first_offset, header.base_offset, not marker.commit)

    def _of(self, header: BatchHeader) -> Producer:
        producer = self._producers.get(header.producer_id)
        if producer is None:
            producer = self._producers[header.producer_id] = Producer(header.producer_id)
        if producer.epoch != header.producer_epoch:
            producer.epoch = header.producer_epoch
            producer.batches.clear()
        return producer

    # Transactions

    @property
    def first_open_offset(self) -> int | None:
        """The lowest offset of a transaction that is not decided."""
        return next(iter(self._open.values())) if self._open else None

    def first_unstable_offset(self, high_watermark: int) -> int | None:
        """The lowest offset of a transaction that is not decided for good.

        One whose marker is not below the high watermark counts as open: the marker may be lost,
        and the decision with it.
        """
        self._ended = {
            first: marker for first, marker in self._ended.items() if marker >= high_watermark
        }
        first = self.first_open_offset
        if self._ended:
            ended = min(self._ended)
            return ended if first is None else min(first, ended)
        return first

    # Loading, expiry

    def load(self, producers: Iterable[Producer]) -> None:
        for producer in producers:
            self._producers[producer.producer_id] = producer
            if producer.transaction_offset >= 0:
                self._open[producer.producer_id] = producer.transaction_offset
        self._open = dict(sorted(self._open.items(), key=lambda item: item[1]))

    def expire(self, now_ms: int, expiration_ms: int) -> int:
        """Forget those that were silent for too long and have no transaction open."""
        expired = [
            producer.producer_id
            for producer in self._producers.values()
            if producer.transaction_offset < 0 and now_ms - producer.last_timestamp >= expiration_ms
        ]
        for producer_id in expired:
            del self._producers[producer_id]
        return len(expired)


def _fenced(header: BatchHeader, epoch: int) -> KafkaError:
    return KafkaError(
        ErrorCode.INVALID_PRODUCER_EPOCH,
        f"producer {header.producer_id} has epoch {epoch}; {header.producer_epoch} is older",
    )


def _out_of_order(header: BatchHeader, why: str) -> KafkaError:
    return KafkaError(
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        f"sequence {header.base_sequence} of producer {header.producer_id}, "
        f"epoch {header.producer_epoch}: {why}",
    )
