"""An application that has lost its state directory: restored from its topics, or told of it."""

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
from ottla.engine.packed_rows import input_rows
from ottla.engine.restore import Topics, position_rows
from ottla.engine.task_host import TaskHost
from ottla.engine.task_plan import TaskPlan
from ottla.queries import group_progress as progress
from ottla.queries.application_topics import Piece, prepare
from ottla.queries.cluster import Cluster
from ottla.queries.starting_positions import Start, StartingPositions
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


def topics(plan: TaskPlan) -> Topics:
    return Topics(plan.subtopology, "app", plan.servers, {})


def batch(plan: TaskPlan, home: TaskHost, number: int, *words: str, at: int = 0) -> dict[str, int]:
    """The output of batch `at`; what is for internal topics is there."""
    return written(plan, home.run(plan.folder, at, number, [input_rows(rows_in(*words))]))


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
def test_a_task_that_has_no_state_is_restored_from_topics(
    cluster: LocalCluster, tmp_path: Path, named: bool
) -> None:
    plan = planned(cluster, tmp_path / "first", named=named)
    assert topics(plan).kept().positions == {}
    assert batch(plan, TaskHost(plan), 0, "a", "b", "a") == {"a": 2, "b": 1}
    assert batch(plan, TaskHost(plan), 1, "a") == {"a": 1}
    kept = topics(plan).kept()
    assert kept.positions == {"words": {"0": 3}}
    plan = replace(plan, restored=kept.ends, folder=str(tmp_path / "second"))
    home = TaskHost(plan)
    assert batch(plan, home, 0, "a") == {"a": 3}
    assert batch(plan, home, 0, "a") == {"a": 3}, "the first try does not count"
    assert batch(plan, TaskHost(plan), 0, "b", at=1) == {"b": 2}, "its files have it"
    assert batch(plan, home, 1, "a") == {"a": 2}
    assert batch(plan, home, 2, "a") == {"a": 1}


