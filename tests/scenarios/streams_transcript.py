"""Plays a scenario of streams groups (KIP-1071), with all events of `transcript.py`.

topology count t=4,u    a subtopology with its sources; topics of the cluster are `topics`
                        changelog=c  a store; repartition=r:0  a source that is created (0
                        partitions: to be found out); sink=r  what it writes; together=t,u
topology epoch=1        the epoch of the topology that members declare from now on
beat a b ...            StreamsGroupHeartbeat: joins with the topology, or goes on;
                        process= endpoint=host:port epoch= owns=0_0,1_1 (`-`: does not say)
                        standby=0_1 shutdown=1 instance=
create                  the topics that the last heartbeat's group lacks are created
quit a                  leaves; shutdown=1
config standby=1 session=... heartbeat=... delay=... interval=... size=...
"""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

from transcript import GroupTranscript
from transcript_client import Client
from transcript_records import shown_record, topic_id

from ottla.coordinator.group_type import TopicMetadata, TopicsImage
from ottla.coordinator.result import CoordinatorResult
from ottla.coordinator.streams import records as keys
from ottla.coordinator.streams.describe import describe_streams_group
from ottla.coordinator.streams.group import StreamsGroup
from ottla.coordinator.streams.group_requests import missing_topics
from ottla.coordinator.streams.heartbeat import StreamsHeartbeat, streams_heartbeat
from ottla.coordinator.streams.records import StreamsGroupRecordType
from ottla.coordinator.streams.tasks import StreamsTask, TaskRole
from ottla.coordinator.streams.topology_record import read_topology_record
from ottla.errors import ErrorCode
from ottla.records.record import Record
from ottla.wire.fields import Message
from ottla.wire.messages.streams_group_heartbeat import (
    CopartitionGroup,
    Endpoint,
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    Subtopology,
    TaskIds,
    TopicInfo,
    Topology,
)

CONFIGS = {
    "standby": "num_standby_replicas",
    "session": "session_timeout_ms",
    "heartbeat": "heartbeat_interval_ms",
    "delay": "initial_rebalance_delay_ms",
    "interval": "assignment_interval_ms",
}
STATUSES = ("STALE", "NO SOURCE", "MISFIT", "NO INTERNAL", "SHUTDOWN", "DELAYED")


