"""Who commits: OffsetCommit and TxnOffsetCommit as any kind of group looks at them."""

from __future__ import annotations

from ottla.coordinator.kinds import Commit, Topics
from ottla.wire.messages.offset_commit import OffsetCommitRequest
from ottla.wire.messages.txn_offset_commit import TxnOffsetCommitRequest


def commit_of(request: OffsetCommitRequest, version: int, topics: Topics) -> Commit:
    return Commit(
        request.member_id,
        request.group_instance_id,
        request.generation_id_or_member_epoch,
        version,
        transactional=False,
        partitions=lambda: (
            (topic.name, partition.partition_index)
            for topic in request.topics
            for partition in topic.partitions
        ),
        topics=topics,
    )


def txn_commit_of(request: TxnOffsetCommitRequest, version: int, topics: Topics) -> Commit:
    return Commit(
        request.member_id,
        request.group_instance_id,
        request.generation_id,
        version,
        transactional=True,
        partitions=lambda: (
            (topic.name, partition.partition_index)
            for topic in request.topics
            for partition in topic.partitions
        ),
        topics=topics,
    )
