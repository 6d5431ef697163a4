"""An application with nearly the whole DSL, its input, and the expected output.

One TopologyTestDriver for each partition gives the expected output, because a task on Spark has
its own stream time, too. Each phase of the input is one batch on Spark, and records are processed
in the order of `in_record_order`, there and here.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from ottla.engine.record_order import in_record_order
from ottla.engine.records import InputRow
from ottla.rows.java.murmur2 import partition_of
from ottla.streams import (
    KStream,
    Long,
    Processor,
    ProcessorContext,
    PunctuationType,
    Record,
    SessionWindowed,
    StoreKind,
    StoreSpec,
    String,
    TimeWindowed,
    Topology,
    TopologyTestDriver,
    hopping,
    session,
    sliding,
    tumbling,
    until_window_closes,
    within,
)

PARTITIONS = 2
INPUTS = ("orders", "payments", "people", "accounts", "cities")
SEQUENCES = (
    *("inner", "left", "outer", "sessions", "slides", "hops", "closed", "both", "both-by-minute"),
    *("merged", "balances", "named", "told"),
)
"""Every record counts, in its order for each key."""
FINAL = ("housed", "homeless", "alive")
"""Only the last value of each key is the same in every run."""
NEAR = within(seconds=3, grace=1000)

Row = tuple[str, str, str | None, int]
"""Topic, key, value, time."""
Outputs = dict[str, dict[bytes, list[bytes | None]]]


class Teller(Processor[str, str]):
    """Sums the orders of each key; emits the sums every five seconds of stream time, and the count
    of orders by wall-clock time."""

    def init(self, context: ProcessorContext) -> None:
        super().init(context)
        self.sums = context.store("sums")
        context.schedule(5000, PunctuationType.STREAM_TIME, self.tell)
        context.schedule(200, PunctuationType.WALL_CLOCK_TIME, self.tick)

    def process(self, record: Record[str, str]) -> None:
        for name in (record.key, ":all"):
            self.sums.put(name, (self.sums.get(name) or 0) + 1)

    def tell(self, now_ms: int) -> None:
        for name, count in self.sums.range("a", "z"):
            self.context.forward(Record(name, f"{count} at {now_ms}", now_ms), "told")

    def tick(self, now_ms: int) -> None:
        count = self.sums.get(":all") or 0
        self.context.forward(Record(self.context.task_id, f"{count}", 0), "alive")


def plus(left: Any, right: Any) -> str:
    return f"{left}+{right}"


def bazaar() -> Topology:
    topology = Topology(key=String(), value=String())
    orders, payments = topology.stream("orders"), topology.stream("payments")
    people = topology.table("people", store="people")
    orders.join(payments, plus, NEAR).to("inner")
    orders.left_join(payments, plus, NEAR).to("left")
    orders.outer_join(payments, plus, NEAR).to("outer")
    orders.left_join(people, plus).to("named")
    windows(orders)
    cogroups(orders, payments)
    branches(orders)
    people.outer_join(topology.table("accounts"), plus).to_stream().to("balances")
    cities = topology.table("cities")
    people.join(cities, plus, foreign_key=city_of).to_stream().to("housed")
    people.left_join(cities, plus, foreign_key=city_of).to_stream().to("homeless")
    topology.add_processor("teller", Teller, "KSTREAM-SOURCE-0000000000")
    topology.add_store(StoreSpec("sums", StoreKind.KEY_VALUE, String(), Long()), "teller")
    topology.add_sink("told", "told", "teller")
    topology.add_sink("alive", "alive", "teller")
    return topology


def city_of(person: str) -> str:
    return person[-1]


def windows(orders: KStream[str, str]) -> None:
    grouped = orders.group_by_key()
    counts = grouped.windowed_by(session(seconds=3, grace=2000)).count()
    counts.to_stream().to("sessions", key=SessionWindowed(String()), value=Long())
    slides = grouped.windowed_by(sliding(seconds=4, grace=2000)).reduce(plus)
    slides.to_stream().to("slides", key=TimeWindowed(String(), 4000))
    hops = grouped.windowed_by(hopping(seconds=6, advance=2000, grace=0)).count(store="hops")
    hops.to_stream().to("hops", key=TimeWindowed(String(), 6000), value=Long())
    closed = grouped.windowed_by(tumbling(seconds=5, grace=1000)).count(store="by-five-seconds")
    closed.suppress(until_window_closes()).to_stream().to(
        "closed", key=TimeWindowed(String(), 5000), value=Long()
    )


def cogroups(orders: KStream[str, str], payments: KStream[str, str]) -> None:
    both = orders.group_by_key().cogroup(lambda key, order, all: (all + order)[-40:])
    both = both.cogroup(payments.group_by_key(), lambda key, paid, all: (all + paid.upper())[-40:])
    both.aggregate(str, value=String()).to_stream().to("both")
    by_minute = both.windowed_by(tumbling(minutes=1)).aggregate(str, value=String())
    by_minute.to_stream().to("both-by-minute", key=TimeWindowed(String(), 60_000))


def branches(orders: KStream[str, str]) -> None:
    split = orders.split(name="by-").branch(lambda order: order < "o5", name="small")
    parts = split.default_branch(name="large")
    large = parts["by-large"].map_values(str.upper)
    parts["by-small"].merge(large).to("merged")


def phase(number: int, count: int = 60) -> list[Row]:
    """Records of some minutes, some late, in the order in which they are sent. The last ones are
    far behind the others in time: windows of all keys are closed. No two phases leave anybody with
    the same name in the same city, so that old values are not mistaken for the last ones."""
    dice = random.Random(f"bazaar {number}")
    now = (number + 1) * 600_000
    rows: list[Row] = []
    for _ in range(count):
        now += dice.randrange(0, 1500)
        key = dice.choice("abcdef")
        what = dice.choice(("orders", "orders", "payments", "people", "accounts", "cities"))
        late_ms = dice.choice((0, 0, 0, 1500, 9000))
        rows.append(_row(dice, what, key, now - late_ms))
    for key in "abcdef":
        now += 20_000
        rows += [("orders", key, "o0", now), ("payments", key, "p0", now + 1)]
        rows.append(("people", key, f"{key} in phase {number}, {dice.choice('XYZ')}", now + 2))
    return rows + [("cities", city, f"{city} in phase {number}", now // 1000) for city in "XYZ"]


def _row(dice: random.Random, what: str, key: str, time_ms: int) -> Row:
    digit = dice.randrange(10)
    if what in ("orders", "payments"):
        return what, key, f"{what[0]}{digit}", time_ms
    gone = dice.random() < 0.2
    if what == "cities":
        # So old that what comes back from their sub-topology, sooner or later, moves no time on.
        return what, dice.choice("XYZ"), None if gone else f"city {digit}", time_ms // 1000
    return what, key, None if gone else f"{key}{digit}{dice.choice('XYZ')}", time_ms


def partition(key: str) -> int:
    return partition_of(key.encode(), PARTITIONS)


def expected(phases: Sequence[list[Row]]) -> Outputs:
    found: Outputs = {topic: defaultdict(list) for topic in (*SEQUENCES, *FINAL)}
    for number in range(PARTITIONS):
        with TopologyTestDriver(bazaar(), application_id="bazaar", caching=False) as driver:
            topics = {topic: driver.create_output_topic(topic) for topic in found}
            for rows in phases:
                for row in _taken(rows, number):
                    driver.pipe(row.topic, row.key, row.value, row.timestamp)
            driver.advance_wall_clock_time(1000)
            for name, topic in topics.items():
                for key, value in topic.read_key_values_to_list():
                    found[name][key.replace(b"0_0", b"0_%d" % number)].append(value)
    return {topic: dict(table) for topic, table in found.items()}


def _taken(rows: Iterable[Row], number: int) -> list[InputRow]:
    """As the task of a partition takes them. Cities come to everybody, by their foreign keys."""
    offsets: dict[str, int] = defaultdict(int)
    inputs = []
    for topic, key, value, time_ms in rows:
        if topic == "cities" or partition(key) == number:
            offset = offsets[topic]
            offsets[topic] += 1
            data = None if value is None else value.encode()
            inputs.append(InputRow(topic, 0, offset, time_ms, key.encode(), data))
    return in_record_order(inputs)


def same(found: Outputs, wanted: Outputs) -> list[str]:
    """The topics that differ."""
    wrong = [topic for topic in SEQUENCES if found[topic] != wanted[topic]]
    return wrong + [topic for topic in FINAL if _last(found[topic]) != _last(wanted[topic])]


def _last(topic: dict[bytes, list[bytes | None]]) -> dict[bytes, bytes]:
    """A key whose last value is null may never have been emitted."""
    last = {key: values[-1] for key, values in topic.items()}
    return {key: value for key, value in last.items() if value is not None}
