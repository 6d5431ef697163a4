"""Exactly once: the transactions of all tasks of a batch commit together, or not at all.

A two-phase commit over Kafka's transactions. Each task writes in its own transaction and leaves it
open (phase one). When all tasks have finished, the driver writes a commit entry: an offset of a
consumer group of this query, in a separate transaction. That entry is the commit point. The
driver then ends the tasks' transactions (phase two); if it dies in between, the next run finds the
entry and ends them. A transaction without an entry never commits.

    task      read the commit log    the batch is committed: write nothing
              InitProducerId         fences and aborts an earlier attempt of the same task
              AddPartitionsToTxn, Produce ...                                       (left open)
    driver    InitProducerId         of the committer; fences a driver that has been replaced
              read the commit log    another run has taken over: stop
              DescribeTransactions   all are open, with the producer ids of these tasks
              AddOffsetsToTxn, TxnOffsetCommit, EndTxn                              the commit point
              EndTxn for each task; earlier attempts of these tasks are aborted

A new run takes over before it writes: the first of its tasks becomes the committer, so that no
driver of an earlier run can commit any more. It ends open transactions (commits those of the last
entry, aborts all others), waits until read_committed readers see the result, and adds the run's
name to the last entry.

Why two sets of transactional ids (slots): each committed batch switches to the other set, so an
open transaction with the ids of the last entry belongs to that entry's batch and not to the next
one. A batch without rows writes no entry and does not switch.

So a rerun of a batch may have other tasks or other rows: nothing of its first run is visible.
"""

from __future__ import annotations

import json
import logging
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from ottla.client.protocol.cluster_client import GROUP, ClusterClient, check
from ottla.client.protocol.transactions import (
    FENCED,
    ONGOING,
    UNKNOWN,
    ProducerIdAndEpoch,
    TransactionStatus,
    commit_offset,
    describe_transactions,
    end_transaction,
    end_transactions,
    init_transactions,
)
from ottla.errors import ErrorCode, KafkaError
from ottla.wire.apis import ApiKey
from ottla.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
)

log = logging.getLogger("ottla.spark")

NAMES_UNTIL: Final = 9  # after it, OffsetFetch has topic ids
COMMITTER_TIMEOUT_MS: Final = 60_000
PROBED_AT_ONCE: Final = 32
TASKS_MAX: Final = 100_000
SETTLE_S: Final = 2.0  # a commit takes milliseconds
TURN_S: Final = 0.05  # a run's first tasks take over one after another
TURNS_MAX: Final = 10
TRIES_MAX: Final = 20
BATCH_ANY: Final = 2**62  # later than every committed batch
OLDER: Final = "the checkpoint is older than the output"
GENERATION: Final = 2**32  # more than the batches of one checkpoint
ATTEMPTS_PROBED: Final = 4  # spark.task.maxFailures
ENDING: Final = frozenset({"PrepareCommit", "PrepareAbort"})
ABORTED: Final = frozenset({"PrepareAbort", "CompleteAbort", "Dead"})


class DeliveryError(Exception):
    """Exactly once is not possible; the message has the cause and the remedy."""


@dataclass(frozen=True, slots=True)
class SinkIdentity:
    """The query and sink of the batches. All ids on the broker begin with the group's name."""

    query: str
    sink: str = ""

    @property
    def group(self) -> str:
        return f"ottla-sink-{self.query}" + (f"-{self.sink}" if self.sink else "")

    @property
    def committer(self) -> str:
        return f"{self.group}-decider"

    def task(self, slot: int, task: int, attempt: int = 0) -> str:
        return f"{self.group}-{slot}-{task}" + (f"-{attempt}" if attempt else "")


