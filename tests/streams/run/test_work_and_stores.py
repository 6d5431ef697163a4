"""Processing where records are read, global tables, and interactive queries, without Spark."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ottla.client import Producer
from ottla.client.protocol.range_fetcher import OffsetRange
from ottla.engine.labels import labels
from ottla.engine.packed_rows import unpack_input_rows
from ottla.engine.subtopologies import subtopologies
from ottla.engine.subtopology_processor import subtopology_processor
from ottla.engine.task_plan import TaskPlan
from ottla.queries import group_progress as progress
from ottla.queries.cluster import KafkaCluster
from ottla.spark.chunk_processor import packed, pickled, process_chunks
from ottla.spark.chunks import Chunk, close_cached_clients, read_chunks
from ottla.spark.options import read_options
from ottla.streams import StoreKind, StoreSpec, StreamsError, String, Topology
from ottla.streams.run.read_only_store import InvalidStateStore, ReadOnlyStore
from ottla.testing import LocalCluster


@pytest.fixture
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster() as made:
        yield made
        close_cached_clients()


def send(cluster: LocalCluster, topic: str, *pairs: tuple[str, str | None]) -> None:
    with Producer(cluster.bootstrap_servers, key=str, value=str) as producer:
        for number, (key, value) in enumerate(pairs):
            producer.send(topic, value, key=key, timestamp_ms=1000 + number)


def chunks(cluster: LocalCluster, topic: str, count: int) -> Iterator[Chunk]:
    given = {
        "kafka.bootstrap.servers": cluster.bootstrap_servers,
        "subscribe": topic,
        "includeHeaders": "true",
    }
    return read_chunks(read_options(given, streaming=True), [OffsetRange(topic, 0, 0, count)])


def planned(cluster: LocalCluster, topology: Topology, tasks: int) -> TaskPlan:
    (piece,) = subtopologies(topology.graph)
    names = tuple(labels(tasks, 2))
    return TaskPlan(piece, "app", tasks, cluster.bootstrap_servers, names)


def test_rekeyed_rows_go_to_the_task_of_their_new_key(
    cluster: LocalCluster,
) -> None:
    cluster.create_topic("lines")
    send(cluster, "lines", ("1", "a b a"), ("2", "b"))
    topology = Topology(key=String(), value=String())
    split = topology.stream("lines").flat_map_values(str.split)
    split.group_by(lambda word: word, key=String()).count()
    plan = planned(cluster, topology, 4)
    found = [
        (number % 4, row)
        for number, cell in subtopology_processor(plan, pickled(plan))(chunks(cluster, "lines", 2))
        for row in unpack_input_rows(cell)
    ]
    assert len({number for number, row in found if row.key == b"a"}) == 1
    in_order = sorted((row.offset, row.turn, row.key) for _, row in found)
    assert in_order == [(0, 0, b"a"), (0, 1, b"b"), (0, 2, b"a"), (1, 0, b"b")]
    assert {row.origin for _, row in found} == {"lines"}


def test_stateless_work_uses_the_current_global_table(
    cluster: LocalCluster,
) -> None:
    for topic in ("orders", "items"):
        cluster.create_topic(topic)
    send(cluster, "items", ("a", "apple"), ("b", "bread"))
    send(cluster, "orders", ("1", "a"), ("2", "b"))
    topology = Topology(key=String(), value=String())
    items = topology.global_table("items")
    orders = topology.stream("orders")
    orders.join(items, lambda order, item: item, on=lambda order: order).to("named")
    plan = planned(cluster, topology, 1)
    done = subtopology_processor(plan, pickled(plan))

    def values() -> list[bytes]:
        import pyarrow as pa

        cells = [cell for _, cell in done(chunks(cluster, "orders", 2))]
        return [
            value
            for cell in cells
            for value in pa.ipc.open_stream(cell).read_all().column("value").to_pylist()
        ]

    position = b"0 2"  # its position, for the topic of its tasks
    assert values() == [b"apple", b"bread", position]
    send(cluster, "items", ("a", "apricot"), ("b", None))
    assert values() == [b"apricot", position]
    send(cluster, "items", ("a", None))
    assert values() == [], "without output no position is committed"


def test_a_failure_in_a_worker_is_reported_and_leaves_no_state(cluster: LocalCluster) -> None:
    cluster.create_topic("orders")
    send(cluster, "orders", ("1", "good"), ("2", "bad"))
    topology = Topology(key=String(), value=String())
    topology.stream("orders").map_values(lambda text: {"good": "fine"}[text]).to("out")
    plan = planned(cluster, topology, 1)
    text = packed(lambda: subtopology_processor(plan, pickled(plan)))
    with pytest.raises(StreamsError, match=r"taskId=0_0.*offset=1.*KeyError: 'bad'"):
        list(process_chunks(text, chunks(cluster, "orders", 2), None))


def test_a_store_is_queried_from_its_changelog(cluster: LocalCluster) -> None:
    cluster.create_topic("app-names-changelog")
    send(cluster, "app-names-changelog", ("1", "one"), ("2", "two"))
    spec = StoreSpec("names", StoreKind.TIMESTAMPED_KEY_VALUE, String(), String())
    store = ReadOnlyStore(spec, "app-names-changelog", cluster.bootstrap_servers, {})
    assert store.get("1") == "one"
    assert store.timestamped.get("1") == ("one", 1000)
    assert list(store.all()) == [("1", "one"), ("2", "two")]
    assert [found.timestamp for _, found in store.timestamped.all()] == [1000, 1001]
    send(cluster, "app-names-changelog", ("1", None), ("3", "three"))
    store.refresh()
    assert [key for key, _ in store.range("1", "3")] == ["2", "3"]
    with pytest.raises(AttributeError, match="no put"):
        store.put("4", "four")
    with pytest.raises(AttributeError, match="no put"):
        store.timestamped.put("4", "four")
    store.close()
    with pytest.raises(InvalidStateStore, match="closed"):
        store.get("1")


def test_offsets_of_other_clients_are_requests_and_our_own_are_not(cluster: LocalCluster) -> None:
    cluster.create_topic("orders", 2)
    brokers = KafkaCluster(cluster.bootstrap_servers, {})
    assert progress.read_progress(brokers, "app") == progress.GroupProgress()
    progress.commit_progress(brokers, "app", {"orders": {"0": 7}})
    assert progress.read_progress(brokers, "app").reported == {"orders": {"0": 7}}
    with cluster.admin() as admin:
        (place,) = admin.groups.offsets("app")
        admin.groups.alter_offsets("app", {place: 3})
    assert progress.read_progress(brokers, "app") == progress.GroupProgress({"orders": {"0": 3}})
