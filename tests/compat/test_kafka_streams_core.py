"""Streams and tables beside Kafka Streams' own TopologyTestDriver, without caches and with them.

As test_kafka_streams.py, for the topologies of tests/streams/stream_topologies.py.

    OTTLA_STREAMS_WRITE=1 ...     also writes what tests/streams replays
"""

from __future__ import annotations

import os

import pytest
from compat_streams import RECORDS, RUNS, SEED, KafkaStreams
from stream_topologies import ALL, DESCRIPTIONS, built, descriptions, random_rows
from transcripts import TopologyTranscript, Turn, write

pytestmark = [pytest.mark.maven, pytest.mark.timeout(1000)]

WRITES = bool(os.environ.get("OTTLA_STREAMS_WRITE"))


@pytest.mark.parametrize("caching", [True, False], ids=["cached", "uncached"])
@pytest.mark.parametrize("name", sorted(ALL))
def test_both_give_the_same_results_after_every_record(
    kafka_streams: KafkaStreams, name: str, caching: bool
) -> None:
    for seed in range(SEED, SEED + RUNS):
        kafka_streams.ask(f"open {name} cached" if caching else f"open {name}")
        play = TopologyTranscript(built(name), caching=caching)
        turns: list[Turn] = []
        for row in random_rows(name, seed, RECORDS):
            theirs = kafka_streams.ask(" ".join(map(str, row)))
            turns.append((row, theirs))
            assert play.ask(row) == theirs, f"OTTLA_STREAMS_SEED={seed}: {turns[-10:]}"
    if WRITES and not caching:
        write(name, turns)


def test_both_print_the_same_topology_description(kafka_streams: KafkaStreams) -> None:
    theirs = {name: kafka_streams.ask(f"describe {name}") for name in sorted(ALL)}
    if WRITES:
        DESCRIPTIONS.write_text(
            "".join(f"= {name}\n" + "\n".join(lines) + "\n" for name, lines in theirs.items())
        )
    for name, lines in theirs.items():
        assert built(name).describe().split() == " ".join(lines).split()
    assert descriptions().keys() == theirs.keys()
