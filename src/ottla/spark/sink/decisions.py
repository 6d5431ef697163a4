"""Exactly once: the transactions of all tasks of a batch are committed together, or not at all.

Tasks write, each in a transaction of its own, and leave it open. When all have come to their end,
the driver decides: it commits, as an offset of a group of the query's own, that the batch is
written. From then on it is; the tasks' transactions are committed one after the other, and whoever
finds a decision whose transactions are still open commits them. Without a decision none ever is.

    task      read the decisions   -> the batch is decided: write nothing
              InitProducerId       -> fences and aborts an earlier attempt of the same task
              AddPartitionsToTxn, Produce ...                                       (left open)
    driver    InitProducerId of the decider      fences a driver that has been replaced
              read the decisions                 another run has taken over: stop
              DescribeTransactions               all are open, and of these tasks
              AddOffsetsToTxn, TxnOffsetCommit, EndTxn                              the decision
              EndTxn for each task

A new run of a query takes over before it writes: the first of its tasks becomes the decider, so
that no driver of an earlier run can decide any more, commits what is decided and open, aborts all
else, waits until readers see that, and writes the run's name beside the last decision. Each decided
batch has the other one of two sets of transactional ids: an open transaction under the ids of the
last decided batch can't belong to the next one. A batch without rows is not decided, and changes no
sets.

So a batch that runs again may have other tasks, or other rows: nothing of its first run is visible.
"""

from __future__ import annotations

