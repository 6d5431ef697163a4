"""The one member of a sink connector's consumer group: whoever it is may commit offsets.

It is a static member (KIP-345), and its group.instance.id depends on the connector only. A worker
that joins with it fences the previous one at once, without waiting for a session to expire. Offsets
are committed as this member only; so a zombie, a worker that was frozen or cut off and goes on
after its connector has moved, gets FENCED_INSTANCE_ID and commits nothing. As long as the member is
there, the group's offsets do not expire.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Mapping
from struct import Struct
from typing import Final

from ottla.client.group_member import Generation, GroupMember
from ottla.client.record import TopicPartition
from ottla.connect.errors import ConnectException
from ottla.connect.run.task_requests import group_of, query_name_of
from ottla.connect.run.worker_context import WorkerContext
from ottla.errors import ErrorCode, KafkaError
from ottla.wire.fields import Message, Writer
from ottla.wire.messages.consumer_protocol_assignment import ConsumerProtocolAssignment
from ottla.wire.messages.consumer_protocol_assignment import TopicPartition as Assigned
from ottla.wire.messages.consumer_protocol_subscription import ConsumerProtocolSubscription

log = logging.getLogger("ottla.connect")

PROTOCOL_TYPE: Final = "consumer"  # so that tools for consumer groups show it
PROTOCOL: Final = "ottla-connect"  # so that a consumer cannot join and take partitions away
SESSION_MS: Final = 45_000  # session.timeout.ms of a consumer
HEARTBEAT_S: Final = 3.0
CLOSE_S_MAX: Final = 10.0
MEMBERSHIP_LOST: Final = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION)
_INT16: Final = Struct(">h")


class SinkGroupMember:
    """Used by the runner's thread; a second thread sends heartbeats."""

    def __init__(self, name: str, config: Mapping[str, str], worker: WorkerContext) -> None:
        self._group = group_of(name, config)
        self._instance = query_name_of(name, worker)
        self._settings = worker.admin(config)
        self._servers = worker.bootstrap_servers
        self._member: GroupMember | None = None
        self._fenced_by: KafkaError | None = None
        self._partitions: set[TopicPartition] = set()
        self._lock = threading.Lock()
        self._leaving = threading.Event()
        self._thread: threading.Thread | None = None

    def join(self, partitions: Iterable[TopicPartition]) -> None:
        """Does nothing while the membership lasts. `partitions` are only for tools that show the
        group: the tasks read what Spark plans."""
        if self._member is not None and self._fenced_by is None:
            return
        self.leave()
        self._partitions = set(partitions)
        self._fenced_by = None
        self._leaving.clear()
        self._member = self._new_member()
        try:
            self._join_and_sync()
        except KafkaError:
            self.leave()
            raise
        self._thread = threading.Thread(
            target=self._send_heartbeats, name=f"heartbeat {self._group}", daemon=True
        )
        self._thread.start()

    def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Raises KafkaError, which may be transient; `check` says whether this member was
        fenced."""
        with self._lock:
            if self._member is None:
                raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"not a member of {self._group}")
            try:
                self._member.commit(offsets)
            except KafkaError as error:
                self._handle_error(error)
                raise
            if not self._partitions.issuperset(offsets):  # topics or partitions were added since
                self._partitions.update(offsets)
                self._rejoin()

    def check(self) -> None:
        """Raises ConnectException once this member was fenced."""
        fenced_by = self._fenced_by
        if fenced_by is None:
            return
        if fenced_by.code is ErrorCode.FENCED_INSTANCE_ID:
            raise ConnectException(f"group {self._group}: another worker has taken over")
        raise ConnectException(f"group {self._group}: this worker was fenced: {fenced_by}")

    def leave(self) -> None:
        self._leaving.set()
        if self._thread is not None:
            self._thread.join(CLOSE_S_MAX)
            self._thread = None
        member, self._member = self._member, None
        if member is None:
            return
        try:
            if self._fenced_by is None:
                member.leave()
        except KafkaError as error:
            log.debug("Leaving group %s failed: %s", self._group, error)
        member.close()

    def fence(self) -> None:
        """Removes the member, whichever worker it belongs to, so that its commits fail."""
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

    def _join_and_sync(self) -> None:
        assert self._member is not None
        parts = sorted(self._partitions)
        joined: Generation = self._member.join(_subscription(parts))
        self._member.sync({joined.member_id: _assignment(parts)} if joined.leads else {})

    def _send_heartbeats(self) -> None:
        while not self._leaving.wait(HEARTBEAT_S) and self._fenced_by is None:
            with self._lock:
                try:
                    assert self._member is not None
                    self._member.heartbeat()
                except KafkaError as error:
                    self._handle_error(error)

    def _handle_error(self, error: KafkaError) -> None:
        """Fencing ends the membership. Any other error is transient: the next heartbeat or commit
        tries again."""
        if error.code is ErrorCode.REBALANCE_IN_PROGRESS:
            self._rejoin()
        elif error.code in (*MEMBERSHIP_LOST, ErrorCode.FENCED_INSTANCE_ID):
            self._fenced_by = error

    def _rejoin(self) -> None:
        try:
            self._join_and_sync()
        except KafkaError as error:
            if error.code in (*MEMBERSHIP_LOST, ErrorCode.FENCED_INSTANCE_ID):
                self._fenced_by = error


def _subscription(partitions: list[TopicPartition]) -> bytes:
    return _encode(
        ConsumerProtocolSubscription(sorted({partition.topic for partition in partitions}))
    )


def _assignment(partitions: list[TopicPartition]) -> bytes:
    topics: dict[str, list[int]] = {}
    for partition in partitions:
        topics.setdefault(partition.topic, []).append(partition.partition)
    return _encode(ConsumerProtocolAssignment([Assigned(*topic) for topic in topics.items()]))


def _encode(message: Message) -> bytes:
    writer = Writer()
    writer.buffer += _INT16.pack(0)
    message.write(writer, 0)
    return bytes(writer.buffer)
