"""AlterReplicaLogDirs: what lies where it is wanted, and what does not."""

from __future__ import annotations

from pathlib import Path

from admin_broker import AdminBroker, Runs

from ottla.cluster.decisions import NewTopic
from ottla.errors import ErrorCode
from ottla.wire.apis import ApiKey
from ottla.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)


def test_a_replica_stays_in_its_directory(tmp_path: Path) -> None:
    async def scenario(broker: AdminBroker) -> None:
        await broker.controller.create_topics([NewTopic("t", 1, 1)])
        log = broker.store.get("t", 0)
        assert log is not None
        other = next(each.path for each in broker.store.dirs if each is not log.dir)

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

    Runs(tmp_path)(scenario)