def test_what_the_last_checkpoint_says_of_its_place_counts(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    plan = planned(cluster, tmp_path, named=True)
    batch(plan, TaskHost(plan), 0, "a", "b", "a")
    later = replace(plan, first=2)  # somebody has set it back
    batch(later, TaskHost(later), 1, "a")
    assert topics(plan).kept().positions == {"words": {"0": 1}}


def prepared(cluster: LocalCluster) -> tuple[list[Piece], Cluster]:
    topology = Topology(key=String(), value=String())
    topology.stream("words").group_by_key().count(store="counts")
    brokers = Cluster(cluster.bootstrap_servers, {})
    return prepare(topology.graph, "app", brokers), brokers


def test_where_it_begins_is_found_once_and_fences_who_was_before(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    cluster.create_topic("words", 2)
    (piece,), brokers = prepared(cluster)
    here = StartingPositions("app", brokers, tmp_path / "here", settings_of({}))
    nothing = progress.Committed()
    here.check([piece], nothing)
    first = here.of(piece, nothing)
    assert (first.offsets, first.first) == ({"words": {"0": 0, "1": 0}}, 1)
    assert here.of(piece, progress.Committed({"words": {"0": 5}})) == first
    elsewhere = StartingPositions("app", brokers, tmp_path / "elsewhere", settings_of({}))
    second = elsewhere.of(piece, progress.Committed({"words": {"1": 7}}))
    assert second.offsets == {"words": {"0": 0, "1": 7}}, "as the reset tool says"
    assert second.first > first.first


def test_a_wish_is_fulfilled_once(cluster: LocalCluster, tmp_path: Path) -> None:
    """Each time it dies before it has told how far it is, and its state is lost."""
    cluster.create_topic("words", 2)
    (piece,), brokers = prepared(cluster)
    piece = replace(piece, kept=True)

    def begun() -> tuple[int, int]:
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        beginning = StartingPositions("app", brokers, folder, settings_of({}))
        start = beginning.of(piece, progress.committed(brokers, "app"))
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
    assert offset == 3, "nothing was done yet"
    done(first, 13)
    assert begun()[1] == 13, "behind that one nobody begins there again"
    with cluster.admin() as admin:
        admin.groups.alter_offsets("app", {TopicPartition("words", 0): 5})
    assert begun()[1] == 5, "this is another wish"


def test_a_wish_is_taken_once_by_who_begins_again_in_the_same_process(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    """As for a thread that is replaced: the group has heard of the application since."""
    cluster.create_topic("words", 2)
    (piece,), brokers = prepared(cluster)
    with cluster.admin() as admin:
        admin.groups.alter_offsets("app", {TopicPartition("words", 0): 3})
    beginning = StartingPositions("app", brokers, tmp_path, settings_of({}))
    at_the_start = progress.committed(brokers, "app")
    start = beginning.of(piece, at_the_start)
    assert progress.committed(brokers, "app").taken == {"words": {"0": start.first}}
    progress.tell(brokers, "app", {"words": {"0": 50, "1": 7}})
    assert beginning.of(piece, at_the_start) == start
    now = progress.committed(brokers, "app")
    assert (now.wished, now.told) == ({}, {"words": {"0": 50, "1": 7}})


def test_nothing_begins_beside_others_of_its_group(cluster: LocalCluster, tmp_path: Path) -> None:
    """As an application of Kafka's Streams that is still running."""
    cluster.create_topic("words", 1)
    (piece,), brokers = prepared(cluster)
    member = GroupMember(
        cluster.bootstrap_servers, "app", protocol_type="consumer", protocol="range"
    )
    joined = member.join(b"")
    member.sync({joined.member_id: b""})
    member.commit({TopicPartition("words", 0): 3})
    beginning = StartingPositions("app", brokers, tmp_path, settings_of({}))
    with pytest.raises(StreamsError, match="Group app has members"):
        beginning.of(piece, progress.committed(brokers, "app"))
    member.commit({TopicPartition("words", 0): 100})
    member.leave()
    member.close()
    start = beginning.of(piece, progress.committed(brokers, "app"))
    assert start.offsets == {"words": {"0": 100}}, "where they are when they are gone"


def test_who_begins_anew_counts_above_all_who_told_before(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    """At least once counts from the clock: what is told exactly once behind it must not be less."""
    cluster.create_topic("words", 1)
    prepared(cluster)
    (piece,), brokers = prepared(cluster)

    def begun(guarantee: str) -> Start:
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        settings = settings_of({"processing.guarantee": guarantee})
        beginning = StartingPositions("app", brokers, folder, settings)
        return beginning.of(piece, progress.committed(brokers, "app"))

    def done(start: Start, offset: int) -> None:
        with Producer(cluster.bootstrap_servers) as producer:
            topic, place = "app-tasks-0-changelog", {("words", 0): offset}
            for row in position_rows(topic, place, start.first, 0, 0):
                producer.send(row.topic, row.value, key=row.key, partition=row.partition)

    done(begun("at_least_once"), 5)
    exactly = begun("exactly_once_v2")
    assert exactly.offsets == {"words": {"0": 5}}
    done(exactly, 9)
    assert begun("exactly_once_v2").offsets == {"words": {"0": 9}}, "and nothing is read again"


def test_it_goes_on_behind_what_is_done_as_far_as_that_is_sure(
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
    told = progress.Committed(told={"words": {"0": 7, "1": 5}})

    def offsets(**config: str) -> dict[str, int]:
        settings = settings_of({name.replace("_", "."): value for name, value in config.items()})
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        return StartingPositions("app", brokers, folder, settings).of(piece, told).offsets["words"]

    assert offsets() == {"0": 9, "1": 5, "2": 0}
    assert offsets(processing_guarantee="at_least_once") == {"0": 7, "1": 5, "2": 0}
    with cluster.admin() as admin:
        admin.offsets.delete_before({TopicPartition("words", 0): 1})
    told.told["words"]["0"] = 0
    assert offsets(processing_guarantee="at_least_once")["0"] == 1, "the topic begins there now"


def test_a_state_that_is_gone_is_told_of_before_anything_is_done_again(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    cluster.create_topic("words", 2)
    (piece,), brokers = prepared(cluster)
    progress.tell(brokers, "app", {"words": {"0": 7}})
    told = progress.committed(brokers, "app")
    beginning = StartingPositions("app", brokers, tmp_path, settings_of({}))
    with pytest.raises(StreamsError, match=r"--state-dir.*reset --application-id app --input-topi"):
        beginning.check([piece], told)
    beginning.check([piece], progress.Committed({"words": {"0": 0}}))
    (kept,), _ = prepared(cluster)
    beginning.check([kept], told)  # nothing had come of what was read: its topics are there
    assert beginning.of(kept, told).offsets == {"words": {"0": 7, "1": 0}}
    beginning.check([piece], told)
