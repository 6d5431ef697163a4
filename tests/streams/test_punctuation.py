"""Punctuation by stream time and wall-clock time, requested commits, and the order of prefixes."""

from __future__ import annotations

import pytest
from streams_kit import strings

from ottla.engine.cells import DictCells
from ottla.engine.records import InputRow
from ottla.engine.subtopologies import subtopologies
from ottla.engine.task import PrefixTask, StreamTask, in_record_order
from ottla.streams import (
    KStream,
    Processor,
    ProcessorContext,
    PunctuationType,
    Record,
    String,
    TopologyTestDriver,
)


class Ticks(Processor[str, str]):
    """Emits a record when called; a record with the key `stop` ends the schedule of its value."""

    def init(self, context: ProcessorContext) -> None:
        super().init(context)
        self.schedules = {
            kind.value: context.schedule(10, kind, lambda now, kind=kind: self.tell(kind, now))
            for kind in PunctuationType
        }

    def process(self, record: Record[str, str]) -> None:
        if record.key == "stop":
            self.schedules[record.value].cancel()

    def tell(self, kind: PunctuationType, now_ms: int) -> None:
        assert self.context.record_metadata is None
        self.context.forward(Record(kind.value, str(now_ms), now_ms))


def ticking() -> TopologyTestDriver:
    topology = strings()
    topology.stream("in").process(Ticks).to("out")
    return TopologyTestDriver(topology, initial_wall_clock_time=1_000)


def test_stream_time_begins_with_the_first_record_and_misses_no_interval_twice() -> None:
    with ticking() as driver:
        source = driver.create_input_topic("in", String(), String())
        sink = driver.create_output_topic("out", String(), String())
        for timestamp in (5, 9, 10, 12, 45, 49, 50):
            source.pipe_input("k", "v", timestamp)
        assert sink.read_values_to_list() == ["5", "10", "45", "50"]
        source.pipe_input("stop", "STREAM_TIME", 55)
        source.pipe_input("k", "v", 500)
        assert sink.is_empty


def test_the_clock_ticks_an_interval_after_now_and_once_for_a_long_leap() -> None:
    with ticking() as driver:
        source = driver.create_input_topic("in", String(), String())
        sink = driver.create_output_topic("out", String(), String())
        driver.advance_wall_clock_time(9)
        assert sink.is_empty
        driver.advance_wall_clock_time(1)
        driver.advance_wall_clock_time(35)
        driver.advance_wall_clock_time(5)
        assert sink.read_values_to_list() == ["1010", "1045", "1050"]
        source.pipe_input("stop", "WALL_CLOCK_TIME", 0)
        sink.read_records_to_list()
        driver.advance_wall_clock_time(100)
        assert sink.is_empty


def test_a_task_remembers_when_the_clock_is_due() -> None:
    topology = strings()
    topology.stream("in").process(Ticks).to("out")
    (piece,) = subtopologies(topology.graph)
    cells: dict[str, DictCells] = {}

    class Clock:
        now = 100

        def now_ms(self) -> int:
            return self.now

    clock = Clock()

    def begin() -> StreamTask:
        return StreamTask(piece, 0, lambda name: cells.setdefault(name, DictCells()), clock)

    task = begin()
    assert task.punctuate(109) == []
    task.commit()
    clock.now = 500
    again = begin()
    assert again.punctuate(109) == []
    assert len(again.punctuate(110)) == 1


def test_schedules_may_come_and_go_and_leave_nothing_behind() -> None:
    class Once(Processor[str, str]):
        """A timer for each record, which ends itself."""

        def process(self, record: Record[str, str]) -> None:
            def tell(now_ms: int) -> None:
                made.cancel()
                self.context.forward(record.with_timestamp(now_ms))

            made = self.context.schedule(10, PunctuationType.WALL_CLOCK_TIME, tell)

    topology = strings()
    topology.stream("in").process(Once).to("out")
    with TopologyTestDriver(topology) as driver:
        source = driver.create_input_topic("in", String(), String())
        sink = driver.create_output_topic("out", String(), String())
        for number in range(50):
            source.pipe_input("k", str(number), 0)
            driver.advance_wall_clock_time(10)
            assert sink.read_value() == str(number)
        (piece,) = driver._pieces
        assert len(piece.task._schedules) <= 2


def test_an_interval_is_at_least_a_millisecond() -> None:
    class Hasty(Processor[str, str]):
        def init(self, context: ProcessorContext) -> None:
            context.schedule(0, PunctuationType.STREAM_TIME, print)

    topology = strings()
    topology.stream("in").process(Hasty)
    with pytest.raises(ValueError, match="minimum supported scheduling interval"):
        TopologyTestDriver(topology)


def test_only_connected_stores_can_be_had() -> None:
    class Nosy(Processor[str, str]):
        def init(self, context: ProcessorContext) -> None:
            context.store("other")

    topology = strings()
    topology.stream("in").process(Nosy)
    with pytest.raises(ValueError, match="has no access to StateStore other"):
        TopologyTestDriver(topology)


def test_a_requested_commit_flushes_the_caches() -> None:
    class Impatient(Processor[str, int]):
        def process(self, record: Record[str, int]) -> None:
            self.context.forward(record)
            self.context.commit()

    topology = strings()
    stream: KStream[str, str] = topology.stream("in")
    stream.process_values(Impatient, value=String()).group_by_key().count(
        store="counts"
    ).to_stream().to("out")
    (piece,) = subtopologies(topology.graph)

    class Clock:
        def now_ms(self) -> int:
            return 0

    task = StreamTask(piece, 0, lambda name: DictCells(), Clock())
    row = InputRow("in", 0, 0, 0, b"a", b"x")
    assert len(task.process([row, row])) == 2
    assert task.commit() == []


def test_rows_of_a_prefix_regain_their_order() -> None:
    topology = strings()
    stream: KStream[str, str] = topology.stream("in")
    stream.flat_map_values(str.split).group_by(lambda word: word).count()
    (piece,) = subtopologies(topology.graph)
    (prefix,) = piece.prefixes

    class Clock:
        def now_ms(self) -> int:
            return 0

    prefixed = PrefixTask(
        StreamTask(prefix, 0, lambda name: DictCells(), Clock(), application_id="app")
    )
    rows = [
        InputRow("in", 0, 3, 50, None, b"a b"),
        InputRow("in", 0, 4, 40, None, b""),
        InputRow("in", 0, 5, 60, None, b"c"),
        InputRow("in", 1, 9, 55, None, b"x y z"),
    ]
    made = prefixed.process(rows)
    assert {row.topic for row in made} == {
        "app-KSTREAM-AGGREGATE-STATE-STORE-0000000003-repartition"
    }
    assert {row.origin for row in made} == {"in"}
    ordered = in_record_order(reversed(made))
    assert [row.key for row in ordered] == [b"a", b"b", b"x", b"y", b"z", b"c"]
    assert [(row.partition, row.offset, row.turn) for row in ordered[:3]] == [
        (0, 3, 0),
        (0, 3, 1),
        (1, 9, 0),
    ]