import json
import logging
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from ottla.client.protocol.cluster_client import GROUP, ClusterClient, check
from ottla.client.protocol.transactions import (
    FENCED,
    ONGOING,
    UNKNOWN,
    Described,
    Producer,
    commit_offset,
    describe,
    end,
    end_all,
    initialize,
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
DECIDER_TIMEOUT_MS: Final = 60_000
PROBED_AT_ONCE: Final = 32
TASKS_MAX: Final = 100_000
SETTLE_S: Final = 2.0  # a decision takes milliseconds
TURN_S: Final = 0.05  # a run's first tasks take over one after the other
TURNS_MAX: Final = 10
TRIES_MAX: Final = 20
BATCH_ANY: Final = 2**62  # later than all that was decided
OLDER: Final = "the checkpoint is older than the output"
GENERATION: Final = 2**32  # batches of one checkpoint are fewer
ATTEMPTS_PROBED: Final = 4  # spark.task.maxFailures
ENDING: Final = frozenset({"PrepareCommit", "PrepareAbort"})
ABORTED: Final = frozenset({"PrepareAbort", "CompleteAbort", "Dead"})


class DeliveryError(Exception):
    """Exactly once can't be promised here; the sentence says why, and what to do."""


@dataclass(frozen=True, slots=True)
class Identity:
    """Whose batches these are. All ids on the broker begin with the group's name."""

    query: str
    sink: str = ""

    @property
    def group(self) -> str:
        return f"ottla-sink-{self.query}" + (f"-{self.sink}" if self.sink else "")

    @property
    def decider(self) -> str:
        return f"{self.group}-decider"

    def task(self, slot: int, task: int, attempt: int = 0) -> str:
        return f"{self.group}-{slot}-{task}" + (f"-{attempt}" if attempt else "")


@dataclass(frozen=True, slots=True)
class State:
    """What the group says: the last decision, and who may make the next.

    `writers` has the tasks that wrote in the last decided batch, and their attempts; `outputs` the
    marks of the topics that it was about, where they are fixed beforehand (`ottla.layouts`).
    """

    batch: int = -1
    by: str = ""
    """The run that decided it."""
    run: str = ""
    """The run that may decide."""
    number: int = 0
    """Of the entry: the highest one counts, should there be several."""
    writers: tuple[tuple[int, int], ...] = ()
    outputs: frozenset[str] = frozenset()
    slot: int = 1
    """Which of the two sets of transactional ids the last decided batch had."""

    @property
    def free_slot(self) -> int:
        """The ids of the next batch that has rows, however many before it had none."""
        return 1 - self.slot

    def to_json(self) -> str:
        data: dict[str, str | int] = {"run": self.run, "by": self.by, "n": self.number}
        data |= {"tasks": _packed(self.writers), "slot": self.slot}
        if self.outputs:
            data["outputs"] = " ".join(sorted(self.outputs))
        return json.dumps(data, separators=(",", ":"))

    @staticmethod
    def from_json(text: str, *, batch: int) -> State:
        data = json.loads(text)
        outputs = frozenset(data.get("outputs", "").split())
        writers, slot = _unpacked(data["tasks"]), data.get("slot", batch % 2)
        return State(batch, data["by"], data["run"], data["n"], writers, outputs, slot)


@dataclass(frozen=True, slots=True)
class Written:
    """What a task did: its transaction, open; or that the batch had been decided before."""

    task: int
    attempt: int = 0
    rows: int = 0
    producer: Producer | None = None
    topic: str = ""
    skipped: bool = False


@dataclass(frozen=True, slots=True)
class Begun:
    """How a task begins: with its producer; or with None, where the batch is decided."""

    producer: Producer | None
    outputs: frozenset[str] = frozenset()
    """Those that the decision was about."""


class Decisions:
    """The decisions about the batches of one query, on the broker."""

    def __init__(self, cluster: ClusterClient, identity: Identity, *, timeout_ms: int) -> None:
        self._cluster = cluster
        self._identity = identity
        self._timeout_ms = timeout_ms

    def read(self) -> State:
        """The last decision; waits for one that is just being made."""
        return self._cluster.patiently(self._read)

    def take_over(self, *, run: str, topic: str) -> State:
        """For who keeps its place in its own output: earlier runs can't decide any more, and what
        they decided is committed. What the broker aborted was never written."""
        return self._take_over(BATCH_ANY, run, topic, turn=0)

    def begin_anew(self, *, run: str, topic: str, above: int = -1) -> int:
        """For a new checkpoint of a query that goes by a name of its own: the number of its first
        batch. What runs on any earlier checkpoint finds itself behind, and can write no more.
        `above`: the number is larger than this one, too."""
        return self._take_over(None, run, topic, turn=0, above=above).batch + 1

    def begin(
        self, *, batch: int, task: int, attempt: int, run: str, topic: str, owned: bool = False
    ) -> Begun:
        """Before a task writes. `owned`: its run has taken over, and is not to do so again."""
        state = self.read() if owned else self._settled(SETTLE_S)
        if owned and state is not None and state.run != run:
            raise self._replaced(batch, state)
        if state is None or state.run != run:
            if state is not None:
                self._check_age(state, batch)  # who is behind must not fence those before it
            state = self._take_over(batch, run, topic, turn=task)
        if self._is_decided(state, batch, run):
            return Begun(None, state.outputs)
        its_id = self._identity.task(state.free_slot, task, attempt)
        producer = initialize(self._cluster, its_id, self._timeout_ms)
        # Who was asleep since it looked may have come after a new run, and even after its decision
        # about this very id: what it wrote then would be taken for decided.
        if (now := self.read()).run != run:
            raise self._replaced(batch, now)
        return Begun(producer)

    def abort_before(self, *, task: int, attempt: int) -> None:
        """What earlier attempts of a task have left open in the batch that is not decided yet:
        else who reads committed records would wait for it."""
        free_slot = self.read().free_slot
        ids = [self._identity.task(free_slot, task, each) for each in range(attempt)]
        for each, its in describe(self._cluster, ids).items() if ids else ():
            if its.state == ONGOING:
                self._abort_one(Producer(each, its.producer_id, its.producer_epoch))

    def decide(
        self,
        *,
        batch: int,
        run: str,
        written: Sequence[Written],
        outputs: frozenset[str] = frozenset(),
    ) -> None:
        """When all tasks have written: the batch counts from here on."""
        producers = [each.producer for each in written if each.producer is not None]
        skipped = any(each.skipped for each in written)
        if not producers and not skipped:
            return
        writers = tuple((each.task, each.attempt) for each in written if each.producer is not None)
        topic = next((each.topic for each in written if each.topic), "")
        for _ in range(TRIES_MAX):
            decider = self._become_decider()
            state = self.read()
            if state.run != run:
                raise self._replaced(batch, state)
            if state.batch >= batch and (skipped or state.by == run):
                if state.by == run:
                    break  # decided by a try of ours whose answer was lost
                new = replace(state, by=run)  # so that a second write of this name is seen
            else:
                self._check_open(batch, producers)
                new = replace(
                    state,
                    batch=batch,
                    by=run,
                    writers=writers,
                    outputs=outputs,
                    slot=state.free_slot,
                )
            if self._write(decider, new, topic):
                break
        else:
            raise _restless(self._identity)
        end_all(self._cluster, producers, commit=True)

    def abort(self, *, batch: int, run: str, written: Iterable[Written]) -> None:
        """A batch failed: its transactions need not wait for their timeout.

        It may have failed behind its decision. Who is the decider knows that none is being made.
        """
        producers = [each.producer for each in written if each.producer is not None]
        if not producers:
            return
        self._become_decider()
        state = self.read()
        if state.run == run and state.batch < batch:
            for producer in producers:
                self._abort_one(producer)

    def _check_age(self, state: State, batch: int) -> None:
        if state.batch > batch:
            raise DeliveryError(
                f"batch {batch} is to be written, but batch {state.batch} of query"
                f" {self._identity.query} has been written already: {OLDER}. Use the newest"
                " checkpoint; or a new one, which writes everything again; or set ottla.delivery"
                " to at_least_once until the query has caught up"
            )

    def _is_decided(self, state: State, batch: int, run: str) -> bool:
        self._check_age(state, batch)
        if state.batch < batch:
            return False
        if state.by == run:
            raise DeliveryError(
                f"batch {batch} has been written already by this run of query"
                f" {self._identity.query}: if a foreachBatch writes twice, give each write a name"
                " of its own with the option ottla.sink.name"
            )
        return True

    def _take_over(
        self, batch: int | None, run: str, topic: str, *, turn: int, above: int = -1
    ) -> State:
        """Make this run the one that decides. Tasks that start together do so in turns. None: its
        first batch is that of the next generation `above` a number."""
        for attempt in range(TRIES_MAX):
            state = self._wait(run, min(turn, TURNS_MAX) * TURN_S)
            if state is not None and state.run == run:
                return state
            decider = self._become_decider()
            state = self.read()
            if state.run == run:
                return state
            if state.run:
                state = self._clean_up(state, state.batch if batch is None else batch)
            state = replace(state, run=run)
            if batch is None:
                state = _next_generation(state, above)
            if self._write(decider, state, topic):
                return state
            self._cluster.sleep(random.uniform(0, TURN_S * (attempt + 1)))
        raise _restless(self._identity)

    def _wait(self, run: str, seconds: float) -> State | None:
        """For so long, or until another task of this run has taken over."""
        while True:
            state = self._settled(0)
            if (state is not None and state.run == run) or seconds <= 0:
                return state
            self._cluster.sleep(TURN_S)
            seconds -= TURN_S

    def _settled(self, seconds: float) -> State | None:
        """The last decision; None if one is being made for so long. Its driver may be dead, and a
        take-over ends what it began: better than to wait for the timeout of its transaction."""
        while True:
            state = self._cluster.patiently(self._read_or_none)
            if state is not None or seconds <= 0:
                return state
            self._cluster.sleep(TURN_S)
            seconds -= TURN_S

    def _clean_up(self, state: State, batch: int) -> State:
        """What earlier runs left open: committed where it is decided, aborted where it is not."""
        decided = {
            self._identity.task(state.slot, task, attempt) for task, attempt in state.writers
        }
        found = self._probe(decided)
        is_open = [
            Producer(each, its.producer_id, its.producer_epoch)
            for each, its in found.items()
            if its.state == ONGOING
        ]
        for producer in is_open:
            if producer.transactional_id not in decided:
                self._abort_one(producer)
        end_all(
            self._cluster,
            [each for each in is_open if each.transactional_id in decided],
            commit=True,
        )
        ending = [each for each, its in found.items() if its.state in ENDING]
        self._wait_for_markers([*ending, *(each.transactional_id for each in is_open)])
        lost = [each for each in decided if found[each].state in ABORTED]
        if not lost or batch > state.batch:
            return state
        if len(lost) == len(decided):  # nothing of it is visible: it was never written
            return replace(state, batch=state.batch - 1, by="", writers=(), outputs=frozenset())
        raise DeliveryError(
            f"batch {state.batch} of query {self._identity.query} was committed in part:"
            f" {len(lost)} of {len(decided)} tasks had their transactions aborted by the broker"
            " after the decision, because nobody finished them within kafka.transaction.timeout.ms."
            " Set ottla.delivery to at_least_once for one batch: it is written again, and what had"
            " been committed is there twice"
        )

    def _wait_for_markers(self, transactional_ids: Sequence[str]) -> None:
        """An end is told when it is stored, and readers see it when its markers are written. Who
        takes over may read next what was committed, to go on from there: all of it must show."""

        def ask() -> None:
            for each, its in describe(self._cluster, transactional_ids).items():
                if its.state in ENDING:
                    raise KafkaError(
                        ErrorCode.CONCURRENT_TRANSACTIONS, f"transaction {each} is just ending"
                    )

        if transactional_ids:
            self._cluster.patiently(ask)

    def _probe(self, decided: Iterable[str]) -> dict[str, Described]:
        """All transactional ids of this query's tasks that the coordinators know."""
        found = describe(self._cluster, sorted(decided))
        for start in range(0, TASKS_MAX, PROBED_AT_ONCE):
            ids = [
                self._identity.task(slot, task, attempt)
                for task in range(start, start + PROBED_AT_ONCE)
                for slot in (0, 1)
                for attempt in range(ATTEMPTS_PROBED)
            ]
            some = describe(self._cluster, ids)
            found |= some
            if all(each.state == UNKNOWN for each in some.values()):
                break
        return found

    def _check_open(self, batch: int, producers: Sequence[Producer]) -> None:
        found = describe(self._cluster, [each.transactional_id for each in producers])
        for producer in producers:
            its = found[producer.transactional_id]
            wanted = Described(ONGOING, producer.id, producer.epoch)
            if its != wanted:
                raise DeliveryError(
                    f"batch {batch} is not committed: transaction {producer.transactional_id} is"
                    f" not open any more ({its.state or 'unknown'}). The batch took longer than"
                    " kafka.transaction.timeout.ms, or a task ran twice at the same time"
                    " (spark.speculation). Nothing of the batch is visible; it can be run again"
                )

    def _write(self, decider: Producer, state: State, topic: str) -> bool:
        """Store an entry; False if somebody else has become the decider meanwhile."""
        state = replace(state, number=state.number + 1)
        try:
            commit_offset(
                self._cluster,
                decider,
                group=self._identity.group,
                topic=topic,
                offset=state.batch + 1,
                metadata=state.to_json(),
            )
            end(self._cluster, decider, commit=True)
        except KafkaError as error:
            if error.code not in FENCED:
                raise
            return False
        return True

    def _become_decider(self) -> Producer:
        return initialize(self._cluster, self._identity.decider, DECIDER_TIMEOUT_MS)

    def _abort_one(self, producer: Producer) -> None:
        try:
            end(self._cluster, producer, commit=False)
        except KafkaError as error:  # it ends at its timeout, or has a new owner who knows better
            log.warning("transaction %s was not aborted: %s", producer.transactional_id, error)

    def _replaced(self, batch: int, state: State) -> DeliveryError:
        return DeliveryError(
            f"batch {batch} is not committed: another run of query {self._identity.query} has"
            f" taken over ({state.run}). Only one run of a query may write; stop one"
        )

    def _read_or_none(self) -> State | None:
        try:
            return self._read()
        except KafkaError as error:
            if error.code is not ErrorCode.UNSTABLE_OFFSET_COMMIT:
                raise
            return None

    def _read(self) -> State:
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
        newest = State()
        for found in answer.groups:
            check(found.error_code, f"group {group}")
            for topic in found.topics:
                for each in topic.partitions:
                    check(each.error_code, f"group {group}")
                    if each.committed_offset >= 0 and each.metadata:
                        state = State.from_json(each.metadata, batch=each.committed_offset - 1)
                        newest = max(newest, state, key=lambda one: one.number)
        return newest


def _next_generation(state: State, above: int) -> State:
    """As if its batch 0 were decided, with nothing in it: so that no two have the same."""
    first = (max(state.batch, above) // GENERATION + 1) * GENERATION
    return replace(state, batch=first, by="", writers=(), outputs=frozenset())


def _packed(writers: Iterable[tuple[int, int]]) -> str:
    """Tasks as bits of a number in hex; behind it those whose attempt was not the first.

    An offset's metadata may have 4,096 bytes: this is enough for ten thousand tasks.
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
    for each in later:
        task, _, attempt = each.partition(".")
        attempts[int(task)] = int(attempt)
    bits = int(first, 16)
    tasks = (each for each in range(bits.bit_length()) if bits >> each & 1)
    return tuple((each, attempts.get(each, 0)) for each in tasks)


def _restless(identity: Identity) -> DeliveryError:
    return DeliveryError(
        f"query {identity.query} runs more than once: another run took over in each of {TRIES_MAX}"
        " tries. Stop one of them"
    )
