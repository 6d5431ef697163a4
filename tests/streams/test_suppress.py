"""Suppressed updates: until their window closes, for a time limit, or until the buffer is full."""

from __future__ import annotations

import pytest
from streams_kit import strings

from ottla.streams import (
    SHUT_DOWN,
    KTable,
    Long,
    StreamsError,
    String,
    Topology,
    TopologyError,
    TopologyTestDriver,
    session,
    tumbling,
    until_time_limit,
    until_window_closes,
)

Updates = list[tuple[str, str | None, int]]


def held(topology: Topology, changes: Updates, *, restart: bool = False) -> Updates:
    with TopologyTestDriver(topology) as driver:
        topic = driver.create_input_topic("in", String(), String())
        out = driver.create_output_topic("out", String(), String())
        for change in changes:
            topic.pipe_input(*change)
            if restart:
                driver.restart()
        return [
            (record.key, record.value, record.timestamp) for record in out.read_records_to_list()
        ]


def limited(**limits: object) -> Topology:
    topology = strings()
    table: KTable[str, str] = topology.table("in")
    table.suppress(until_time_limit(10, **limits)).to_stream().to("out")  # type: ignore[arg-type]
    return topology


@pytest.mark.parametrize("restart", [False, True])
def test_the_last_update_is_emitted_after_the_first_has_waited(restart: bool) -> None:
    changes: Updates = [("a", "1", 0), ("b", "1", 5), ("a", "2", 9), ("b", "2", 10), ("c", "1", 15)]
    assert held(limited(), changes, restart=restart) == [("a", "2", 9), ("b", "2", 10)]


def test_a_deletion_is_emitted_even_for_unseen_keys() -> None:
    changes: Updates = [("a", "1", 0), ("a", None, 5), ("z", "", 30)]
    assert held(limited(), changes) == [("a", None, 5)]


def test_a_full_buffer_emits_the_oldest_record() -> None:
    changes: Updates = [("b", "1", 3), ("a", "1", 1), ("c", "1", 4), ("d", "1", 4)]
    assert held(limited(max_records=2), changes) == [("a", "1", 1), ("b", "1", 3)]


def test_buffered_bytes_include_keys_values_and_overhead() -> None:
    changes: Updates = [("a", "x" * 100, 1), ("b", "y", 2)]
    assert held(limited(max_bytes=200), changes) == []
    assert held(limited(max_bytes=150), changes) == [("a", "x" * 100, 1)]


def test_a_full_buffer_may_stop_the_task_instead() -> None:
    with pytest.raises(StreamsError, match=r"exceeded its max capacity. Currently \[2/1\] records"):
        held(limited(max_records=1, when_full=SHUT_DOWN), [("a", "1", 1), ("b", "1", 2)])


def test_a_buffer_of_final_results_never_emits_early() -> None:
    topology = strings()
    counts = topology.stream("in").group_by_key().windowed_by(tumbling(10)).count()
    counts.suppress(until_window_closes(max_records=1)).to_stream().foreach(lambda value: None)
    with pytest.raises(StreamsError):
        held(topology, [("a", "1", 1), ("b", "1", 2)])


def test_only_windows_close() -> None:
    with pytest.raises(TopologyError, match="only defined for windowed computations"):
        strings().table("in").suppress(until_window_closes())


def test_a_filtered_windowed_table_still_knows_when_its_windows_close() -> None:
    topology = strings()
    counts = topology.stream("in").group_by_key().windowed_by(tumbling(10, grace=2)).count()
    several = counts.filter(lambda count: count > 1).suppress(until_window_closes())
    several.to_stream().map(lambda key, count: (key.key, str(count))).to("out")
    changes: Updates = [("a", "", 1), ("a", "", 2), ("b", "", 3), ("z", "", 12)]
    assert held(topology, changes) == []  # z is filtered out: behind the filter it is still 2
    assert held(topology, [*changes, ("z", "", 13)]) == [("a", "2", 2)]


def test_a_merged_session_is_never_emitted() -> None:
    topology = strings()
    windowed = topology.stream("in").group_by_key().windowed_by(session(5))
    final = windowed.count().suppress(until_window_closes())
    final.to_stream().map(lambda key, count: (f"{key.key}{list(key.window)}", str(count))).to("out")
    changes: Updates = [("a", "", 0), ("a", "", 4), ("z", "", 9), ("z", "", 10)]
    assert held(topology, changes) == [("a[0, 4]", "2", 4)]


def test_old_values_after_a_suppression_are_those_emitted() -> None:
    """Kafka subtracts "2" here, which it never added: the old value of the last update."""
    topology = strings()
    table = topology.table("in").suppress(until_time_limit(5))
    grouped = table.group_by(lambda key, value: ("all", value))
    sums = grouped.aggregate(
        str,
        lambda key, value, sum: f"{sum}+{value}",
        lambda key, value, sum: f"{sum}-{value}",
        value=String(),
    )
    sums.to_stream().to("out")
    changes: Updates = [
        ("a", "1", 0),
        ("z", "9", 10),
        ("a", "2", 20),
        ("a", "3", 21),
        ("y", "9", 30),
    ]
    assert held(topology, changes)[-1] == ("all", "+1+9-1+3", 21)


def test_a_join_does_not_see_suppressed_records() -> None:
    topology = strings()
    table = topology.table("in").suppress(until_time_limit(5))
    topology.stream("look").join(table, lambda mine, held: f"{mine}+{held}").to("out")
    with TopologyTestDriver(topology) as driver:
        changes = driver.create_input_topic("in", String(), String())
        look = driver.create_input_topic("look", String(), String())
        out = driver.create_output_topic("out", String(), String())
        changes.pipe_input("a", "1", 0)
        look.pipe_input("a", "x", 0)
        changes.pipe_input("z", "", 10)
        look.pipe_input("a", "x", 10)
        changes.pipe_input("a", "2", 11)
        look.pipe_input("a", "x", 11)
        assert out.read_values_to_list() == ["x+1", "x+1"]


def test_a_count_that_is_suppressed_can_be_written_with_its_windows() -> None:
    topology = strings()
    counts = topology.stream("in").group_by_key().windowed_by(tumbling(10)).count()
    counts.suppress(until_window_closes()).to_stream().to("out", value=Long())
    assert "KTABLE-SUPPRESS-0000000003" in topology.describe()
