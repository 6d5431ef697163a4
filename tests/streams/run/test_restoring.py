"""An application without its state directory: restored from its topics, or an error."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from streams_by_hand import counted, rows_in

from ottla.client import Producer
from ottla.client.group_member import GroupMember
from ottla.client.record import TopicPartition
from ottla.engine.packed_rows import pack_input_rows
from ottla.engine.restore import ChangelogReader, position_rows
from ottla.engine.task_host import TaskHost
from ottla.engine.task_plan import TaskPlan
from ottla.queries import group_progress as progress
from ottla.queries.application_topics import PreparedSubtopology, prepare_application_topics
from ottla.queries.cluster import KafkaCluster
from ottla.queries.starting_positions import StartingPositions, SubtopologyStart
from ottla.streams import StreamsError, String, Topology
from ottla.streams.run.settings import settings_of
from ottla.testing import LocalCluster


@pytest.fixture
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(config={"auto.create.topics.enable": "false"}) as made:
        yield made


def planned(cluster: LocalCluster, folder: Path, *, named: bool) -> TaskPlan:
    plan = replace(counted(), folder=str(folder), servers=cluster.bootstrap_servers, first=1)
    stores = plan.subtopology.stores
    stores["counts"] = replace(stores["counts"], changelog=named)
    for topic in ("app-tasks-0-changelog", *(["app-counts-changelog"] if named else [])):
        cluster.create_topic(topic, 4)
    return plan


def topics(plan: TaskPlan) -> ChangelogReader:
    return ChangelogReader(plan.subtopology, "app", plan.servers, {})


def batch(plan: TaskPlan, home: TaskHost, number: int, *words: str, at: int = 0) -> dict[str, int]:
    """The output of batch `at`; rows for internal topics are written."""
    return written(plan, home.run(plan.folder, at, number, [pack_input_rows(rows_in(*words))]))


def written(plan: TaskPlan, cells: list[bytes]) -> dict[str, int]:
    counts: dict[str, int] = {}
    with Producer(plan.servers) as producer:
        for cell in cells:
            for row in pa.ipc.open_stream(cell).read_all().to_pylist():
                if row["topic"] == "counts":
                    counts[row["key"].decode()] = int.from_bytes(row["value"], "big")
                    continue
                producer.send(
                    row["topic"],
                    row["value"],
                    key=row["key"],
                    partition=row["partition"],
                    timestamp_ms=row["timestamp"],
                )
    return counts


@pytest.mark.parametrize("named", [True, False], ids=["with a changelog", "without a name"])
def test_a_task_without_state_is_restored_from_topics(
    cluster: LocalCluster, tmp_path: Path, named: bool
) -> None:
    plan = planned(cluster, tmp_path / "first", named=named)
    assert topics(plan).restore_point().positions == {}
    assert batch(plan, TaskHost(plan), 0, "a", "b", "a") == {"a": 2, "b": 1}
    assert batch(plan, TaskHost(plan), 1, "a") == {"a": 1}
    kept = topics(plan).restore_point()
    assert kept.positions == {"words": {"0": 3}}
    plan = replace(plan, restored=kept.ends, folder=str(tmp_path / "second"))
    home = TaskHost(plan)
    assert batch(plan, home, 0, "a") == {"a": 3}
    assert batch(plan, home, 0, "a") == {"a": 3}, "the uncommitted first attempt does not count"
    assert batch(plan, TaskHost(plan), 0, "b", at=1) == {"b": 2}, "its files have it"
    assert batch(plan, home, 1, "a") == {"a": 2}
    assert batch(plan, home, 2, "a") == {"a": 1}


def test_the_position_of_the_newest_checkpoint_wins(cluster: LocalCluster, tmp_path: Path) -> None:
    plan = planned(cluster, tmp_path, named=True)
    batch(plan, TaskHost(plan), 0, "a", "b", "a")
    later = replace(plan, first=2)  # set back by an administrator
    batch(later, TaskHost(later), 1, "a")
    assert topics(plan).restore_point().positions == {"words": {"0": 1}}


def prepared(cluster: LocalCluster) -> tuple[list[PreparedSubtopology], KafkaCluster]:
    topology = Topology(key=String(), value=String())
    topology.stream("words").group_by_key().count(store="counts")
    brokers = KafkaCluster(cluster.bootstrap_servers, {})
    return prepare_application_topics(topology.graph, "app", brokers), brokers


def test_a_start_is_decided_once_and_fences_earlier_runs(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    cluster.create_topic("words", 2)
    (piece,), brokers = prepared(cluster)
    here = StartingPositions("app", brokers, tmp_path / "here", settings_of({}))
    nothing = progress.GroupProgress()
    here.check([piece], nothing)
    first = here.of(piece, nothing)
    assert (first.offsets, first.first) == ({"words": {"0": 0, "1": 0}}, 1)
    assert here.of(piece, progress.GroupProgress({"words": {"0": 5}})) == first
    elsewhere = StartingPositions("app", brokers, tmp_path / "elsewhere", settings_of({}))
    second = elsewhere.of(piece, progress.GroupProgress({"words": {"1": 7}}))
    assert second.offsets == {"words": {"0": 0, "1": 7}}, "as the reset tool says"
    assert second.first > first.first


def test_a_requested_offset_is_used_once(cluster: LocalCluster, tmp_path: Path) -> None:
    """Each time it dies before it commits its progress, and its state is lost."""
    cluster.create_topic("words", 2)
    (piece,), brokers = prepared(cluster)
    piece = replace(piece, has_changelog=True)

    def begun() -> tuple[int, int]:
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        beginning = StartingPositions("app", brokers, folder, settings_of({}))
        start = beginning.of(piece, progress.read_progress(brokers, "app"))
        return start.first, start.offsets["words"]["0"]

    def done(first: int, offset: int) -> None:
        with Producer(cluster.bootstrap_servers) as producer:
            for row in position_rows("app-tasks-0-changelog", {("words", 0): offset}, first, 0, 0):
                producer.send(row.topic, row.value, key=row.key, partition=row.partition)

    first, offset = begun()
    assert offset == 0
    done(first, 100)
    with cluster.admin() as admin:  # as kafka-streams-application-reset does
        admin.groups.alter_offsets("app", {TopicPartition("words", 0): 3})
    assert begun()[1] == 3
    first, offset = begun()
    assert offset == 3, "nothing was processed yet"
    done(first, 13)
    assert begun()[1] == 13, "after that run the offset is not used again"
    with cluster.admin() as admin:
        admin.groups.alter_offsets("app", {TopicPartition("words", 0): 5})
    assert begun()[1] == 5, "a new request"


def test_a_restart_in_the_same_process_claims_a_requested_offset_once(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    """As for a replaced thread: the application has committed to the group since."""
    cluster.create_topic("words", 2)
    (piece,), brokers = prepared(cluster)
    with cluster.admin() as admin:
        admin.groups.alter_offsets("app", {TopicPartition("words", 0): 3})
    beginning = StartingPositions("app", brokers, tmp_path, settings_of({}))
    at_the_start = progress.read_progress(brokers, "app")
    start = beginning.of(piece, at_the_start)
    assert progress.read_progress(brokers, "app").claimed == {"words": {"0": start.first}}
    progress.commit_progress(brokers, "app", {"words": {"0": 50, "1": 7}})
    assert beginning.of(piece, at_the_start) == start
    now = progress.read_progress(brokers, "app")
    assert (now.requested, now.reported) == ({}, {"words": {"0": 50, "1": 7}})


def test_an_application_does_not_start_beside_members_of_its_group(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    """Such as a Kafka Streams application that is still running."""
    cluster.create_topic("words", 1)
    (piece,), brokers = prepared(cluster)
    member = GroupMember(
        cluster.bootstrap_servers, "app", protocol_type="consumer", protocol="range"
    )
    joined = member.join(b"")
    member.sync({joined.member_id: b""})
    member.commit({TopicPartition("words", 0): 3})
    beginning = StartingPositions("app", brokers, tmp_path, settings_of({}))
    with pytest.raises(StreamsError, match="Group app has active members"):
        beginning.of(piece, progress.read_progress(brokers, "app"))
    member.commit({TopicPartition("words", 0): 100})
    member.leave()
    member.close()
    start = beginning.of(piece, progress.read_progress(brokers, "app"))
    assert start.offsets == {"words": {"0": 100}}, (
        "the committed offset, even if the records are deleted"
    )


def test_a_new_generation_has_larger_numbers_than_all_before(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    """At-least-once numbers come from the clock: exactly-once ones after them must be larger."""
    cluster.create_topic("words", 1)
    prepared(cluster)
    (piece,), brokers = prepared(cluster)

    def begun(guarantee: str) -> SubtopologyStart:
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        settings = settings_of({"processing.guarantee": guarantee})
        beginning = StartingPositions("app", brokers, folder, settings)
        return beginning.of(piece, progress.read_progress(brokers, "app"))

    def done(start: SubtopologyStart, offset: int) -> None:
        with Producer(cluster.bootstrap_servers) as producer:
            topic, place = "app-tasks-0-changelog", {("words", 0): offset}
            for row in position_rows(topic, place, start.first, 0, 0):
                producer.send(row.topic, row.value, key=row.key, partition=row.partition)

    done(begun("at_least_once"), 5)
    exactly = begun("exactly_once_v2")
    assert exactly.offsets == {"words": {"0": 5}}
    done(exactly, 9)
    assert begun("exactly_once_v2").offsets == {"words": {"0": 9}}, "and nothing is read again"


def test_an_application_continues_after_the_last_certain_position(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    cluster.create_topic("words", 3)
    prepared(cluster)
    with Producer(cluster.bootstrap_servers) as producer:
        for place, offset in ((0, 9), (1, 3)):
            producer.send("words", b"a", partition=place)
            for row in position_rows("app-tasks-0-changelog", {("words", place): offset}, 1, 0, 0):
                producer.send(row.topic, row.value, key=row.key, partition=row.partition)
    (piece,), brokers = prepared(cluster)
    committed = progress.GroupProgress(reported={"words": {"0": 7, "1": 5}})

    def offsets(**config: str) -> dict[str, int]:
        settings = settings_of({name.replace("_", "."): value for name, value in config.items()})
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        return (
            StartingPositions("app", brokers, folder, settings)
            .of(piece, committed)
            .offsets["words"]
        )

    assert offsets() == {"0": 9, "1": 5, "2": 0}
    assert offsets(processing_guarantee="at_least_once") == {"0": 7, "1": 5, "2": 0}
    with cluster.admin() as admin:
        admin.offsets.delete_before({TopicPartition("words", 0): 1})
    committed.reported["words"]["0"] = 0
    assert offsets(processing_guarantee="at_least_once")["0"] == 1, "the topic begins there now"


def test_lost_state_is_reported_before_anything_runs_again(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    cluster.create_topic("words", 2)
    (piece,), brokers = prepared(cluster)
    progress.commit_progress(brokers, "app", {"words": {"0": 7}})
    result = progress.read_progress(brokers, "app")
    beginning = StartingPositions("app", brokers, tmp_path, settings_of({}))
    with pytest.raises(StreamsError, match=r"--state-dir.*reset --application-id app --input-topi"):
        beginning.check([piece], result)
    beginning.check([piece], progress.GroupProgress({"words": {"0": 0}}))
    (kept,), _ = prepared(cluster)
    beginning.check([kept], result)  # the records read had no output yet: the topics exist
    assert beginning.of(kept, result).offsets == {"words": {"0": 7, "1": 0}}
    beginning.check([piece], result)
