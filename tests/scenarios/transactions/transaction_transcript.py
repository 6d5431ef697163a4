"""Plays a scenario against a TransactionCoordinatorShard, and records the results.

A line that begins in the first column is an event or, after `#`, a comment. Indented lines below
it are the results:

    reply               a end: NONE producer 0 epoch 1
    record appended     + x: Ongoing producer 0 epoch 0, t-0 t-1
    tombstone           - x
    marker written      ! t-0 commit producer 0 epoch 1
    marker not written  ? t-0 NOT_LEADER_OR_FOLLOWER

Events (a client's options stay as they were until changed):

    init a              a producer begins; id=x timeout=60000; `init a resume` goes on after an
                        error, with the id and epoch that it has
    add a t-0 t-1       partitions join the transaction; tv=1 before transaction version 2
    verify a t-0        is it in the transaction?
    end a commit        or abort; tv=1 is EndTxn before v5; epoch= producer= say something else
                        (`init a deaf`, `end a commit deaf`: the answer is lost)
    epoch a 32766       the producer, and the coordinator, have come to this epoch
    away t-0            its leader is down: markers cannot be written; CODE= another error
    back t-0
    wait 3000           milliseconds pass; due deadlines fire
    fail NOT_ENOUGH_REPLICAS    the next append ends in this error
    config max_timeout_ms=1000
    no-ids, ids         producer ids run out, and are available again
    restart             a new shard is loaded from what was appended
    describe x          list state=Ongoing producer=0 longer=100 like=x.*
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field, replace

from ottla.coordinator.result import CoordinatorResult
from ottla.coordinator.transactions.describe import describe_transaction, transaction_listings
from ottla.coordinator.transactions.records import read_key, read_value, write_key, write_value
from ottla.coordinator.transactions.result import TransactionResult
from ottla.coordinator.transactions.shard import TransactionConfig, TransactionCoordinatorShard
from ottla.coordinator.transactions.transaction import NO_PRODUCER_ID
from ottla.errors import ErrorCode, KafkaError
from ottla.records.record import Record
from ottla.wire.messages.list_transactions import ListTransactionsRequest

START_MS = 1_700_000_000_000
COORDINATOR_EPOCH = 3


@dataclass
class Client:
    """A producer's memory, and its last options."""

    name: str
    producer_id: int = -1
    epoch: int = -1
    options: dict[str, str] = field(default_factory=dict)

    @property
    def transactional_id(self) -> str:
        return self.options.get("id", "x")

    @property
    def version(self) -> int:
        return 2 if self.options.get("tv", "2") == "2" else 0


