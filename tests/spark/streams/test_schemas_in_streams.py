"""Avro, JsonSchema and Protobuf as serdes of a topology, by a registry that is really there."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from ottla.client import SchemaRegistry
from ottla.spark.streams import (
    Avro,
    Bytes,
    JsonSchema,
    Long,
    Protobuf,
    Serde,
    StreamsError,
    String,
    Topology,
    TopologyTestDriver,
    dead_letters,
    log_and_continue,
    session,
    tumbling,
    until_window_closes,
    within,
)
from ottla.testing import LocalCluster


@dataclass
class Order:
    customer: str
    total: int


@dataclass
class Customer:
    name: str


@dataclass
class Sum:
    total: int = 0
    count: int = 0


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with LocalCluster(registry=True) as cluster:
        yield cluster.registry_url


@pytest.fixture
def subjects(url: str) -> Iterator[SchemaRegistry]:
    registry = SchemaRegistry(url)
    yield registry
    registry.close()


def totals(name: str, key: Serde[Any], order: Serde[Any], summed: Serde[Any]) -> Topology:
    """A key that is new, so a repartition topic, and a store with a changelog."""
    topology = Topology()
    (
        topology.stream(f"{name}-orders", key=String(), value=order)
        .group_by(lambda _, order: Customer(order.customer), key=key)
        .aggregate(
            Sum,
            lambda _, order, sum: Sum(sum.total + order.total, sum.count + 1),
            value=summed,
            store="totals",
        )
        .to_stream()
        .to(f"{name}-by-customer", key=key, value=summed)
    )
    return topology


@pytest.mark.parametrize("of", [Avro, JsonSchema, Protobuf])
@pytest.mark.parametrize("place", ["prefix", "header"])
def test_topics_and_stores_have_schemas(
    of: Any, place: str, url: str, subjects: SchemaRegistry
) -> None:
    settings = {"key.schema.id.serializer": place, "value.schema.id.serializer": place}
    key = of(Customer, registry=url, settings=settings)
    order = of(Order, registry=url, settings=settings)
    summed = of(Sum, registry=url, settings=settings)
    name = f"{of.__name__}-{place}".lower()
    topology = totals(name, key, order, summed)
    with TopologyTestDriver(topology, application_id=name) as driver:
        orders = driver.create_input_topic(f"{name}-orders", String(), order)
        out = driver.create_output_topic(f"{name}-by-customer", key, summed)
        orders.pipe_input("1", Order("ann", 5))
        orders.pipe_input("2", Order("bob", 7))
        orders.pipe_input("3", Order("ann", 2))
        assert out.read_key_values_to_list() == [
            (Customer("ann"), Sum(5, 1)),
            (Customer("bob"), Sum(7, 1)),
            (Customer("ann"), Sum(7, 2)),
        ]
        assert driver.get_key_value_store("totals").get(Customer("ann")) == Sum(7, 2)
        driver.restart()
        orders.pipe_input("4", Order("ann", 1))
        assert out.read_value() == Sum(8, 3)
        in_header = {
            header
            for pairs in driver.produced_record_headers(f"{name}-by-customer")
            for header, _ in pairs
        }
    both = {"__key_schema_id", "__value_schema_id"}
    assert in_header == (both if place == "header" else set())
    found = subjects.subjects()
    topics = ("totals-changelog", "by-customer")
    expected = {f"{name}-{topic}-{side}" for topic in topics for side in ("key", "value")}
    assert expected | {f"{name}-orders-value"} <= set(found)
    repartition = [each for each in found if each.startswith(name) and "repartition" in each]
    assert sorted(each.rpartition("-")[2] for each in repartition) == ["key", "value"]


def test_a_windowed_key_has_its_schema_in_front(url: str) -> None:
    key, value = Avro(Customer, registry=url), Avro(Order, registry=url)
    topology = Topology()
    (
        topology.stream("in", key=key, value=value)
        .group_by_key()
        .windowed_by(tumbling(10))
        .count(store="counts")
    )
    with TopologyTestDriver(topology) as driver:
        driver.create_input_topic("in", key, value).pipe_input(Customer("ann"), Order("ann", 1), 3)
        store = driver.get_window_store("counts")
        assert [each.value for _, each in store.fetch(Customer("ann"), 0, 10)] == [1]


@pytest.mark.parametrize("place", ["prefix", "header"])
def test_joins_sessions_and_suppression_take_such_serdes(place: str, url: str) -> None:
    settings = {f"{side}.schema.id.serializer": place for side in ("key", "value")}

    def avro(of: Any) -> Avro[Any]:
        return Avro(of, registry=url, settings=settings)

    key, order, summed = avro(Customer), avro(Order), avro(Sum)
    topology = Topology()
    orders = topology.table("t.orders", key=String(), value=order, store="orders")
    people = topology.table("t.people", key=key, value=summed, store="people")
    orders.join(
        people,
        lambda order, person: Sum(order.total, person.count),
        foreign_key=lambda order: Customer(order.customer),
        value=summed,
        store="joined",
    ).to_stream().to("t.joined", key=String(), value=summed)
    left = topology.stream("t.left", key=key, value=order)
    right = topology.stream("t.right", key=key, value=order)
    pair = left.join(right, lambda a, b: Order(a.customer, a.total + b.total), within(5))
    pair.to("t.pairs", key=key, value=order)
    sessions = left.group_by_key().windowed_by(session(3, grace=0))
    sessions.reduce(lambda a, b: Order(a.customer, a.total + b.total)).suppress(
        until_window_closes()
    ).to_stream().select_key(lambda window, _: window.key).to("t.sessions", key=key, value=order)
    with TopologyTestDriver(topology, application_id=f"joins-{place}") as driver:
        driver.create_input_topic("t.people", key, summed).pipe_input(Customer("ann"), Sum(0, 9))
        driver.create_input_topic("t.orders", String(), order).pipe_input("1", Order("ann", 5))
        joined = driver.create_output_topic("t.joined", String(), summed)
        assert joined.read_key_values_to_list() == [("1", Sum(5, 9))]
        one = driver.create_input_topic("t.left", key, order)
        one.pipe_input(Customer("ann"), Order("ann", 1), 10)
        one.pipe_input(Customer("ann"), Order("ann", 2), 12)
        driver.create_input_topic("t.right", key, order).pipe_input(
            Customer("ann"), Order("ann", 4), 16
        )
        pairs = driver.create_output_topic("t.pairs", key, order)
        assert pairs.read_key_values_to_list() == [(Customer("ann"), Order("ann", 6))]
        one.pipe_input(Customer("ann"), Order("ann", 8), 30)
        closed = driver.create_output_topic("t.sessions", key, order)
        assert closed.read_key_values_to_list() == [(Customer("ann"), Order("ann", 3))]


def unreadable() -> Topology:
    topology = Topology(key=String())
    topology.stream("in", value=Avro(Order, registry="http://127.0.0.1:9")).to("out")
    return topology


def test_a_record_that_cant_be_read_says_where_it_is_and_by_which_schema(url: str) -> None:
    value = Avro(Order, registry=url)
    good = value.serialize("broken", Order("ann", 1))
    assert good is not None
    topology = Topology(key=String(), value=value)
    topology.stream("broken").map_values(lambda order: order.total).to("out", value=Long())
    with TopologyTestDriver(topology) as driver:
        topic = driver.create_input_topic("broken", String(), Bytes())
        with pytest.raises(StreamsError, match="topic=broken, partition=0, offset=0") as error:
            topic.pipe_input("k", good[:-1])
        assert "schema id" in str(error.value.__cause__)
    with TopologyTestDriver(topology, on_failure=dead_letters("letters")) as driver:
        topic = driver.create_input_topic("broken", String(), Bytes())
        letters = driver.create_output_topic("letters", String(), Bytes())
        out = driver.create_output_topic("out", String(), Long())
        topic.pipe_input("k", good[:-1])
        topic.pipe_input("k", b"no frame")
        topic.pipe_input("k", good)
        assert out.read_values_to_list() == [1]
        letter = letters.read_record()
        assert letter.value == good[:-1]
        message = dict(letter.headers)["__streams.errors.message"]
        assert message is not None
        assert b"schema id" in message
        assert letters.read_value() == b"no frame"


def test_a_registry_that_does_not_answer_is_no_reason_to_leave_records_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ottla.client.schema_registry.RETRY_S", 0.0)
    with TopologyTestDriver(unreadable(), on_failure=log_and_continue) as driver:
        topic = driver.create_input_topic("in", String(), Bytes())
        with pytest.raises(StreamsError) as error:
            topic.pipe_input("k", b"\0\0\0\0\1xx")
        assert "No schema registry answers" in str(error.value.__cause__)


def test_a_serde_travels_to_workers(url: str) -> None:
    serde = Avro(Order, registry=url)
    data = serde.serialize("travel", Order("ann", 1))
    again = pickle.loads(pickle.dumps(serde))
    assert again.deserialize("travel", data) == Order("ann", 1)
