"""Beside Kafka Streams' own TopologyTestDriver (Maven Central): same records, same results.

Every topology of tests/streams/kafka_topologies.py is there in Java, too. Both are given the
same random records, late ones and deletions among them, and must say the same after each one; and
they must describe themselves with the same words. A seed that fails is in the message.

    OTTLA_STREAMS_SEED=7 OTTLA_STREAMS_RUNS=50 pytest tests/compat/test_kafka_streams.py -m maven
    OTTLA_STREAMS_WRITE=1 ...     also writes the transcripts that tests/streams replays
"""

from __future__ import annotations

import os

import pytest
from compat_streams import RECORDS, RUNS, SEED, KafkaStreams
from kafka_topologies import TOPOLOGIES, topology
from transcripts import TopologyTranscript, Turn, rows, write

pytestmark = [pytest.mark.maven, pytest.mark.timeout(1000)]

# With a cache Kafka still finds a session whose retention is over, and joins a late record with it,
# but gives no tombstone for it: the old session stays in the table below. Ours gives one, and
# `session-kept` has sessions that are kept for longer, so that both say the same.
NO_TOMBSTONES = {"session", "session-aggregate", "session-reduce", "cogroup-session"}


@pytest.mark.parametrize("caching", [False, True], ids=["uncached", "cached"])
@pytest.mark.parametrize("name", TOPOLOGIES)
def test_both_give_the_same_results_after_every_record(
    kafka_streams: KafkaStreams, name: str, caching: bool
) -> None:
    if caching and name in NO_TOMBSTONES:
        return
    for seed in range(SEED, SEED + RUNS):
        turns = _compare(kafka_streams, name, seed, caching)
    if os.environ.get("OTTLA_STREAMS_WRITE") and not caching:
        write(name, turns)


@pytest.mark.parametrize("name", TOPOLOGIES)
def test_both_print_the_same_topology_description(kafka_streams: KafkaStreams, name: str) -> None:
    theirs = "\n".join(kafka_streams.ask(f"describe {name}"))
    assert topology(name).describe().rstrip() == theirs.rstrip()


def _compare(kafka: KafkaStreams, name: str, seed: int, caching: bool) -> list[Turn]:
    kafka.ask(f"open {name} cached" if caching else f"open {name}")
    play = TopologyTranscript(topology(name), caching=caching)
    turns: list[Turn] = []
    for row in rows(name, seed, RECORDS):
        theirs = kafka.ask(" ".join(map(str, row)))
        turns.append((row, theirs))
        assert play.ask(row) == theirs, f"OTTLA_STREAMS_SEED={seed}: {turns[-10:]}"
    return turns
