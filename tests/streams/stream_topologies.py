"""The topologies of tools/clients/kafka-streams/StreamTopologies.java, by the same names."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

from transcripts import Row

from ottla.streams import (
    KGroupedTable,
    KStream,
    KTable,
    Processor,
    ProcessorContext,
    PunctuationType,
    Record,
    StoreKind,
    StoreSpec,
    String,
    Topology,
)

Strings = KStream[str, str]
Build = Callable[[Topology], None]
ALL: dict[str, Build] = {}
DESCRIPTIONS = Path(__file__).parent / "descriptions.txt"
BOTH = ("merge", "named")
"""Those that read the topic `right`, too."""


def named(name: str) -> Callable[[Build], Build]:
    def keep(build: Build) -> Build:
        ALL[name] = build
        return build

    return keep


def built(name: str) -> Topology:
    topology = Topology(key=String(), value=String())
    ALL[name](topology)
    return topology


def descriptions() -> dict[str, str]:
    """Kafka's description of each."""
    found: dict[str, str] = {}
    for part in DESCRIPTIONS.read_text().split("= ")[1:]:
        name, _, text = part.partition("\n")
        found[name] = text
    return found


def random_rows(name: str, seed: int, count: int) -> Iterator[Row]:
    """Records for it, of which some are late, deletions, or without a key; "~" is null."""
    dice = random.Random(f"{name} {seed}")
    now = 0
    for _ in range(count):
        now = max(0, now + dice.randint(-3, 6))
        topic = dice.choice(("left", "left", "right")) if name in BOTH else "left"
        key = dice.choice("abc~" if dice.random() < 0.1 else "abc")
        yield topic, key, dice.choice(("a1", "a2", "b1", "b2", "z", "~")), now


def left(topology: Topology) -> Strings:
    return topology.stream("left")


def right(topology: Topology) -> Strings:
    return topology.stream("right")


def first(topology: Topology, **more: Any) -> KTable[str, str]:
    return topology.table("left", **more)


def out(stream: KStream[Any, Any]) -> None:
    stream.to("out", key=String(), value=String())


def counts(table: KTable[Any, int]) -> None:
    out(table.to_stream().map_values(text))


def text(value: Any) -> str:
    """None as Java writes it."""
    return "null" if value is None else str(value)


def tail(words: str) -> str:
    return words[-60:]


# -- without state


@named("filter")
def _(t: Topology) -> None:
    out(left(t).filter(lambda v: v is not None).filter_not(lambda v: v.startswith("z")))


@named("map")
def _(t: Topology) -> None:
    out(left(t).map(lambda k, v: (text(v), text(k))))


@named("flat-map")
def _(t: Topology) -> None:
    out(left(t).flat_map(lambda k, v: [(k, v), ("x", k)]))


@named("flat-map-values")
def _(t: Topology) -> None:
    out(left(t).flat_map_values(lambda v: [v, v, None]))


@named("select-key")
def _(t: Topology) -> None:
    out(left(t).select_key(lambda v: v))


@named("merge")
def _(t: Topology) -> None:
    out(left(t).map_values(lambda v: text(v) + "l").merge(right(t)).peek(lambda v: None))


@named("order")
def _(t: Topology) -> None:
    stream = left(t)
    stream.to("out")
    out(stream.map_values(lambda v: text(v) + "1"))
    out(stream.filter(lambda v: True))


@named("branch")
def _(t: Topology) -> None:
    branches = (
        left(t)
        .split(name="by-")
        .branch(lambda k, v: k == "a", name="a")
        .branch(
            lambda k, v: v is not None, lambda branch: out(branch.map_values(lambda v: v + "!"))
        )
        .default_branch(lambda branch: branch.map_values(lambda v: "none"), name="rest")
    )
    out(branches["by-a"].map_values(lambda v: "A" + text(v)))
    out(branches["by-rest"])


@named("repartition")
def _(t: Topology) -> None:
    out(left(t).repartition())


@named("repartition-named")
def _(t: Topology) -> None:
    out(left(t).select_key(lambda v: v).repartition(name="mine", partitions=1))


@named("same-topic")
def _(t: Topology) -> None:
    out(left(t).map_values(lambda v: text(v) + "1"))
    out(left(t).map_values(lambda v: text(v) + "2"))


# -- tables


@named("table")
def _(t: Topology) -> None:
    out(first(t).to_stream())


@named("table-store")
def _(t: Topology) -> None:
    out(first(t, store="kept").to_stream())


@named("table-filter")
def _(t: Topology) -> None:
    out(first(t).filter(lambda v: v.startswith("b")).to_stream())


@named("table-filter-store")
def _(t: Topology) -> None:
    out(first(t, store="kept").filter(lambda v: v.startswith("b")).to_stream())


@named("table-filter-own-store")
def _(t: Topology) -> None:
    out(first(t).filter_not(lambda v: v.startswith("b"), store="kept").to_stream())


@named("table-map-values")
def _(t: Topology) -> None:
    out(first(t).map_values(lambda k, v: k + v).to_stream())


@named("table-map-values-store")
def _(t: Topology) -> None:
    mapped = first(t).map_values(lambda v: None if v == "z" else v, store="kept")
    out(mapped.to_stream())


