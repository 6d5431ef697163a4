"""DescribeLogDirs (key 35), v1 to v5.

What lies in each log directory, and how much room its volume has. A directory that has failed is
answered with KAFKA_STORAGE_ERROR and nothing else.

v3  an error for all of it    v4  total and usable bytes (KIP-827)    v5  cordoned (KIP-1066)
"""

from __future__ import annotations

from ottla.broker.context import Context
from ottla.errors import KafkaError
from ottla.storage.directory import LogDir
from ottla.storage.log import Log
from ottla.wire.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)


def handle(ctx: Context, request: DescribeLogDirsRequest) -> DescribeLogDirsResponse:
    wanted: set[tuple[str, int]] | None = None
    if request.topics is not None:
        wanted = {(topic.topic, index) for topic in request.topics for index in topic.partitions}
    logs: dict[str, list[Log]] = {}
    for log in ctx.broker.store.logs():
        if wanted is None or (log.topic, log.partition) in wanted:
            logs.setdefault(log.dir.path, []).append(log)
    return DescribeLogDirsResponse(
        results=[_describe(each, logs.get(each.path, [])) for each in ctx.broker.store.dirs]
    )


def _describe(directory: LogDir, logs: list[Log]) -> DescribeLogDirsResult:
    try:
        if directory.offline:
            raise directory.refusal()
        total, usable = directory.space()
    except KafkaError as error:
        return DescribeLogDirsResult(error_code=error.code, log_dir=directory.path)
    topics: dict[str, DescribeLogDirsTopic] = {}
    for log in logs:
        topic = topics.setdefault(log.topic, DescribeLogDirsTopic(name=log.topic))
        # No replica here is behind its own log, nor on its way to another directory.
        topic.partitions.append(
            DescribeLogDirsPartition(partition_index=log.partition, partition_size=log.size)
        )
    return DescribeLogDirsResult(
        log_dir=directory.path,
        topics=list(topics.values()),
        total_bytes=total,
        usable_bytes=usable,
    )
