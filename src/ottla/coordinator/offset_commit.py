"""OffsetCommit and TxnOffsetCommit as a group of any type validates them."""

from __future__ import annotations

from ottla.coordinator.group_type import OffsetCommit, TopicsImage
from ottla.wire.messages.offset_commit import OffsetCommitRequest
from ottla.wire.messages.txn_offset_commit import TxnOffsetCommitRequest


def offset_commit_of(
    request: OffsetCommitRequest, version: int, topics: TopicsImage
) -> OffsetCommit:
    return OffsetCommit(
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


def txn_offset_commit_of(
    request: TxnOffsetCommitRequest, version: int, topics: TopicsImage
) -> OffsetCommit:
    return OffsetCommit(
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
