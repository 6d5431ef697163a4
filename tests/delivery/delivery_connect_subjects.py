"""What a connector copies in a run, how that grows while things are killed, and what must be true.

Each subject is a connector: numbers out of nowhere, the lines of a file that somebody appends to,
and two sinks whose topic somebody fills. `found` is what has arrived, `wrong` what may not be.
"""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

from delivery_log import Batch, committed, open_producers
from delivery_spark import read_log

from ottla.client import Admin, Producer
from ottla.client.record import TopicPartition
from ottla.errors import KafkaError

TOPIC = "target"
GROUP = "connect-subject"
AT_ONCE_MAX = 6
FLUSH_SIZE = 25
READ_S_MAX = 60.0


def log_of(servers: str, partition: int) -> list[Batch]:
    """A broker that was killed has to lead its partitions again."""
    deadline = time.monotonic() + READ_S_MAX
    while True:
        try:
            return read_log(servers, TOPIC, partition)
        except (AssertionError, KafkaError):
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


class Subject(Protocol):
    partitions: int
    sink: bool
    grows: bool
    """While a life lasts; else all that it will copy is there when it begins."""
    count: int
    """Of what there is to copy now."""

    def config(self) -> dict[str, str]: ...

    def grow(self, chance: random.Random) -> None:
        """A little more, by a thread of its own, while the connector runs and dies."""

    def found(self) -> int:
        """How much of it has arrived, or can't arrive before there is more."""

    def arrived(self) -> int:
        """How much of it the connector has written."""

    def watch(self) -> None:
        """Now and then: what may never be, not even for a moment."""

    def wrong(self) -> list[str]: ...

    def close(self) -> None: ...


class Source:
    """What has arrived are the committed records of the topic."""

    sink = False
    grows = True

    def __init__(self, servers: str, directory: Path, partitions: int) -> None:
        self.servers = servers
        self.directory = directory
        self.partitions = partitions
        self.count = 0

    def values(self) -> list[str]:
        return [
            (record.value or b"").decode()
            for partition in range(self.partitions)
            for record in committed(log_of(self.servers, partition))
        ]

    def found(self) -> int:
        return len(set(self.values()))

    def arrived(self) -> int:
        return self.found()

    def watch(self) -> None:
        pass

    def close(self) -> None:
        pass

    def compared(self, expected: list[str]) -> list[str]:
        values = self.values()
        found = Counter(values)
        wrong = [f"{each} is there {count} times" for each, count in found.items() if count > 1]
        wrong += [f"{each} is missing" for each in expected if each not in found]
        wrong += [f"{each} was never sent" for each in found.keys() - set(expected)]
        for partition in range(self.partitions):
            log = log_of(self.servers, partition)
            wrong += [f"a transaction is open in {partition}" for _ in open_producers(log)]
        return wrong


