"""AlterReplicaLogDirs (key 34), v1 to v2 (KIP-113).

Returns NONE for a replica that is already in the requested directory, and REPLICA_NOT_AVAILABLE for
one that this broker does not have (yet); tools that reassign partitions to log directories retry on
that. Moving a replica between two directories of one broker is not supported: INVALID_REQUEST.
"""

from __future__ import annotations

from ottla.broker.request_context import RequestContext
from ottla.errors import ErrorCode
from ottla.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)


def handle(ctx: RequestContext, request: AlterReplicaLogDirsRequest) -> AlterReplicaLogDirsResponse:
    topics: dict[str, AlterReplicaLogDirTopicResult] = {}
    for directory in request.dirs:
        for topic in directory.topics:
            found = AlterReplicaLogDirTopicResult(topic_name=topic.name)
            result = topics.setdefault(topic.name, found)
            for index in topic.partitions:
                code = _move(ctx, directory.path, topic.name, index)
                result.partitions.append(AlterReplicaLogDirPartitionResult(index, code))
    return AlterReplicaLogDirsResponse(results=list(topics.values()))


def _move(ctx: RequestContext, path: str, topic: str, index: int) -> ErrorCode:
    directory = next((log_dir for log_dir in ctx.broker.store.dirs if log_dir.path == path), None)
    if directory is None:
        return ErrorCode.LOG_DIR_NOT_FOUND
    if directory.offline:
        return ErrorCode.KAFKA_STORAGE_ERROR
    log = ctx.broker.store.get(topic, index)
    if log is None:
        return ErrorCode.REPLICA_NOT_AVAILABLE
    return ErrorCode.NONE if log.dir is directory else ErrorCode.INVALID_REQUEST
