"""The producer state of a partition: sequences, epochs, open transactions (KIP-98).

An idempotent producer numbers its records, and a batch is appended only if its first number follows
the last one appended. The last five batches are remembered: a producer that got no answer sends a
batch again, and gets the offset of the first try instead of a second copy in the log.

    epoch below the known one                          INVALID_PRODUCER_EPOCH
    a new epoch that does not begin with sequence 0    OUT_OF_ORDER_SEQUENCE_NUMBER
    a sequence that does not follow the last           OUT_OF_ORDER_SEQUENCE_NUMBER
    an unknown producer                                any sequence is accepted: retention may have
                                                       removed its records (no UNKNOWN_PRODUCER_ID
                                                       since Kafka 2.5, KIP-360)
    a record outside the transaction that is open      INVALID_TXN_STATE
    a marker of a coordinator that was replaced        TRANSACTION_COORDINATOR_FENCED
    a marker that does not raise the epoch, while its  INVALID_PRODUCER_EPOCH (transaction
    producer's transaction is open                     version 2, KIP-890)

`check` decides before the write and changes nothing; `update` records what is in the log, after the
write. So a write that fails leaves no trace, and a replica that replays the log arrives at the same
state as the leader that checked it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from ottla.errors import ErrorCode, KafkaError
from ottla.records.batch import TRANSACTIONAL_BIT, AppendOrigin, BatchHeader
from ottla.records.control import Marker

BATCHES_MAX = 5  # max.in.flight.requests.per.connection of an idempotent producer
ENDED_MAX = 10_000  # ended transactions whose markers may still be above the high watermark
NO_EPOCH = -1
EPOCH_MAX = 0x7FFF
NO_OFFSET = -1
NO_SEQUENCE = -1
SEQUENCE_MAX = 0x7FFFFFFF
EXPIRATION_MS = 86_400_000  # producer.id.expiration.ms


class BatchMetadata(NamedTuple):
    """One of a producer's last batches, for recognising it when it is sent again."""

    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @staticmethod
    def of(header: BatchHeader) -> BatchMetadata:
        delta = header.last_offset_delta
        last_sequence = header.base_sequence
        if last_sequence != NO_SEQUENCE:
            last_sequence = (last_sequence + delta) & SEQUENCE_MAX
        return BatchMetadata(last_sequence, header.base_offset + delta, delta, header.max_timestamp)

    @property
    def first_offset(self) -> int:
        return self.last_offset - self.offset_delta

    @property
    def first_sequence(self) -> int:
        return (self.last_sequence - self.offset_delta) & SEQUENCE_MAX


class CompletedTransaction(NamedTuple):
    """A transaction that a marker has ended."""

    producer_id: int
    first_offset: int
    last_offset: int
    aborted: bool


class ProducerStateEntry:
    """What is known about one producer id."""

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
        batches: Iterable[BatchMetadata] = (),
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
        """True if a transaction that this epoch began is open in this partition."""
        return self.transaction_offset >= 0 and self.epoch == epoch

    def check_bumped(self, epoch: int) -> None:
        """KIP-890: a marker of transaction version 2 must raise the producer's epoch.

        The next transaction has that epoch, so a marker that arrives late, because it was sent
        twice, cannot end it. Two cases pass without a raise: a repeated marker when no transaction
        is open, which changes nothing, and the largest epoch, which cannot be raised.
        """
        again = epoch == self.epoch and (self.transaction_offset < 0 or epoch == EPOCH_MAX)
        if epoch <= self.epoch and not again:
            raise KafkaError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"producer {self.producer_id} has epoch {self.epoch}; a marker of transaction "
                f"version 2 needs a later one than {epoch}",
            )