class TransactionTranscript:
    def __init__(self) -> None:
        self.now_ms = START_MS
        self.log: list[tuple[bytes, bytes | None]] = []
        self.clients: dict[str, Client] = {}
        self.said: list[str] = []
        self.failure: ErrorCode | None = None
        self.away: dict[tuple[str, int], ErrorCode] = {}
        self.config = TransactionConfig()
        self.numbers = itertools.count(0)
        self.has_ids = True
        self.shard = self.new_shard()
        self.shard.loaded(self.now_ms)

    def new_shard(self) -> TransactionCoordinatorShard:
        return TransactionCoordinatorShard(
            0, coordinator_epoch=COORDINATOR_EPOCH, config=self.config, ids=self.take_id
        )

    def take_id(self) -> int:
        if not self.has_ids:
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        return next(self.numbers)

    def client(self, name: str, options: dict[str, str]) -> Client:
        client = self.clients.setdefault(name, Client(name))
        client.options |= {key: options[key] for key in ("id", "tv", "timeout") if key in options}
        return client

    def say(self, line: str) -> None:
        self.said.append(f"  {line}")

    # -- events

    def play(self, line: str) -> list[str]:
        self.said = []
        verb, *words = line.split()
        names = [word for word in words if "=" not in word]
        options = dict(word.split("=", 1) for word in words if "=" in word)
        getattr(self, "do_" + verb.replace("-", "_"))(names, options)
        return self.said

    def do_config(self, names: list[str], options: dict[str, str]) -> None:
        self.config = replace(self.config, **{key: int(value) for key, value in options.items()})
        self.shard.config = self.config

    def do_no_ids(self, names: list[str], options: dict[str, str]) -> None:
        self.has_ids = False

    def do_ids(self, names: list[str], options: dict[str, str]) -> None:
        self.has_ids = True

    def do_fail(self, names: list[str], options: dict[str, str]) -> None:
        self.failure = ErrorCode[names[0]]

    def do_away(self, names: list[str], options: dict[str, str]) -> None:
        code = ErrorCode[options.get("CODE", "NOT_LEADER_OR_FOLLOWER")]
        self.away |= {partition(name): code for name in names}

    def do_back(self, names: list[str], options: dict[str, str]) -> None:
        for name in names:
            del self.away[partition(name)]

    def do_epoch(self, names: list[str], options: dict[str, str]) -> None:
        client = self.client(names[0], options)
        client.epoch = int(names[1])
        now = self.shard.transactions[client.transactional_id]._replace(epoch=client.epoch)
        self.shard.transactions[client.transactional_id] = now
        self.log.append((write_key(client.transactional_id), write_value(now)))

    def do_wait(self, names: list[str], options: dict[str, str]) -> None:
        """Step from deadline to deadline, as a broker's timer would."""
        end_ms = self.now_ms + int(names[0])
        while (due_ms := self.shard.next_deadline_ms()) is not None and due_ms <= end_ms:
            self.now_ms = max(due_ms, self.now_ms)
            outcome = self.shard.expire(self.now_ms)
            if outcome.records or outcome.markers:
                self.say(f"after {self.now_ms - end_ms + int(names[0])} ms")
            self.carry_out(outcome)
        self.now_ms = end_ms

    def do_restart(self, names: list[str], options: dict[str, str]) -> None:
        self.shard = self.new_shard()
        self.shard.load(Record(key=key, value=value) for key, value in self.log)
        self.carry_out(self.shard.loaded(self.now_ms))

    def do_init(self, names: list[str], options: dict[str, str]) -> None:
        client = self.client(names[0], options)
        resumes = "resume" in names
        outcome = self.shard.init_producer_id(
            client.transactional_id,
            timeout_ms=int(client.options.get("timeout", "60000")),
            expected=(client.producer_id, client.epoch) if resumes else None,
            token=(client, "deaf" if "deaf" in names else "init"),
            now_ms=self.now_ms,
        )
        self.carry_out(outcome)

    def do_add(self, names: list[str], options: dict[str, str]) -> None:
        client = self.client(names[0], options)
        outcome = self.shard.add_partitions(
            client.transactional_id,
            frozenset(map(partition, names[1:])),
            producer_id=client.producer_id,
            epoch=client.epoch,
            client_version=client.version,
            token=(client, "add"),
            now_ms=self.now_ms,
        )
        self.carry_out(outcome)

    def do_verify(self, names: list[str], options: dict[str, str]) -> None:
        client = self.client(names[0], options)
        codes = self.shard.verify(
            client.transactional_id,
            map(partition, names[1:]),
            producer_id=client.producer_id,
            epoch=client.epoch,
        )
        for (topic, index), code in codes.items():
            self.say(f"{topic}-{index} {code.name}")

    def do_end(self, names: list[str], options: dict[str, str]) -> None:
        client = self.client(names[0], options)
        outcome = self.shard.end(
            client.transactional_id,
            producer_id=int(options.get("producer", client.producer_id)),
            epoch=int(options.get("epoch", client.epoch)),
            commit=names[1] == "commit",
            client_version=client.version,
            token=(client, "deaf" if "deaf" in names else "end"),
            now_ms=self.now_ms,
        )
        self.carry_out(outcome)

    def do_describe(self, names: list[str], options: dict[str, str]) -> None:
        for name in names:
            found = self.shard.transactions.get(name)
            if found is None:
                self.say(f"{name}: not known")
                continue
            shown = describe_transaction(name, found)
            where = [
                f"{topic.topic}-{index}" for topic in shown.topics for index in topic.partitions
            ]
            producer = f"producer {shown.producer_id} epoch {shown.producer_epoch}"
            self.say(f"{name}: {shown.transaction_state} {producer} {' '.join(where)}".rstrip())

    def do_list(self, names: list[str], options: dict[str, str]) -> None:
        request = ListTransactionsRequest(
            state_filters=options["state"].split(",") if "state" in options else [],
            producer_id_filters=[int(options["producer"])] if "producer" in options else [],
            duration_filter=int(options.get("longer", "-1")),
            transactional_id_pattern=options.get("like"),
        )
        response = transaction_listings(
            self.shard.transactions.items(), request, now_ms=self.now_ms
        )
        if response.error_code:
            self.say(ErrorCode(response.error_code).name)
        for name in response.unknown_state_filters:
            self.say(f"no such state: {name}")
        for state in response.transaction_states:
            self.say(f"{state.transactional_id}: {state.transaction_state} of {state.producer_id}")

    # -- responses

    def carry_out(self, outcome: CoordinatorResult) -> None:
        if outcome.records and self.failure is not None:
            self.say(f"append failed: {self.failure.name}")
            failure, self.failure = self.failure, None
            for token, result in self.shard.failed(outcome, failure, now_ms=self.now_ms):
                self.tell(token, result)
            return
        self.log.extend(outcome.records)
        for key, value in outcome.records:
            self.say(shown_record(key, value))
        for token, result in outcome.replies:
            self.tell(token, result)
        for markers in outcome.markers:
            codes = {}
            for partition in markers.partitions:
                codes[partition] = self.away.get(partition, ErrorCode.NONE)
                name = f"{partition[0]}-{partition[1]}"
                if codes[partition] is ErrorCode.NONE:
                    what = "commit" if markers.commit else "abort"
                    who = f"producer {markers.producer_id} epoch {markers.producer_epoch}"
                    assert markers.coordinator_epoch == COORDINATOR_EPOCH
                    self.say(f"! {name} {what} {who}")
                else:
                    self.say(f"? {name} {codes[partition].name}")
            self.carry_out(self.shard.marked(markers, codes, now_ms=self.now_ms))

    def tell(self, token: object, result: TransactionResult) -> None:
        assert isinstance(token, tuple)
        client, what = token
        line = f"{client.name} {what}: {result.code.name}"
        if result.producer_id != NO_PRODUCER_ID:
            line += f" producer {result.producer_id} epoch {result.producer_epoch}"
            if what != "deaf":
                client.producer_id, client.epoch = result.producer_id, result.producer_epoch
        self.say(line)


def partition(name: str) -> tuple[str, int]:
    topic, index = name.rsplit("-", 1)
    return topic, int(index)


def shown_record(key: bytes, value: bytes | None) -> str:
    transactional_id = read_key(key)
    if value is None:
        return f"- {transactional_id}"
    stored = read_value(value)
    line = f"+ {transactional_id}: {stored.state.title}"
    line += f" producer {stored.producer_id} epoch {stored.epoch}"
    if stored.previous_producer_id != stored.producer_id:
        line += f" after {stored.previous_producer_id}"
    if stored.next_producer_id != NO_PRODUCER_ID:
        line += f" before {stored.next_producer_id}"
    if stored.client_version:
        line += f" (version {stored.client_version})"
    where = [f"{topic}-{index}" for topic, index in sorted(stored.partitions)]
    return line + (", " + " ".join(where) if where else "")


def replay(text: str) -> str:
    """The scenario with current results: comments and events are kept, the rest is rewritten."""
    play = TransactionTranscript()
    lines: list[str] = []
    for line in text.splitlines():
        if line.startswith(" "):
            continue
        lines.append(line)
        if line and not line.startswith("#"):
            lines.extend(play.play(line))
    return "\n".join(lines) + "\n"
