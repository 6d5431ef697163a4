"""The same records, the same results, the same names: transcripts of Kafka Streams 4.3.1.

Everything but windows and joins (see test_kafka_transcripts.py for these). Kafka answered without
caches, and with a commit behind each record; so do we.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from stream_topologies import ALL, built

from ottla.spark.streams import InputTopic, OutputTopic, String, TopologyTestDriver

HERE = Path(__file__).parent


class Play:
    def __init__(self, name: str) -> None:
        self.driver = TopologyTestDriver(built(name), application_id="app", caching=False)
        self._out: OutputTopic = self.driver.create_output_topic("out", String(), String())
        self._topics: dict[str, InputTopic] = {}

    def ask(self, line: str) -> list[str]:
        topic, key, value, timestamp = line.split()
        if topic not in self._topics:
            self._topics[topic] = self.driver.create_input_topic(topic, String(), String())
        self._topics[topic].pipe_input(read(key), read(value), int(timestamp))
        return [
            f"    {written(each.key)} {written(each.value)} {each.timestamp}"
            for each in self._out.read_records_to_list()
        ]


def read(word: str) -> str | None:
    return None if word == "~" else word


def written(text: str | None) -> str:
    return "~" if text is None else text


def transcript(name: str) -> list[str]:
    return (HERE / "transcripts" / f"{name}.txt").read_text().splitlines()


def descriptions() -> dict[str, str]:
    found: dict[str, str] = {}
    for part in (HERE / "descriptions.txt").read_text().split("= ")[1:]:
        name, _, text = part.partition("\n")
        found[name] = text
    return found


@pytest.mark.parametrize("restarted", [False, True], ids=["one task", "a new task for each record"])
@pytest.mark.parametrize("name", sorted(ALL))
def test_results_are_those_of_kafka_streams(name: str, restarted: bool) -> None:
    """With new tasks: all that a node knows lies in the cells of its task."""
    play, answers = Play(name), list[str]()
    for line in transcript(name):
        if not line.startswith(" "):
            answers.extend((line, *play.ask(line)))
            if restarted:
                play.driver.restart()
    assert answers == transcript(name)


@pytest.mark.parametrize("name", sorted(ALL))
def test_names_and_cuts_are_those_of_kafka_streams(name: str) -> None:
    assert built(name).describe().rstrip() == descriptions()[name].rstrip()
