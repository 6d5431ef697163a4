"""Why workers gave up: for a reason that the run explains, or it is a finding.

A worker exits when its client reports an error that only a new producer can recover from. Three
reasons are valid. The faults kept the cluster from answering for longer than the client's timeout.
The client hung in one of its calls, and its watchdog ended it. The producer was fenced, by a zombie
of the same name or by the coordinator when its transaction timed out: `__transaction_state` shows
that.
"""

from __future__ import annotations

import struct
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from delivery_groups import Reader
from delivery_history import GivenUp, History
from delivery_journal import RecordId
from delivery_log import Batch

WATCHDOG_EXIT, FATAL_EXIT = 1, 3
PREPARE_ABORT = 3

# Names of librdkafka's codes, and of the exceptions of aiokafka, Java and franz-go. Codes among
# them say that it is too early; the client has asked again until its time was up.
NO_ANSWER = frozenset(
    {
        "_TIMED_OUT", "_TIMED_OUT_QUEUE", "_MSG_TIMED_OUT", "_TRANSPORT", "_ALL_BROKERS_DOWN",
        "_WAIT_COORD", "REQUEST_TIMED_OUT", "COORDINATOR_NOT_AVAILABLE", "NOT_COORDINATOR",
        "COORDINATOR_LOAD_IN_PROGRESS", "NOT_ENOUGH_REPLICAS", "LEADER_NOT_AVAILABLE",
        "CONCURRENT_TRANSACTIONS", "not delivered",
        "TimeoutError", "KafkaTimeoutError", "KafkaConnectionError", "NodeNotReadyError",
        "RequestTimedOutError", "LeaderNotAvailableError", "NotLeaderForPartitionError",
        "CoordinatorNotAvailableError", "NotCoordinatorForGroupError", "KafkaUnavailableError",
        "NotEnoughReplicasError", "NotEnoughReplicasAfterAppendError",
        "TimeoutException", "DisconnectException", "NoAnswer",
    }
)  # fmt: skip
FENCED = frozenset(
    {
        "_FENCED", "PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH",
        "ProducerFenced", "InvalidProducerEpoch",
        "ProducerFencedException", "InvalidProducerEpochException",
    }
)  # fmt: skip


INVALID_STATE = frozenset({"INVALID_TXN_STATE", "InvalidTxnStateException", "InvalidTxnState"})


def workers_give_up_for_a_reason(history: History) -> Iterator[str]:
    for end in history.given_up:
        said, *_ = _last_words(history, end)
        known = said.split(":")[0] in NO_ANSWER | FENCED | INVALID_STATE
        if not known and end.exit_code != WATCHDOG_EXIT:
            yield f"{end.slot}.{end.incarnation} gave up ({end.exit_code}): {said or 'no word'}"


def reasons(history: History) -> dict[str, int]:
    """The reasons of the workers that gave up, with counts, for the output of a run."""
    return Counter(
        f"{end.slot}: {_last_words(history, end)[0].split(':')[0] or f'exit {end.exit_code}'}"
        for end in history.given_up
    )


def producers_are_refused_for_a_reason(history: History) -> Iterator[str]:
    """Fenced, or INVALID_TXN_STATE for a transaction that was valid to its writer.

    Each must have a zombie, or the coordinator must have aborted this very transaction because it
    timed out: the timeout of another epoch is no reason.
    """
    refusals: dict[str, list[str]] = defaultdict(list)
    late, epochs = timed_out(history.transaction_batches), writer_epochs(history)
    excused: set[str | None] = set()  # a client may report a transaction twice
    for refusal in _refusals(history):
        if refusal.transaction in excused - {None}:
            continue
        if _excuse(refusal, late, epochs):
            excused.add(refusal.transaction)
        else:
            refusals[refusal.slot].append(refusal.said)
    for slot, unexplained in refusals.items():
        zombies = history.zombies[slot]
        if len(unexplained) > zombies:
            refused = f"{len(unexplained)} refusals that no timeout of their epoch explains"
            yield "; ".join([f"{slot}: {refused}, and {zombies} zombies", *unexplained[:3]])


@dataclass(frozen=True, slots=True)
class Refusal:
    """The broker refused a producer because of its epoch or the state of its transaction."""

    slot: str
    transactional_id: str
    writer: str
    """Its records' names begin with it: `slot.incarnation`, `slot.incarnation.number`."""
    transaction: str | None
    """The open transaction, if the journal names it."""
    said: str


def _refusals(history: History) -> Iterator[Refusal]:
    for end in history.given_up:
        said, *of = _last_words(history, end)
        name = said.split(":")[0]
        if name in FENCED or (name in INVALID_STATE and not _ended_nothing(history, end)):
            identity, worker = f"{history.group}-{end.slot}", f"{end.slot}.{end.incarnation}"
            number = of[0].removeprefix(f"{identity}-") if of else ""  # of a process with several
            writer = f"{worker}.{number}" if number else worker
            begun = _open_transaction(history.journals[worker], writer)
            yield Refusal(end.slot, of[0] if of else identity, writer, begun, f"{worker}: {said}")
    for worker, lines in history.journals.items():
        for line in lines:
            if line[0] == "note" and any(f": {name}" in line[1] for name in INVALID_STATE):
                transaction = line[1].split(":")[0]
                slot, writer = worker.split(".")[0], _writer(transaction)
                number = writer.removeprefix(worker).replace(".", "-")
                identity = f"{history.group}-{slot}{number}"
                yield Refusal(slot, identity, writer, transaction, line[1])


