"""The stateless operations of streams, as Kafka's KStream documents them."""

from __future__ import annotations

from typing import Any

import pytest
from streams_kit import outcome, strings

from ottla.streams import (
    Json,
    KStream,
    Long,
    Processor,
    ProcessorContext,
    Record,
    String,
    Topology,
    TopologyError,
    TopologyTestDriver,
)

AB = [("a", "1"), ("b", "2"), ("a", "3")]


def test_filter_keeps_and_filter_not_drops() -> None:
    topology = strings()
    topology.stream("in").filter(lambda key, value: key == "a").filter_not(
        lambda value: value == "3"
    ).to("out")
    assert outcome(topology, AB) == [("a", "1")]


def test_map_gives_new_keys_and_values() -> None:
    topology = strings()
    topology.stream("in").map(lambda key, value: (value, key)).to("out")
    assert outcome(topology, AB) == [("1", "a"), ("2", "b"), ("3", "a")]


def test_map_values_takes_the_value_or_key_and_value() -> None:
    topology = strings()
    stream: KStream[str, str] = topology.stream("in")
    stream.map_values(lambda value: value * 2).map_values(lambda key, value: key + value).to("out")
    assert outcome(topology, AB) == [("a", "a11"), ("b", "b22"), ("a", "a33")]


def test_builtins_are_called_with_the_value() -> None:
    topology = strings()
    topology.stream("in").map_values(str.upper).map_values(len, value=Long()).to("out")
    assert outcome(topology, [("k", "word")], value=Long()) == [("k", 4)]


def test_flat_map_and_flat_map_values_make_any_number_of_records() -> None:
    topology = strings()
    stream: KStream[str, str] = topology.stream("in")
    stream.flat_map(lambda key, value: [(key, value)] * int(value)).flat_map_values(
        lambda value: [value, value + "!"] if value == "2" else []
    ).to("out")
    assert outcome(topology, AB) == [("b", "2"), ("b", "2!"), ("b", "2"), ("b", "2!")]


def test_select_key_keeps_values_time_and_headers() -> None:
    topology = strings()
    topology.stream("in").select_key(lambda value: value + "k").to("out")
    with TopologyTestDriver(topology) as driver:
        source = driver.create_input_topic("in", String(), String())
        source.pipe_input("a", "1", timestamp=77, headers=(("h", b"x"),))
        sink = driver.create_output_topic("out", String(), String())
        assert sink.read_record() == Record("1k", "1", 77, (("h", b"x"),))
        assert driver.produced_record_headers("out") == [(("h", b"x"),)]


def test_peek_forwards_and_foreach_ends_the_stream() -> None:
    seen: list[Any] = []
    topology = strings()
    stream: KStream[str, str] = topology.stream("in")
    stream.peek(lambda key, value: seen.append((key, value))).foreach(seen.append)
    with TopologyTestDriver(topology) as driver:
        driver.create_input_topic("in", String(), String()).pipe_input("a", "1")
    assert seen == [("a", "1"), "1"]


def test_print_writes_as_kafka_prints(capsys: pytest.CaptureFixture[str]) -> None:
    topology = strings()
    stream: KStream[str, str] = topology.stream("in")
    stream.print()
    stream.print("label")
    with TopologyTestDriver(topology) as driver:
        driver.create_input_topic("in", String(), String()).pipe_input("a", "1")
    assert capsys.readouterr().out == "[KSTREAM-SOURCE-0000000000]: a, 1\n[label]: a, 1\n"


def test_merge_gives_the_records_of_both() -> None:
    topology = strings()
    stream: KStream[str, str] = topology.stream("in")
    other: KStream[str, str] = topology.stream("more")
    stream.merge(other).to("out")
    with TopologyTestDriver(topology) as driver:
        driver.create_input_topic("more", String(), String()).pipe_input("m", "1")
        driver.create_input_topic("in", String(), String()).pipe_input("i", "2")
        sink = driver.create_output_topic("out", String(), String())
        assert sink.read_key_values_to_list() == [("m", "1"), ("i", "2")]


