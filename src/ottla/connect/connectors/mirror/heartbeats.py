"""MirrorHeartbeat: periodic records that show that replication is alive."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final

from ottla.connect.api import Props, SourceConnector, SourceTask, SourceTaskContext
from ottla.connect.config import ConfigDef, ConfigType, Importance
from ottla.connect.connectors.builtin_connector import BuiltinConnector
from ottla.connect.connectors.mirror import clusters
from ottla.connect.connectors.mirror.formats import MirrorHeartbeat
from ottla.connect.connectors.mirror.policies import HEARTBEATS
from ottla.connect.connectors.mirror.settings import SOURCE, TARGET, define_interval
from ottla.connect.connectors.mirror.settings import common_config as common
from ottla.connect.data import BYTES_SCHEMA, SourceRecord
from ottla.connect.errors import RetriableException
from ottla.errors import KafkaError

WAIT_S: Final = 0.1


def _config() -> ConfigDef:
    return define_interval(common(), "emit.heartbeats", 1, "emit a heartbeat").define(
        *("heartbeats.topic.replication.factor", ConfigType.INT, -1, Importance.LOW),
        "The replication factor of the heartbeats topic; -1: the broker's default.",
    )


CONFIG: Final = _config()


class MirrorHeartbeatConnector(BuiltinConnector, SourceConnector):
    config = CONFIG

    def start(self, props: Props) -> None:
        super().start(props)
        factor = self._settings["heartbeats.topic.replication.factor"]
        try:
            with clusters.admin_of(props, TARGET) as target:
                clusters.make_internal(target, HEARTBEATS, factor)
        except KafkaError as error:
            raise RetriableException(f"the target cluster is not available: {error}") from error

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        return [self._props] if self._settings["emit.heartbeats.enabled"] else []


class MirrorHeartbeatTask(SourceTask):
    def start(self, props: Props, context: SourceTaskContext) -> None:
        settings = CONFIG.parse(props)
        self._source: str = settings[f"{SOURCE}alias"]
        self._target: str = settings[f"{TARGET}alias"]
        self._interval_s = float(settings["emit.heartbeats.interval.seconds"])
        self._due_s = 0.0

    def poll(self) -> Sequence[SourceRecord] | None:
        wait_s = self._due_s - time.monotonic()
        if wait_s > 0:
            time.sleep(min(WAIT_S, wait_s))
            return None
        self._due_s = time.monotonic() + self._interval_s
        now_ms = int(time.time() * 1000)
        beat = MirrorHeartbeat(self._source, self._target, now_ms)
        return [
            SourceRecord(
                {"sourceClusterAlias": self._source, "targetClusterAlias": self._target},
                {"offset": 0},
                HEARTBEATS,
                0,
                BYTES_SCHEMA,
                beat.key(),
                BYTES_SCHEMA,
                beat.value(),
                now_ms,
            )
        ]


MirrorHeartbeatConnector.task_class = MirrorHeartbeatTask
