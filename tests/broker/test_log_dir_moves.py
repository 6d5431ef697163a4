"""AlterReplicaLogDirs: replicas in the requested directory, and others."""

from __future__ import annotations

from pathlib import Path

from admin_broker import AdminBroker, ScenarioRunner

from ottla.cluster.topics import TopicSpec
from ottla.errors import ErrorCode
from ottla.wire.apis import ApiKey
from ottla.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)


def test_a_replica_stays_in_its_directory(tmp_path: Path) -> None:
    async def scenario(broker: AdminBroker) -> None:
        await broker.controller.create_topics([TopicSpec("t", 1, 1)])
        log = broker.store.get("t", 0)
        assert log is not None
        other = next(log_dir.path for log_dir in broker.store.dirs if log_dir is not log.dir)

        async def move(path: str, index: int = 0) -> int:
            wanted = AlterReplicaLogDir(path, [AlterReplicaLogDirTopic("t", [index])])
            request = AlterReplicaLogDirsRequest([wanted])
            answer = await broker.ask(ApiKey.ALTER_REPLICA_LOG_DIRS, request)
            (topic,) = answer.results
            assert topic.topic_name == "t"
            code: int = topic.partitions[0].error_code
            return code

        assert await move(log.dir.path) == ErrorCode.NONE
        assert await move(other) == ErrorCode.INVALID_REQUEST
        assert await move("/nowhere") == ErrorCode.LOG_DIR_NOT_FOUND
        assert await move(other, 7) == ErrorCode.REPLICA_NOT_AVAILABLE
        log.dir.offline = True
        assert await move(log.dir.path) == ErrorCode.KAFKA_STORAGE_ERROR
        log.dir.offline = False

    ScenarioRunner(tmp_path)(scenario)
