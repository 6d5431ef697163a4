"""Plays a scenario against a GroupCoordinatorShard, and records the results.

A line that begins in the first column is an event or, after `#`, a comment. Indented lines below
it are the results:

    reply               a join: NONE generation 1, leads a-1 b-1
    record appended     + g: generation 1, range, leader a-1, a-1=t-0 b-1=t-1
    tombstone           - g t-0

Events (options are key=value, and stay as they were for a client until changed):

    join a b ...        clients join; group= session= rebalance= protocols=range:t,u/roundrobin:t
                        instance= version= type= owns=t-0,t-1 (for once)
    beat a b ...        ConsumerGroupHeartbeat (KIP-848): joins, or continues as assigned;
                        topics=t,u regex= assignor= instance= rebalance= version= epoch= full=1
                        owns=t-0,t-1 (what it says it holds; `-`: does not say)
    quit a              leaves by a heartbeat; for=a-while is epoch -2
    topics t=4 u=2      the topics of the cluster from now on, with their partitions
    sync a b ...        the leader says who gets what: a=t-0,t-1 b=t-2
    heartbeat a         leave a b       (leave instance=i leaves by the instance alone)
    commit a t-0=5      generation=-1 commits as a consumer without a group; metadata=
    fetch g t-0 t-1     without partitions: all; stable=true refuses what a transaction may change
    txn-commit p1 t-0=5 producer 1 commits in its transaction; group= metadata= member=a (KIP-447:
                        with the member id and generation of a), and its records begin with `p1`
    end p1 commit       the marker of producer 1 is in the log (or: end p1 abort)
    offsets-delete g t-0                list state=Stable       describe g      delete g h
    forget t            the topic was deleted
    wait 3000           milliseconds pass; due deadlines fire
    fail KAFKA_STORAGE_ERROR            the next append ends in this error
    config max_size=2   before the first event, or with `restart`
    restart             a new shard is loaded from what was appended
    unload              another broker leads the partition

A client is its name: `a` gets its member id from the replies, and uses it from then on. Member ids
are `<client>-<n>`. `forget-id a` makes the client `a` start again without one.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace

from transcript_client import Client, protocols
from transcript_records import named, shown_assignment, shown_record, topic_id, topic_partitions

from ottla.coordinator.classic.describe import (
    describe_classic_group,
    describe_unknown_group,
    listed_group,
)
from ottla.coordinator.classic.group import ClassicGroup, GroupCoordinatorConfig
from ottla.coordinator.consumer.consumer_protocol import read_assignment, write_assignment
from ottla.coordinator.consumer.describe import describe_consumer_group as described_consumer
from ottla.coordinator.consumer.group import ConsumerGroup
from ottla.coordinator.group_shard import GroupCoordinatorShard
from ottla.coordinator.group_type import TopicMetadata, TopicsImage
from ottla.coordinator.result import CoordinatorResult
from ottla.errors import ErrorCode
from ottla.records.record import Record
from ottla.wire.fields import ZERO_UUID, Message
from ottla.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from ottla.wire.messages.delete_groups import DeleteGroupsResponse
from ottla.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.wire.messages.join_group import (
    JoinGroupRequest,
    JoinGroupResponse,
)
from ottla.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from ottla.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from ottla.wire.messages.offset_fetch import OffsetFetchRequestTopics
from ottla.wire.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from ottla.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)

ONCE = ("epoch", "owns", "full", "id")  # options of one `beat` only
START_MS = 1_700_000_000_000


class GroupTranscript:
    def __init__(self) -> None:
        self.now_ms = START_MS
        self.log: list[Callable[[GroupCoordinatorShard], None]] = []  # how to load each part of it
        self.clients: dict[str, Client] = {}
        self.said: list[str] = []
        self.failure: ErrorCode | None = None
        self.config = GroupCoordinatorConfig()
        self.numbers = itertools.count(1)
        self.topics = TopicsImage({name: TopicMetadata(topic_id(name), 4) for name in "tu"})
        self.shard = self.new_shard()
        self.shard.loaded(self.now_ms)

    def new_shard(self) -> GroupCoordinatorShard:
        shard = GroupCoordinatorShard(0, config=self.config, uuid=lambda: str(next(self.numbers)))
        shard.topics = self.topics
        return shard

    def client(self, name: str) -> Client:
        return self.clients.setdefault(name, Client(name))

    def say(self, line: str) -> None:
        self.said.append(f"  {line}")

    # -- events

    def play(self, line: str) -> list[str]:
        self.said = []
        verb, *words = line.split()
        names = [word for word in words if "=" not in word]
        options = dict(word.split("=", 1) for word in words if "=" in word)
        getattr(self, "do_" + verb.replace("-", "_"))(names, options)
        return self.said

    def do_config(self, names: list[str], options: dict[str, str]) -> None:
        consumer = self.config.consumer
        for key in [option for option in options if option.startswith("consumer_")]:
            value, name = options.pop(key), key.removeprefix("consumer_")
            if hasattr(consumer.timeouts, name):
                consumer = replace(
                    consumer, timeouts=replace(consumer.timeouts, **{name: int(value)})
                )
            else:
                number = int(value) if value.isdecimal() else value
                consumer = replace(consumer, **{name: number})  # type: ignore[arg-type]
        numbers = {key: int(value) for key, value in options.items()}
        self.config = replace(self.config, consumer=consumer, **numbers)  # type: ignore[arg-type]
        self.shard.config = self.config

    def do_wait(self, names: list[str], options: dict[str, str]) -> None:
        """Step from deadline to deadline, as a broker's timer would."""
        end_ms = self.now_ms + int(names[0])
        while (due_ms := self.shard.next_deadline_ms()) is not None and due_ms <= end_ms:
            passed_ms = max(due_ms, self.now_ms) - self.now_ms
            self.now_ms += passed_ms
            outcome = self.shard.expire(self.now_ms)
            if outcome.records or outcome.replies:
                self.say(f"after {self.now_ms - end_ms + int(names[0])} ms")
            self.carry_out(outcome)
        self.now_ms = end_ms

    def do_restart(self, names: list[str], options: dict[str, str]) -> None:
        self.shard = self.new_shard()
        for load in self.log:
            load(self.shard)
        self.carry_out(self.shard.loaded(self.now_ms))

    def do_unload(self, names: list[str], options: dict[str, str]) -> None:
        for token, message in self.shard.unload():
            self.tell(token, message)

    def do_fail(self, names: list[str], options: dict[str, str]) -> None:
        self.failure = ErrorCode[names[0]]

    def do_topics(self, names: list[str], options: dict[str, str]) -> None:
        self.topics = TopicsImage(
            {name: TopicMetadata(topic_id(name), int(count)) for name, count in options.items()}
        )
        self.shard.topics = self.topics

    def do_beat(self, names: list[str], options: dict[str, str]) -> None:
        for name in names:
            client = self.client(name)
            client.options |= {k: v for k, v in options.items() if k not in ONCE}
            joins = client.epoch == 0 or options.get("epoch") == "0"
            if joins:
                client.owned = []
            says_all = joins or "topics" in options or "regex" in options or "full" in options
            owned: list[str] | None = client.owned
            if "owns" in options:
                owned = None if options["owns"] == "-" else options["owns"].split(",")
            self.carry_out(self.beat(client, options, says_all, owned))

    def beat(
        self, client: Client, options: dict[str, str], says_all: bool, owned: list[str] | None
    ) -> CoordinatorResult:
        topics = client.option("topics", "t").split(",") if says_all else None
        if says_all and "regex" in client.options and "topics" not in client.options:
            topics = None
        member_id = client.member_id or options.get("id", f"{client.name}-{next(self.numbers)}")
        client.member_id = member_id
        request = ConsumerGroupHeartbeatRequest(
            client.group,
            member_id,
            int(options.get("epoch", client.epoch)),
            client.instance,
            rebalance_timeout=int(client.option("rebalance", "60000")) if says_all else -1,
            subscribed_topic_names=topics,
            subscribed_topic_regex=client.options.get("regex") if says_all else None,
            server_assignor=client.options.get("assignor") if says_all else None,
            topic_partitions=None if owned is None else topic_partitions(owned),
        )
        return self.send_beat(client, request)

    def send_beat(
        self, client: Client, request: ConsumerGroupHeartbeatRequest
    ) -> CoordinatorResult:
        return self.shard.consumer_group_heartbeat(
            request,
            version=int(client.option("version", "1")),
            client_id=client.name,
            client_host="/127.0.0.1",
            token=(client.name, "beat"),
            now_ms=self.now_ms,
        )

    def do_quit(self, names: list[str], options: dict[str, str]) -> None:
        for name in names:
            client = self.client(name)
            epoch = -2 if options.get("for") == "a-while" else -1
            request = ConsumerGroupHeartbeatRequest(
                client.group, client.member_id, epoch, client.instance
            )
            self.carry_out(self.send_beat(client, request))

    def do_forget_id(self, names: list[str], options: dict[str, str]) -> None:
        for name in names:
            self.client(name).member_id = ""
            self.client(name).epoch = 0

    def do_join(self, names: list[str], options: dict[str, str]) -> None:
        for name in names:
            client = self.client(name)
            client.options |= {k: v for k, v in options.items() if k not in ONCE}
            request = JoinGroupRequest(
                client.group,
                int(client.option("session", "10000")),
                int(client.option("rebalance", "60000")),
                options.get("id", client.member_id),
                client.instance,
                client.option("type", "consumer"),
                protocols(client.option("protocols", "range:t"), client, options.get("owns")),
            )
            outcome = self.shard.join_group(
                request,
                version=int(client.option("version", "9")),
                client_id=name,
                client_host="/127.0.0.1",
                token=(name, "join"),
                now_ms=self.now_ms,
            )
            self.carry_out(outcome)

    def do_sync(self, names: list[str], options: dict[str, str]) -> None:
        for name in names:
            client = self.client(name)
            assignments = [
                SyncGroupRequestAssignment(self.client(to).member_id, self.assignment(what))
                for to, what in options.items()
            ]
            request = SyncGroupRequest(
                client.group,
                client.generation,
                client.member_id,
                client.instance,
                client.option("type", "consumer"),
                client.protocol or "range",
                assignments,
            )
            self.carry_out(
                self.shard.sync_group(request, version=5, token=(name, "sync"), now_ms=self.now_ms)
            )

    def assignment(self, what: str) -> bytes:
        """Plain words, or after `embedded:` the assignment of a real consumer's leader."""
        if not what.startswith("embedded:"):
            return what.encode()
        pairs = [name.rsplit("-", 1) for name in what.removeprefix("embedded:").split(",")]
        partitions = [(topic_id(topic), int(index)) for topic, index in pairs]
        return write_assignment(partitions, self.topics, 0)

    def do_heartbeat(self, names: list[str], options: dict[str, str]) -> None:
        for name in names:
            client = self.client(name)
            generation = int(options.get("generation", client.generation))
            request = HeartbeatRequest(client.group, generation, client.member_id, client.instance)
            token = (name, "heartbeat")
            self.carry_out(self.shard.heartbeat(request, token=token, now_ms=self.now_ms))

    def do_leave(self, names: list[str], options: dict[str, str]) -> None:
        members = [MemberIdentity(self.client(n).member_id, self.client(n).instance) for n in names]
        if "instance" in options:
            members.append(MemberIdentity("", options["instance"]))
        group = options.get("group") or (self.client(names[0]).group if names else "g")
        outcome = self.shard.leave_group(
            LeaveGroupRequest(group, members=members),
            version=5,
            token=(" ".join(names) or "admin", "leave"),
            now_ms=self.now_ms,
        )
        self.carry_out(outcome)

    def do_commit(self, names: list[str], options: dict[str, str]) -> None:
        client = self.client(names[0])
        generation = int(options.pop("generation", client.epoch or client.generation))
        metadata = options.pop("metadata", None)
        group = options.pop("group", client.group)
        topics: dict[str, OffsetCommitRequestTopic] = {}
        for name, offset in options.items():
            topic, index = name.rsplit("-", 1)
            partition = OffsetCommitRequestPartition(int(index), int(offset), -1, metadata)
            topics.setdefault(topic, OffsetCommitRequestTopic(topic)).partitions.append(partition)
        request = OffsetCommitRequest(
            group,
            generation,
            client.member_id if generation >= 0 else "",
            group_instance_id=client.instance if generation >= 0 else None,
            topics=list(topics.values()),
        )
        self.carry_out(
            self.shard.offset_commit(
                request, version=9, token=(client.name, "commit"), now_ms=self.now_ms
            )
        )

    def do_txn_commit(self, names: list[str], options: dict[str, str]) -> None:
        (name,) = names
        member = self.client(options.pop("member")) if "member" in options else None
        generation = -1 if member is None else member.generation
        generation = int(options.pop("generation", generation))
        group = options.pop("group", "g")
        metadata = options.pop("metadata", None)
        topics: dict[str, TxnOffsetCommitRequestTopic] = {}
        for place, offset in options.items():
            topic, index = place.rsplit("-", 1)
            partition = TxnOffsetCommitRequestPartition(int(index), int(offset), -1, metadata)
            asked = topics.setdefault(topic, TxnOffsetCommitRequestTopic(topic))
            asked.partitions.append(partition)
        request = TxnOffsetCommitRequest(
            "id-" + name,
            group,
            int(name[1:]),
            0,
            generation,
            "" if member is None else member.member_id,
            None if member is None else member.instance,
            list(topics.values()),
        )
        token = (name, "commit")
        self.carry_out(
            self.shard.txn_offset_commit(request, version=5, token=token, now_ms=self.now_ms)
        )

    def do_end(self, names: list[str], options: dict[str, str]) -> None:
        producer_id, commit = int(names[0][1:]), names[1] == "commit"
        self.shard.end_transaction(producer_id, commit=commit)
        self.log.append(lambda shard: shard.load_marker(producer_id, commit=commit))

    def do_fetch(self, names: list[str], options: dict[str, str]) -> None:
        group, *partitions = names
        topics = [
            OffsetFetchRequestTopics(name.rsplit("-", 1)[0], ZERO_UUID, [int(name.rsplit("-")[-1])])
            for name in partitions
        ]
        stable = options.get("stable") == "true"
        for topic in self.shard.offset_fetch(group, topics if partitions else None, stable=stable):
            for p in topic.partitions:
                extra = f" ({p.metadata})" if p.metadata else ""
                if p.error_code:
                    extra = f" {ErrorCode(p.error_code).name}"
                self.say(f"{topic.name}-{p.partition_index} {p.committed_offset}{extra}")

    def do_offsets_delete(self, names: list[str], options: dict[str, str]) -> None:
        group, *partitions = names
        topics = [
            OffsetDeleteRequestTopic(
                name.rsplit("-", 1)[0], [OffsetDeleteRequestPartition(int(name.rsplit("-")[-1]))]
            )
            for name in partitions
        ]
        request = OffsetDeleteRequest(group, topics)
        token = ("admin", "offsets-delete")
        self.carry_out(self.shard.offset_delete(request, token=token, now_ms=self.now_ms))

    def do_forget(self, names: list[str], options: dict[str, str]) -> None:
        self.carry_out(self.shard.forget_topic(names[0], ZERO_UUID, now_ms=self.now_ms))

    def do_delete(self, names: list[str], options: dict[str, str]) -> None:
        token = ("admin", "delete")
        self.carry_out(self.shard.delete_groups(names, token=token, now_ms=self.now_ms))

    def do_list(self, names: list[str], options: dict[str, str]) -> None:
        for group in self.shard.groups.values():
            shown = listed_group(group)
            kind = "" if shown.group_type == "classic" else f" ({shown.group_type})"
            line = f"{shown.group_id}: {shown.group_state} {shown.protocol_type}".rstrip()
            self.say(line + kind)

    def do_describe(self, names: list[str], options: dict[str, str]) -> None:
        for name in names:
            group = self.shard.groups.get(name)
            if isinstance(group, ConsumerGroup):
                self.describe_consumer(group)
                continue
            assert group is None or isinstance(group, ClassicGroup)
            shown = (
                describe_unknown_group(name, 6) if group is None else describe_classic_group(group)
            )
            code = "" if not shown.error_code else " " + ErrorCode(shown.error_code).name
            generation = "" if group is None else f" generation {group.generation}"
            self.say(
                f"{name}: {shown.group_state}{generation} {shown.protocol_data}{code}".rstrip()
            )
            for member in shown.members:
                instance = f" ({member.group_instance_id})" if member.group_instance_id else ""
                assignment = shown_assignment(member.member_assignment)
                self.say(f"  {member.member_id}{instance} {assignment}".rstrip())

    def describe_consumer(self, group: ConsumerGroup) -> None:
        shown = described_consumer(group, self.topics, "uniform")
        self.say(
            f"{group.group_id}: {shown.group_state} epoch {shown.group_epoch}"
            f" target {shown.assignment_epoch} {shown.assignor_name}"
        )
        for member in shown.members:
            instance = f" ({member.instance_id})" if member.instance_id else ""
            classic = "" if member.member_type == 1 else " classic"
            owns = " ".join(
                f"{assigned.topic_name}-{index}"
                for assigned in member.assignment.topic_partitions
                for index in assigned.partitions
            )
            epoch = f"epoch {member.member_epoch}"
            self.say(f"  {member.member_id}{instance}{classic} {epoch} {owns}".rstrip())

    # -- responses

    def carry_out(self, outcome: CoordinatorResult) -> None:
        replies = outcome.replies
        if outcome.records:
            if self.failure is not None:
                self.say(f"append failed: {self.failure.name}")
                replies = self.shard.failed(outcome, self.failure, now_ms=self.now_ms)
                self.failure = None
            else:
                self.store(outcome)
        for token, message in replies:
            self.tell(token, message)

    def store(self, outcome: CoordinatorResult) -> None:
        records = [Record(key=key, value=value) for key, value in outcome.records]
        producer_id = -1 if outcome.producer is None else outcome.producer[0]
        self.log.append(lambda shard: shard.load(records, producer_id))
        for key, value in outcome.records:
            line = shown_record(key, value)
            self.say(line if producer_id < 0 else f"p{producer_id} {line}")

    def tell(self, token: object, message: Message) -> None:
        assert isinstance(token, tuple)
        name, what = token
        self.say(f"{name} {what}: {self.shown(name, message)}")

    def shown(self, name: str, message: Message) -> str:
        match message:
            case ConsumerGroupHeartbeatResponse():
                return self.shown_beat(self.client(name), message)
            case JoinGroupResponse():
                return self.shown_join(self.client(name), message)
            case SyncGroupResponse(error_code=0):
                return f"NONE gets {self.assigned(message.assignment) or 'nothing'}"
            case LeaveGroupResponse(error_code=0):
                return " ".join(ErrorCode(member.error_code).name for member in message.members)
            case (
                OffsetCommitResponse()
                | TxnOffsetCommitResponse()
                | OffsetDeleteResponse(error_code=0)
            ):
                return " ".join(
                    f"{topic.name}-{part.partition_index} {ErrorCode(part.error_code).name}"
                    for topic in message.topics
                    for part in topic.partitions
                )
            case DeleteGroupsResponse():
                return " ".join(
                    f"{result.group_id} {ErrorCode(result.error_code).name}"
                    for result in message.results
                )
            case (
                HeartbeatResponse()
                | SyncGroupResponse()
                | LeaveGroupResponse()
                | OffsetDeleteResponse()
            ):
                return ErrorCode(message.error_code).name
        raise AssertionError(message)

    def assigned(self, data: bytes) -> str:
        """The assignment of the embedded protocol, or the words of a scenario's leader."""
        if data[:1] == b"\0":
            return ",".join(named(read_assignment(data, self.topics)))
        return data.decode()

    def shown_beat(self, client: Client, message: ConsumerGroupHeartbeatResponse) -> str:
        code = ErrorCode(message.error_code)
        if code is not ErrorCode.NONE:
            if code in (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID):
                client.epoch = 0
            return f"{code.name} {message.error_message or ''}".rstrip()
        if message.member_epoch < 0:
            client.epoch = 0
            return f"NONE epoch {message.member_epoch}"
        client.member_id, client.epoch = message.member_id, message.member_epoch
        if message.assignment is None:
            return f"NONE epoch {message.member_epoch}"
        client.owned = named(
            (assigned.topic_id, index)
            for assigned in message.assignment.topic_partitions
            for index in assigned.partitions
        )
        owns = " ".join(client.owned) or "nothing"
        return f"NONE {message.member_id} epoch {message.member_epoch} owns {owns}"

    def shown_join(self, client: Client, message: JoinGroupResponse) -> str:
        code = ErrorCode(message.error_code)
        if code is ErrorCode.MEMBER_ID_REQUIRED:
            client.member_id = message.member_id
            return f"{code.name} {message.member_id}"
        if code is not ErrorCode.NONE:
            if code is ErrorCode.UNKNOWN_MEMBER_ID:
                client.member_id = ""
            return code.name
        client.member_id = message.member_id
        client.generation = message.generation_id
        client.protocol = message.protocol_name
        line = f"NONE {message.member_id} generation {message.generation_id}"
        if message.protocol_name != "range":
            line += f" {message.protocol_name}"
        if message.leader == message.member_id:
            line += ", leads " + " ".join(member.member_id for member in message.members)
        else:
            line += f", follows {message.leader}"
        return line + (", skip assignment" if message.skip_assignment else "")


def replay(written: str) -> str:
    play = GroupTranscript()
    lines: list[str] = []
    for line in written.splitlines():
        if line.startswith(" "):
            continue  # its recorded results
        lines.append(line)
        if line and not line.startswith("#"):
            lines.extend(play.play(line))
    return "\n".join(lines) + "\n"