class Numbers(Source):
    """Two tasks that count, each up to what it is told when a life begins."""

    grows = False
    TASKS = 2
    IN_A_LIFE = 2000
    PAUSE_MS = 20

    def __init__(self, servers: str, directory: Path) -> None:
        super().__init__(servers, directory, partitions=2)

    def config(self) -> dict[str, str]:
        self.count += self.TASKS * self.IN_A_LIFE
        return {
            "connector.class": "connect_for_tests:Numbers",
            "tasks.max": str(self.TASKS),
            "topic": TOPIC,
            "numbers": str(self.count // self.TASKS),
            "pause.ms": str(self.PAUSE_MS),
        }

    def grow(self, chance: random.Random) -> None:
        """It does not."""

    def wrong(self) -> list[str]:
        numbers = range(self.count // self.TASKS)
        wrong = self.compared([f"{task}:{each}" for task in range(self.TASKS) for each in numbers])
        for task in range(self.TASKS):
            mine = [int(v.split(":")[1]) for v in self.values() if v.startswith(f"{task}:")]
            if mine != sorted(mine):
                wrong.append(f"the numbers of task {task} are not in order")
        return wrong


class Lines(Source):
    """A file that grows, also by half a line. One partition: so the order is that of the file."""

    def __init__(self, servers: str, directory: Path) -> None:
        super().__init__(servers, directory, partitions=1)
        self._path = directory / "lines"
        self._path.touch()
        self._rest = ""

    def config(self) -> dict[str, str]:
        return {"connector.class": "FileStreamSource", "topic": TOPIC, "file": str(self._path)}

    def grow(self, chance: random.Random) -> None:
        count = chance.randrange(1, AT_ONCE_MAX)
        new = [f"{self.count + each}:{'x' * chance.randrange(40)}\n" for each in range(count)]
        text = self._rest + "".join(new)
        cut = len(text) - chance.choice([0, 0, chance.randrange(len(new[-1]))])
        self._rest = text[cut:]
        with self._path.open("a") as file:
            file.write(text[:cut])
        self.count += count

    def wrong(self) -> list[str]:
        assert not self._rest, "the last line is whole"
        lines = self._path.read_text().splitlines()
        wrong = self.compared(lines)
        if not wrong and self.values() != lines:
            wrong.append("the lines are not in order")
        return wrong

    def close(self) -> None:
        """Before the last look: the line that is half there gets its end."""
        with self._path.open("a") as file:
            file.write(self._rest)
        self._rest = ""


class Sink:
    """Its topic is filled by a producer; offsets of its group may never go back."""

    sink = True
    grows = True
    partitions = 2

    def __init__(self, servers: str, directory: Path) -> None:
        self.servers = servers
        self.directory = directory / "out"
        self.directory.mkdir()
        self.count = 0
        self._producer = Producer(servers, value=str)
        self._admin = Admin(servers)
        self._places: dict[TopicPartition, int] = {}
        self._went_back: list[str] = []

    def grow(self, chance: random.Random) -> None:
        for _ in range(chance.randrange(1, AT_ONCE_MAX)):
            self._producer.send(TOPIC, str(self.count), partition=self.count % self.partitions)
            self.count += 1

    def watch(self) -> None:
        with suppress(KafkaError):  # the broker may be dead just now
            for where, at in self._admin.groups.offsets(GROUP).items():
                before = self._places.get(where, 0)
                if at.offset < before:
                    self._went_back.append(f"{where} went back from {before} to {at.offset}")
                self._places[where] = at.offset

    def sent(self) -> dict[int, list[str]]:
        """What the topic holds: the producer may have been answered late, or never."""
        return {
            partition: [
                (each.value or b"").decode() for each in committed(log_of(self.servers, partition))
            ]
            for partition in range(self.partitions)
        }

    def wrong(self) -> list[str]:
        self.watch()
        return list(self._went_back)

    def close(self) -> None:
        """Before the last look: all that was sent is there."""
        self._producer.flush()


class FileSink(Sink):
    """At least once: lines may come again, and none is missing or cut."""

    def config(self) -> dict[str, str]:
        path = str(self.directory / "lines")
        return {"connector.class": "FileStreamSink", "topics": TOPIC, "file": path}

    def lines(self) -> list[str]:
        path = self.directory / "lines"
        return path.read_text().splitlines() if path.exists() else []

    def found(self) -> int:
        return len(set(self.lines()))

    def arrived(self) -> int:
        return self.found()

    def wrong(self) -> list[str]:
        sent = {each for some in self.sent().values() for each in some}
        lines = set(self.lines())
        wrong = [f"{each} is missing" for each in sorted(sent - lines)]
        wrong += [f"{each} was never sent" for each in sorted(lines - sent)]
        return wrong + super().wrong()


class FilesSink(Sink):
    """Exactly once: files are named by offsets, so that one which is written again is the same."""

    def config(self) -> dict[str, str]:
        return {
            "connector.class": "StorageSink",
            "tasks.max": "2",
            "topics": TOPIC,
            "store.url": self.directory.as_uri(),
            "format.class": "json",
            "flush.size": str(FLUSH_SIZE),
        }

    def files(self) -> Mapping[str, list[str]]:
        return {
            each.name: [str(json.loads(line)) for line in each.read_text().splitlines()]
            for each in self.directory.rglob(f"{TOPIC}+*.json")
        }

    def found(self) -> int:
        """The last file of each partition waits for records that do not come."""
        waiting = sum(len(each) % FLUSH_SIZE for each in self.sent().values())
        return self.arrived() + waiting

    def arrived(self) -> int:
        return sum(len(each) for each in self.files().values())

    def wrong(self) -> list[str]:
        wrong, files = [], dict(self.files())
        for partition, values in self.sent().items():
            for first in range(0, len(values) - len(values) % FLUSH_SIZE, FLUSH_SIZE):
                name = f"{TOPIC}+{partition}+{first:010d}.json"
                if files.pop(name, None) != values[first : first + FLUSH_SIZE]:
                    wrong.append(f"{name} is missing, or other than the records are")
        wrong += [f"nobody needs {each}" for each in sorted(files)]
        return wrong + super().wrong()


SUBJECTS: dict[str, Any] = {
    "numbers": Numbers,
    "lines": Lines,
    "files": FilesSink,
    "file": FileSink,
}
