"""The same records, the same results: against transcripts of Kafka Streams 4.3.1.

Windows of every kind, final results, suppression, joins of every kind, cogroups; with late records,
leaps of time, deletions, and records without key. One transcript for each topology.
"""

from __future__ import annotations

import pytest
from kafka_topologies import TOPOLOGIES, topology
from transcripts import TopologyTranscript, read


@pytest.mark.parametrize("name", TOPOLOGIES)
def test_results_are_those_of_kafka_streams(name: str) -> None:
    play = TopologyTranscript(topology(name))
    for row, answers in read(name):
        assert play.ask(row) == answers, row


@pytest.mark.parametrize("name", TOPOLOGIES)
def test_results_are_the_same_when_tasks_restart_for_every_record(name: str) -> None:
    """All of a node's state is in the cells of its task, and none in the process."""
    play = TopologyTranscript(topology(name))
    for row, answers in read(name):
        assert play.ask(row) == answers, row
        play.driver.restart()
