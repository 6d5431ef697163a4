"""The services of one `ottla up` or `ottla cluster up`: start, watch and stop them by records.

This file knows which processes belong together. `up` starts services and writes a record for each;
`status`, `down`, `kill` and `restart` in another terminal find them by their records. So all of
them work after the process that started the services is gone, too.

    launch    a process, and its record
    restart   the record names the restarting command, too, so that the supervisor and `down` see it
    end       SIGTERM, the last wave first; SIGKILL after STOP_S_MAX, or on the second Ctrl-C
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from ottla.cli.kafka.tool import ToolError
from ottla.cli.local.health import PROBES, Health
from ottla.cli.local.local_service import LocalService, launch
from ottla.cli.local.process_identity import ProcessIdentity, identity_of, own_identity
from ottla.cli.local.run_records import SUPERVISOR, RunRecord, RunRecords
from ottla.cli.local.stop_signals import StopSignals

START_S_MAX: Final = 300.0  # Spark on a busy machine
STOP_S_MAX: Final = 60.0
LOOK_EVERY_S: Final = 0.05
WATCH_EVERY_S: Final = 0.2

UP: Final = "ottla up"
CLUSTER: Final = "ottla cluster up"
ONE_BY_ONE: Final = (CLUSTER,)  # brokers hand over their leadership one after another


class ServiceFailure(Exception):
    """A service that should run has ended, or does not become ready."""

    def __init__(self, record: RunRecord, words: str) -> None:
        super().__init__(f"{record.name} {words}")
        self.record = record
        self.words = words


class Stack:
    def __init__(self, started_by: str, folder: Path, records: RunRecords | None = None) -> None:
        self.started_by = started_by
        self.folder = folder
        self.records = records or RunRecords()
        self._children: dict[int, subprocess.Popen[bytes]] = {}

    @property
    def services(self) -> list[RunRecord]:
        found = self.records.find(self.started_by, str(self.folder))
        return [record for record in found if record.name != SUPERVISOR]

    @property
    def supervisor(self) -> RunRecord | None:
        """The process that shows the services in its terminal, while it runs."""
        found = self.records.find(self.started_by, str(self.folder))
        return next(
            (record for record in found if record.name == SUPERVISOR and record.is_alive), None
        )

    @property
    def is_alive(self) -> bool:
        return any(service.is_alive or service.is_restarting for service in self.services)

    def service(self, name: str) -> RunRecord:
        services = self.services
        for service in services:
            if service.name == name:
                return service
        known = ", ".join(service.name for service in services)
        raise ToolError(f"there is no service {name} here; choose from {known}")

    def supervise(self) -> None:
        """Record this process as the supervisor."""
        self.records.write(RunRecord(self.started_by, SUPERVISOR, own_identity(), str(self.folder)))

    def launch(self, service: LocalService) -> RunRecord:
        process = launch(service.command, service.log)
        record = RunRecord(
            started_by=self.started_by,
            name=service.name,
            process=self._identity(process),
            folder=str(self.folder),
            command=service.command,
            address=service.address,
            probe=service.probe,
            log=str(service.log),
            wave=service.wave,
        )
        self._write(record, process)
        return record

    def wait_until_ready(
        self,
        records: Iterable[RunRecord],
        show: Callable[[RunRecord, Health], None],
        signals: StopSignals,
    ) -> bool:
        """False if the user stops it first. ServiceFailure if a service does not become ready."""
        waiting = {started.name: started for started in records}
        deadline = time.monotonic() + START_S_MAX
        while waiting and not signals.stopping:
            for record in list(waiting.values()):
                health = PROBES[record.probe](record.address)
                if not record.is_alive:
                    raise ServiceFailure(record, self.log_tail(record))
                show(record, health)
                if health.ready:
                    del waiting[record.name]
                elif time.monotonic() > deadline:
                    raise ServiceFailure(record, f"is not ready after {START_S_MAX:.0f} s")
            time.sleep(LOOK_EVERY_S)
        return not signals.stopping

    def log_tail(self, record: RunRecord) -> str:
        """How a process ended, as far as we can know."""
        if record.note:
            return record.note
        child = self._children.get(record.process.pid)
        code = None if child is None else child.poll()
        if code is None:
            return "has ended"
        if code < 0:
            return f"was ended by {signal.Signals(-code).name}"
        return f"has ended with exit code {code}"

    def reap(self) -> None:
        """Reap children that have ended, so that their pids are free."""
        for child in self._children.values():
            child.poll()

    def kill(self, name: str) -> RunRecord:
        """SIGKILL, like a power cut."""
        record = self.service(name)
        if not record.is_alive:
            raise ToolError(f"{name} does not run; `ottla cluster restart` starts it again")
        self.records.write(replace(record, note="was killed by `ottla cluster kill`"))
        record.process.send(signal.SIGKILL)
        _wait_for_the_end([record], STOP_S_MAX, lambda: False)
        return record

    def restart(self, name: str, show: Callable[[RunRecord, Health], None]) -> RunRecord:
        """Stop it if it runs, start it with the same command, wait until it is ready."""
        record = self.service(name)
        if record.restarter is not None and record.is_restarting:
            raise ToolError(f"{name} is being restarted by the process {record.restarter.pid}")
        # The record keeps the process, which `down` and `kill` must still find, and names this one:
        # the supervisor does not report the end of a process that is being restarted.
        self.records.write(replace(record, restarter=own_identity()))
        self._end_wave([record], lambda: False, lambda ended: None)
        with StopSignals() as signals:  # a signal must not come between the process and its record
            process = launch(record.command, Path(record.log))
            started = replace(record, process=self._identity(process), note="", restarter=None)
            self._write(started, process)
            self.wait_until_ready([started], show, signals)
        return started

    def end(
        self, show: Callable[[RunRecord], None], urgent: Callable[[], bool] = lambda: False
    ) -> None:
        """Stop all services, the last wave first, and delete their records."""
        self._end_restarts(urgent)
        services = self.services  # a restart that was just ended may have written a new process
        for wave in sorted({service.wave for service in services}, reverse=True):
            members = [service for service in services if service.wave == wave]
            groups: Sequence[list[RunRecord]] = [members]
            if self.started_by in ONE_BY_ONE:
                groups = [[service] for service in reversed(members)]
            for group in groups:
                self._end_wave(group, urgent, show)
        self.forget()

    def forget(self) -> None:
        for record in self.records.find(self.started_by, str(self.folder)):
            self.records.remove(record)

    def _end_restarts(self, urgent: Callable[[], bool]) -> None:
        """End the commands that would start services again, but for this process."""
        own = own_identity()
        restarts = [
            replace(service, process=service.restarter)
            for service in self.services
            if service.restarter not in (None, own)
        ]
        self._end_wave(restarts, urgent, lambda ended: None)

    def _end_wave(
        self,
        records: Iterable[RunRecord],
        urgent: Callable[[], bool],
        show: Callable[[RunRecord], None],
    ) -> None:
        running = [record for record in records if record.is_alive]
        for record in running:
            record.process.send(signal.SIGKILL if urgent() else signal.SIGTERM)
            record.process.send(signal.SIGCONT)  # a paused process would not handle the signal
        left = _wait_for_the_end(running, STOP_S_MAX, urgent, show)
        for record in left:
            record.process.send(signal.SIGKILL)
        _wait_for_the_end(left, STOP_S_MAX, lambda: False, show)
        self.reap()

    def _write(self, record: RunRecord, process: subprocess.Popen[bytes]) -> None:
        """A process without a record could not be found again: it does not outlive a full disk."""
        try:
            self.records.write(record)
        except OSError:
            process.kill()
            process.wait()
            raise

    def _identity(self, process: subprocess.Popen[bytes]) -> ProcessIdentity:
        self._children[process.pid] = process
        return identity_of(process.pid) or ProcessIdentity(process.pid, "")  # ended already


def _wait_for_the_end(
    records: Iterable[RunRecord],
    timeout_s: float,
    urgent: Callable[[], bool],
    show: Callable[[RunRecord], None] = lambda record: None,
) -> list[RunRecord]:
    """Returns those that still run when the time is over, or when the user insists."""
    left = list(records)
    deadline = time.monotonic() + timeout_s
    while left and time.monotonic() < deadline and not urgent():
        for record in list(left):
            if not record.is_alive:
                left.remove(record)
                show(record)
        time.sleep(LOOK_EVERY_S)
    return left


def stack_of(started_by: str, data: Path | None, default: Path) -> Stack:
    """The stack with this data folder, or the only running one. ToolError if there is none."""
    records = RunRecords()
    if data is not None:
        stack = Stack(started_by, data.absolute(), records)
        if not stack.services:
            raise ToolError(f"nothing runs with data in {data}; `{started_by}` starts it")
        return stack
    folders = sorted({record.folder for record in records.find(started_by)})
    stacks = [Stack(started_by, Path(folder), records) for folder in folders]
    for dead in [
        candidate for candidate in stacks if not candidate.is_alive and candidate.supervisor is None
    ]:
        dead.forget()
        stacks.remove(dead)
    here = [candidate for candidate in stacks if candidate.folder == default.absolute()]
    if here or len(stacks) == 1:
        return (here or stacks)[0]
    if stacks:
        listed = ", ".join(str(found.folder) for found in stacks)
        raise ToolError(f"several run, with data in {listed}: --data chooses one")
    raise ToolError(f"nothing runs; `{started_by}` starts it")


def relative_path(path: str | os.PathLike[str]) -> str:
    """Relative to the working directory, if that is shorter."""
    relative = os.path.relpath(path)
    return relative if len(relative) < len(str(path)) else str(path)
