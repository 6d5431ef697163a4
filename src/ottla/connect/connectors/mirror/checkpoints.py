"""MirrorCheckpoint: how far groups of the source have come, in terms of the target.

With sync.group.offsets.enabled the groups of the target are moved there, as long as nobody is in
them: a consumer that moves to the target goes on where it was.
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
from ottla.connect.connectors.mirror import clusters
from ottla.connect.connectors.mirror.formats import Checkpoint, OffsetSync
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
    choice,
    interval,
    matches,
)
from ottla.connect.connectors.mirror.settings import clusters as common
from ottla.connect.connectors.mirror.translation import Translation
from ottla.connect.data import BYTES_SCHEMA, SourceRecord
from ottla.connect.errors import RetriableException
from ottla.connect.validators import at_least, one_of
from ottla.errors import KafkaError

GROUPS: Final = "task.assigned.groups"
WAIT_S: Final = 0.1

log = logging.getLogger("ottla.connect.mirror")


def _config() -> ConfigDef:
    low = Importance.LOW
    config = choice(choice(common(), "groups", GROUPS_EXCLUDE), "topics", TOPICS_EXCLUDE)
    interval(config, "refresh.groups", 600, "look for new groups")
    interval(config, "emit.checkpoints", 60, "note how far groups are")
    return (
        config.define(
            *("sync.group.offsets.enabled", ConfigType.BOOLEAN, False, low),
            "Whether groups of the target are moved as well.",
        )
        .define(
            *("sync.group.offsets.interval.seconds", ConfigType.INT, 60, low),
            "How often they are.", validator=at_least(0),
        )
        .define(
            *("checkpoints.topic.replication.factor", ConfigType.INT, -1, low),
            "Of the topic of checkpoints; -1: the broker's default.",
        )
        .define(
            *("offset-syncs.topic.location", ConfigType.STRING, "source", low),
            "The cluster with the topic of offset syncs: source, target.",
            validator=one_of("source", "target"),
        )
    )  # fmt: skip


CONFIG: Final = _config()


class MirrorCheckpointConnector(SourceConnector):
    def version(self) -> str:
        return "1.0"

    def config_def(self) -> ConfigDef:
        return CONFIG

    def start(self, props: Props) -> None:
        self._settings = settings = CONFIG.parse(props)
        self._props = dict(props)
        self._source = clusters.admin_of(props, SOURCE)
        self._watch: clusters.Watch | None = None
        try:
            with clusters.admin_of(props, TARGET) as target:
                clusters.make_internal(
                    target,
                    checkpoints_topic(settings[f"{SOURCE}alias"]),
                    settings["checkpoints.topic.replication.factor"],
                )
            self._groups = self._look()
        except KafkaError as error:
            self.stop()
            raise RetriableException(f"the clusters can't be asked: {error}") from error
        if settings["refresh.groups.enabled"]:
            seconds = settings["refresh.groups.interval.seconds"]
            self._watch = clusters.Watch({"refresh.groups": (seconds, self._refresh)})

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

    def _look(self) -> list[str]:
        settings = self._settings
        return sorted(
            each.name
            for each in self._source.groups.list()
            if matches(each.name, settings["groups"], settings["groups.exclude"])
        )

    def _refresh(self) -> None:
        groups = self._look()
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
        self._translation = Translation()
        home = SOURCE if settings["offset-syncs.topic.location"] == "source" else TARGET
        self._syncs_at = self._source if home == SOURCE else self._target
        self._syncs_place = TopicPartition(offset_syncs_topic(settings[f"{TARGET}alias"]), 0)
        self._syncs: Consumer[bytes, bytes] = clusters.consumer_of(props, home)
        self._syncs.assign({self._syncs_place: 0})
        self._syncs_next = 0
        self._emitted: dict[tuple[str, TopicPartition], Checkpoint] = {}
        self._due_s = self._sync_due_s = 0.0

    def poll(self) -> Sequence[SourceRecord] | None:
        wait_s = self._due_s - time.monotonic()
        if wait_s > 0:
            time.sleep(min(WAIT_S, wait_s))
            return None
        self._due_s = time.monotonic() + self._settings["emit.checkpoints.interval.seconds"]
        try:
            self._read_syncs()
            checkpoints = [each for group in self._groups for each in self._checkpoints(group)]
            self._move_groups(checkpoints)
        except KafkaError as error:
            raise RetriableException(f"checkpoints can't be made: {error}") from error
        new = [each for each in checkpoints if self._emitted.get(_place(each)) != each]
        self._emitted |= {_place(each): each for each in new}
        return [self._record(each) for each in new] or None

    def stop(self) -> None:
        self._syncs.close()
        self._source.close()
        self._target.close()

    def _read_syncs(self) -> None:
        """All that were noted until now."""
        end = clusters.ends_of(self._syncs_at, [self._syncs_place]).get(self._syncs_place, 0)
        deadline = time.monotonic() + 30
        while self._syncs_next < end and time.monotonic() < deadline:
            record = self._syncs.poll(WAIT_S)
            if record is None:
                continue
            self._syncs_next = record.offset + 1
            if record.key is not None and record.value is not None:
                self._translation.add(OffsetSync.read(record.key, record.value))

    def _checkpoints(self, group: str) -> list[Checkpoint]:
        settings, found = self._settings, []
        for place, committed in self._source.groups.offsets(group).items():
            if not matches(place.topic, settings["topics"], settings["topics.exclude"]):
                continue
            downstream = self._translation.downstream(place, committed.offset)
            if downstream is not None:
                remote = self._policy.remote(self._alias, place.topic)
                there = TopicPartition(remote, place.partition)
                metadata = committed.metadata or ""
                found.append(Checkpoint(group, there, committed.offset, downstream, metadata))
        return found

    def _move_groups(self, checkpoints: Sequence[Checkpoint]) -> None:
        if not self._settings["sync.group.offsets.enabled"]:
            return
        if time.monotonic() < self._sync_due_s:
            return
        every_s = self._settings["sync.group.offsets.interval.seconds"]
        self._sync_due_s = time.monotonic() + every_s
        states = {each.name: each.state for each in self._target.groups.list_all()}
        for group in self._groups:
            wanted = {
                each.partition: each.downstream for each in checkpoints if each.group == group
            }
            if wanted and states.get(group, "Empty") in ("Empty", "Dead"):
                self._move(group, wanted)

    def _move(self, group: str, wanted: Mapping[TopicPartition, int]) -> None:
        """Forward only: the group may have read here already."""
        here = self._target.groups.offsets(group)
        ahead = {
            place: offset
            for place, offset in wanted.items()
            if place not in here or here[place].offset < offset
        }
        try:
            self._target.groups.alter_offsets(group, ahead)
        except KafkaError as error:  # somebody joined, or the topic is not there yet
            log.warning("the group %s is not moved: %s", group, error)

    def _record(self, checkpoint: Checkpoint) -> SourceRecord:
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


def _place(checkpoint: Checkpoint) -> tuple[str, TopicPartition]:
    return checkpoint.group, checkpoint.partition


MirrorCheckpointConnector.task_class = MirrorCheckpointTask
