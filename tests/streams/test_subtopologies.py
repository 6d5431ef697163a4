"""Where a graph is cut, and where two sub-topologies need no topic between them."""

from __future__ import annotations

from streams_kit import strings

from ottla.engine.subtopologies import Subtopology, node_groups, subtopologies
from ottla.streams import KStream, Processor, String, Topology, key_value_store


def stream_in(topology: Topology, topic: str = "in") -> KStream[str, str]:
    return topology.stream(topic)


def pieces_of(topology: Topology) -> list[Subtopology]:
    return subtopologies(topology.graph)


def topics_written(piece: Subtopology) -> list[str]:
    return [edge.topic for edge in piece.rekeyed]


def topics_read(piece: Subtopology) -> list[str]:
    return [internal_topic.topic for internal_topic in piece.internal_topics]


def test_unconnected_nodes_form_separate_subtopologies() -> None:
    topology = strings()
    stream_in(topology, "one").to("x")
    stream_in(topology, "two").to("y")
    first, second = pieces_of(topology)
    assert [source.topics for source in first.sources] == [("one",)]
    assert [source.topics for source in second.sources] == [("two",)]
    assert not first.stateful


def test_a_merge_joins_subtopologies() -> None:
    topology = strings()
    stream_in(topology, "one").merge(stream_in(topology, "two")).to("x")
    (piece,) = pieces_of(topology)
    assert [source.topics for source in piece.sources] == [("one",), ("two",)]


def test_a_shared_store_joins_subtopologies() -> None:
    topology = strings()
    shared = key_value_store("shared", String(), String())
    stream_in(topology, "one").process(Processor, stores=[shared])
    stream_in(topology, "two").process(Processor, stores=["shared"])
    (piece,) = pieces_of(topology)
    assert piece.stateful
    assert piece.custom
    assert list(piece.stores) == ["shared"]


def test_a_new_key_in_front_of_a_count_is_a_prefix() -> None:
    topology = strings()
    stream_in(topology).filter(len).select_key(len).group_by_key().count()
    (piece,) = pieces_of(topology)
    (prefix,) = piece.prefixes
    assert topics_read(piece) == []
    assert topics_written(prefix) == [repartition.topic for repartition in piece.repartitions]
    assert [source.topics for source in prefix.sources] == [("in",)]
    assert not piece.sources


def test_a_new_key_after_a_store_goes_through_a_topic() -> None:
    topology = strings()
    counts = stream_in(topology).group_by_key().count().to_stream()
    counts.group_by(lambda count: str(count)).count()
    first, second = pieces_of(topology)
    assert first.stateful
    assert topics_written(first) == topics_read(second)
    assert not second.prefixes


def test_an_explicit_repartition_is_a_topic() -> None:
    topology = strings()
    stream_in(topology).select_key(len).repartition(name="mine").group_by_key().count()
    first, second = pieces_of(topology)
    assert not first.stateful
    assert topics_written(first) == topics_read(second) == ["mine-repartition"]


def test_pure_steps_may_be_a_prefix_of_several_pieces() -> None:
    topology = strings()
    stream = stream_in(topology).map_values(str.upper)
    stream.to("copy")
    stream.group_by(lambda v: v).count()
    stream.group_by(lambda v: v[:1]).count()
    copy, first, second = pieces_of(topology)
    assert [subtopology.number for subtopology in (copy, first, second)] == [0, 1, 2]
    assert topics_written(copy) == []
    assert [node.name for node in copy.nodes] == ["KSTREAM-MAPVALUES-0000000001"]
    for piece in (first, second):
        (prefix,) = piece.prefixes
        assert len(prefix.rekeyed) == 1
        assert len(prefix.nodes) == 3  # map, its own key, its own filter


def test_visible_effects_are_not_repeated() -> None:
    topology = strings()
    stream = stream_in(topology).peek(print)
    stream.group_by(lambda v: v).count()
    stream.group_by(lambda v: v[:1]).count()
    above, first, second = pieces_of(topology)
    assert topics_written(above) == topics_read(first) + topics_read(second)


def test_a_lone_prefix_may_have_visible_effects() -> None:
    topology = strings()
    stream_in(topology).peek(print).group_by(lambda v: v).count()
    (piece,) = pieces_of(topology)
    assert len(piece.prefixes) == 1


def test_a_custom_processor_may_schedule_and_is_not_a_prefix() -> None:
    topology = strings()
    stream_in(topology).process(Processor).group_by_key().count()
    first, second = pieces_of(topology)
    assert first.custom
    assert first.stateful
    assert not second.prefixes


def test_global_tables_take_a_number_as_in_kafka() -> None:
    topology = strings()
    stream_in(topology, "one").to("x")
    topology.global_table("names")
    stream_in(topology, "two").to("y")
    assert list(node_groups(topology.graph)) == [0, 2]
    assert [piece.number for piece in pieces_of(topology)] == [0, 2]


def test_copies_of_one_key_change_share_the_prefix() -> None:
    """Two repartitions from one piece into one other: a self-join of a stream with a new key."""
    topology = strings()
    stream = stream_in(topology)
    left = stream.select_key(len).repartitioned("l")
    right = stream.select_key(str).repartitioned("r")
    left.merge(right).to("out")
    (piece,) = pieces_of(topology)
    (prefix,) = piece.prefixes
    assert topics_written(prefix) == ["l-repartition", "r-repartition"]