@named("table-chain")
def _(t: Topology) -> None:
    twice = first(t).map_values(lambda v: v + v)
    out(twice.filter(lambda v: v.startswith("b")).map_values(lambda v: v[1:]).to_stream())


@named("to-table")
def _(t: Topology) -> None:
    out(left(t).to_table().to_stream())


@named("to-table-rekeyed")
def _(t: Topology) -> None:
    out(left(t).select_key(lambda v: v).to_table().to_stream())


@named("to-table-store")
def _(t: Topology) -> None:
    out(left(t).to_table(store="kept").filter(lambda v: v.startswith("b")).to_stream())


# -- aggregates


@named("count")
def _(t: Topology) -> None:
    counts(left(t).group_by_key().count())


@named("count-store")
def _(t: Topology) -> None:
    counts(left(t).group_by_key().count(store="counts"))


@named("count-rekeyed")
def _(t: Topology) -> None:
    counts(left(t).group_by(lambda v: v).count())


@named("reduce")
def _(t: Topology) -> None:
    grouped = left(t).group_by_key()
    reduced = grouped.reduce(
        lambda x, y: None if y == "z" else tail(x + y)  # type: ignore[return-value]
    )
    out(reduced.to_stream())


@named("aggregate")
def _(t: Topology) -> None:
    grouped = left(t).group_by_key()
    out(
        grouped.aggregate(
            lambda: "0", lambda k, v, a: None if v == "z" else tail(cast(str, a) + v)
        ).to_stream()
    )


@named("two-counts")
def _(t: Topology) -> None:
    stream = left(t).select_key(lambda v: v)
    counts(stream.group_by_key().count())
    out(stream.group_by_key().reduce(lambda x, y: tail(x + y)).to_stream())


@named("group-used-twice")
def _(t: Topology) -> None:
    grouped = left(t).group_by(lambda v: v, name="g")
    counts(grouped.count())
    out(grouped.reduce(lambda x, y: tail(x + y)).to_stream())


@named("count-of-counts")
def _(t: Topology) -> None:
    counted = left(t).group_by_key().count().to_stream()
    counts(counted.map(lambda k, v: (str(v), k)).group_by_key().count())


@named("count-filtered")
def _(t: Topology) -> None:
    counts(left(t).group_by_key().count().filter(lambda v: v % 2 == 0))


# -- tables under other keys


def by_value(table: KTable[str, str]) -> KGroupedTable[str, str]:
    return table.group_by(lambda v: (v[:1], v))


@named("table-count")
def _(t: Topology) -> None:
    counts(by_value(first(t)).count())


@named("table-count-store")
def _(t: Topology) -> None:
    counts(by_value(first(t)).count(store="counts"))


@named("table-reduce")
def _(t: Topology) -> None:
    reduced = by_value(first(t)).reduce(
        lambda a, v: tail(f"{a}+{v}"), lambda a, v: tail(f"{a}-{v}")
    )
    out(reduced.to_stream())


@named("table-aggregate")
def _(t: Topology) -> None:
    aggregated = by_value(first(t)).aggregate(
        lambda: "0",
        lambda k, v, a: tail(f"{a}+{v}"),
        lambda k, v, a: None if v.startswith("z") else tail(f"{a}-{v}"),
    )
    out(aggregated.to_stream())


@named("table-of-count")
def _(t: Topology) -> None:
    counted = left(t).group_by_key().count()
    counts(counted.group_by(lambda k, v: (str(v), k)).count())


@named("table-of-filter")
def _(t: Topology) -> None:
    counts(by_value(first(t).filter(lambda v: not v.startswith("a"))).count())


@named("table-of-mapped")
def _(t: Topology) -> None:
    counts(by_value(first(t).map_values(lambda v: v[:1])).count())


# -- names, and processors


@named("named")
def _(t: Topology) -> None:
    lefts: Strings = t.stream("left", name="lefts")
    grouped = (
        lefts.filter(lambda v: v is not None, name="present")
        .map_values(lambda v: v + v, name="twice")
        .group_by(lambda v: v, name="by-value")
    )
    counted = grouped.count(store="counts", name="counted").to_stream(name="changes")
    counted.map_values(text).to("out", value=String(), name="written")
    rights: KTable[str, str] = t.table("right", name="rights")
    by = rights.filter(lambda v: True, name="all").group_by(lambda v: (v, v), name="grouped")
    by.count(name="table-counted").to_stream().map_values(text).to("out", value=String())


@named("global")
def _(t: Topology) -> None:
    t.global_table("right")
    out(left(t))


class Totals(Processor[str, str]):
    """Collects the values of each key and emits them every ten milliseconds of stream time."""

    def init(self, context: ProcessorContext) -> None:
        super().init(context)
        self.totals = context.store("totals")
        context.schedule(10, PunctuationType.STREAM_TIME, self.tell)

    def process(self, record: Record[str, str]) -> None:
        if record.key is not None:
            before = self.totals.get(record.key) or ""
            self.totals.put(record.key, tail(before + text(record.value)))
            self.context.forward(record.with_value("seen"))

    def tell(self, now_ms: int) -> None:
        for key, value in self.totals.all():
            self.context.forward(Record(key, value, now_ms))


@named("processor")
def _(t: Topology) -> None:
    t.add_store(StoreSpec("totals", StoreKind.KEY_VALUE, String(), String()))
    left(t).process(Totals, stores=["totals"]).to("out")
