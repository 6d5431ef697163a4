"""Applications on Spark, each test as much as fits: a query takes seconds to start."""

from __future__ import annotations

from typing import Any

import pytest
from running_streams import Mill, last

from ottla.streams import (
    Long,
    Processor,
    ProcessorContext,
    PunctuationType,
    Record,
    StoreKind,
    StoreSpec,
    String,
    TimeWindowed,
    Topology,
    Window,
    Windowed,
    tumbling,
    until_window_closes,
)
from ottla.streams.run.application import ApplicationState

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]


def words() -> Topology:
    """A stateless part, one behind a shuffle, and one behind a topic."""
    topology = Topology(key=String(), value=String())
    lines = topology.stream("lines")
    lines.filter(lambda line: line != "skip").map_values(str.upper).to("shouted")
    split = lines.flat_map_values(str.split)
    counts = split.group_by(lambda word: word, key=String()).count(store="counts")
    counts.to_stream().to("counted", value=Long())
    by_length = counts.group_by(
        lambda word, count: (str(len(word)), count), key=String(), value=Long()
    )
    by_length.reduce(lambda a, b: a + b, lambda a, b: a - b, store="lengths").to_stream().to(
        "lengths", value=Long()
    )
    return topology


def test_words_are_counted_once_across_a_restart_and_stores_can_be_queried(mill: Mill) -> None:
    mill.topics(lines=3, shouted=2, counted=2, lengths=1)
    states: list[Any] = []
    app = mill.application(words(), state_listener=lambda new, old: states.append((old, new)))
    mill.send("lines", [("1", "a bb a"), ("2", "skip"), ("3", "bb a ccc")])
    app.start()
    expected = {"a": 3, "bb": 2, "ccc": 1, "skip": 1}
    mill.received("counted", lambda found: last(found) == expected)
    shouted = mill.received("shouted", lambda found: len(found) >= 2)
    assert sorted(shouted) == [(b"1", b"A BB A"), (b"3", b"BB A CCC")]
    mill.received("lengths", lambda found: last(found) == {"1": 3, "2": 2, "3": 1, "4": 1})
    store = app.store("counts")
    store.refresh()
    assert store.get("bb") == 2
    assert [key for key, _ in store.range("a", "bb")] == ["a", "bb"]
    assert app.close()
    assert app.state is ApplicationState.NOT_RUNNING
    assert list(mill.state_dir.glob("app/*/checkpoint/metadata")), "where Ottla looks for it"
    assert states[0] == (ApplicationState.CREATED, ApplicationState.REBALANCING)
    assert (ApplicationState.REBALANCING, ApplicationState.RUNNING) in states

    mill.send("lines", [("4", "a dd")], at_ms=2000)
    again = mill.application(words())
    again.start()
    expected |= {"a": 4, "dd": 1}
    counted = mill.received("counted", lambda found: last(found) == expected)
    assert sum(1 for key, _ in counted if key == b"ccc") == 1, "nothing is written twice"
    mill.received("lengths", lambda found: last(found) == {"1": 4, "2": 3, "3": 1, "4": 1})
    names = {"app-counts-changelog", "app-lengths-repartition", "app-lengths-changelog"}
    with mill.cluster.admin() as admin:
        assert names <= set(admin.topics.names())
    assert again.close()
    with mill.cluster.admin() as admin:
        offsets = admin.groups.offsets("app")
    assert sum(offset.offset for place, offset in offsets.items() if place.topic == "lines") == 4


def shop() -> Topology:
    """Orders by customer: windows, a join with a table, one with a global table."""
    topology = Topology(key=String(), value=String())
    orders = topology.stream("orders")
    customers = topology.table("customers", store="customers")
    windows = orders.group_by_key().windowed_by(tumbling(seconds=10, grace=0))
    counts = windows.count(store="windows").suppress(until_window_closes())
    key = TimeWindowed(String(), 10_000)
    counts.to_stream().to("closed", key=key, value=Long())
    items = topology.global_table("items", key=String(), value=String())
    named = orders.join(customers, lambda order, customer: f"{order} for {customer}")
    named.join(items, lambda order, item: f"{order}: {item}", on=lambda text: text[0]).to("named")
    return topology


