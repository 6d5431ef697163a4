"""Windows: their bounds, their errors, and queries of windowed tables."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from streams_kit import strings

from ottla.streams import (
    EmitStrategy,
    Json,
    Long,
    SessionWindowed,
    SlidingWindows,
    String,
    TimeWindowed,
    Topology,
    TopologyTestDriver,
    Window,
    Windowed,
    hopping,
    session,
    sliding,
    tumbling,
    unlimited,
    within,
)

Results = list[tuple[Any, Any, int]]


def played(topology: Topology, records: list[tuple[str, str, int]], **driver: Any) -> Results:
    """Keys are Windowed; what went to `out`, with timestamps."""
    with TopologyTestDriver(topology, **driver) as test:
        topic = test.create_input_topic("in", String(), String())
        for record in records:
            topic.pipe_input(*record)
        out = test.create_output_topic("out", TimeWindowed(String(), 10), Long())
        return [
            (record.key, record.value, record.timestamp) for record in out.read_records_to_list()
        ]


def counted(windows: Any, **options: Any) -> Topology:
    topology = strings()
    table = topology.stream("in").group_by_key().windowed_by(windows).count(**options)
    table.to_stream().to("out", value=Long())
    return topology


def test_a_span_is_units_milliseconds_or_a_timedelta() -> None:
    assert tumbling(minutes=1) == tumbling(60_000) == tumbling(timedelta(minutes=1))
    assert hopping(hours=1, advance=timedelta(minutes=5)).advance_ms == 300_000
    assert sliding(seconds=1.5, grace=10) == SlidingWindows(1500, 10)
    assert session(milliseconds=7).gap_ms == 7
    assert (within(seconds=1).before_ms, within(seconds=1).after_ms) == (1000, 1000)
    lopsided = within(before=2, after=timedelta(milliseconds=7), grace=1)
    assert (lopsided.before_ms, lopsided.after_ms, lopsided.grace_ms) == (2, 7, 1)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: tumbling(0), "Window size"),
        (lambda: hopping(10, advance=11), "advancement interval"),
        (lambda: hopping(10, advance=0), "advancement interval"),
        (lambda: sliding(-1), "time difference"),
        (lambda: session(0), "Gap time"),
        (lambda: within(before=-3, after=2), "Window interval"),
        (lambda: tumbling(1, grace=-1), "Grace period"),
        (lambda: unlimited(start=-1), "start time"),
    ],
)
def test_impossible_windows_are_refused_in_kafkas_words(make: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        make()


@given(
    size=st.integers(1, 50),
    advance=st.integers(1, 50),
    timestamp=st.integers(0, 500),
)
def test_a_time_is_in_every_window_that_covers_it(size: int, advance: int, timestamp: int) -> None:
    if advance > size:
        return
    found = hopping(size, advance=advance).windows_for(timestamp)
    starts = range(0, timestamp + 1, advance)
    assert found == [Window(at, at + size) for at in starts if at <= timestamp < at + size]


def test_a_late_record_counts_until_the_grace_is_over() -> None:
    a, z = Windowed("a", Window(0, 10)), Windowed("z", Window(10, 20))
    records = [("a", "", 1), ("z", "", 14), ("a", "", 9), ("z", "", 15), ("a", "", 9)]
    assert played(counted(tumbling(10, grace=5)), records) == [
        (a, 1, 1),
        (z, 1, 14),
        (a, 2, 9),
        (z, 2, 15),  # 10 + 5: closed, and the last record is dropped
    ]


def test_stream_time_is_kept_per_node() -> None:
    topology = strings()
    kept = topology.stream("in").filter(lambda value: value != "skip")
    kept.group_by_key().windowed_by(tumbling(10)).count().to_stream().to("out", value=Long())
    records = [("a", "", 1), ("a", "skip", 500), ("a", "", 2)]
    assert [value for _, value, _ in played(topology, records)] == [1, 2]


def test_on_window_close_emits_every_window_once() -> None:
    topology = strings()
    windowed = topology.stream("in").group_by_key().windowed_by(tumbling(10))
    final = windowed.emit(EmitStrategy.ON_WINDOW_CLOSE).count()
    final.to_stream().to("out", value=Long())
    # Kafka's store drops [0, 10) with the leap to 1000, before it was emitted.
    records = [("b", "", 2), ("a", "", 1), ("a", "", 9), ("a", "", 1000), ("a", "", 1)]
    assert played(topology, records) == [
        (Windowed("a", Window(0, 10)), 2, 9),
        (Windowed("b", Window(0, 10)), 1, 2),
    ]


def test_an_unlimited_window_has_no_final_result() -> None:
    windowed = strings().stream("in").group_by_key().windowed_by(unlimited())
    with pytest.raises(ValueError, match="cannot be used for UnlimitedWindows"):
        windowed.emit(EmitStrategy.ON_WINDOW_CLOSE)


def test_a_retention_shorter_than_the_windows_is_refused() -> None:
    with pytest.raises(ValueError, match="no smaller than its window size plus the grace"):
        counted(tumbling(10, grace=5), store="counts", retention=14)
    with pytest.raises(ValueError, match="2 \\* time difference"):
        counted(sliding(10), store="counts", retention=19)


def test_only_sessions_need_a_merger() -> None:
    grouped = strings().stream("in").group_by_key()
    with pytest.raises(TypeError, match="merger"):
        grouped.windowed_by(session(5)).aggregate(list, lambda key, value, all: [*all, value])
    with pytest.raises(TypeError, match="merger"):
        grouped.windowed_by(tumbling(5)).aggregate(
            list, lambda key, value, all: [*all, value], lambda key, one, two: one + two
        )


def test_a_named_store_is_queried_by_key_and_time() -> None:
    topology = counted(tumbling(10), store="counts", retention=40, cached=False)
    with TopologyTestDriver(topology) as driver:
        topic = driver.create_input_topic("in", String(), String())
        topic.pipe_key_value_list([("a", ""), ("b", ""), ("a", "")], 5, 10)
        store = driver.get_window_store("counts")
        assert [(at, value.value) for at, value in store.fetch("a")] == [(0, 1), (20, 1)]
        assert [at for at, _ in store.fetch("a", 1, 20)] == [20]
        topic.pipe_input("z", "", 45)
        assert list(store.fetch("a")) == [(20, (1, 25))]  # 40 behind 40: forgotten


def test_a_session_store_is_queried_for_sessions() -> None:
    topology = strings()
    windowed = topology.stream("in").group_by_key().windowed_by(session(5))
    windowed.count(store="visits").to_stream().to(
        "out", key=SessionWindowed(String()), value=Long()
    )
    with TopologyTestDriver(topology) as driver:
        topic = driver.create_input_topic("in", String(), String())
        out = driver.create_output_topic("out", SessionWindowed(String()), Long())
        topic.pipe_key_value_list([("a", ""), ("a", ""), ("a", "")], 1, 4)
        assert out.read_key_values_to_list() == [
            (Windowed("a", Window(1, 1)), 1),
            (Windowed("a", Window(1, 1)), None),
            (Windowed("a", Window(1, 5)), 2),
            (Windowed("a", Window(1, 5)), None),
            (Windowed("a", Window(1, 9)), 3),
        ]
        found = list(driver.get_session_store("visits").fetch("a"))
        assert found == [(Windowed("a", Window(1, 9)), 3)]


def test_keys_need_not_be_hashable() -> None:
    topology = Topology(key=Json(), value=Json())
    for number, windows in enumerate((tumbling(10), session(5), sliding(5))):
        table = topology.stream("in").group_by_key().windowed_by(windows).count()
        table.to_stream().foreach(lambda value, at=number: seen.append((at, value)))
    seen: list[tuple[int, int]] = []
    with TopologyTestDriver(topology) as driver:
        topic = driver.create_input_topic("in", Json(), Json())
        topic.pipe_input({"id": 1}, 1, 20)
        topic.pipe_input({"id": 1}, 1, 20)
    assert [value for at, value in seen if at == 0] == [1, 2]
    assert [value for at, value in seen if at == 1] == [1, 2]
    assert [value for at, value in seen if at == 2] == [1, 2]