class StreamsPlay(GroupTranscript):
    def __init__(self) -> None:
        super().__init__()
        self.topology = Topology(0, [Subtopology("0", ["t"])])
        self.request: StreamsGroupHeartbeatRequest | None = None
        self.do_config([], {"delay": "0"})

    def do_config(self, names: list[str], options: dict[str, str]) -> None:
        streams = self.config.streams
        if "size" in options:
            streams = replace(streams, max_size=int(options.pop("size")))
        values = {CONFIGS[name]: int(value) for name, value in options.items()}
        streams = replace(streams, defaults=streams.defaults._replace(**values))
        self.config = replace(self.config, streams=streams)
        self.shard.config = self.config

    def do_topology(self, names: list[str], options: dict[str, str]) -> None:
        if "epoch" in options:
            self.topology = Topology(int(options["epoch"]), self.topology.subtopologies)
        if not names:
            return
        name, *sources = names
        subtopology = Subtopology(name, sources)
        if "changelog" in options:
            subtopology.state_changelog_topics.append(TopicInfo(options["changelog"]))
        if "sink" in options:
            subtopology.repartition_sink_topics.append(options["sink"])
        if "repartition" in options:
            topic, _, count = options["repartition"].partition(":")
            subtopology.repartition_source_topics.append(TopicInfo(topic, int(count)))
        if "together" in options:
            group = CopartitionGroup()
            for topic in options["together"].split(","):
                if topic in sources:
                    group.source_topics.append(sources.index(topic))
                else:
                    group.repartition_source_topics.append(0)
            subtopology.copartition_groups.append(group)
        others = [
            subtopology
            for subtopology in self.topology.subtopologies
            if subtopology.subtopology_id != name
        ]
        self.topology = Topology(self.topology.epoch, [*others, subtopology])

    def do_create(self, names: list[str], options: dict[str, str]) -> None:
        assert self.request is not None
        coordinator = SimpleNamespace(
            config=self.config, topics=self.topics, member_shard_of=lambda group_id: self.shard
        )
        views = dict(self.topics.by_name)
        for topic in missing_topics(coordinator, self.request):  # type: ignore[arg-type]
            self.say(f"{topic.name} with {topic.partition_count} partitions")
            views[topic.name] = TopicMetadata(topic_id(topic.name), topic.partition_count)
        self.topics = TopicsImage(views)
        self.shard.topics = self.topics

    # -- heartbeats

    def do_beat(self, names: list[str], options: dict[str, str]) -> None:
        for name in names:
            client = self.client(name)
            client.options |= {k: v for k, v in options.items() if k in ("process", "group")}
            epoch = int(options.get("epoch", client.epoch))
            if epoch == 0:
                client.owned = []
            client.member_id = client.member_id or f"{name}-{next(self.numbers)}"
            self.request = self.beat_request(client, epoch, options)
            self.carry_out(self.streams_beat(client, self.request))

    def beat_request(
        self, client: Client, epoch: int, options: dict[str, str]
    ) -> StreamsGroupHeartbeatRequest:
        owned: list[str] | None = client.owned
        if "owns" in options or "standby" in options:
            active = [word for word in options.get("owns", "").split(",") if word]
            standby = [word + "s" for word in options.get("standby", "").split(",") if word]
            owned = None if active == ["-"] else active + standby
        endpoint = None
        if "endpoint" in options:
            host, _, port = options["endpoint"].partition(":")
            endpoint = Endpoint(host, int(port))
        return StreamsGroupHeartbeatRequest(
            client.group,
            client.member_id,
            epoch,
            instance_id=options.get("instance"),
            rebalance_timeout=60_000 if epoch == 0 else -1,
            topology=self.topology if epoch == 0 else None,
            active_tasks=None if owned is None else task_ids(owned, ""),
            standby_tasks=None if owned is None else task_ids(owned, "s"),
            warmup_tasks=None if owned is None else [],
            process_id=client.option("process", client.name) if epoch == 0 else None,
            user_endpoint=endpoint,
            shutdown_application="shutdown" in options,
        )

    def streams_beat(
        self, client: Client, request: StreamsGroupHeartbeatRequest
    ) -> CoordinatorResult:
        event = self.shard.new_event(self.now_ms)
        beat = StreamsHeartbeat(request, client.name, "/127.0.0.1", {})
        event.reply((client.name, "beat"), streams_heartbeat(beat, event))
        return event.result

    def do_quit(self, names: list[str], options: dict[str, str]) -> None:
        for name in names:
            client = self.client(name)
            request = StreamsGroupHeartbeatRequest(
                client.group, client.member_id, -1, shutdown_application="shutdown" in options
            )
            self.carry_out(self.streams_beat(client, request))

    def do_describe(self, names: list[str], options: dict[str, str]) -> None:
        for name in names:
            group = self.shard.groups[name]
            if not isinstance(group, StreamsGroup):
                super().do_describe([name], options)
                continue
            shown = describe_streams_group(group)
            self.say(
                f"{name}: {shown.group_state} epoch {shown.group_epoch}"
                f" target {shown.assignment_epoch}"
            )
            for member in shown.members:
                has = [*ids(member.assignment.active_tasks), *ids(member.assignment.standby_tasks)]
                line = f"  {member.member_id} epoch {member.member_epoch} {' '.join(has)}"
                self.say(line.rstrip())

    # -- responses

    def store(self, outcome: CoordinatorResult) -> None:
        records = [Record(key=key, value=value) for key, value in outcome.records]
        producer_id = -1 if outcome.producer is None else outcome.producer[0]
        self.log.append(lambda shard: shard.load(records, producer_id))
        for key, value in outcome.records:
            line = shown_streams_record(key, value) or shown_record(key, value)
            self.say(line if producer_id < 0 else f"p{producer_id} {line}")

    def shown(self, name: str, message: Message) -> str:
        if not isinstance(message, StreamsGroupHeartbeatResponse):
            return super().shown(name, message)
        client, code = self.client(name), ErrorCode(message.error_code)
        if code is not ErrorCode.NONE:
            if code in (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID):
                client.epoch = 0
            return f"{code.name} {message.error_message or ''}".rstrip()
        client.epoch = max(0, message.member_epoch)
        line = f"NONE epoch {message.member_epoch}"
        if message.active_tasks is not None:
            standby = [task + "s" for task in ids(message.standby_tasks or [])]
            client.owned = [*ids(message.active_tasks), *standby]
            line += f" runs {' '.join(client.owned) or 'nothing'}"
        for endpoint_partitions in message.partitions_by_user_endpoint or ():
            places = [
                f"{p.topic}-{i}"
                for p in endpoint_partitions.active_partitions
                for i in p.partitions
            ]
            endpoint = endpoint_partitions.user_endpoint
            line += f"\n    at {endpoint.host}:{endpoint.port}: {' '.join(places)}"
        for status in message.status or ():
            line += f"\n    {STATUSES[status.status_code]}: {status.status_detail}"
        return line