def test_windows_close_once_and_orders_meet_their_customers(mill: Mill) -> None:
    mill.topics(orders=2, customers=2, items=1, closed=1, named=1)
    mill.send("customers", [("ann", "Ann"), ("bob", "Bob")], at_ms=500)
    mill.send("items", [("a", "apple"), ("b", "bread")], at_ms=500)
    mill.send("orders", [("ann", "a"), ("ann", "b"), ("bob", "a"), ("cyd", "a")])
    mill.application(shop()).start()
    named = mill.received("named", lambda found: len(found) >= 3)
    expected = {(b"ann", b"a for Ann: apple"), (b"ann", b"b for Ann: bread")}
    assert set(named) == {*expected, (b"bob", b"a for Bob: apple")}
    mill.applications[0].close()
    again = mill.application(shop())
    again.start()
    late = [("ann", "b"), ("bob", "b"), ("cyd", "b")]
    mill.send("orders", late, at_ms=15_000)
    closed = mill.received("closed", lambda found: len(found) >= 3)
    key = TimeWindowed(String(), 10_000)
    windows = {key.deserialize("", found): int.from_bytes(count or b"") for found, count in closed}
    first = Window(0, 10_000)
    assert windows == {Windowed(who, first): n for who, n in (("ann", 2), ("bob", 1), ("cyd", 1))}
    store = again.store("windows")
    store.refresh()
    assert (10_000, 1) in store.fetch("ann", 0, 20_000)
    assert (10_000, (1, 15_000)) in store.timestamped.fetch("ann", 0, 20_000)
    assert again.store("customers").get("bob") == "Bob"


class Ticks(Processor[str, str]):
    """Emits the count of records by wall-clock time, under a name from a global table."""

    def init(self, context: ProcessorContext) -> None:
        super().init(context)
        self.seen = context.store("seen")
        self.names = context.store("names")
        context.schedule(500, PunctuationType.WALL_CLOCK_TIME, self.tick)

    def process(self, record: Record[str, str]) -> None:
        if record.value == "poison":
            raise ValueError("no poison")
        self.seen.put("records", (self.seen.get("records") or 0) + 1)

    def tick(self, now_ms: int) -> None:
        count = self.seen.get("records") or 0
        self.context.forward(Record(self.names.value("records"), count, now_ms))


def ticking() -> Topology:
    topology = Topology(key=String(), value=String())
    topology.global_table("names", store="names")
    topology.add_source("in", "words")
    topology.add_processor("ticks", Ticks, "in", stores=["names"])
    topology.add_store(StoreSpec("seen", StoreKind.KEY_VALUE, String(), Long()), "ticks")
    topology.add_sink("out", "ticks", "ticks", value=Long())
    return topology


def test_the_clock_ticks_without_records_and_a_bad_record_ends_the_application(mill: Mill) -> None:
    mill.topics(words=1, ticks=1, names=1)
    app = mill.application(ticking(), config={"commit.interval.ms": "200"})
    mill.send("names", [("records", "Records")])
    mill.send("words", [("k", "a"), ("k", "b")])
    app.start()
    ticks = mill.received("ticks", lambda found: len(found) >= 2)
    assert set(ticks) == {(b"Records", (2).to_bytes(8, "big"))}
    mill.send("names", [("records", "Changed")])
    mill.received("ticks", lambda found: (b"Changed", (2).to_bytes(8, "big")) in found)
    mill.send("words", [("k", "poison")])
    assert app.wait(timeout_s=240) is ApplicationState.ERROR
    assert "ValueError: no poison" in str(app.error)
    assert "taskId=1_0" in str(app.error), "the global table is number 0"


def numbers() -> Topology:
    topology = Topology(key=String())
    numbers = topology.stream("numbers", value=Long())
    numbers.map_values(lambda number: 10 // number, value=Long()).to("tenths")
    return topology


def test_failed_records_go_to_the_dead_letter_topic(mill: Mill) -> None:
    mill.topics(numbers=1, tenths=1, letters=1)
    config = {
        "deserialization.exception.handler": "continue",
        "processing.exception.handler": "continue",
        "errors.dead.letter.queue.topic.name": "letters",
    }
    app = mill.application(numbers(), config=config)
    five, zero = (5).to_bytes(8, "big"), bytes(8)
    mill.send("numbers", [("a", five), ("b", b"no number"), ("c", zero), ("d", five)])
    app.start()
    found = mill.received("tenths", lambda found: len(found) >= 2)
    assert found == [(b"a", (2).to_bytes(8, "big")), (b"d", (2).to_bytes(8, "big"))]
    letters = mill.received("letters", lambda found: len(found) >= 2)
    assert letters == [(b"b", b"no number"), (b"c", zero)]
