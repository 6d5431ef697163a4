"""Tables, as Kafka's KTable documents them: changes, deletions, old values, stores."""

from __future__ import annotations

from typing import Any

import pytest
from streams_kit import Pairs, outcome, strings

from ottla.streams import (
    KGroupedTable,
    KStream,
    KTable,
    Long,
    Pickle,
    ProcessorContext,
    StoreKind,
    StoreSpec,
    String,
    Topology,
    TopologyTestDriver,
    ValueAndTimestamp,
    ValueTransformer,
)

CHANGES: Pairs = [("a", "x1"), ("b", "y1"), ("a", "y2"), ("b", None), ("c", None)]


def table_in(topology: Topology, **more: Any) -> KTable[str, str]:
    return topology.table("in", **more)


def test_a_table_forwards_its_changes_and_skips_null_keys() -> None:
    topology = strings()
    table_in(topology).to_stream().to("out")
    assert outcome(topology, [*CHANGES, (None, "x")]) == CHANGES


def test_a_table_with_a_store_is_silent_about_keys_that_came_and_went_between_commits() -> None:
    topology = strings()
    table_in(topology, store="kept").to_stream().to("out")
    assert outcome(topology, CHANGES) == CHANGES[:-1]
    assert outcome(topology, CHANGES, caching=False) == CHANGES


def test_filter_without_a_store_also_deletes_unknown_keys() -> None:
    topology = strings()
    table_in(topology).filter(lambda value: value.startswith("x")).to_stream().to("out")
    assert outcome(topology, CHANGES) == [
        ("a", "x1"),
        ("b", None),
        ("a", None),
        ("b", None),
        ("c", None),
    ]


def test_filter_with_a_store_deletes_only_known_keys() -> None:
    topology = strings()
    kept = table_in(topology, store="kept").filter(lambda key, value: value.startswith("x"))
    kept.to_stream().to("out")
    assert outcome(topology, CHANGES) == [("a", "x1"), ("a", None)]


def test_filter_not_with_a_store_can_be_queried() -> None:
    topology = strings()
    table_in(topology).filter_not(lambda value: value.startswith("x"), store="others")
    with TopologyTestDriver(topology) as driver:
        driver.create_input_topic("in", String(), String()).pipe_key_value_list(CHANGES)
        assert list(driver.get_key_value_store("others").all()) == [("a", "y2")]


def test_map_values_maps_values_and_leaves_deletions() -> None:
    topology = strings()
    table_in(topology).map_values(lambda key, value: key + value).to_stream().to(
        "out", value=String()
    )
    assert outcome(topology, CHANGES)[:4] == [("a", "ax1"), ("b", "by1"), ("a", "ay2"), ("b", None)]


def test_a_table_can_be_queried_with_and_without_timestamps() -> None:
    topology = strings()
    table_in(topology, store="kept")
    with TopologyTestDriver(topology) as driver:
        source = driver.create_input_topic("in", String(), String())
        source.pipe_input("a", "1", timestamp=5)
        source.pipe_input("a", "0", timestamp=3)  # out of order: the last one wins, as in Kafka
        assert driver.get_key_value_store("kept").get("a") == "0"
        timestamped = driver.get_timestamped_key_value_store("kept")
        assert timestamped.get("a") == ValueAndTimestamp("0", 3)


class ChangeCounter(ValueTransformer):
    """Counts the changes of each key in a store."""

    def init(self, context: ProcessorContext) -> None:
        super().init(context)
        self.seen = context.store("seen")

    def transform(self, key: str, value: str | None) -> str:
        count = (self.seen.get(key) or 0) + 1
        self.seen.put(key, count)
        return f"{value}#{count}"


class Forwards(ValueTransformer):
    def transform(self, key: str, value: str | None) -> Any:
        self.context.forward(None)  # type: ignore[arg-type]


