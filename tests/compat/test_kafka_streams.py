"""Beside Kafka Streams' own TopologyTestDriver (Maven Central): same records, same results.

Every topology of tests/spark/streams/kafka_topologies.py is there in Java, too. Both are given the
same random records, late ones and deletions among them, and must say the same after each one; and
they must describe themselves with the same words. A seed that fails is in the message.

    OTTLA_STREAMS_SEED=7 OTTLA_STREAMS_RUNS=50 pytest tests/compat/test_kafka_streams.py -m maven
    OTTLA_STREAMS_WRITE=1 ...     also writes the transcripts that tests/spark/streams replays
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from compat_brokers import CACHE, REPOSITORY

sys.path.insert(0, str(REPOSITORY / "tests/spark/streams"))

from kafka_topologies import TOPOLOGIES, topology
from transcripts import Play, Row, Turn, rows, write

pytestmark = [pytest.mark.maven, pytest.mark.timeout(300)]

JARS = CACHE / "kafka-streams"
SEED = int(os.environ.get("OTTLA_STREAMS_SEED") or random.randrange(1_000_000))
RUNS = int(os.environ.get("OTTLA_STREAMS_RUNS", "2"))
RECORDS = 60


class KafkaStreams:
    """The Java program, which answers line by line; a full stop ends an answer."""

    def __init__(self, directory: Path) -> None:
        command = ["java", "-Xmx256M", "-cp", f"{JARS}/*:{JARS}/classes", "Transcripts"]
        self._process = subprocess.Popen(
            [*command, str(directory)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, line: str) -> list[str]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
        answer: list[str] = []
        for told in self._process.stdout:
            if told == ".\n":
                return answer
            answer.append(told.rstrip("\n"))
        raise AssertionError(f"the Java program has ended at: {line}")

    def close(self) -> None:
        self._process.communicate(timeout=60)


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaStreams]:
    assert (JARS / "classes").exists(), "run tools/setup_test_clients.sh --maven first"
    program = KafkaStreams(tmp_path_factory.mktemp("kafka-streams"))
    yield program
    program.close()


@pytest.mark.parametrize("name", TOPOLOGIES)
def test_both_say_the_same_after_every_record(kafka: KafkaStreams, name: str) -> None:
    for seed in range(SEED, SEED + RUNS):
        turns = _compare(kafka, name, list(rows(name, seed, RECORDS)), f"OTTLA_STREAMS_SEED={seed}")
    if os.environ.get("OTTLA_STREAMS_WRITE"):
        write(name, turns)


@pytest.mark.parametrize("name", TOPOLOGIES)
def test_both_describe_themselves_with_the_same_words(kafka: KafkaStreams, name: str) -> None:
    theirs = "\n".join(kafka.ask(f"describe {name}"))
    assert topology(name).describe().rstrip() == theirs.rstrip()


def _compare(kafka: KafkaStreams, name: str, records: list[Row], where: str) -> list[Turn]:
    kafka.ask(f"open {name}")
    play = Play(name)
    turns: list[Turn] = []
    for row in records:
        theirs = kafka.ask(" ".join(map(str, row)))
        turns.append((row, theirs))
        assert play.ask(row) == theirs, f"{where}: {turns[-10:]}"
    return turns
