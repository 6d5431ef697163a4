"""Offsets that tasks report, committed by the driver: to a sink's group, or to a worker's file."""

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
from ottla.connect.run.read_options import topics_pattern
from ottla.connect.run.sink_group_member import SinkGroupMember
from ottla.connect.run.source_offsets import FileOffsetBackingStore
from ottla.connect.run.task_requests import ConnectorJob, TaskReport
from ottla.connect.run.worker_context import WorkerContext
from ottla.errors import KafkaError
from ottla.rows.java.regular_expressions import compile_regular_expression
from ottla.spark.offsets import Offsets

log = logging.getLogger("ottla.connect")

COMMIT_RETRY_S: Final = 1.0


def starting_offsets(job: ConnectorJob) -> Offsets:
    """The committed offsets of a sink's group; a source has none."""
    if job.source:
        return {}
    with Admin(job.worker.bootstrap_servers, settings=job.worker.admin(job.config)) as admin:
        return {partition: at.offset for partition, at in admin.groups.offsets(job.group).items()}


class OffsetCommitter:
    """Commits what tasks report, as the one member of the connector's group.

    Reports are cumulative, so a lost report is covered by the next one. An offset that could not be
    committed is retried by `check`, even if no further report comes.
    """

    def __init__(self, name: str, worker: WorkerContext) -> None:
        self._name = name
        self._worker = worker
        self._member: SinkGroupMember | None = None
        self._committed: Offsets = {}
        self._pending: Offsets = {}
        self._tried_s = 0.0
        self._joining: Future[None] | None = None

    def join_soon(self, config: Mapping[str, str]) -> None:
        """Join in the background while Spark starts: the broker delays the first rebalance of an
        empty group (group.initial.rebalance.delay.ms, 3 s)."""
        if self._joining is None:
            thread = ThreadPoolExecutor(1, thread_name_prefix="connect seat")
            self._joining = thread.submit(self._join_group, config)
            thread.shutdown(wait=False)

    def join(self, config: Mapping[str, str]) -> None:
        """When it returns, every other worker is fenced: it can no longer commit these offsets."""
        self.join_soon(config)
        joining, self._joining = self._joining, None
        assert joining is not None
        joining.result()
        self._committed, self._pending = {}, {}

    def _join_group(self, config: Mapping[str, str]) -> None:
        if self._member is None:
            self._member = SinkGroupMember(self._name, config, self._worker)
        self._member.join(sink_partitions(config, self._worker))

    def check(self) -> None:
        """Called regularly, with or without reports.

        Raises ConnectException if another worker has taken the connector over."""
        if self._pending and time.monotonic() - self._tried_s > COMMIT_RETRY_S:
            self._commit()
        if self._member is not None:
            self._member.check()

    def handle_reports(self, reports: Iterable[TaskReport]) -> None:
        offsets: Offsets = {}
        in_file: dict[str, Mapping[str, object] | None] = {}
        for report in reports:
            offsets |= report.consumed
            in_file |= {partition: json.loads(text) for partition, text in report.source.items()}
        if in_file:
            FileOffsetBackingStore(Path(self._worker.offsets_file)).update(self._name, in_file)
        self._pending |= offsets
        self._pending = {
            partition: at
            for partition, at in self._pending.items()
            if self._committed.get(partition) != at
        }
        if self._pending:
            self._commit()

    def leave(self) -> None:
        """Leave the group: the connector no longer runs here."""
        joining, self._joining = self._joining, None
        if joining is not None:
            wait([joining])
        member, self._member = self._member, None
        if member is not None:
            member.leave()

    def _commit(self) -> None:
        self._tried_s = time.monotonic()
        assert self._member is not None, "only a sink that has joined its group reports offsets"
        try:
            self._member.commit(self._pending)
            self._committed |= self._pending
            self._pending = {}
        except KafkaError as error:
            log.warning(
                "Connector %s: committing offsets failed, will retry: %s", self._name, error
            )


def sink_partitions(config: Mapping[str, str], worker: WorkerContext) -> list[TopicPartition]:
    """The partitions that the sink's topics have now."""
    pattern = compile_regular_expression(topics_pattern(config))
    with Admin(worker.bootstrap_servers, settings=worker.admin(config)) as admin:
        names = [topic for topic in admin.topics.names() if pattern.fullmatch(topic)]
        found = admin.topics.describe(*names) if names else {}
    return [
        TopicPartition(topic.name, partition.partition)
        for topic in found.values()
        if isinstance(topic, TopicDescription)
        for partition in topic.partitions
    ]