@dataclass(frozen=True, slots=True)
class CommitEntry:
    """The last entry of the commit log, and the run that may write the next.

    `writers` has the tasks that wrote in the last committed batch, with their attempts; `outputs`
    has marks of its topics, where they are fixed in advance (`ottla.layouts`).
    """

    batch: int = -1
    by: str = ""
    """The run that committed it."""
    run: str = ""
    """The run that may commit."""
    number: int = 0
    """The number of the entry: if there are several, the highest wins."""
    writers: tuple[tuple[int, int], ...] = ()
    outputs: frozenset[str] = frozenset()
    slot: int = 1
    """Which of the two sets of transactional ids the last committed batch used."""

    @property
    def free_slot(self) -> int:
        """The set of ids for the next batch with rows, however many without rows come before."""
        return 1 - self.slot

    def to_json(self) -> str:
        data: dict[str, str | int] = {"run": self.run, "by": self.by, "n": self.number}
        data |= {"tasks": _packed(self.writers), "slot": self.slot}
        if self.outputs:
            data["outputs"] = " ".join(sorted(self.outputs))
        return json.dumps(data, separators=(",", ":"))

    @staticmethod
    def from_json(text: str, *, batch: int) -> CommitEntry:
        data = json.loads(text)
        outputs = frozenset(data.get("outputs", "").split())
        writers, slot = _unpacked(data["tasks"]), data.get("slot", batch % 2)
        return CommitEntry(batch, data["by"], data["run"], data["n"], writers, outputs, slot)


@dataclass(frozen=True, slots=True)
class TaskTransaction:
    """What a task did: its open transaction, or `skipped` because the batch was committed."""

    task: int
    attempt: int = 0
    rows: int = 0
    producer: ProducerIdAndEpoch | None = None
    topic: str = ""
    skipped: bool = False


@dataclass(frozen=True, slots=True)
class AttemptStart:
    """How a task starts: with its producer, or with None if the batch is committed."""

    producer: ProducerIdAndEpoch | None
    outputs: frozenset[str] = frozenset()
    """The outputs of the commit entry."""


