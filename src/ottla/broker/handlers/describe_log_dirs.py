"""DescribeLogDirs (key 35), v1 to v5.

Lists the replicas of each log directory with their sizes, and the space of its volume. For a
directory that has failed, only KAFKA_STORAGE_ERROR is returned.

v3  top-level error code      v4  total and usable bytes (KIP-827)    v5  cordoned (KIP-1066)
"""

from __future__ import annotations

from ottla.broker.request_context import RequestContext
from ottla.errors import KafkaError
from ottla.storage.log import Log
from ottla.storage.log_dir import LogDir
from ottla.wire.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)


def handle(ctx: RequestContext, request: DescribeLogDirsRequest) -> DescribeLogDirsResponse:
    wanted: set[tuple[str, int]] | None = None
    if request.topics is not None:
        wanted = {(topic.topic, index) for topic in request.topics for index in topic.partitions}
    logs: dict[str, list[Log]] = {}
    for log in ctx.broker.store.logs():
        if wanted is None or (log.topic, log.partition) in wanted:
            logs.setdefault(log.dir.path, []).append(log)
    return DescribeLogDirsResponse(
        results=[
            _describe(log_dir, logs.get(log_dir.path, [])) for log_dir in ctx.broker.store.dirs
        ]
    )


def _describe(directory: LogDir, logs: list[Log]) -> DescribeLogDirsResult:
    try:
        if directory.offline:
            raise directory.offline_error()
        total, usable = directory.space()
    except KafkaError as error:
        return DescribeLogDirsResult(error_code=error.code, log_dir=directory.path)
    topics: dict[str, DescribeLogDirsTopic] = {}
    for log in logs:
        topic = topics.setdefault(log.topic, DescribeLogDirsTopic(name=log.topic))
        # A replica has no lag behind its own log, and is never a future replica: none is moved.
        topic.partitions.append(
            DescribeLogDirsPartition(partition_index=log.partition, partition_size=log.size)
        )
    return DescribeLogDirsResult(
        log_dir=directory.path,
        topics=list(topics.values()),
        total_bytes=total,
        usable_bytes=usable,
    )
