"""What the driver does with the reports of tasks: a group's offsets, or a worker's file."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping
from pathlib import Path

from ottla.client import Admin
from ottla.errors import KafkaError
from ottla.spark.connect.run.orders import Job, Report, group_of
from ottla.spark.connect.run.source_offsets import FileOffsets
from ottla.spark.connect.run.worker import Worker
from ottla.spark.offsets import Offsets

log = logging.getLogger("ottla.connect")


def starts_of(job: Job) -> Offsets:
    """Sinks: where the group is."""
    if job.source:
        return {}
    with Admin(job.worker.bootstrap_servers, settings=job.worker.admin(job.config)) as admin:
        return {each: at.offset for each, at in admin.groups.offsets(job.group).items()}


class Committing:
    """Reports are sums, so that one which was missed, or could not be committed, is in the next."""

    def __init__(self, name: str, config: Mapping[str, str], worker: Worker) -> None:
        self._name = name
        self._group = group_of(name, config)
        self._settings = worker.admin(config)
        self._worker = worker
        self._admin: Admin | None = None
        self._committed: Offsets = {}

    def take(self, reports: Iterable[Report]) -> None:
        offsets: Offsets = {}
        in_file: dict[str, Mapping[str, object] | None] = {}
        for report in reports:
            offsets |= report.consumed
            in_file |= {each: json.loads(text) for each, text in report.source.items()}
        if in_file:
            FileOffsets(Path(self._worker.offsets_file)).update(self._name, in_file)
        new = {each: at for each, at in offsets.items() if self._committed.get(each) != at}
        if new:
            self._commit(new)

    def close(self) -> None:
        admin, self._admin = self._admin, None
        if admin is not None:
            admin.close()

    def _commit(self, offsets: Offsets) -> None:
        try:
            if self._admin is None:
                self._admin = Admin(self._worker.bootstrap_servers, settings=self._settings)
            self._admin.groups.alter_offsets(self._group, offsets)
            self._committed |= offsets
        except KafkaError as error:
            log.warning("connector %s: offsets are not committed yet: %s", self._name, error)
            self.close()