class CommitLog:
    """The commits of a query's batches, stored on the broker."""

    def __init__(self, cluster: ClusterClient, identity: SinkIdentity, *, timeout_ms: int) -> None:
        self._cluster = cluster
        self._identity = identity
        self._timeout_ms = timeout_ms

    def read(self) -> CommitEntry:
        """The last entry; waits for one whose transaction is open."""
        return self._cluster.with_retries(self._read)

    def take_over(self, *, run: str, topic: str) -> CommitEntry:
        """For a query that stores its position in its output: earlier runs can't commit any more,
        and their entries are completed. What the broker has aborted was never written."""
        return self._take_over(BATCH_ANY, run, topic, turn=0)

    def start_generation(self, *, run: str, topic: str, above: int = -1) -> int:
        """For a new checkpoint of a query with a fixed name: returns the number of its first batch,
        which is also larger than `above`. Runs on earlier checkpoints are behind it, so they can
        no longer write."""
        return self._take_over(None, run, topic, turn=0, above=above).batch + 1

    def begin(
        self, *, batch: int, task: int, attempt: int, run: str, topic: str, owned: bool = False
    ) -> AttemptStart:
        """Call before a task writes. `owned`: its run took over before, and must not again."""
        state = self.read() if owned else self._settled(SETTLE_S)
        if owned and state is not None and state.run != run:
            raise self._replaced(batch, state)
        if state is None or state.run != run:
            if state is not None:
                # Before the take-over: a run on an old checkpoint must not fence the current one.
                self._check_age(state, batch)
            state = self._take_over(batch, run, topic, turn=task)
        if self._is_committed(state, batch, run):
            return AttemptStart(None, state.outputs)
        its_id = self._identity.task(state.free_slot, task, attempt)
        producer = init_transactions(self._cluster, its_id, self._timeout_ms)
        # Read again after InitProducerId: a task that was suspended in between may have fenced a
        # producer of a newer run, even after that run's entry named this transactional id. What it
        # would write now would be committed with that entry.
        if (now := self.read()).run != run:
            raise self._replaced(batch, now)
        return AttemptStart(producer)

    def abort_before(self, *, task: int, attempt: int) -> None:
        """Aborts what earlier attempts of a task have left open in the uncommitted batch:
        otherwise read_committed consumers would wait for the timeout."""
        for producer in self._replaced_attempts(self.read().free_slot, [(task, attempt)]):
            self._abort_one(producer)

    def commit(
        self,
        *,
        batch: int,
        run: str,
        transactions: Sequence[TaskTransaction],
        outputs: frozenset[str] = frozenset(),
    ) -> None:
        """Commits a batch after all its tasks have written."""
        producers = [
            transaction.producer for transaction in transactions if transaction.producer is not None
        ]
        skipped = any(transaction.skipped for transaction in transactions)
        if not producers and not skipped:
            return
        writers = tuple(
            (transaction.task, transaction.attempt)
            for transaction in transactions
            if transaction.producer is not None
        )
        topic = next((transaction.topic for transaction in transactions if transaction.topic), "")
        replaced: list[ProducerIdAndEpoch] = []
        for _ in range(TRIES_MAX):
            committer = self._become_committer()
            state = self.read()
            if state.run != run:
                raise self._replaced(batch, state)
            if state.batch >= batch and (skipped or state.by == run):
                if state.by == run:
                    break  # an earlier iteration succeeded, but its response was lost
                new = replace(state, by=run)  # lets `begin` detect a second write of this name
            else:
                # Ids of the other slot belong to the last entry: ending them would end its batch.
                assert {producer.transactional_id for producer in producers} == {
                    self._identity.task(state.free_slot, task, attempt) for task, attempt in writers
                }
                self._check_open(batch, producers)
                # Read before the commit point: later, their ids may belong to another run.
                replaced = self._replaced_attempts(state.free_slot, writers)
                new = replace(
                    state,
                    batch=batch,
                    by=run,
                    writers=writers,
                    outputs=outputs,
                    slot=state.free_slot,
                )
            if self._write(committer, new, topic):
                break
        else:
            raise _restless(self._identity)
        # Phase two. The entry is durable: if this fails, the next take-over repeats it.
        end_transactions(self._cluster, producers, commit=True)
        for producer in replaced:
            self._abort_one(producer)

    def abort(self, *, batch: int, run: str, transactions: Iterable[TaskTransaction]) -> None:
        """Aborts the transactions of a failed batch instead of waiting for their timeout.

        The batch may have failed after its commit point. Becoming the committer fences a commit
        that is still in progress, so the entry that is read then is final.
        """
        producers = [
            transaction.producer for transaction in transactions if transaction.producer is not None
        ]
        if not producers:
            return
        self._become_committer()
        state = self.read()
        if state.run == run and state.batch < batch:
            for producer in producers:
                self._abort_one(producer)

    def _check_age(self, state: CommitEntry, batch: int) -> None:
        if state.batch > batch:
            raise DeliveryError(
                f"batch {batch} is to be written, but batch {state.batch} of query"
                f" {self._identity.query} has been written already: {OLDER}. Use the newest"
                " checkpoint; or a new one, which writes everything again; or set ottla.delivery"
                " to at_least_once until the query has caught up"
            )

    def _is_committed(self, state: CommitEntry, batch: int, run: str) -> bool:
        self._check_age(state, batch)
        if state.batch < batch:
            return False
        if state.by == run:
            raise DeliveryError(
                f"batch {batch} has been written already by this run of query"
                f" {self._identity.query}: if a foreachBatch writes twice, give each write its own"
                " name with the option ottla.sink.name"
            )
        return True

    def _take_over(
        self, batch: int | None, run: str, topic: str, *, turn: int, above: int = -1
    ) -> CommitEntry:
        """Makes this run the one that commits. Tasks that start together take turns, so that mostly
        the first one does it. Batch None: the first batch of the next generation above `above`."""
        for attempt in range(TRIES_MAX):
            state = self._wait(run, min(turn, TURNS_MAX) * TURN_S)
            if state is not None and state.run == run:
                return state
            committer = self._become_committer()
            state = self.read()
            if state.run == run:
                return state
            if state.run:
                cleaned = self._clean_up(state, state.batch if batch is None else batch)
                if cleaned is None:
                    continue
                state = cleaned
            state = replace(state, run=run)
            if batch is None:
                state = _next_generation(state, above)
            if self._write(committer, state, topic):
                return state
            self._cluster.sleep(random.uniform(0, TURN_S * (attempt + 1)))
        raise _restless(self._identity)

    def _wait(self, run: str, seconds: float) -> CommitEntry | None:
        """Waits this long, or until another task of this run has taken over."""
        while True:
            state = self._settled(0)
            if (state is not None and state.run == run) or seconds <= 0:
                return state
            self._cluster.sleep(TURN_S)
            seconds -= TURN_S

    def _settled(self, seconds: float) -> CommitEntry | None:
        """The last entry; None if a commit's transaction stays open for this long. Its driver may
        be dead; a take-over aborts it, instead of waiting for the transaction's timeout."""
        while True:
            state = self._cluster.with_retries(self._read_or_none)
            if state is not None or seconds <= 0:
                return state
            self._cluster.sleep(TURN_S)
            seconds -= TURN_S

    def _clean_up(self, state: CommitEntry, batch: int) -> CommitEntry | None:
        """Ends the transactions that earlier runs left open: commits those of the last entry,
        aborts all others. None if another task has taken over meanwhile."""
        committed = {
            self._identity.task(state.slot, task, attempt) for task, attempt in state.writers
        }
        found = self._probe(committed)
        # Another task of this run may have taken over since, and written: what it has open must
        # not be aborted. If the entry is the same, all that was found belongs to earlier runs.
        if self.read() != state:
            return None
        is_open = _ongoing(found)
        for producer in is_open:
            if producer.transactional_id not in committed:
                self._abort_one(producer)
        end_transactions(
            self._cluster,
            [producer for producer in is_open if producer.transactional_id in committed],
            commit=True,
        )
        ending = [
            transactional_id
            for transactional_id, transaction in found.items()
            if transaction.state in ENDING
        ]
        self._wait_for_markers([*ending, *(producer.transactional_id for producer in is_open)])
        lost = [
            transactional_id
            for transactional_id in committed
            if found[transactional_id].state in ABORTED
        ]
        if not lost or batch > state.batch:
            return state
        # Phase two did not happen before the transactions' timeout, so the broker aborted them all:
        # nothing of the batch is visible, and it may be written again.
        if len(lost) == len(committed):
            return replace(state, batch=state.batch - 1, by="", writers=(), outputs=frozenset())
        raise DeliveryError(
            f"batch {state.batch} of query {self._identity.query} was committed in part: the"
            f" broker aborted the transactions of {len(lost)} of {len(committed)} tasks after the"
            " commit point, because they were not completed within kafka.transaction.timeout.ms."
            " Set ottla.delivery to at_least_once for one batch: it is written again, and what was"
            " committed is duplicated"
        )

    def _wait_for_markers(self, transactional_ids: Sequence[str]) -> None:
        """Waits until the ends are visible: EndTxn returns when the end is stored, but readers see
        it only when the markers are written. A run that takes over may next read its position from
        the committed output, so all of it must be visible."""

        def ask() -> None:
            found = describe_transactions(self._cluster, transactional_ids)
            for transactional_id, transaction in found.items():
                if transaction.state in ENDING:
                    raise KafkaError(
                        ErrorCode.CONCURRENT_TRANSACTIONS,
                        f"transaction {transactional_id} is still ending",
                    )

        if transactional_ids:
            self._cluster.with_retries(ask)

    def _probe(self, committed: Iterable[str]) -> dict[str, TransactionStatus]:
        """Describes all transactional ids of this query's tasks that the coordinators know."""
        found = describe_transactions(self._cluster, sorted(committed))
        for start in range(0, TASKS_MAX, PROBED_AT_ONCE):
            ids = [
                self._identity.task(slot, task, attempt)
                for task in range(start, start + PROBED_AT_ONCE)
                for slot in (0, 1)
                for attempt in range(ATTEMPTS_PROBED)
            ]
            some = describe_transactions(self._cluster, ids)
            found |= some
            if all(transaction.state == UNKNOWN for transaction in some.values()):
                break
        return found

    def _replaced_attempts(
        self, slot: int, writers: Iterable[tuple[int, int]]
    ) -> list[ProducerIdAndEpoch]:
        """The open transactions of attempts before those of the writers: of a lost executor, say.
        If nobody aborts them, read_committed readers wait for their timeout."""
        ids = [
            self._identity.task(slot, task, earlier)
            for task, attempt in writers
            for earlier in range(attempt)
        ]
        return _ongoing(describe_transactions(self._cluster, ids)) if ids else []

    def _check_open(self, batch: int, producers: Sequence[ProducerIdAndEpoch]) -> None:
        ids = [producer.transactional_id for producer in producers]
        found = describe_transactions(self._cluster, ids)
        for producer in producers:
            transaction = found[producer.transactional_id]
            wanted = TransactionStatus(ONGOING, producer.id, producer.epoch)
            if transaction != wanted:
                raise DeliveryError(
                    f"batch {batch} is not committed: transaction {producer.transactional_id} is"
                    f" no longer open ({transaction.state or 'unknown'}). The batch took longer"
                    " than kafka.transaction.timeout.ms, or a task ran twice at the same time"
                    " (spark.speculation). Nothing of the batch is visible; it can be run again"
                )

    def _write(self, committer: ProducerIdAndEpoch, state: CommitEntry, topic: str) -> bool:
        """Writes an entry; False if another run has become the committer in between.

        The fencing makes this a compare-and-set: InitProducerId came before the read of the log,
        so an entry of another run after that read has fenced this producer.
        """
        state = replace(state, number=state.number + 1)
        try:
            commit_offset(
                self._cluster,
                committer,
                group=self._identity.group,
                topic=topic,
                offset=state.batch + 1,
                metadata=state.to_json(),
            )
            end_transaction(self._cluster, committer, commit=True)
        except KafkaError as error:
            if error.code not in FENCED:
                raise
            return False
        return True

    def _become_committer(self) -> ProducerIdAndEpoch:
        return init_transactions(self._cluster, self._identity.committer, COMMITTER_TIMEOUT_MS)

    def _abort_one(self, producer: ProducerIdAndEpoch) -> None:
        try:
            end_transaction(self._cluster, producer, commit=False)
        except KafkaError as error:  # it ends at its timeout, or a new owner has fenced it
            log.warning("Failed to abort transaction %s: %s", producer.transactional_id, error)

    def _replaced(self, batch: int, state: CommitEntry) -> DeliveryError:
        return DeliveryError(
            f"batch {batch} is not committed: another run of query {self._identity.query} has"
            f" taken over ({state.run}). Only one run of a query may write; stop one"
        )

    def _read_or_none(self) -> CommitEntry | None:
        try:
            return self._read()
        except KafkaError as error:
            if error.code is not ErrorCode.UNSTABLE_OFFSET_COMMIT:
                raise
            return None

    def _read(self) -> CommitEntry:
        group = self._identity.group
        request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group)], require_stable=True)
        answer = self._cluster.coordinated(
            GROUP,
            group,
            request,
            ApiKey.OFFSET_FETCH,
            OffsetFetchResponse,
            version_max=NAMES_UNTIL,
        )
        newest = CommitEntry()
        for found in answer.groups:
            check(found.error_code, f"group {group}")
            for topic in found.topics:
                for partition in topic.partitions:
                    check(partition.error_code, f"group {group}")
                    if partition.committed_offset >= 0 and partition.metadata:
                        state = CommitEntry.from_json(
                            partition.metadata, batch=partition.committed_offset - 1
                        )
                        newest = max(newest, state, key=lambda entry: entry.number)
        return newest