def test_transform_values_has_stores_but_cannot_forward() -> None:
    topology = strings()
    topology.add_store(StoreSpec("seen", StoreKind.KEY_VALUE, String(), Long()))
    table = table_in(topology).transform_values(ChangeCounter, stores=["seen"], store="numbered")
    table.to_stream().to("out", value=String())
    assert outcome(topology, CHANGES[:3]) == [("a", "x1#1"), ("b", "y1#1"), ("a", "y2#2")]
    wrong = strings()
    table_in(wrong).transform_values(Forwards).to_stream().to("out", value=String())
    with pytest.raises(RuntimeError) as error:
        outcome(wrong, CHANGES)
    assert "return the value instead" in str(error.value.__cause__)


def by_first_letter(topology: Topology) -> KGroupedTable[str, str]:
    return table_in(topology).group_by(lambda value: (value[0], value))


def test_values_move_from_group_to_group() -> None:
    topology = strings()
    by_first_letter(topology).count(store="counts").to_stream().to("out", value=Long())
    assert outcome(topology, CHANGES, value=Long()) == [
        ("x", 1),
        ("y", 1),
        ("x", 0),
        ("y", 2),
        ("y", 1),
    ]


def test_grouped_tables_reduce_and_aggregate_with_adder_and_subtractor() -> None:
    topology = strings()
    grouped = by_first_letter(topology)
    grouped.reduce(lambda a, v: f"{a}+{v}", lambda a, v: f"{a}-{v}").to_stream().to("out")
    assert outcome(topology, CHANGES) == [
        ("x", "x1"),
        ("y", "y1"),
        ("x", "x1-x1"),
        ("y", "y1+y2"),
        ("y", "y1+y2-y1"),
    ]
    topology = strings()
    by_first_letter(topology).aggregate(
        list,
        lambda k, v, a: [*a, v],
        lambda k, v, a: [value for value in a if value != v],
        value=Pickle(),
    ).to_stream().map_values(",".join).to("out")
    assert outcome(topology, CHANGES)[-2:] == [("y", "y1,y2"), ("y", "y2")]


def test_an_aggregate_may_change_its_value_in_place() -> None:
    """The old value must still be subtracted from the group that it leaves."""
    topology = Topology(key=String())

    def append(key: str, value: str, aggregate: list[str]) -> list[str]:
        aggregate.append(value)
        return aggregate

    stream: KStream[str, str] = topology.stream("in", value=String())
    by_size = stream.group_by_key().aggregate(list, append)
    by_size.group_by(
        lambda key, value: (str(len(value)), key), value=String()
    ).count().to_stream().to("out")
    for caching in (True, False):
        assert outcome(topology, [("a", "1"), ("a", "2")], value=Long(), caching=caching)[-2:] == [
            ("1", 0),
            ("2", 1),
        ]


def test_a_rekeyed_stream_is_repartitioned_before_to_table() -> None:
    topology = strings()
    stream: KStream[str, str] = topology.stream("in")
    stream.select_key(lambda key, value: f"{key}{key}").to_table(store="kept")
    with TopologyTestDriver(topology) as driver:
        driver.create_input_topic("in", String(), String()).pipe_key_value_list(CHANGES)
        assert list(driver.get_key_value_store("kept").all()) == [("aa", "y2")]


def test_stores_have_the_requested_kind() -> None:
    topology = strings()
    table_in(topology, store="kept")
    with TopologyTestDriver(topology) as driver:
        with pytest.raises(KeyError, match="there is no store lost"):
            driver.get_key_value_store("lost")
        with pytest.raises(AssertionError, match="kept is not a window store"):
            driver.get_window_store("kept")
        with pytest.raises(NotImplementedError, match="read-only"):
            driver.get_key_value_store("kept").put("a", "b")


def test_a_global_table_takes_its_topic_and_has_no_task() -> None:
    topology = strings()
    topology.global_table("names", store="names")
    topology.stream("in").to("out")
    with TopologyTestDriver(topology) as driver:
        names = driver.create_input_topic("names", String(), String())
        names.pipe_key_value_list([("a", "Ada"), ("b", "Bob"), (None, "x"), ("b", None)])
        assert list(driver.get_key_value_store("names").all()) == [("a", "Ada")]
    assert "for global store (will not generate tasks)" in topology.describe()