def _open_transaction(lines: list[list[Any]], writer: str) -> str | None:
    begun = None
    for kind, *rest in lines:
        if kind in ("sent", "acked"):
            begun = _of_writer(RecordId.of(rest[0]).transaction, writer) or begun
        elif kind == "committing":
            begun = _of_writer(rest[0], writer) or begun
        elif kind in ("committed", "aborted") and rest[0] == begun:
            begun = None
    return begun


def _of_writer(transaction: str, writer: str) -> str | None:
    return transaction if _writer(transaction) == writer else None


def _writer(transaction: str) -> str:
    """`slot.incarnation.count`, or `slot.incarnation.number-count` of one of several."""
    head, _, last = transaction.rpartition(".")
    number, several, _ = last.partition("-")
    return f"{head}.{number}" if several else head


def writer_epochs(history: History) -> dict[str, tuple[int, int]]:
    """By transaction, and by writer (its last): producer id and epoch of what it wrote."""
    found: dict[str, tuple[int, int]] = {}
    for batches in history.logs.values():
        for batch in batches:
            if batch.marker is not None or not batch.transactional:
                continue
            for record in batch.records:
                transaction = RecordId.of(record.key).transaction
                written = batch.producer_id, batch.producer_epoch
                found[transaction] = written
                found[_writer(transaction)] = max(found.get(_writer(transaction), written), written)
    return found


def _excuse(
    refusal: Refusal, late: dict[str, list[tuple[int, int]]], epochs: dict[str, tuple[int, int]]
) -> bool:
    """True if the coordinator aborted this very transaction because it timed out; counts once.

    The abort has the epoch after the transaction's. If it wrote nothing, only the epoch of the one
    before is known: its own is the same, or (version 2, or after a resumption) the next.
    """
    aborts = late.get(refusal.transactional_id, [])
    if refusal.transaction in epochs:
        producer_id, epoch = epochs[refusal.transaction]
        fitting = [(producer_id, epoch + 1)]
    elif refusal.writer in epochs:
        producer_id, epoch = epochs[refusal.writer]
        fitting = [(producer_id, epoch + 1), (producer_id, epoch + 2)]
    else:
        fitting = list(aborts)
    for abort in fitting:
        if abort in aborts:
            aborts.remove(abort)
            return True
    return False


def _last_words(history: History, end: GivenUp) -> list[str]:
    """Its last error, and the transactional id if the process has several."""
    lines = history.journals.get(f"{end.slot}.{end.incarnation}", [])
    errors = [line[1:] for line in lines if line[0] == "error"]
    return errors[-1] if errors else [""]


def _ended_nothing(history: History, end: GivenUp) -> bool:
    """Transaction version 1, whose abort of nothing is INVALID_TXN_STATE.

    The transaction before took long to complete, no partition of the next one could be added
    meanwhile, its records timed out in the client, and the client aborts what has not begun.
    """
    kinds = [line[0] for line in history.journals[f"{end.slot}.{end.incarnation}"]]
    ends = [at for at, kind in enumerate(kinds) if kind in ("committed", "aborted")]
    return "acked" not in kinds[ends[-1] if ends else 0 :]


def timed_out(batches: Iterable[Batch]) -> dict[str, list[tuple[int, int]]]:
    """By transactional id: producer id and epoch of each abort by the coordinator because of a
    timeout."""
    found: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for batch in batches:
        for record in batch.records if batch.marker is None else ():
            if record.key is None or record.value is None:
                continue
            state, age_ms, timeout_ms = transaction_state(record.value)
            if state == PREPARE_ABORT and age_ms > timeout_ms:
                _, producer_id, epoch = struct.unpack_from(">hqh", record.value)
                found[Reader(record.key, 2).text()].append((producer_id, epoch))
    return found


def transaction_state(value: bytes) -> tuple[int, int, int]:
    """TransactionLogValue v0 and v1: state, milliseconds since its start, and its timeout."""
    version, _, _, timeout_ms, state = struct.unpack_from(">hqhib", value)
    assert version <= 1, f"TransactionLogValue v{version}"
    reader = Reader(value, struct.calcsize(">hqhib"))
    for _ in range(reader.uvarint() - 1 if version else reader.number(">i")):
        reader.bytes(reader.uvarint() - 1 if version else reader.number(">h"))
        reader.bytes(4 * (reader.uvarint() - 1 if version else reader.number(">i")))
        if version:
            reader.skip_tags()
    update_ms, start_ms = reader.number(">q"), reader.number(">q")
    return state, update_ms - start_ms, timeout_ms
