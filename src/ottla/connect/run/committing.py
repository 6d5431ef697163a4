"""What the driver does with the reports of tasks: a group's offsets, or a worker's file."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Final

from ottla.client import Admin
from ottla.client.record import TopicPartition
from ottla.client.topics import TopicDescription
from ottla.connect.run.orders import Job, Report
from ottla.connect.run.reading import topics_pattern
from ottla.connect.run.seat import Seat
from ottla.connect.run.source_offsets import FileOffsets
from ottla.connect.run.worker import Worker
from ottla.errors import KafkaError
from ottla.rows.java.regular_expressions import compile_java
from ottla.spark.offsets import Offsets

log = logging.getLogger("ottla.connect")

AGAIN_S: Final = 1.0


def starts_of(job: Job) -> Offsets:
    """Sinks: where the group is."""
    if job.source:
        return {}
    with Admin(job.worker.bootstrap_servers, settings=job.worker.admin(job.config)) as admin:
        return {each: at.offset for each, at in admin.groups.offsets(job.group).items()}


class Committing:
    """Reports are sums, so that one which was missed is in the next. What could not be committed
    is tried again, be there a next one or not."""

    def __init__(self, name: str, worker: Worker) -> None:
        self._name = name
        self._worker = worker
        self._seat: Seat | None = None
        self._committed: Offsets = {}
        self._waiting: Offsets = {}
        self._tried_s = 0.0
        self._taking: Future[None] | None = None

    def begin_soon(self, config: Mapping[str, str]) -> None:
        """A sink's run begins: brokers let a group that was empty wait for others, 3 s by default,
        in which Spark may start."""
        if self._taking is None:
            thread = ThreadPoolExecutor(1, thread_name_prefix="connect seat")
            self._taking = thread.submit(self._take_seat, config)
            thread.shutdown(wait=False)

    def begin(self, config: Mapping[str, str]) -> None:
        """From here on no other worker commits offsets of this connector."""
        self.begin_soon(config)
        taking, self._taking = self._taking, None
        assert taking is not None
        taking.result()
        self._committed, self._waiting = {}, {}

    def _take_seat(self, config: Mapping[str, str]) -> None:
        if self._seat is None:
            self._seat = Seat(self._name, config, self._worker)
        self._seat.take(read_by(config, self._worker))

    def check(self) -> None:
        """Now and then, also if nothing is told. ConnectException: another worker has it."""
        if self._waiting and time.monotonic() - self._tried_s > AGAIN_S:
            self._commit()
        if self._seat is not None:
            self._seat.check()

    def take(self, reports: Iterable[Report]) -> None:
        offsets: Offsets = {}
        in_file: dict[str, Mapping[str, object] | None] = {}
        for report in reports:
            offsets |= report.consumed
            in_file |= {each: json.loads(text) for each, text in report.source.items()}
        if in_file:
            FileOffsets(Path(self._worker.offsets_file)).update(self._name, in_file)
        self._waiting |= offsets
        self._waiting = {
            each: at for each, at in self._waiting.items() if self._committed.get(each) != at
        }
        if self._waiting:
            self._commit()

    def end(self) -> None:
        """Nothing of the connector runs here any more."""
        taking, self._taking = self._taking, None
        if taking is not None:
            wait([taking])
        seat, self._seat = self._seat, None
        if seat is not None:
            seat.leave()

    def _commit(self) -> None:
        self._tried_s = time.monotonic()
        assert self._seat is not None, "only a sink has such offsets, and it has begun"
        try:
            self._seat.commit(self._waiting)
            self._committed |= self._waiting
            self._waiting = {}
        except KafkaError as error:
            log.warning("connector %s: offsets are not committed yet: %s", self._name, error)


def read_by(config: Mapping[str, str], worker: Worker) -> list[TopicPartition]:
    """The partitions that a sink's topics have now."""
    pattern = compile_java(topics_pattern(config))
    with Admin(worker.bootstrap_servers, settings=worker.admin(config)) as admin:
        names = [each for each in admin.topics.names() if pattern.fullmatch(each)]
        found = admin.topics.describe(*names) if names else {}
    return [
        TopicPartition(topic.name, each.partition)
        for topic in found.values()
        if isinstance(topic, TopicDescription)
        for each in topic.partitions
    ]
