"""The topologies of tools/clients/kafka-streams, by the same names."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from ottla.client.serde import String
from ottla.engine.windows import hopping, session, sliding, tumbling, unlimited, within
from ottla.streams.cogrouped import CogroupedKStream
from ottla.streams.stream import KStream
from ottla.streams.suppress import until_time_limit, until_window_closes
from ottla.streams.table import KTable
from ottla.streams.topology import Topology
from ottla.streams.windowed import EmitStrategy

CLOSE = EmitStrategy.ON_WINDOW_CLOSE
TUMBLING = tumbling(10, grace=4)
HOPPING = hopping(10, advance=3, grace=4)
SLIDING = sliding(10, grace=4)
SESSION = session(5, grace=3)
NEAR = within(5, grace=3)
LOPSIDED = within(before=2, after=7, grace=2)

Strings = KStream[str, str]
StringTable = KTable[str, str]


def text(value: Any) -> str:
    """None as Java writes it."""
    return "null" if value is None else str(value)


def plus(left: Any, right: Any) -> str:
    return f"{text(left)}+{text(right)}"


def times(left: Any, right: Any) -> str:
    return f"{text(left)}*{text(right)}"


def append(key: str, value: str, aggregate: str) -> str:
    return aggregate + text(value)


def merge(key: str, left: str, right: str) -> str:
    return f"{left}|{right}"


def concatenate(left: str, right: str) -> str:
    return text(left) + text(right)


def empty() -> str:
    return ""


def first_letter(value: str) -> str:
    return value[:1]


def letter_but_z(value: str) -> str | None:
    return None if value == "z" else value[:1]


def but_z(value: str) -> str | None:
    return None if value == "z" else value


def left(topology: Topology) -> Strings:
    return topology.stream("left")


def right(topology: Topology) -> Strings:
    return topology.stream("right")


def out(stream: KStream[Any, Any]) -> None:
    stream.to("out", key=String(), value=String())


def windows(table: KTable[Any, Any]) -> None:
    out(table.to_stream().map(written))


def written(key: Any, value: Any) -> tuple[str, str | None]:
    start, end = key.window
    return f"{key.key}@{start}/{end}", None if value is None else str(value)


def grouped(table: StringTable) -> Strings:
    return (
        table.group_by(lambda key, value: ("all", value))
        .aggregate(
            empty,
            adder=lambda key, value, aggregate: tail(f"{aggregate}+{value}"),
            subtractor=lambda key, value, aggregate: tail(f"{aggregate}-{value}"),
        )
        .to_stream()
    )


def tail(text: str) -> str:
    return text[-60:]


def both(topology: Topology) -> CogroupedKStream[str, str]:
    first = left(topology).group_by_key().cogroup(append)
    return first.cogroup(
        right(topology).group_by_key(),
        lambda key, value, aggregate: aggregate + text(value).upper(),
    )


def tables(topology: Topology) -> tuple[StringTable, StringTable]:
    return topology.table("left"), topology.table("right")


def aggregates() -> dict[str, Callable[[Topology], None]]:
    def by(windowing: Any) -> Callable[[Topology], Any]:
        return lambda topology: left(topology).group_by_key().windowed_by(windowing)

    return {
        "tumbling": lambda t: windows(by(TUMBLING)(t).count()),
        "hopping": lambda t: windows(by(HOPPING)(t).reduce(concatenate)),
        "hopping-aggregate": lambda t: windows(by(HOPPING)(t).aggregate(empty, append)),
        "unlimited": lambda t: windows(by(unlimited())(t).count()),
        "sliding": lambda t: windows(by(SLIDING)(t).count()),
        "sliding-aggregate": lambda t: windows(by(SLIDING)(t).aggregate(empty, append)),
        "session": lambda t: windows(by(SESSION)(t).count()),
        "session-aggregate": lambda t: windows(by(SESSION)(t).aggregate(empty, append, merge)),
        "session-kept": lambda t: windows(
            by(SESSION)(t).count(store="kept", retention=timedelta(hours=1))
        ),
        "session-reduce": lambda t: windows(by(SESSION)(t).reduce(concatenate)),
        "close-tumbling": lambda t: windows(by(TUMBLING)(t).emit(CLOSE).count(store="kept")),
        "close-hopping": lambda t: windows(by(HOPPING)(t).emit(CLOSE).count(store="kept")),
        "close-sliding": lambda t: windows(by(SLIDING)(t).emit(CLOSE).count(store="kept")),
        "close-session": lambda t: windows(by(SESSION)(t).emit(CLOSE).count()),
        "suppress-tumbling": lambda t: windows(
            by(TUMBLING)(t).count().suppress(until_window_closes())
        ),
        "suppress-session": lambda t: windows(
            by(SESSION)(t).count().suppress(until_window_closes())
        ),
        "cogroup": lambda t: out(both(t).aggregate(empty).to_stream()),
        "cogroup-tumbling": lambda t: windows(both(t).windowed_by(TUMBLING).aggregate(empty)),
        "cogroup-sliding": lambda t: windows(both(t).windowed_by(SLIDING).aggregate(empty)),
        "cogroup-session": lambda t: windows(both(t).windowed_by(SESSION).aggregate(empty, merge)),
    }


def suppressions() -> dict[str, Callable[[Topology], None]]:
    def held(topology: Topology) -> StringTable:
        return topology.table("left").suppress(until_time_limit(5))

    return {
        "suppress-time": lambda t: out(held(t).to_stream()),
        "suppress-records": lambda t: out(
            t.table("left").suppress(until_time_limit(20, max_records=2)).to_stream()
        ),
        "suppress-join": lambda t: out(held(t).join(t.table("right"), plus).to_stream()),
    }


def stream_joins() -> dict[str, Callable[[Topology], None]]:
    def itself(topology: Topology) -> Strings:
        one = left(topology)
        return one.join(one, plus, NEAR)

    return {
        "stream-join": lambda t: out(left(t).join(right(t), plus, NEAR)),
        "stream-left": lambda t: out(left(t).left_join(right(t), plus, NEAR)),
        "stream-outer": lambda t: out(left(t).outer_join(right(t), plus, NEAR)),
        "stream-join-lopsided": lambda t: out(left(t).join(right(t), plus, LOPSIDED)),
        "stream-left-lopsided": lambda t: out(left(t).left_join(right(t), plus, LOPSIDED)),
        "stream-outer-lopsided": lambda t: out(left(t).outer_join(right(t), plus, LOPSIDED)),
        "stream-self": lambda t: out(itself(t)),
        "stream-rekeyed": lambda t: out(
            left(t)
            .select_key(lambda key, value: value)
            .join(right(t).map(lambda key, value: (value, key)), plus, NEAR)
        ),
        "stream-left-rekeyed": lambda t: out(
            left(t)
            .select_key(but_z)
            .left_join(right(t).map(lambda key, value: (value, key)), plus, NEAR)
        ),
        "stream-outer-rekeyed": lambda t: out(
            left(t).select_key(but_z).outer_join(right(t).select_key(but_z), plus, NEAR)
        ),
        "stream-table-left-rekeyed": lambda t: out(
            left(t).select_key(but_z).left_join(t.table("right"), plus)
        ),
        "stream-table": lambda t: out(left(t).join(t.table("right"), plus)),
        "stream-table-left": lambda t: out(left(t).left_join(t.table("right"), plus)),
        "stream-global": lambda t: out(left(t).join(t.global_table("right"), plus, on=but_z)),
        "stream-global-left": lambda t: out(
            left(t).left_join(t.global_table("right"), plus, on=but_z)
        ),
    }


def table_joins() -> dict[str, Callable[[Topology], None]]:
    def three(topology: Topology) -> StringTable:
        one, two = tables(topology)
        return one.outer_join(two, plus).left_join(topology.table("third"), times)

    def joined(kind: str, **more: Any) -> Callable[[Topology], StringTable]:
        def build(topology: Topology) -> StringTable:
            one, two = tables(topology)
            made: StringTable = getattr(one, kind)(two, plus, **more)
            return made

        return build

    return {
        "table-join": lambda t: out(joined("join")(t).to_stream()),
        "table-left": lambda t: out(joined("left_join")(t).to_stream()),
        "table-outer": lambda t: out(joined("outer_join")(t).to_stream()),
        "table-join-store": lambda t: out(joined("join", store="joined")(t).to_stream()),
        "table-join-group": lambda t: out(grouped(joined("join")(t))),
        "table-left-group": lambda t: out(grouped(joined("left_join")(t))),
        "table-outer-group": lambda t: out(grouped(joined("outer_join")(t))),
        "table-three": lambda t: out(three(t).to_stream()),
        "foreign": lambda t: out(joined("join", foreign_key=first_letter)(t).to_stream()),
        "foreign-left": lambda t: out(joined("left_join", foreign_key=letter_but_z)(t).to_stream()),
        "foreign-inner-null": lambda t: out(
            joined("join", foreign_key=letter_but_z)(t).to_stream()
        ),
        "foreign-store": lambda t: out(
            joined("join", foreign_key=first_letter, store="joined")(t).to_stream()
        ),
    }


TOPOLOGIES: dict[str, Callable[[Topology], None]] = (
    aggregates() | suppressions() | stream_joins() | table_joins()
)


def topology(name: str) -> Topology:
    made = Topology(key=String(), value=String())
    TOPOLOGIES[name](made)
    return made
