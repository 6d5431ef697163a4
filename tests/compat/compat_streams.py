"""Kafka Streams' own TopologyTestDriver: tools/clients/kafka-streams, one program for all tests."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

from compat_brokers import CACHE, REPOSITORY, SHORT_LIVED

sys.path.insert(0, str(REPOSITORY / "tests/streams"))

JARS = CACHE / "kafka-streams"
SEED = int(os.environ.get("OTTLA_STREAMS_SEED") or random.randrange(1_000_000))
RUNS = int(os.environ.get("OTTLA_STREAMS_RUNS", "2"))
RECORDS = 60


class KafkaStreams:
    """The Java program, which answers line by line; a full stop ends an answer."""

    def __init__(self, directory: Path) -> None:
        assert (JARS / "classes").exists(), "run tools/setup_test_clients.sh --maven first"
        java = ["java", "-Xmx256M", *SHORT_LIVED, "-cp", f"{JARS}/*:{JARS}/classes"]
        self._process = subprocess.Popen(
            [*java, "Transcripts", str(directory)],
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
        for output in self._process.stdout:
            if output == ".\n":
                return answer
            answer.append(output.rstrip("\n"))
        raise AssertionError(f"the Java program has ended at: {line}")

    def close(self) -> None:
        self._process.communicate(timeout=60)
