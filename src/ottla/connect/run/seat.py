"""The seat of a sink connector in its group: there is one, and one worker sits on it.

The group's member has a name that stays, the connector's (KIP-345): a run that takes the seat puts
out whoever had it, at once and without asking. Offsets are committed from the seat only, so that a
worker which was frozen, or cut off, and goes on when another has its connector, commits nothing
any more. And as long as somebody sits there the group's offsets do not expire.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Mapping
from struct import Struct
from typing import Final

from ottla.client.group_member import GroupMember, Joined
from ottla.client.record import TopicPartition
from ottla.connect.errors import ConnectException
from ottla.connect.run.orders import group_of, query_of
from ottla.connect.run.worker import Worker
from ottla.errors import ErrorCode, KafkaError
from ottla.wire.messages.consumer_protocol_assignment import ConsumerProtocolAssignment
from ottla.wire.messages.consumer_protocol_assignment import TopicPartition as Assigned
from ottla.wire.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from ottla.wire.primitives import Message, Writer

log = logging.getLogger("ottla.connect")

PROTOCOL_TYPE: Final = "consumer"  # so that tools for consumer groups show it
PROTOCOL: Final = "ottla-connect"  # and consumers that would share the topics are refused
SESSION_MS: Final = 45_000  # a consumer's
BEAT_S: Final = 3.0
CLOSE_S_MAX: Final = 10.0
OUT: Final = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION)
_INT16: Final = Struct(">h")


class Seat:
    """Used by the runner's thread; another one sends heartbeats."""

    def __init__(self, name: str, config: Mapping[str, str], worker: Worker) -> None:
        self._group = group_of(name, config)
        self._instance = query_of(name, worker)
        self._settings = worker.admin(config)
        self._servers = worker.bootstrap_servers
        self._member: GroupMember | None = None
        self._lost: KafkaError | None = None
        self._parts: set[TopicPartition] = set()
        self._lock = threading.Lock()
        self._leaving = threading.Event()
        self._thread: threading.Thread | None = None

    def take(self, partitions: Iterable[TopicPartition]) -> None:
        """Unless this is where we sit. `partitions` are for people who look at the group."""
        if self._member is not None and self._lost is None:
            return
        self.leave()
        self._parts = set(partitions)
        self._lost = None
        self._leaving.clear()
        self._member = self._new_member()
        try:
            self._join()
        except KafkaError:
            self.leave()
            raise
        self._thread = threading.Thread(target=self._beat, name=f"seat {self._group}", daemon=True)
        self._thread.start()

    def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        """A KafkaError may pass; who has lost the seat is told so by `check`."""
        with self._lock:
            if self._member is None:
                raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"nobody sits in {self._group}")
            try:
                self._member.commit(offsets)
            except KafkaError as error:
                self._failed(error)
                raise
            if not self._parts.issuperset(offsets):  # a topic that was made, or has grown, since
                self._parts.update(offsets)
                self._join_again()

    def check(self) -> None:
        lost = self._lost
        if lost is None:
            return
        if lost.code is ErrorCode.FENCED_INSTANCE_ID:
            raise ConnectException(f"group {self._group}: another worker has taken over")
        raise ConnectException(f"group {self._group}: this worker was fenced out: {lost}")

    def leave(self) -> None:
        self._leaving.set()
        if self._thread is not None:
            self._thread.join(CLOSE_S_MAX)
            self._thread = None
        member, self._member = self._member, None
        if member is None:
            return
        try:
            if self._lost is None:
                member.leave()
        except KafkaError as error:
            log.debug("group %s could not be told: %s", self._group, error)
        member.close()

    def put_out(self) -> None:
        """Whoever sits there, by the name of the seat: nobody does afterwards."""
        member = self._new_member()
        try:
            member.put_out()
        finally:
            member.close()

    def _new_member(self) -> GroupMember:
        return GroupMember(
            self._servers,
            self._group,
            protocol_type=PROTOCOL_TYPE,
            protocol=PROTOCOL,
            session_timeout_ms=SESSION_MS,
            instance=self._instance,
            settings=self._settings,
        )

    def _join(self) -> None:
        assert self._member is not None
        parts = sorted(self._parts)
        joined: Joined = self._member.join(_subscription(parts))
        self._member.sync({joined.member_id: _assignment(parts)} if joined.leads else {})

    def _beat(self) -> None:
        while not self._leaving.wait(BEAT_S) and self._lost is None:
            with self._lock:
                try:
                    assert self._member is not None
                    self._member.heartbeat()
                except KafkaError as error:
                    self._failed(error)

    def _failed(self, error: KafkaError) -> None:
        """What is not the end of the membership passes: the next beat, or commit, tries again."""
        if error.code is ErrorCode.REBALANCE_IN_PROGRESS:
            self._join_again()
        elif error.code in (*OUT, ErrorCode.FENCED_INSTANCE_ID):
            self._lost = error

    def _join_again(self) -> None:
        try:
            self._join()
        except KafkaError as error:
            if error.code in (*OUT, ErrorCode.FENCED_INSTANCE_ID):
                self._lost = error


def _subscription(partitions: list[TopicPartition]) -> bytes:
    return _written(ConsumerProtocolSubscription(sorted({each.topic for each in partitions})))


def _assignment(partitions: list[TopicPartition]) -> bytes:
    topics: dict[str, list[int]] = {}
    for each in partitions:
        topics.setdefault(each.topic, []).append(each.partition)
    return _written(ConsumerProtocolAssignment([Assigned(*each) for each in topics.items()]))


def _written(message: Message) -> bytes:
    writer = Writer()
    writer.buffer += _INT16.pack(0)
    message.write(writer, 0)
    return bytes(writer.buffer)