class PartitionProducers:
    """All producers of one partition, and its open transactions."""

    __slots__ = ("_ended", "_open", "_producers")

    def __init__(self) -> None:
        self._producers: dict[int, ProducerStateEntry] = {}
        # Producer id -> first offset. Appends go to the end of the log, so transactions enter in
        # the order of their first offsets and the first entry is the lowest: no search is needed
        # for the last stable offset.
        self._open: dict[int, int] = {}
        # First offset -> offset of the marker, of transactions that ended recently: until the
        # marker is below the high watermark they hold the last stable offset back.
        self._ended: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._producers)

    def __iter__(self) -> Iterator[ProducerStateEntry]:
        return iter(self._producers.values())

    def get(self, producer_id: int) -> ProducerStateEntry | None:
        return self._producers.get(producer_id)

    # Appending

    def check(self, header: BatchHeader, origin: AppendOrigin) -> BatchMetadata | None:
        """HOT. The batch that this one repeats, if any; KafkaError if it must not be appended.

        Only a client's sequence is checked: a coordinator and a leader write batches that were
        checked elsewhere or have no sequence.
        """
        producer = self._producers.get(header.producer_id)
        if producer is None:
            return None
        epoch = producer.epoch
        first = header.base_sequence
        if header.producer_epoch != epoch:
            if header.producer_epoch < epoch:
                raise _fenced(header, epoch)
            if origin is AppendOrigin.CLIENT and first != 0:
                raise _out_of_order(header, f"a new epoch begins with 0; the last was {epoch}")
        elif origin is AppendOrigin.CLIENT:
            batches = producer.batches
            last = batches[-1].last_sequence if batches else NO_SEQUENCE
            if first != (last + 1) & SEQUENCE_MAX:
                # A repeated batch has the same first and last sequence as one of the last five;
                # a batch that overlaps two of them was never sent by a correct producer.
                last_sequence = (first + header.last_offset_delta) & SEQUENCE_MAX
                for batch in batches:
                    if batch.last_sequence == last_sequence and batch.first_sequence == first:
                        return batch
                raise _out_of_order(header, f"the last one is {last}")
        if producer.transaction_offset >= 0 and not header.attributes & TRANSACTIONAL_BIT:
            raise KafkaError(
                ErrorCode.INVALID_TXN_STATE,
                f"producer {header.producer_id} has an open transaction and writes outside of it",
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
        """HOT. Record a data batch that is in the log, at the offsets in its header."""
        producer = self._of(header)
        batches = producer.batches
        if len(batches) >= BATCHES_MAX:
            del batches[0]
        batches.append(BatchMetadata.of(header))
        producer.last_timestamp = header.max_timestamp
        # A transaction begins in a partition with its first batch there, not with BeginTransaction,
        # of which the partition learns nothing.
        if header.attributes & TRANSACTIONAL_BIT and producer.transaction_offset < 0:
            producer.transaction_offset = header.base_offset
            self._open[header.producer_id] = header.base_offset

    def end_transaction(self, header: BatchHeader, marker: Marker) -> CompletedTransaction | None:
        """Record a marker that is in the log. None if the transaction has no record here."""
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
        return CompletedTransaction(
            header.producer_id, first_offset, header.base_offset, not marker.commit
        )

    def _of(self, header: BatchHeader) -> ProducerStateEntry:
        producer = self._producers.get(header.producer_id)
        if producer is None:
            producer = self._producers[header.producer_id] = ProducerStateEntry(header.producer_id)
        if producer.epoch != header.producer_epoch:
            producer.epoch = header.producer_epoch
            producer.batches.clear()
        return producer

    # Transactions

    @property
    def first_open_offset(self) -> int | None:
        """The first offset of the oldest transaction that has no marker yet."""
        return next(iter(self._open.values())) if self._open else None

    def first_unstable_offset(self, high_watermark: int) -> int | None:
        """The first offset of the oldest transaction whose marker is not replicated.

        A marker at or above the high watermark may be lost when the leader changes, and the
        decision with it: until then the transaction counts as open.
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

    def load(self, producers: Iterable[ProducerStateEntry]) -> None:
        for producer in producers:
            self._producers[producer.producer_id] = producer
            if producer.transaction_offset >= 0:
                self._open[producer.producer_id] = producer.transaction_offset
        self._open = dict(sorted(self._open.items(), key=lambda item: item[1]))

    def expire(self, now_ms: int, expiration_ms: int) -> int:
        """Remove producers that were silent for too long and have no open transaction."""
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
