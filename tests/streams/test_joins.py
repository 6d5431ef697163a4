"""Joins: their errors, their names, and what distinguishes two joins."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from kafka_topologies import TOPOLOGIES
from kafka_topologies import topology as kafka_topology
from streams_kit import strings

from ottla.engine.cells import DictCells
from ottla.engine.foreign_key_join import (
    Instruction,
    SubscriptionResponseWrapper,
    SubscriptionResponseWrapperSerde,
    SubscriptionWrapper,
    SubscriptionWrapperSerde,
)
from ottla.engine.records import InputRow, OutputRow
from ottla.engine.subtopologies import subtopologies
from ottla.engine.task import StreamTask
from ottla.streams import (
    Json,
    String,
    Topology,
    TopologyError,
    TopologyTestDriver,
    tumbling,
    within,
)


def plus(left: Any, right: Any) -> str:
    return f"{left}+{right}"


def played(topology: Topology, records: list[tuple[str, Any, Any, int]]) -> list[tuple[Any, Any]]:
    with TopologyTestDriver(topology) as driver:
        for topic, *record in records:
            driver.create_input_topic(topic, String(), String()).pipe_input(*record)
        return driver.create_output_topic("out", String(), String()).read_key_values_to_list()


def test_a_joiner_may_ask_for_the_key() -> None:
    topology = strings()
    one, two = topology.stream("a"), topology.stream("b")
    one.join(two, lambda key, left, right: f"{key}:{left}+{right}", within(5)).to("out")
    assert played(topology, [("a", "k", "1", 0), ("b", "k", "2", 3)]) == [("k", "k:1+2")]


def test_a_join_without_its_requirements_is_refused() -> None:
    topology = strings()
    stream, table = topology.stream("a"), topology.table("b")
    everywhere = topology.global_table("c")
    with pytest.raises(TopologyError, match="needs windows"):
        stream.join(topology.stream("d"), plus)
    with pytest.raises(TopologyError, match="needs `on`"):
        stream.join(everywhere, plus)
    with pytest.raises(TopologyError, match="with a table has no `windows`"):
        stream.join(table, plus, within(5))
    with pytest.raises(TopologyError, match="with a global table has no `store`"):
        stream.join(everywhere, plus, on=lambda value: value, store="name")


def test_given_names_become_names_of_nodes_stores_and_topics() -> None:
    topology = strings()
    left = topology.stream("a").select_key(lambda value: value)
    left.left_join(topology.stream("b"), plus, within(5), name="both", store="pairs").to("out")
    text = topology.describe()
    for word in (
        "both-left-repartition",
        "both-this-windowed (stores: [pairs-this-join-store])",
        "both-outer-other-join",
        "pairs-left-shared-join-store",
        "both-merge",
    ):
        assert word in text


def test_a_rekeyed_stream_is_repartitioned_before_a_join() -> None:
    topology = strings()
    orders = topology.stream("orders").select_key(lambda value: value.split()[0])
    orders.join(topology.table("people"), plus).to("out")
    records = [
        ("people", "ann", "Ann", 0),
        ("orders", "1", "ann tea", 1),
        ("orders", "2", "bob", 2),
    ]
    assert played(topology, records) == [("ann", "ann tea+Ann")]


def test_a_record_without_key_or_value_is_skipped() -> None:
    topology = strings()
    topology.stream("a").join(topology.table("b"), plus).to("out")
    records = [("b", "k", "1", 0), ("a", None, "x", 1), ("a", "k", None, 2), ("a", "k", "x", 3)]
    assert played(topology, records) == [("k", "x+1")]


def test_windowed_tables_are_joined_by_key_and_window() -> None:
    topology = strings()
    tables = [
        topology.stream(name).group_by_key().windowed_by(tumbling(10)).count() for name in "ab"
    ]
    joined = tables[0].join(tables[1], plus)
    joined.to_stream().map(lambda key, value: (f"{key.key}@{key.window.start}", value)).to("out")
    records = [("a", "k", "", 1), ("b", "k", "", 11), ("b", "k", "", 12), ("a", "k", "", 15)]
    assert played(topology, records) == [("k@10", "1+2")]


def test_two_rekeyed_streams_of_a_cogroup_have_separate_topics() -> None:
    topology = strings()
    first, second = (topology.stream(name).group_by(lambda value: "all") for name in "ab")
    both = first.cogroup(lambda key, value, all: all + value)
    both.cogroup(second, lambda key, value, all: all + value.upper()).aggregate(str).to_stream().to(
        "out"
    )
    records = [("a", "1", "x", 0), ("b", "1", "y", 1), ("a", "1", "z", 2)]
    assert [value for _, value in played(topology, records)] == ["x", "xY", "xYz"]


class Tasks:
    """The sub-topologies of a topology, run one by one: what is sent waits for the test."""

    def __init__(self, topology: Topology) -> None:
        self._pieces = [
            StreamTask(piece, 0, lambda _: DictCells(), self, partitions_of=lambda _: 1)
            for piece in subtopologies(topology.graph)
        ]

    def now_ms(self) -> int:
        return 0

    def send(self, topic: str, key: bytes, value: bytes | None) -> list[OutputRow]:
        row = InputRow(topic, 0, 0, 0, key, value)
        for task in self._pieces:
            if task.reads(topic):
                return task.process([row]) + task.commit()
        raise KeyError(topic)

    def forward(self, row: OutputRow) -> list[OutputRow]:
        return self.send(row.topic, row.key or b"", row.value)


def test_a_response_to_an_outdated_left_value_is_dropped() -> None:
    """The response's hash is not that of the current value."""
    topology = strings()
    orders, people = topology.table("orders"), topology.table("people")
    orders.join(people, plus, foreign_key=lambda order: order.split()[0]).to_stream().to("out")
    tasks = Tasks(topology)
    tasks.send("people", b"ann", b"Ann")
    (first,) = tasks.send("orders", b"1", b"ann tea")
    (second,) = tasks.send("orders", b"1", b"ann milk")
    (late,), (answer,) = tasks.forward(first), tasks.forward(second)
    assert tasks.forward(late) == []
    (found,) = tasks.forward(answer)
    assert (found.topic, found.value) == ("out", b"ann milk+Ann")
    assert answer.partition == 0  # the partition of the order, not that of its key


@pytest.mark.parametrize("digest", [None, b"0123456789abcdef"])
def test_subscription_records_have_kafkas_layout(digest: bytes | None) -> None:
    asked = SubscriptionWrapper(digest, Instruction.DELETE_KEY_AND_PROPAGATE, {"id": 1}, 7)
    data = SubscriptionWrapperSerde(Json()).serialize("", asked)
    assert data is not None
    assert data[:2] == bytes((0x81 if digest is None else 0x01, 1))
    assert SubscriptionWrapperSerde(Json()).deserialize("", data) == asked
    for value in ("right", "", None):
        response = SubscriptionResponseWrapper(digest, value)
        serde = SubscriptionResponseWrapperSerde(String())
        assert serde.deserialize("", serde.serialize("", response)) == response


@pytest.mark.parametrize("name", TOPOLOGIES)
def test_a_worker_gets_no_reference_to_the_topology(name: str) -> None:
    cloudpickle = pytest.importorskip("pyspark.cloudpickle")
    pieces = subtopologies(kafka_topology(name).graph)
    data = cloudpickle.dumps(pieces)
    assert b"Builder" not in data
    assert [copied.number for copied in pickle.loads(data)] == [piece.number for piece in pieces]
