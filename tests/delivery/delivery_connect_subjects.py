"""What a connector copies in a run, how the input grows meanwhile, and what must be true.

Each subject is a connector: a source of numbers, one of the lines of a growing file, and two sinks
with a growing topic. `found` counts what has arrived, `wrong` lists the violations.
"""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from collections.abc import Mapping, Sequence
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


def log_of(
    servers: str, partition: int, topic: str = TOPIC, known: Sequence[Batch] = ()
) -> list[Batch]:
    """After a kill the broker must lead its partitions again."""
    deadline = time.monotonic() + READ_S_MAX
    while True:
        try:
            return read_log(servers, topic, partition, known)
        except (AssertionError, KafkaError):
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


class Subject(Protocol):
    partitions: int
    sink: bool
    grows: bool
    """True if the input grows during a life; else it is complete at the start."""
    count: int
    """The size of the present input."""

    def config(self) -> dict[str, str]: ...

    def grow(self, chance: random.Random) -> None:
        """Add a little input; called on its own thread while the connector runs and dies."""

    def found(self) -> int:
        """How much of the input has arrived, or can't arrive before there is more."""

    def arrived(self) -> int:
        """How much of the input the connector has written."""

    def watch(self) -> None:
        """Check what must hold at any time; called now and then."""

    def wrong(self) -> list[str]: ...

    def close(self) -> None: ...


class Source:
    """The output is the committed records of the topic."""

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
        wrong = [f"{record} is there {count} times" for record, count in found.items() if count > 1]
        wrong += [f"{record} is missing" for record in expected if record not in found]
        wrong += [f"{record} was never sent" for record in found.keys() - set(expected)]
        for partition in range(self.partitions):
            log = log_of(self.servers, partition)
            wrong += [f"a transaction is open in {partition}" for _ in open_producers(log)]
        return wrong


class Numbers(Source):
    """Two tasks that count, each up to a limit that is set at the start of a life."""

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
        """The input does not grow during a life."""

    def wrong(self) -> list[str]:
        numbers = range(self.count // self.TASKS)
        wrong = self.compared(
            [f"{task}:{number}" for task in range(self.TASKS) for number in numbers]
        )
        for task in range(self.TASKS):
            mine = [int(v.split(":")[1]) for v in self.values() if v.startswith(f"{task}:")]
            if mine != sorted(mine):
                wrong.append(f"the numbers of task {task} are not in order")
        return wrong


class GrowingFile(Source):
    """A file that grows, also by half a line. One partition, so the order is that of the file."""

    def __init__(self, servers: str, directory: Path) -> None:
        super().__init__(servers, directory, partitions=1)
        self._path = directory / "lines"
        self._path.touch()
        self._rest = ""

    def config(self) -> dict[str, str]:
        return {"connector.class": "FileStreamSource", "topic": TOPIC, "file": str(self._path)}

    def grow(self, chance: random.Random) -> None:
        count = chance.randrange(1, AT_ONCE_MAX)
        new = [f"{self.count + number}:{'x' * chance.randrange(40)}\n" for number in range(count)]
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
        """Complete the last line before the last check."""
        with self._path.open("a") as file:
            file.write(self._rest)
        self._rest = ""


class Sink:
    """A producer fills its topic; the offsets of its group may never decrease."""

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
        """The records in the topic: the producer may have got its answers late, or never."""
        return {
            partition: [
                (record.value or b"").decode()
                for record in committed(log_of(self.servers, partition))
            ]
            for partition in range(self.partitions)
        }

    def wrong(self) -> list[str]:
        self.watch()
        return list(self._went_back)

    def close(self) -> None:
        """Before the last check, wait until everything that was sent is there."""
        self._producer.flush()


class FileSink(Sink):
    """At least once: lines may be repeated, but none is missing or incomplete."""

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
        sent = {line for some in self.sent().values() for line in some}
        lines = set(self.lines())
        wrong = [f"{line} is missing" for line in sorted(sent - lines)]
        wrong += [f"{line} was never sent" for line in sorted(lines - sent)]
        return wrong + super().wrong()


class FilesSink(Sink):
    """Exactly once: files are named by offsets, so a file that is written again is the same."""

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
            path.name: [str(json.loads(line)) for line in path.read_text().splitlines()]
            for path in self.directory.rglob(f"{TOPIC}+*.json")
        }

    def found(self) -> int:
        """The last file of each partition stays incomplete, for lack of records."""
        waiting = sum(len(lines) % FLUSH_SIZE for lines in self.sent().values())
        return self.arrived() + waiting

    def arrived(self) -> int:
        return sum(len(file) for file in self.files().values())

    def wrong(self) -> list[str]:
        wrong, files = [], dict(self.files())
        for partition, values in self.sent().items():
            for first in range(0, len(values) - len(values) % FLUSH_SIZE, FLUSH_SIZE):
                name = f"{TOPIC}+{partition}+{first:010d}.json"
                if files.pop(name, None) != values[first : first + FLUSH_SIZE]:
                    wrong.append(f"{name} is missing, or other than the records are")
        wrong += [f"nobody needs {file}" for file in sorted(files)]
        return wrong + super().wrong()


SUBJECTS: dict[str, Any] = {
    "numbers": Numbers,
    "lines": GrowingFile,
    "files": FilesSink,
    "file": FileSink,
}
