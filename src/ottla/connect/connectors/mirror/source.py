"""MirrorSource: replicates records partition by partition, with headers and timestamps.

After each commit a task emits an offset sync for each partition: the source offset that it has
reached, and the log end offset in the target. It queries the log end before it hands out further
records, and nothing else writes to a replicated topic, so every record before the target offset is
a copy of one before the source offset.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from typing import Any, Final

from ottla.client.acls import Acl, AclResource
from ottla.client.offsets import EARLIEST, LATEST
from ottla.client.record import ConsumerRecord, TopicPartition
from ottla.connect.api import (
    ExactlyOnceSupport,
    Props,
    SourceConnector,
    SourceTask,
    SourceTaskContext,
)
from ottla.connect.config import ConfigDef, ConfigType, Importance
from ottla.connect.connectors.builtin_connector import BuiltinConnector
from ottla.connect.connectors.mirror import acls, clusters
from ottla.connect.connectors.mirror.formats import OffsetSync
from ottla.connect.connectors.mirror.policies import (
    DefaultReplicationPolicy,
    offset_syncs_topic,
    policy_of,
)
from ottla.connect.connectors.mirror.settings import (
    CONFIGS_EXCLUDE,
    SOURCE,
    SOURCE_CONSUMER,
    TARGET,
    TOPICS_EXCLUDE,
    define_choice,
    define_interval,
    matches,
)
from ottla.connect.connectors.mirror.settings import common_config as common
from ottla.connect.data import BYTES_SCHEMA, OPTIONAL_BYTES_SCHEMA, Header, SourceRecord
from ottla.connect.errors import ConnectException, RetriableException
from ottla.connect.validators import at_least, one_of
from ottla.errors import ErrorCode, KafkaError

PARTITIONS: Final = "task.assigned.partitions"
POLL_RECORDS_MAX: Final = 5000
CLUSTER, TOPIC, PARTITION, OFFSET = "cluster", "topic", "partition", "offset"

log = logging.getLogger("ottla.connect.mirror")


def _config() -> ConfigDef:
    low = Importance.LOW
    config = define_choice(common(), "topics", TOPICS_EXCLUDE)
    define_interval(config, "refresh.topics", 600, "look for new topics and partitions")
    define_interval(config, "sync.topic.configs", 600, "replicate topic configs")
    define_interval(config, "sync.topic.acls", 600, "replicate topic ACLs for reading")
    return (
        config.define(
            *("config.properties.exclude", ConfigType.LIST, CONFIGS_EXCLUDE, low),
            "Topic configs to exclude, as regular expressions.",
        )
        .define(
            *("offset-syncs.topic.location", ConfigType.STRING, "source", low),
            "The cluster of the offset syncs topic: source or target.",
            validator=one_of("source", "target"),
        )
        .define(
            *("offset-syncs.topic.replication.factor", ConfigType.INT, -1, low),
            "The replication factor of that topic; -1: the broker's default.",
        )
        .define(
            *("emit.offset-syncs.enabled", ConfigType.BOOLEAN, True, low),
            "Whether to emit offset syncs, which checkpoints need.",
        )
        .define(
            *("consumer.poll.timeout.ms", ConfigType.LONG, 1000, low),
            "How long a poll waits for records.", validator=at_least(0),
        )
    )  # fmt: skip


CONFIG: Final = _config()


class MirrorSourceConnector(BuiltinConnector, SourceConnector):
    config = CONFIG

    def start(self, props: Props) -> None:
        super().start(props)
        settings = self._settings
        self._policy = policy_of(settings)
        self._source = clusters.admin_of(props, SOURCE)
        self._target = clusters.admin_of(props, TARGET)
        self._found: list[TopicPartition] = []
        self._acls: set[Acl] = set()
        self._without_acls = False
        self._watch: clusters.ClusterWatch | None = None
        try:
            self._prepare()
        except KafkaError as error:
            self.stop()
            raise RetriableException(f"a cluster is not available: {error}") from error
        every = {
            "refresh.topics": self._refresh,
            "sync.topic.configs": self._sync_configs,
            "sync.topic.acls": self._sync_acls,
        }
        self._watch = clusters.ClusterWatch(
            {
                name: (settings[f"{name}.interval.seconds"], job)
                for name, job in every.items()
                if settings[f"{name}.enabled"]
            }
        )

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        count = min(max_tasks, len(self._found))
        return [
            {**self._props, PARTITIONS: json.dumps(self._found[task::count])}
            for task in range(count)
        ]

    def stop(self) -> None:
        if self._watch is not None:
            self._watch.stop()
        self._source.close()
        self._target.close()

    def exactly_once_support(self, props: Props) -> ExactlyOnceSupport | None:
        return ExactlyOnceSupport.SUPPORTED

    def alter_offsets(
        self,
        props: Props,
        offsets: Sequence[tuple[Mapping[str, Any], Mapping[str, Any] | None]],
    ) -> bool:
        for partition, offset in offsets:
            if set(partition) != {CLUSTER, TOPIC, PARTITION}:
                raise ConnectException(f"{dict(partition)} is not {CLUSTER}, {TOPIC}, {PARTITION}")
            if offset is not None and not isinstance(offset.get(OFFSET), int):
                raise ConnectException(f"{dict(offset)} has no whole number {OFFSET!r}")
        return True

    def _prepare(self) -> None:
        settings = self._settings
        if settings["emit.offset-syncs.enabled"]:
            home = self._source if settings["offset-syncs.topic.location"] == "source" else None
            clusters.make_internal(
                home or self._target,
                offset_syncs_topic(settings[f"{TARGET}alias"]),
                settings["offset-syncs.topic.replication.factor"],
            )
        self._found = self._find_partitions()
        if settings["sync.topic.acls.enabled"]:
            try:
                self._sync_acls()
            except KafkaError as error:  # replicating records needs no right to describe ACLs
                log.warning("Syncing topic ACLs failed, will retry: %s", error)

    def _find_partitions(self) -> list[TopicPartition]:
        """The partitions to replicate. Creates and extends the topics in the target."""
        settings, policy = self._settings, self._policy
        names = [topic for topic in self._source.topics.names() if self._wants(topic)]
        counts = clusters.partition_counts(self._source, names)
        alias = settings[f"{SOURCE}alias"]
        remote = {name: policy.remote(alias, name) for name in counts}
        there = clusters.partition_counts(self._target, remote.values())
        for name, count in counts.items():
            target = remote[name]
            if target not in there:
                configs = self._configs_of(name)
                clusters.make_topic(
                    self._target, target, count, settings["replication.factor"], configs
                )
            elif there[target] < count:
                self._target.topics.grow(target, count)
        return [TopicPartition(name, n) for name in sorted(counts) for n in range(counts[name])]

    def _wants(self, topic: str) -> bool:
        settings, policy = self._settings, self._policy
        if not policy.is_copyable(topic, settings[f"{TARGET}alias"]):
            return False
        if policy.is_heartbeats(topic):
            return True
        return matches(topic, settings["topics"], settings["topics.exclude"])

    def _refresh(self) -> None:
        found = self._find_partitions()
        if found != self._found:
            self._found = found
            self.context.request_task_reconfiguration()

    def _configs_of(self, topic: str) -> dict[str, str]:
        excluded = self._settings["config.properties.exclude"]
        found = clusters.set_configs(self._source, topic)
        return {name: value for name, value in found.items() if not matches(name, excluded, ())}

    def _sync_configs(self) -> None:
        alias = self._settings[f"{SOURCE}alias"]
        for topic in sorted({partition.topic for partition in self._found}):
            target = self._policy.remote(alias, topic)
            clusters.sync_configs(self._target, target, self._configs_of(topic))

    def _sync_acls(self) -> None:
        """Does nothing further once a cluster turns out to have no authorizer."""
        if self._without_acls:
            return
        topics = {partition.topic for partition in self._found}
        alias = self._settings[f"{SOURCE}alias"]
        try:
            found = acls.acls_of_copies(
                self._source.acls.describe(AclResource.TOPIC),
                wanted=topics.__contains__,
                remote=lambda name: self._policy.remote(alias, name),
            )
            new = [acl for acl in found if acl not in self._acls]
            if new:
                self._target.acls.create(new)
                self._acls.update(new)
        except KafkaError as error:
            if error.code is not ErrorCode.SECURITY_DISABLED:
                raise
            self._without_acls = True
            log.info("Topic ACLs are not replicated: a cluster has no authorizer (%s)", error)


class MirrorSourceTask(SourceTask):
    def start(self, props: Props, context: SourceTaskContext) -> None:
        settings = CONFIG.parse(props)
        self._alias: str = settings[f"{SOURCE}alias"]
        self._policy: DefaultReplicationPolicy = policy_of(settings)
        self._timeout_s = settings["consumer.poll.timeout.ms"] / 1000
        assigned = [TopicPartition(*fields) for fields in json.loads(props[PARTITIONS])]
        self._partitions = {partition: self._source_partition(partition) for partition in assigned}
        self._remote = {
            partition: self._policy.remote(self._alias, partition.topic) for partition in assigned
        }
        self._consumer = clusters.consumer_of(props, SOURCE)
        latest = props.get(f"{SOURCE_CONSUMER}auto.offset.reset") == "latest"
        first = LATEST if latest else EARLIEST
        self._consumer.assign(
            {partition: self._start_of(context, partition, first) for partition in assigned}
        )
        self._syncs = (
            OffsetSyncWriter(props, settings) if settings["emit.offset-syncs.enabled"] else None
        )

    def poll(self) -> Sequence[SourceRecord] | None:
        try:
            record = self._consumer.poll(self._timeout_s)
            records = []
            while record is not None:
                records.append(self._record(record))
                if not self._consumer.has_more or len(records) >= POLL_RECORDS_MAX:
                    break
                record = self._consumer.poll()
        except KafkaError as error:
            raise RetriableException(
                f"Reading from cluster {self._alias} failed: {error}"
            ) from error
        return records or None

    def commit_record(self, record: SourceRecord) -> None:
        if self._syncs is not None:
            partition = record.source_partition
            topic_partition = TopicPartition(partition[TOPIC], partition[PARTITION])
            self._syncs.reached(
                topic_partition, self._remote[topic_partition], record.source_offset[OFFSET]
            )

    def commit(self) -> None:
        if self._syncs is not None:
            self._syncs.write()

    def stop(self) -> None:
        self._consumer.close()
        if self._syncs is not None:
            self._syncs.close()

    def _source_partition(self, topic_partition: TopicPartition) -> dict[str, Any]:
        return {
            CLUSTER: self._alias,
            TOPIC: topic_partition.topic,
            PARTITION: topic_partition.partition,
        }

    def _start_of(
        self, context: SourceTaskContext, topic_partition: TopicPartition, first: int
    ) -> int:
        offset = context.offset(self._partitions[topic_partition])
        return first if offset is None else int(offset[OFFSET]) + 1

    def _record(self, record: ConsumerRecord[bytes, bytes]) -> SourceRecord:
        topic_partition = record.topic_partition
        return SourceRecord(
            self._partitions[topic_partition],
            {OFFSET: record.offset},
            self._remote[topic_partition],
            record.partition,
            OPTIONAL_BYTES_SCHEMA,
            record.key,
            BYTES_SCHEMA if record.value is not None else OPTIONAL_BYTES_SCHEMA,
            record.value,
            record.timestamp_ms,
            tuple(Header(name, value, OPTIONAL_BYTES_SCHEMA) for name, value in record.headers),
        )


class OffsetSyncWriter:
    """Writes the offset syncs of a task."""

    def __init__(self, props: Props, settings: Mapping[str, Any]) -> None:
        at_source = settings["offset-syncs.topic.location"] == "source"
        self._topic = offset_syncs_topic(settings[f"{TARGET}alias"])
        self._producer = clusters.producer_of(props, SOURCE if at_source else TARGET)
        self._target = clusters.admin_of(props, TARGET)
        self._reached: dict[TopicPartition, tuple[TopicPartition, int]] = {}

    def reached(self, topic_partition: TopicPartition, remote: str, offset: int) -> None:
        """The source record at this offset is committed in the target."""
        self._reached[topic_partition] = (
            TopicPartition(remote, topic_partition.partition),
            offset + 1,
        )

    def write(self) -> None:
        """A failure does no harm, because the next sync supersedes the lost one."""
        reached, self._reached = self._reached, {}
        if not reached:
            return
        try:
            ends = clusters.ends_of(self._target, [remote for remote, _ in reached.values()])
            for topic_partition, (remote, upstream) in reached.items():
                if remote in ends:
                    sync = OffsetSync(topic_partition, upstream, ends[remote])
                    self._producer.send(self._topic, sync.value(), key=sync.key(), partition=0)
            self._producer.flush()
        except KafkaError as error:
            log.warning("Writing offset syncs failed: %s", error)

    def close(self) -> None:
        try:
            self._producer.close()
        except KafkaError as error:
            log.warning("Closing the producer of offset syncs failed: %s", error)
        self._target.close()


MirrorSourceConnector.task_class = MirrorSourceTask