def _ongoing(found: Mapping[str, TransactionStatus]) -> list[ProducerIdAndEpoch]:
    return [
        ProducerIdAndEpoch(transactional_id, transaction.producer_id, transaction.producer_epoch)
        for transactional_id, transaction in found.items()
        if transaction.state == ONGOING
    ]


def _next_generation(state: CommitEntry, above: int) -> CommitEntry:
    """An entry as if batch 0 of a new generation were committed and empty, so that no two
    checkpoints share batch numbers."""
    first = (max(state.batch, above) // GENERATION + 1) * GENERATION
    return replace(state, batch=first, by="", writers=(), outputs=frozenset())


def _packed(writers: Iterable[tuple[int, int]]) -> str:
    """The tasks as bits of a hex number, then those whose attempt was not the first.

    An offset's metadata has at most 4,096 bytes: enough for ten thousand tasks.
    """
    bits = 0
    later = []
    for task, attempt in writers:
        bits |= 1 << task
        if attempt:
            later.append(f"{task}.{attempt}")
    return " ".join([f"{bits:x}", *later])


def _unpacked(text: str) -> tuple[tuple[int, int], ...]:
    first, *later = text.split(" ")
    attempts: dict[int, int] = {}
    for word in later:
        task, _, attempt = word.partition(".")
        attempts[int(task)] = int(attempt)
    bits = int(first, 16)
    tasks = (number for number in range(bits.bit_length()) if bits >> number & 1)
    return tuple((number, attempts.get(number, 0)) for number in tasks)


def _restless(identity: SinkIdentity) -> DeliveryError:
    return DeliveryError(
        f"query {identity.query} runs more than once: another run took over in each of {TRIES_MAX}"
        " tries. Stop one of them"
    )
