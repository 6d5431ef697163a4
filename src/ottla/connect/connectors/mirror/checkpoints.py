"""MirrorCheckpoint: the committed offsets of the source's groups, translated to the target.

With sync.group.offsets.enabled the offsets are committed in the target as well, as long as the
group has no members there. So consumers that move to the target resume where they were.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from ottla.client import Consumer
from ottla.client.record import TopicPartition
from ottla.connect.api import Props, SourceConnector, SourceTask, SourceTaskContext
from ottla.connect.config import ConfigDef, ConfigType, Importance
from ottla.connect.connectors.builtin_connector import BuiltinConnector
from ottla.connect.connectors.mirror import clusters
from ottla.connect.connectors.mirror.formats import MirrorCheckpoint, OffsetSync
from ottla.connect.connectors.mirror.offset_sync_store import OffsetSyncStore
from ottla.connect.connectors.mirror.policies import (
    checkpoints_topic,
    offset_syncs_topic,
    policy_of,
)
from ottla.connect.connectors.mirror.settings import (
    GROUPS_EXCLUDE,
    SOURCE,
    TARGET,
    TOPICS_EXCLUDE,
    define_choice,
    define_interval,
    matches,
)
from ottla.connect.connectors.mirror.settings import common_config as common
from ottla.connect.data import BYTES_SCHEMA, SourceRecord
from ottla.connect.errors import RetriableException
from ottla.connect.validators import at_least, one_of
from ottla.errors import KafkaError

GROUPS: Final = "task.assigned.groups"
WAIT_S: Final = 0.1

log = logging.getLogger("ottla.connect.mirror")


def _config() -> ConfigDef:
    low = Importance.LOW
    config = define_choice(
        define_choice(common(), "groups", GROUPS_EXCLUDE), "topics", TOPICS_EXCLUDE
    )
    define_interval(config, "refresh.groups", 600, "look for new groups")
    define_interval(config, "emit.checkpoints", 60, "emit checkpoints")
    return (
        config.define(
            *("sync.group.offsets.enabled", ConfigType.BOOLEAN, False, low),
            "Whether to commit the translated offsets in the target.",
        )
        .define(
            *("sync.group.offsets.interval.seconds", ConfigType.INT, 60, low),
            "How often to commit them.", validator=at_least(0),
        )
        .define(
            *("checkpoints.topic.replication.factor", ConfigType.INT, -1, low),
            "The replication factor of the checkpoints topic; -1: the broker's default.",
        )
        .define(
            *("offset-syncs.topic.location", ConfigType.STRING, "source", low),
            "The cluster of the offset syncs topic: source or target.",
            validator=one_of("source", "target"),
        )
    )  # fmt: skip


CONFIG: Final = _config()


class MirrorCheckpointConnector(BuiltinConnector, SourceConnector):
    config = CONFIG

    def start(self, props: Props) -> None:
        super().start(props)
        settings = self._settings
        self._source = clusters.admin_of(props, SOURCE)
        self._watch: clusters.ClusterWatch | None = None
        try:
            with clusters.admin_of(props, TARGET) as target:
                clusters.make_internal(
                    target,
                    checkpoints_topic(settings[f"{SOURCE}alias"]),
                    settings["checkpoints.topic.replication.factor"],
                )
            self._groups = self._list_groups()
        except KafkaError as error:
            self.stop()
            raise RetriableException(f"a cluster is not available: {error}") from error
        if settings["refresh.groups.enabled"]:
            seconds = settings["refresh.groups.interval.seconds"]
            self._watch = clusters.ClusterWatch({"refresh.groups": (seconds, self._refresh)})

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        if not self._settings["emit.checkpoints.enabled"]:
            return []
        count = min(max_tasks, len(self._groups))
        return [
            {**self._props, GROUPS: json.dumps(self._groups[task::count])} for task in range(count)
        ]

    def stop(self) -> None:
        if self._watch is not None:
            self._watch.stop()
        self._source.close()

    def _list_groups(self) -> list[str]:
        settings = self._settings
        return sorted(
            group.name
            for group in self._source.groups.list()
            if matches(group.name, settings["groups"], settings["groups.exclude"])
        )

    def _refresh(self) -> None:
        groups = self._list_groups()
        if groups != self._groups:
            self._groups = groups
            self.context.request_task_reconfiguration()


class MirrorCheckpointTask(SourceTask):
    def start(self, props: Props, context: SourceTaskContext) -> None:
        self._settings = settings = CONFIG.parse(props)
        self._groups: list[str] = json.loads(props[GROUPS])
        self._policy = policy_of(settings)
        self._alias: str = settings[f"{SOURCE}alias"]
        self._source = clusters.admin_of(props, SOURCE)
        self._target = clusters.admin_of(props, TARGET)
        self._translation = OffsetSyncStore()
        home = SOURCE if settings["offset-syncs.topic.location"] == "source" else TARGET
        self._syncs_at = self._source if home == SOURCE else self._target
        self._syncs_partition = TopicPartition(offset_syncs_topic(settings[f"{TARGET}alias"]), 0)
        self._syncs: Consumer[bytes, bytes] = clusters.consumer_of(props, home)
        self._syncs.assign({self._syncs_partition: 0})
        self._syncs_next = 0
        self._emitted: dict[tuple[str, TopicPartition], MirrorCheckpoint] = {}
        self._due_s = self._sync_due_s = 0.0

    def poll(self) -> Sequence[SourceRecord] | None:
        wait_s = self._due_s - time.monotonic()
        if wait_s > 0:
            time.sleep(min(WAIT_S, wait_s))
            return None
        self._due_s = time.monotonic() + self._settings["emit.checkpoints.interval.seconds"]
        try:
            self._read_syncs()
            checkpoints = [
                checkpoint for group in self._groups for checkpoint in self._checkpoints(group)
            ]
            self._sync_groups(checkpoints)
        except KafkaError as error:
            raise RetriableException(f"creating checkpoints failed: {error}") from error
        new = [
            checkpoint
            for checkpoint in checkpoints
            if self._emitted.get(_key_of(checkpoint)) != checkpoint
        ]
        self._emitted |= {_key_of(checkpoint): checkpoint for checkpoint in new}
        return [self._record(checkpoint) for checkpoint in new] or None

    def stop(self) -> None:
        self._syncs.close()
        self._source.close()
        self._target.close()

    def _read_syncs(self) -> None:
        """Read the offset syncs topic to its current end."""
        end = clusters.ends_of(self._syncs_at, [self._syncs_partition]).get(
            self._syncs_partition, 0
        )
        deadline = time.monotonic() + 30
        while self._syncs_next < end and time.monotonic() < deadline:
            record = self._syncs.poll(WAIT_S)
            if record is None:
                continue
            self._syncs_next = record.offset + 1
            if record.key is not None and record.value is not None:
                self._translation.add(OffsetSync.read(record.key, record.value))

    def _checkpoints(self, group: str) -> list[MirrorCheckpoint]:
        settings, found = self._settings, []
        for partition, committed in self._source.groups.offsets(group).items():
            if not matches(partition.topic, settings["topics"], settings["topics.exclude"]):
                continue
            downstream = self._translation.downstream(partition, committed.offset)
            if downstream is not None:
                remote = self._policy.remote(self._alias, partition.topic)
                there = TopicPartition(remote, partition.partition)
                metadata = committed.metadata or ""
                found.append(MirrorCheckpoint(group, there, committed.offset, downstream, metadata))
        return found

    def _sync_groups(self, checkpoints: Sequence[MirrorCheckpoint]) -> None:
        if not self._settings["sync.group.offsets.enabled"]:
            return
        if time.monotonic() < self._sync_due_s:
            return
        every_s = self._settings["sync.group.offsets.interval.seconds"]
        self._sync_due_s = time.monotonic() + every_s
        states = {group.name: group.state for group in self._target.groups.list_all()}
        for group in self._groups:
            wanted = {
                checkpoint.partition: checkpoint.downstream
                for checkpoint in checkpoints
                if checkpoint.group == group
            }
            if wanted and states.get(group, "Empty") in ("Empty", "Dead"):
                self._sync_group(group, wanted)

    def _sync_group(self, group: str, wanted: Mapping[TopicPartition, int]) -> None:
        """Commit translated offsets, but never move a group backwards: it may have read here."""
        committed = self._target.groups.offsets(group)
        ahead = {
            partition: offset
            for partition, offset in wanted.items()
            if partition not in committed or committed[partition].offset < offset
        }
        try:
            self._target.groups.alter_offsets(group, ahead)
        except KafkaError as error:  # a member has joined, or the topic does not exist yet
            log.warning("Syncing offsets of group %s failed: %s", group, error)

    def _record(self, checkpoint: MirrorCheckpoint) -> SourceRecord:
        partition: dict[str, Any] = {
            "group": checkpoint.group,
            "topic": checkpoint.partition.topic,
            "partition": checkpoint.partition.partition,
        }
        return SourceRecord(
            partition,
            {"offset": 0},
            checkpoints_topic(self._alias),
            0,
            BYTES_SCHEMA,
            checkpoint.key(),
            BYTES_SCHEMA,
            checkpoint.value(),
            int(time.time() * 1000),
        )


def _key_of(checkpoint: MirrorCheckpoint) -> tuple[str, TopicPartition]:
    return checkpoint.group, checkpoint.partition


MirrorCheckpointConnector.task_class = MirrorCheckpointTask
