"""AlterReplicaLogDirs (key 34), v1 to v2 (KIP-113).

A replica that lies where it is wanted is answered with NONE, one that is not here (yet) with
REPLICA_NOT_AVAILABLE: that is what a reassignment with log directories waits for. Moves between two
directories of one broker are not made, and refused with INVALID_REQUEST.
"""

from __future__ import annotations

from ottla.broker.context import Context
from ottla.errors import ErrorCode
from ottla.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)


def handle(ctx: Context, request: AlterReplicaLogDirsRequest) -> AlterReplicaLogDirsResponse:
    topics: dict[str, AlterReplicaLogDirTopicResult] = {}
    for directory in request.dirs:
        for topic in directory.topics:
            found = AlterReplicaLogDirTopicResult(topic_name=topic.name)
            result = topics.setdefault(topic.name, found)
            for index in topic.partitions:
                code = _move(ctx, directory.path, topic.name, index)
                result.partitions.append(AlterReplicaLogDirPartitionResult(index, code))
    return AlterReplicaLogDirsResponse(results=list(topics.values()))


def _move(ctx: Context, path: str, topic: str, index: int) -> ErrorCode:
    directory = next((each for each in ctx.broker.store.dirs if each.path == path), None)
    if directory is None:
        return ErrorCode.LOG_DIR_NOT_FOUND
    if directory.offline:
        return ErrorCode.KAFKA_STORAGE_ERROR
    log = ctx.broker.store.get(topic, index)
    if log is None:
        return ErrorCode.REPLICA_NOT_AVAILABLE
    return ErrorCode.NONE if log.dir is directory else ErrorCode.INVALID_REQUEST
