"""The quorum that keeps the metadata of a KRaft cluster."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ottla.client.admin_session import AdminSession
from ottla.client.protocol.connection import check
from ottla.errors import ErrorCode, KafkaError
from ottla.wire.apis import ApiKey
from ottla.wire.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    PartitionData,
    ReplicaState,
    TopicData,
)

METADATA_TOPIC: Final = "__cluster_metadata"
NO_DIRECTORY: Final = bytes(16)


@dataclass(slots=True, frozen=True)
class QuorumReplica:
    """Times are -1 where the leader does not know them."""

    id: int
    directory: bytes
    log_end_offset: int
    last_fetch_ms: int
    last_caught_up_ms: int
    endpoints: tuple[str, ...] = ()

    @property
    def directory_id(self) -> str:
        return base64.urlsafe_b64encode(self.directory).rstrip(b"=").decode()

    @property
    def has_directory(self) -> bool:
        return self.directory != NO_DIRECTORY


@dataclass(slots=True, frozen=True)
class Quorum:
    leader_id: int
    leader_epoch: int
    high_watermark: int
    voters: tuple[QuorumReplica, ...]
    observers: tuple[QuorumReplica, ...]

    @property
    def leader(self) -> QuorumReplica:
        for voter in self.voters:
            if voter.id == self.leader_id:
                return voter
        raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, "the quorum has no leader now")


def describe_quorum(session: AdminSession) -> Quorum:
    request = DescribeQuorumRequest([TopicData(METADATA_TOPIC, [PartitionData(0)])])
    answer = session.connections.call(request, ApiKey.DESCRIBE_QUORUM, DescribeQuorumResponse)
    check(answer.error_code, answer.error_message, ApiKey.DESCRIBE_QUORUM)
    found = answer.topics[0].partitions[0]
    check(found.error_code, found.error_message, ApiKey.DESCRIBE_QUORUM)
    endpoints = {
        node.node_id: tuple(
            f"{listener.name}://{listener.host}:{listener.port}" for listener in node.listeners
        )
        for node in answer.nodes
    }

    def replicas(states: Sequence[ReplicaState]) -> tuple[QuorumReplica, ...]:
        return tuple(
            QuorumReplica(
                state.replica_id,
                state.replica_directory_id,
                state.log_end_offset,
                state.last_fetch_timestamp,
                state.last_caught_up_timestamp,
                endpoints.get(state.replica_id, ()),
            )
            for state in states
        )

    return Quorum(
        found.leader_id,
        found.leader_epoch,
        found.high_watermark,
        replicas(found.current_voters),
        replicas(found.observers),
    )
