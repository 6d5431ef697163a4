"""Avro, JsonSchema and Protobuf as serdes of a topology, with a real registry."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from ottla.client import Producer, SchemaRegistry
from ottla.engine.global_tables import global_store, refresh_global_tables
from ottla.streams import (
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
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(registry=True) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def url(cluster: LocalCluster) -> str:
    return cluster.registry_url


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
    repartition = [
        subject for subject in found if subject.startswith(name) and "repartition" in subject
    ]
    assert sorted(subject.rpartition("-")[2] for subject in repartition) == ["key", "value"]


def test_a_windowed_key_starts_with_its_schema(url: str) -> None:
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
        assert [value.value for _, value in store.fetch(Customer("ann"), 0, 10)] == [1]


@pytest.mark.parametrize("place", ["prefix", "header"])
def test_joins_sessions_and_suppression_work_with_registry_serdes(place: str, url: str) -> None:
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


@pytest.mark.parametrize("of", [Avro, Protobuf])
def test_a_global_table_takes_schema_ids_from_headers(of: Any, cluster: LocalCluster) -> None:
    """On Spark its cells are the bytes of the topic, without headers."""
    topic = f"global-{of.__name__}".lower()
    cluster.create_topic(topic)
    settings = {
        "schema.registry.url": cluster.registry_url,
        "value.schema.id.serializer": "header",
    }
    servers = cluster.bootstrap_servers
    with Producer(servers, key=str, value=of(Order), settings=settings) as producer:
        producer.send(topic, Order("ann", 5), key="a").result()
    topology = Topology(key=String(), value=of(Order))
    topology.global_table(topic, store="orders")
    table = topology.graph.configured(settings).globals["orders"]
    refresh_global_tables([table], servers, {})
    store: Any = global_store(table, servers, {})
    assert store.get("a").value == Order("ann", 5)


def unreadable() -> Topology:
    topology = Topology(key=String())
    topology.stream(
        "in", value=Avro(Order, registry=SchemaRegistry("http://127.0.0.1:9", tries_max=1))
    ).to("out")
    return topology


def test_an_unreadable_record_is_reported_with_its_offset_and_schema(url: str) -> None:
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


def test_an_unavailable_registry_skips_no_record() -> None:
    with TopologyTestDriver(unreadable(), on_failure=log_and_continue) as driver:
        topic = driver.create_input_topic("in", String(), Bytes())
        with pytest.raises(StreamsError) as error:
            topic.pipe_input("k", b"\0\0\0\0\1xx")
        assert "No schema registry answers" in str(error.value.__cause__)


def test_a_serde_can_be_pickled(url: str) -> None:
    serde = Avro(Order, registry=url)
    data = serde.serialize("travel", Order("ann", 1))
    again = pickle.loads(pickle.dumps(serde))
    assert again.deserialize("travel", data) == Order("ann", 1)


def every_place(name: str, key: Serde[Any], order: Serde[Any], summed: Serde[Any]) -> Topology:
    """Serdes in sources, sinks, repartition topics, stores of all kinds, joins, suppression."""
    topology = Topology(key=key, value=order)
    stream = topology.stream(f"{name}.orders")
    totals = stream.group_by(lambda _, order: Customer(order.customer)).aggregate(
        Sum,
        lambda _, order, sum: Sum(sum.total + order.total, sum.count + 1),
        value=summed,
        store=f"{name}.totals",
    )
    totals.to_stream().to(f"{name}.by-customer", value=summed)
    stream.left_join(
        topology.stream(f"{name}.right"),
        lambda a, b: Order(a.customer, b.total if b else 0),
        within(5),
    ).to(f"{name}.pairs")
    grouped = stream.group_by_key()
    windows = grouped.windowed_by(tumbling(10, grace=0)).reduce(lambda a, b: b)
    windows.suppress(until_window_closes()).to_stream().select_key(lambda window, _: window.key).to(
        f"{name}.windows"
    )
    grouped.windowed_by(session(3)).reduce(lambda a, b: b, store=f"{name}.sessions")
    people = topology.table(f"{name}.people", value=summed, store=f"{name}.known")
    topology.table(f"{name}.open", store=f"{name}.open").join(
        people,
        lambda order, person: Order(order.customer, person.total),
        foreign_key=lambda order: Customer(order.customer),
        store=f"{name}.joined",
    ).to_stream().to(f"{name}.named")
    known = topology.global_table(f"{name}.global", value=summed)
    stream.join(
        known, lambda order, sum: Order(order.customer, sum.total), on=lambda key, _: key
    ).to(f"{name}.with-global")
    return topology


@pytest.mark.parametrize("of", [Avro, JsonSchema, Protobuf])
def test_settings_of_the_application_reach_its_serdes(of: Any, url: str) -> None:
    key, order, summed = of(Customer), of(Order), of(Sum)
    config = {"schema.registry.url": url, "application.id": "unused"}
    ann = Customer("ann")
    name = f"every-{of.__name__}".lower()
    topology = every_place(name, key, order, summed)
    with TopologyTestDriver(topology, application_id=name, config=config) as driver:
        driver.create_input_topic(f"{name}.global", key, summed).pipe_input(ann, Sum(40, 1))
        driver.create_input_topic(f"{name}.people", key, summed).pipe_input(ann, Sum(50, 1))
        driver.create_input_topic(f"{name}.open", key, order).pipe_input(ann, Order("ann", 1))
        orders = driver.create_input_topic(f"{name}.orders", key, order)
        orders.pipe_input(ann, Order("ann", 5), 1)
        orders.pipe_input(ann, Order("ann", 6), 30)

        def values(topic: str, value: Serde[Any]) -> list[Any]:
            return driver.create_output_topic(topic, key, value).read_values_to_list()

        assert values(f"{name}.by-customer", summed) == [Sum(5, 1), Sum(11, 2)]
        assert values(f"{name}.pairs", order) == [Order("ann", 0)]
        assert values(f"{name}.windows", order) == [Order("ann", 5)]
        assert values(f"{name}.named", order) == [Order("ann", 50)]
        assert values(f"{name}.with-global", order) == [Order("ann", 40)] * 2
        assert driver.get_key_value_store(f"{name}.totals").get(ann) == Sum(11, 2)
        found = driver.get_session_store(f"{name}.sessions").fetch(ann)
        assert [value for _, value in found] == [Order("ann", 5), Order("ann", 6)]


def test_the_registry_of_a_serde_wins_without_the_applications_login(url: str) -> None:
    value = Avro(Order, registry=url)
    config = {
        "schema.registry.url": "http://127.0.0.1:9",
        "basic.auth.user.info": "ann:secret",
        "basic.auth.credentials.source": "USER_INFO",
        "use.latest.version": "true",
        "latest.compatibility.strict": "false",
    }
    topology = Topology(key=String(), value=value)
    topology.stream("own").to("own-out")
    value.serialize("own", Order("ann", 1))
    value.serialize("own-out", Order("ann", 1))
    with TopologyTestDriver(topology, config=config) as driver:
        driver.create_input_topic("own", String(), value).pipe_input("k", Order("ann", 1))
        assert driver.create_output_topic("own-out", String(), value).read_value() == Order(
            "ann", 1
        )
    configured = value.configured(config, is_key=False)
    assert not [name for name in configured._given if "auth" in name]
    assert configured._given["use.latest.version"] == "true"
    same = {**config, "schema.registry.url": f"{url}/"}
    assert value.configured(same, is_key=False)._given["basic.auth.user.info"] == "ann:secret"


def test_the_broker_login_can_serve_the_registry() -> None:
    jaas = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    config = {
        "schema.registry.url": "http://127.0.0.1:9",
        "basic.auth.credentials.source": "SASL_INHERIT",
        "sasl.jaas.config": f'{jaas} username="ann" password="secret";',
        "bootstrap.servers": "unused",
    }
    serde = Avro(Order).configured(config, is_key=False)
    authorization = serde._registry._rest._authorization
    assert authorization is not None
    assert authorization() == "Basic YW5uOnNlY3JldA=="


def total(order: Any) -> int:
    return int(order["total"])  # Protobuf's int64 is an int here; JSON's may be a float


def generic_topology(name: str, of: Any) -> Topology:
    """No class anywhere: records carry their schemas through all operations."""
    topology = Topology(key=String(), value=of())
    orders = topology.stream(f"{name}.orders")
    by_customer = orders.group_by(lambda _, order: order["customer"])
    by_customer.reduce(
        lambda a, b: b | {"total": total(a) + total(b)}, store=f"{name}.sums"
    ).to_stream().to(f"{name}.sums")
    by_customer.aggregate(
        lambda: None,  # type: ignore[return-value]
        lambda _, order, most: order if most is None or total(order) > total(most) else most,
        store=f"{name}.most",
    ).group_by(lambda _, order: ("all", order)).reduce(
        lambda a, b: b, subtractor=lambda a, b: a, store=f"{name}.last"
    ).to_stream().to(f"{name}.last")
    orders.repartition(name=f"{name}.again").filter(lambda _, order: total(order) > 5).to(
        f"{name}.large"
    )
    people = topology.table(f"{name}.people", store=f"{name}.people")
    orders.select_key(lambda _, order: order["customer"]).join(
        people, lambda order, person: order | {"total": total(person)}
    ).to(f"{name}.with-people")
    rekeyed = orders.select_key(lambda _, order: order["customer"])
    rekeyed.left_join(
        topology.stream(f"{name}.right"), lambda a, b: a if b is None else b, within(5, grace=0)
    ).to(f"{name}.pairs")
    topology.table(f"{name}.open", store=f"{name}.open").join(
        people,
        lambda order, person: order | {"total": total(person)},
        foreign_key=lambda order: order["customer"],
        store=f"{name}.joined",
    ).to_stream().to(f"{name}.named")
    return topology


@pytest.mark.parametrize("of", [Avro, JsonSchema, Protobuf])
def test_records_without_a_class_go_through_every_internal_topic(
    of: Any, url: str, subjects: SchemaRegistry
) -> None:
    name = f"generic-{of.__name__}".lower()
    config = {"schema.registry.url": url}
    topology = generic_topology(name, of)
    with TopologyTestDriver(topology, application_id=name, config=config) as driver:

        def pipe(topic: str, key: str, value: Order, time_ms: int = 0) -> None:
            driver.create_input_topic(f"{name}.{topic}", String(), of(Order)).pipe_input(
                key, value, time_ms
            )

        def read(topic: str) -> list[tuple[str, Order]]:
            topic = f"{name}.{topic}"
            return driver.create_output_topic(topic, String(), of(Order)).read_key_values_to_list()

        pipe("people", "ann", Order("ann", 90))
        pipe("open", "o1", Order("ann", 1))
        pipe("orders", "1", Order("ann", 5))
        pipe("right", "ann", Order("right", 8), 2)
        driver.restart()
        pipe("orders", "2", Order("ann", 7), 20)
        pipe("orders", "3", Order("bob", 1), 60)
        assert read("sums") == [
            ("ann", Order("ann", 5)),
            ("ann", Order("ann", 12)),
            ("bob", Order("bob", 1)),
        ]
        assert read("last")[-1] == ("all", Order("bob", 1))
        assert read("large") == [("2", Order("ann", 7))]
        assert read("with-people") == [("ann", Order("ann", 90))] * 2
        assert read("pairs") == [("ann", Order("right", 8)), ("ann", Order("ann", 7))]
        assert read("named") == [("o1", Order("ann", 90))]
        assert driver.get_key_value_store(f"{name}.sums").get("ann")["total"] == 12
    found = subjects.subjects(name)
    schemas = {subjects.version(subject).text for subject in found if subject.endswith("-value")}
    assert len(schemas) == 1
    internal = [subject for subject in found if "repartition" in subject or "changelog" in subject]
    assert len(internal) > 5
