"""Registries that write at the same time and are killed at random (decision 0033)."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from compat_brokers import ApacheBroker, Broker
from confluent_kafka import Consumer, TopicPartition

WRITERS = 2
KILLS = 12
ANSWERS_BETWEEN_KILLS = (0, 25)
WAIT_S_MAX = 60.0
SEED = 20261117


@pytest.mark.delivery
def test_two_writers_killed_at_random_leave_dense_ids_and_lose_nothing(tmp_path: Path) -> None:
    broker = Broker(tmp_path).start()
    try:
        check_killed_writers(broker.bootstrap, tmp_path)
    finally:
        broker.stop()


@pytest.mark.maven
def test_two_writers_on_apache_kafka(tmp_path: Path) -> None:
    broker = ApacheBroker(tmp_path).start()
    try:
        check_killed_writers(broker.bootstrap, tmp_path)
    finally:
        broker.stop()


def check_killed_writers(bootstrap: str, directory: Path) -> None:
    chance = random.Random(SEED)
    answers = directory / "answers"
    answers.touch()
    writers = [start(bootstrap, f"{place}-0", answers) for place in range(WRITERS)]
    try:
        for count in range(1, KILLS + 1):
            wait_for_answers(answers, lines(answers) + chance.randint(*ANSWERS_BETWEEN_KILLS))
            time.sleep(chance.random() * 0.05)  # during an append, or a start
            place = chance.randrange(WRITERS)
            writers[place].kill()
            writers[place].wait()
            writers[place] = start(bootstrap, f"{place}-{count}", answers)
        wait_for_answers(answers, lines(answers) + 50)
    finally:
        for writer in writers:
            writer.kill()
            writer.wait()
    check_log(bootstrap, [json.loads(line) for line in whole_lines(answers)])


def check_log(bootstrap: str, answered: list[dict[str, object]]) -> None:
    found = schemas_of(bootstrap)
    assert [entry["id"] for entry in found] == list(range(1, len(found) + 1))
    counts: Counter[object] = Counter()
    for entry in found:
        counts[entry["subject"]] += 1
        assert entry["version"] == counts[entry["subject"]]
    by_id = {entry["id"]: entry for entry in found}
    assert len(answered) > 50
    for entry in answered:
        assert by_id[entry["id"]] == entry
    writers = {str(entry["schema"]).partition("-")[0] for entry in answered}
    assert len(writers) == WRITERS, "only one writer was ever answered"


def schemas_of(bootstrap: str) -> list[dict[str, object]]:
    """All records, read by confluent-kafka."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "check"})
    partition = TopicPartition("_schemas", 0, 0)
    _, end = consumer.get_watermark_offsets(partition, timeout=WAIT_S_MAX)
    consumer.assign([partition])
    found = []
    position = 0
    while position < end:
        message = consumer.poll(WAIT_S_MAX)
        assert message is not None
        assert message.error() is None
        position = (message.offset() or 0) + 1
        if json.loads(message.key() or b"")["keytype"] == "SCHEMA":
            found.append(json.loads(message.value() or b""))
    consumer.close()
    return found


def start(bootstrap: str, seed: str, answers: Path) -> subprocess.Popen[bytes]:
    script = Path(__file__).with_name("log_writer.py")
    return subprocess.Popen([sys.executable, str(script), bootstrap, seed, str(answers)])


def wait_for_answers(answers: Path, count: int) -> None:
    deadline = time.monotonic() + WAIT_S_MAX
    while lines(answers) < count:
        assert time.monotonic() < deadline, f"{lines(answers)} answers, not {count}"
        time.sleep(0.01)


def lines(answers: Path) -> int:
    return len(whole_lines(answers))


def whole_lines(answers: Path) -> list[str]:
    """A writer that is killed may leave half a line; the next one continues it."""
    return [
        line
        for line in answers.read_text().splitlines()
        if line.startswith('{"subject') and line.endswith("}") and line.count("{") == 1
    ]