def test_a_record_goes_to_the_first_branch_that_takes_it() -> None:
    topology = strings()
    stream: KStream[str, str] = topology.stream("in")
    branches = (
        stream.split(name="by-")
        .branch(lambda value: value == "1", name="one")
        .branch(lambda key, value: key == "a", lambda branch: branch.to("rest-of-a"))
        .branch(lambda value: True, lambda branch: branch.map_values(str.upper), name="all")
        .default_branch(name="never")
    )
    assert list(branches) == ["by-one", "by-all", "by-never"]
    branches["by-one"].to("out")
    branches["by-all"].to("out")
    branches["by-never"].to("out")
    with TopologyTestDriver(topology) as driver:
        source = driver.create_input_topic("in", String(), String())
        source.pipe_key_value_list([*AB, ("c", "x")])
        sink = driver.create_output_topic("out", String(), String())
        rest = driver.create_output_topic("rest-of-a", String(), String())
        assert sink.read_key_values_to_list() == [("a", "1"), ("b", "2"), ("c", "X")]
        assert rest.read_key_values_to_list() == [("a", "3")]


def test_branches_are_numbered_as_in_kafka_and_the_default_one_is_0() -> None:
    topology = strings()
    stream: KStream[str, str] = topology.stream("in")
    branches = stream.split().branch(lambda v: v == "1").branch(lambda v: v == "2").default_branch()
    name = "KSTREAM-BRANCH-0000000001"
    assert list(branches) == [f"{name}1", f"{name}2", f"{name}0"]
    dropped = strings()
    other: KStream[str, str] = dropped.stream("in")
    (only,) = other.split().branch(lambda v: v == "1").no_default_branch().values()
    only.to("out")
    assert outcome(dropped, AB) == [("a", "1")]


def test_records_reach_children_in_the_order_in_which_these_were_added() -> None:
    topology = strings()
    stream: KStream[str, str] = topology.stream("in")
    stream.to("out")
    stream.map_values(str.upper).to("out")
    stream.map_values(lambda v: v + v).to("out")
    assert outcome(topology, [("k", "v")]) == [("k", "v"), ("k", "V"), ("k", "vv")]


def test_to_may_choose_the_topic_of_each_record() -> None:
    topology = strings()
    topology.stream("in").to(lambda record: f"to-{record.key}")
    with TopologyTestDriver(topology) as driver:
        driver.create_input_topic("in", String(), String()).pipe_key_value_list(AB)
        assert driver.produced_topic_names == {"to-a", "to-b"}


def test_repartition_drops_null_keys_and_goes_through_a_topic_of_the_application() -> None:
    topology = strings()
    topology.stream("in").repartition(name="mine", partitions=3).to("out")
    with TopologyTestDriver(topology, application_id="app") as driver:
        source = driver.create_input_topic("in", String(), String())
        source.pipe_key_value_list([(None, "0"), *AB])
        sink = driver.create_output_topic("out", String(), String())
        assert sink.read_key_values_to_list() == AB
        assert driver.produced_topic_names == {"app-mine-repartition", "out"}


def test_a_topic_may_be_written_and_read() -> None:
    topology = strings()
    topology.stream("in").map_values(lambda v: v + "1").to("between")
    topology.stream("between").map_values(lambda v: v + "2").to("out")
    assert outcome(topology, [("k", "v")]) == [("k", "v12")]


def test_topics_may_be_many_or_named_by_a_pattern() -> None:
    topology = strings()
    topology.stream(["one", "two"]).to("out")
    topology.stream(pattern="many-.*").to("out")
    with TopologyTestDriver(topology) as driver:
        for topic in ("one", "two", "many-1", "many-2"):
            driver.create_input_topic(topic, String(), String()).pipe_input(topic, "x")
        sink = driver.create_output_topic("out", String(), String())
        assert [key for key, _ in sink.read_key_values_to_list()] == [
            "one",
            "two",
            "many-1",
            "many-2",
        ]
        with pytest.raises(ValueError, match="Unknown topic: three"):
            driver.create_input_topic("three").pipe_input(b"")


def test_two_streams_of_one_topic_share_a_source() -> None:
    topology = strings()
    topology.stream("in").map_values(lambda v: v + "1").to("out")
    topology.stream("in").map_values(lambda v: v + "2").to("out")
    assert outcome(topology, [("k", "v")]) == [("k", "v1"), ("k", "v2")]
    assert topology.describe().count("Source:") == 1


