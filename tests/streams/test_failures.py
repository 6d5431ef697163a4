"""Records that can't be read, processed or written: Kafka's three exception handlers."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable

import pytest
from streams_kit import strings

from ottla.engine.records import OutputRow
from ottla.streams import (
    Bytes,
    Failure,
    FailureKind,
    KStream,
    Long,
    Processor,
    ProcessorContext,
    PunctuationType,
    Record,
    StreamsError,
    String,
    Topology,
    TopologyTestDriver,
    dead_letters,
    log_and_continue,
)


def dividing() -> Topology:
    topology = Topology(key=String(), value=Long())
    stream: KStream[str, int] = topology.stream("in")
    stream.map_values(lambda value: 12 // value).to("out", value=Long())
    stream.map_values(lambda value: -value).to("minus", value=Long())
    return topology


def pipe(driver: TopologyTestDriver, *values: bytes) -> None:
    topic = driver.create_input_topic("in", String(), Bytes())
    for value in values:
        topic.pipe_input("k", value)


def long(value: int) -> bytes:
    return value.to_bytes(8)


def test_by_default_a_task_fails_with_the_location() -> None:
    with TopologyTestDriver(dividing()) as driver:
        with pytest.raises(StreamsError, match="Exception caught during Deserialization") as error:
            pipe(driver, b"short")
        assert "5 bytes where 8 were expected" in str(error.value.__cause__)
        with pytest.raises(StreamsError) as error:
            pipe(driver, long(0))
        line = dividing.__code__.co_firstlineno + 3
        assert str(error.value) == (
            "Exception caught in process. taskId=0_0, processor=KSTREAM-MAPVALUES-0000000001, "
            f"topic=in, partition=0, offset=1 ({__file__}:{line}, in <lambda>)"
        )
        assert isinstance(error.value.__cause__, ZeroDivisionError)


def test_an_error_in_a_library_names_the_users_line() -> None:
    def parsed(value: str) -> int:
        return int(json.loads(value)["id"])

    topology = strings()
    stream = topology.stream("in").map_values(str.strip).filter(bool)
    stream.map_values(parsed).map_values(str).to("out")
    with TopologyTestDriver(topology) as driver, pytest.raises(StreamsError) as error:
        pipe(driver, b"no JSON")
    line = parsed.__code__.co_firstlineno + 1
    assert f"({__file__}:{line}, in parsed)" in str(error.value)
    assert "processor=KSTREAM-MAPVALUES-0000000003," in str(error.value)


def test_a_users_processor_is_named() -> None:
    class Fails(Processor[str, str]):
        def process(self, record: Record[str, str]) -> None:
            raise KeyError(record.value)

    topology = strings()
    topology.stream("in").map_values(str.upper).process(Fails, name="fails")
    with TopologyTestDriver(topology) as driver, pytest.raises(StreamsError) as error:
        pipe(driver, b"x")
    assert "processor=fails," in str(error.value)
    assert f"({__file__}:{Fails.process.__code__.co_firstlineno + 1}, in process)" in str(
        error.value
    )


def test_log_and_continue_goes_on_with_the_next_record(caplog: pytest.LogCaptureFixture) -> None:
    with (
        caplog.at_level(logging.WARNING),
        TopologyTestDriver(dividing(), on_failure=log_and_continue) as driver,
    ):
        pipe(driver, b"short", long(0), long(3))
        assert driver.create_output_topic("out", String(), Long()).read_values_to_list() == [4]
        assert driver.create_output_topic("minus", String(), Long()).read_values_to_list() == [-3]
    assert len(caplog.records) == 2


def test_guarded_nodes_fail_alone_as_in_kafka() -> None:
    """KIP-1033: the node drops the record; its siblings continue."""
    seen: list[Failure] = []

    def keep(failure: Failure) -> Iterable[OutputRow]:
        seen.append(failure)
        return ()

    with TopologyTestDriver(dividing(), on_failure=keep, guarded=True) as driver:
        pipe(driver, long(0))
        assert driver.create_output_topic("minus", String(), Long()).read_values_to_list() == [0]
    (failure,) = seen
    assert failure.kind is FailureKind.PROCESSING
    assert failure.node == "KSTREAM-MAPVALUES-0000000001"
    assert failure.record is not None
    assert failure.record.value == 0


def test_a_serialization_failure_has_its_own_kind() -> None:
    topology = strings()
    topology.stream("in").map_values(lambda value: 5).to("out", value=String())
    kinds: list[FailureKind] = []

    def keep(failure: Failure) -> Iterable[OutputRow]:
        kinds.append(failure.kind)
        return ()

    with TopologyTestDriver(topology, on_failure=keep) as driver:
        pipe(driver, b"x")
    assert kinds == [FailureKind.PRODUCTION]
    with (
        TopologyTestDriver(topology) as driver,
        pytest.raises(StreamsError, match=r"Error encountered trying to send .*KSTREAM-SINK"),
    ):
        pipe(driver, b"x")


def test_dead_letters_carry_the_record_and_the_failure() -> None:
    with TopologyTestDriver(dividing(), on_failure=dead_letters("dead")) as driver:
        pipe(driver, b"short")
        letter = driver.create_output_topic("dead").read_record()
    assert (letter.key, letter.value) == (b"k", b"short")
    assert dict(letter.headers) == {
        "__streams.errors.exception": b"SerializationError",
        "__streams.errors.message": b"5 bytes where 8 were expected",
        "__streams.errors.topic": b"in",
        "__streams.errors.partition": b"0",
        "__streams.errors.offset": b"0",
    }


def test_dead_letters_of_a_prefix_go_through_its_task() -> None:
    topology = Topology(key=String(), value=Long())
    stream: KStream[str, int] = topology.stream("in")
    stream.group_by(lambda value: str(value)).count().to_stream().to("out")
    with TopologyTestDriver(topology, on_failure=dead_letters("dead")) as driver:
        pipe(driver, b"short", long(3))
        assert driver.create_output_topic("dead").read_value() == b"short"
        assert driver.create_output_topic("out", String(), Long()).read_key_value() == ("3", 1)


def test_timers_and_caches_may_fail_as_well() -> None:
    class Late(Processor[str, int]):
        def init(self, context: ProcessorContext) -> None:
            context.schedule(1, PunctuationType.WALL_CLOCK_TIME, lambda now: 1 // 0)

        def process(self, record: Record[str, int]) -> None:
            """Only its timer does something."""

    topology = Topology(key=String(), value=Long())
    stream: KStream[str, int] = topology.stream("in")
    stream.process(Late)
    stream.group_by_key().count().to_stream().map_values(lambda count: 1 // 0).foreach(print)
    seen: list[Failure] = []

    def keep(failure: Failure) -> Iterable[OutputRow]:
        seen.append(failure)
        return ()

    with TopologyTestDriver(topology, on_failure=keep) as driver:
        driver.advance_wall_clock_time(5)
        pipe(driver, long(1))
    assert [failure.node for failure in seen] == [
        "KSTREAM-PROCESSOR-0000000001",
        "KSTREAM-AGGREGATE-0000000003",
    ]
    with TopologyTestDriver(topology) as driver, pytest.raises(StreamsError, match="KSTREAM-AGG"):
        pipe(driver, long(1))


def test_a_negative_time_without_extractor_is_an_error() -> None:
    topology = strings()
    topology.stream("in").to("out")
    with (
        TopologyTestDriver(topology) as driver,
        pytest.raises(StreamsError, match="negative"),
    ):
        driver.create_input_topic("in", String(), String()).pipe_input("k", "v", -1)