def task_ids(words: list[str], suffix: str) -> list[TaskIds]:
    found: dict[str, list[int]] = {}
    for word in words:
        if word.endswith("s") == bool(suffix):
            subtopology, _, index = word.removesuffix("s").rpartition("_")
            found.setdefault(subtopology, []).append(int(index))
    return [TaskIds(*item) for item in found.items()]


def ids(tasks: list[TaskIds]) -> list[str]:
    return [f"{task.subtopology_id}_{index}" for task in tasks for index in task.partitions]


def named_tasks(tasks: set[StreamsTask]) -> str:
    words = []
    for task in sorted(tasks):
        suffix = "" if task.role is TaskRole.ACTIVE else "s"
        words.append(f"{task.subtopology_id}_{task.partition}{suffix}")
    return " ".join(words) or "nothing"


def shown_streams_record(key: bytes, value: bytes | None) -> str | None:
    found = keys.read_streams_group_key(key)
    if found is None:
        return None
    kind, group_id, member_id = found
    where = f"{group_id} {kind.name.lower().replace('_', ' ')} {member_id}".rstrip()
    if value is None:
        return f"- {where}"
    match kind:
        case StreamsGroupRecordType.GROUP:
            group = keys.read_group(value)
            return f"+ {where} epoch {group.epoch} validated {group.validated_topology_epoch}"
        case StreamsGroupRecordType.MEMBER:
            return f"+ {where}: process {keys.read_member(value).process_id}"
        case StreamsGroupRecordType.TARGET:
            return f"+ {where} {keys.read_target(value)[0]}"
        case StreamsGroupRecordType.MEMBER_TARGET:
            return f"+ {where}: {named_tasks(set(keys.read_member_target(value)))}"
        case StreamsGroupRecordType.TOPOLOGY:
            topology = read_topology_record(value)
            listed = " ".join(subtopology.subtopology_id for subtopology in topology.subtopologies)
            return f"+ {where} epoch {topology.epoch}: {listed}"
        case StreamsGroupRecordType.MEMBER_CURRENT:
            current = keys.read_current(value)
            line = f"+ {where}: {current.state.name} epoch {current.epoch}"
            line += f" has {named_tasks(set(current.assigned))}"
            gives_up = f", gives up {named_tasks(set(current.revoking))}"
            return line + (gives_up if current.revoking else "")


def replay_streams(written: str) -> str:
    play = StreamsPlay()
    lines: list[str] = []
    for line in written.splitlines():
        if line.startswith(" "):
            continue  # its recorded results
        lines.append(line)
        if line and not line.startswith("#"):
            lines.extend(play.play(line))
    return "\n".join(lines) + "\n"