def test_an_extractor_sets_the_timestamp() -> None:
    topology = Topology(key=String(), value=Json())
    topology.stream("in", timestamp=lambda record: record.value["at"]).to("out")
    with TopologyTestDriver(topology) as driver:
        source = driver.create_input_topic("in", String(), Json())
        source.pipe_input("a", {"at": 17}, timestamp=5)
        source.pipe_input("a", {"at": -1}, timestamp=6)  # dropped, as in Kafka
        sink = driver.create_output_topic("out", String(), Json())
        assert [record.timestamp for record in sink.read_records_to_list()] == [17]


class Shout(Processor[str, str]):
    def process(self, record: Record[str, str]) -> None:
        self.context.forward(record.with_value(record.value + "!"))


class Renames(Processor[str, str]):
    def process(self, record: Record[str, str]) -> None:
        self.context.forward(record.with_key("other"))


def test_process_values_may_not_change_the_key() -> None:
    topology = strings()
    kept = topology.stream("in").process_values(Shout)
    assert not kept.rekeyed
    kept.to("out")
    assert outcome(topology, [("k", "v")]) == [("k", "v!")]
    wrong = strings()
    wrong.stream("in").process_values(Renames).to("out")
    with pytest.raises(RuntimeError) as error:
        outcome(wrong, [("k", "v")])
    assert "may not change the key: 'k' became 'other'" in str(error.value.__cause__)


def test_process_may_change_everything() -> None:
    topology = strings()
    changed = topology.stream("in").process(Renames)
    assert changed.rekeyed
    changed.to("out")
    assert outcome(topology, [("k", "v")]) == [("other", "v")]


class ToChild(Processor[str, str]):
    def init(self, context: ProcessorContext) -> None:
        super().init(context)
        assert context.task_id == "0_0"
        assert context.application_id == "test"

    def process(self, record: Record[str, str]) -> None:
        metadata = self.context.record_metadata
        assert metadata is not None
        assert (metadata.topic, metadata.partition) == ("in", 0)
        self.context.forward(record, f"to-{record.key}")


def test_the_processor_api_alone_with_a_choice_of_child() -> None:
    topology = strings()
    topology.add_source("source", "in")
    topology.add_processor("choose", ToChild, "source")
    topology.add_sink("to-a", "out", "choose")
    topology.add_sink("to-b", "other", "choose")
    assert outcome(topology, AB) == [("a", "1"), ("a", "3")]
    with pytest.raises(RuntimeError) as error:
        outcome(topology, [("c", "1")])
    assert "Unknown downstream node: to-c of choose" in str(error.value.__cause__)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (lambda t: t.add_processor("p", Shout, "nobody"), "Predecessor processor nobody is not"),
        (lambda t: t.add_sink("s", "x", "source").add_processor("p", Shout, "s"), "Sink s cannot"),
        (lambda t: t.add_source("source", "other"), "Processor source is already added"),
        (lambda t: t.add_source("again", "in"), "Topic in has already been registered by another"),
        (
            lambda t: t.add_processor("p", Shout, "source", stores=["s"]),
            "StateStore s is not added",
        ),
        (lambda t: t.stream("in", value=Long()), "read twice, with different serdes"),
        (lambda t: t.stream(["in", "more"]), "overlapping but not equal"),
        (lambda t: t.stream("in", offset_reset="latest"), "different offset resets"),
        (lambda t: t.stream("new", offset_reset="late"), "one of earliest, latest"),
        (lambda t: t.stream("new", name="a b"), "is illegal"),
        (lambda t: t.stream([]), "at least one topic"),
        (lambda t: t.table("in"), "Topic in has already been registered by another"),
    ],
)
def test_impossible_topologies_are_refused_in_kafkas_words(wrong: Any, words: str) -> None:
    topology = strings().add_source("source", "in")
    with pytest.raises(TopologyError, match=words):
        wrong(topology)


def test_a_sink_without_a_serde_is_refused_with_a_remedy() -> None:
    topology = Topology()
    numbers = topology.stream("in", key=String(), value=String()).map_values(len)
    with pytest.raises(
        TopologyError, match=r"no serde for the value in the topic out: .*String\(\)"
    ):
        numbers.to("out")
    with pytest.raises(TopologyError, match="no serde for the key in the store"):
        topology.stream("in", key=String(), value=String()).group_by(len).count()


def test_a_function_with_three_arguments_is_refused_at_once() -> None:
    with pytest.raises(TypeError, match=r"takes 3 arguments; give one of \(value\)"):
        strings().stream("in").filter(lambda a, b, c: True)  # type: ignore[misc,arg-type]
