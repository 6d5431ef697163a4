"""Word count, from text to counts."""

from __future__ import annotations

import pickle

import pytest

from ottla.engine.subtopologies import subtopologies
from ottla.streams import Long, String, Topology, TopologyTestDriver

cloudpickle = pytest.importorskip("pyspark.cloudpickle")


def word_count() -> Topology:
    topology = Topology()
    lines = topology.stream("streams-plaintext-input", key=String(), value=String())
    words = lines.flat_map_values(lambda line: line.lower().split())
    counts = words.group_by(lambda word: word, key=String(), value=String())
    counts.count(store="counts-store").to_stream().to("streams-wordcount-output")
    return topology


def test_words_are_counted_and_every_update_is_seen() -> None:
    with TopologyTestDriver(word_count()) as driver:
        lines = driver.create_input_topic("streams-plaintext-input", String(), String())
        counts = driver.create_output_topic("streams-wordcount-output", String(), Long())
        lines.pipe_input("to be or not to be")
        assert counts.read_key_values_to_list() == [
            ("to", 1),
            ("be", 1),
            ("or", 1),
            ("not", 1),
            ("to", 2),
            ("be", 2),
        ]
        store = driver.get_key_value_store("counts-store")
        assert store.get("to") == 2
        assert list(store.range("be", "not")) == [("be", 2), ("not", 1)]
        assert driver.produced_topic_names == {"streams-wordcount-output"}


def test_the_topology_is_described_as_by_kafka() -> None:
    assert (
        word_count().describe()
        == """Topologies:
   Sub-topology: 0
    Source: KSTREAM-SOURCE-0000000000 (topics: [streams-plaintext-input])
      --> KSTREAM-FLATMAPVALUES-0000000001
    Processor: KSTREAM-FLATMAPVALUES-0000000001 (stores: [])
      --> KSTREAM-KEY-SELECT-0000000002
      <-- KSTREAM-SOURCE-0000000000
    Processor: KSTREAM-KEY-SELECT-0000000002 (stores: [])
      --> counts-store-repartition-filter
      <-- KSTREAM-FLATMAPVALUES-0000000001
    Processor: counts-store-repartition-filter (stores: [])
      --> counts-store-repartition-sink
      <-- KSTREAM-KEY-SELECT-0000000002
    Sink: counts-store-repartition-sink (topic: counts-store-repartition)
      <-- counts-store-repartition-filter

  Sub-topology: 1
    Source: counts-store-repartition-source (topics: [counts-store-repartition])
      --> KSTREAM-AGGREGATE-0000000003
    Processor: KSTREAM-AGGREGATE-0000000003 (stores: [counts-store])
      --> KTABLE-TOSTREAM-0000000007
      <-- counts-store-repartition-source
    Processor: KTABLE-TOSTREAM-0000000007 (stores: [])
      --> KSTREAM-SINK-0000000008
      <-- KSTREAM-AGGREGATE-0000000003
    Sink: KSTREAM-SINK-0000000008 (topic: streams-wordcount-output)
      <-- KTABLE-TOSTREAM-0000000007

"""
    )


def test_no_topic_separates_the_new_key_from_the_count() -> None:
    (piece,) = subtopologies(word_count().graph)
    (prefix,) = piece.prefixes
    assert (piece.number, prefix.number) == (1, 0)
    assert not prefix.stateful
    assert piece.internal_topics == []
    assert [edge.topic for edge in prefix.rekeyed] == ["counts-store-repartition"]


def test_a_topology_can_be_pickled() -> None:
    sent = pickle.loads(cloudpickle.dumps(subtopologies(word_count().graph)))
    assert [subtopology.number for subtopology in sent] == [1]
