"""The same records, the same results, the same names: transcripts of Kafka Streams 4.3.1.

Everything but windows and joins (test_kafka_transcripts.py has these). Kafka answered without
caches, and with a commit behind each record; so do we. tests/compat/test_kafka_streams_core.py
writes them.
"""

from __future__ import annotations

import pytest
from stream_topologies import ALL, built, descriptions
from transcripts import TopologyTranscript, read


@pytest.mark.parametrize("restarted", [False, True], ids=["one task", "a new task for each record"])
@pytest.mark.parametrize("name", sorted(ALL))
def test_results_are_those_of_kafka_streams(name: str, restarted: bool) -> None:
    """With new tasks: all of a node's state is in the cells of its task."""
    play = TopologyTranscript(built(name))
    for row, answers in read(name):
        assert play.ask(row) == answers, row
        if restarted:
            play.driver.restart()


@pytest.mark.parametrize("name", sorted(ALL))
def test_names_and_subtopologies_are_those_of_kafka_streams(name: str) -> None:
    assert built(name).describe().rstrip() == descriptions()[name].rstrip()
