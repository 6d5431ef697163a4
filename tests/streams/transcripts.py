"""Transcripts of Kafka Streams' own TopologyTestDriver, and their replay.

A transcript has a line for each record, `TOPIC KEY VALUE TIMESTAMP`, and below it, indented, what
came out: `KEY VALUE TIMESTAMP`. "~" is null. tests/compat/test_kafka_streams.py writes them.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

from ottla.streams import String, Topology, TopologyTestDriver

TRANSCRIPTS = Path(__file__).parent / "transcripts"
TOPICS = ("left", "right", "third")

Row = tuple[str, str, str, int]
Turn = tuple[Row, list[str]]


class TopologyTranscript:
    """A topology, fed record by record.

    Kafka's side has no caches by default, because they hide what happens within one
    record.
    """

    def __init__(self, topology: Topology, *, caching: bool = False) -> None:
        self.driver = TopologyTestDriver(topology, application_id="app", caching=caching)
        self._topics = {
            topic: self.driver.create_input_topic(topic, String(), String()) for topic in TOPICS
        }
        self._out = self.driver.create_output_topic("out", String(), String())

    def ask(self, row: Row) -> list[str]:
        topic, key, value, timestamp = row
        self._topics[topic].pipe_input(_read(key), _read(value), timestamp)
        return [
            f"{_written(record.key)} {_written(record.value)} {record.timestamp}"
            for record in self._out.read_records_to_list()
        ]


def read(name: str) -> list[Turn]:
    turns: list[Turn] = []
    for line in (TRANSCRIPTS / f"{name}.txt").read_text().splitlines():
        if line.startswith(" "):
            turns[-1][1].append(line.strip())
        else:
            topic, key, value, timestamp = line.split()
            turns.append(((topic, key, value, int(timestamp)), []))
    return turns


def write(name: str, turns: list[Turn]) -> None:
    lines = []
    for row, answers in turns:
        lines.append(" ".join(map(str, row)))
        lines.extend(f"    {answer}" for answer in answers)
    (TRANSCRIPTS / f"{name}.txt").write_text("\n".join(lines) + "\n")


def rows(name: str, seed: int, count: int) -> Iterator[Row]:
    """Records with rising times, and late ones, leaps, deletions and missing keys."""
    dice = random.Random(f"{name} {seed}")
    now = dice.choice((0, 0, 30, 100))
    keys = dice.choice(("ab", "abc", "a"))
    topics = _topics(name)
    leaps = dice.random() < 0.3
    rekeyed = name.endswith("rekeyed")
    by_value = name.startswith(("foreign", "stream-global"))
    deletions = 0.2 if "table" in name or name.startswith(("foreign", "suppress-")) else 0.03
    for _ in range(count):
        now += dice.choice((0, 0, 1, 1, 2, 3, 5))
        if leaps and dice.random() < 0.05:
            now += dice.choice((15, 40))
        timestamp = max(0, now - dice.choice((0, 0, 0, 0, 1, 2, 4, 7, 12, 20)))
        topic = dice.choice(topics)
        key, value = dice.choice(keys), dice.choice("pqrstuvz")
        if rekeyed or (by_value and topic == "left"):
            value = dice.choice("abz") + dice.choice(("", "1"))
        if dice.random() < deletions:
            value = "~"
        if dice.random() < 0.02:
            key = "~"
        yield topic, key, value, timestamp


def _topics(name: str) -> tuple[str, ...]:
    if name == "table-three":
        return TOPICS
    both = name.startswith(("stream-", "table-", "foreign", "cogroup", "suppress-join"))
    return ("left", "right") if both and name != "stream-self" else ("left",)


def _read(word: str) -> str | None:
    return None if word == "~" else word


def _written(text: str | None) -> str:
    return "~" if text is None else text.replace(" ", "_")
