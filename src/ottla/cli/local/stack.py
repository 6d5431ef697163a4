"""The services of one `ottla up` or `ottla cluster up`: started, watched and ended by records.

Everything about which processes belong together lives here. `up` starts services and writes a
record for each; `status`, `down`, `kill` and `restart` in another terminal find them by their
records. So all of them work when the process that started the services is gone, too.

    launch    a process, and its record
    restart   the record is ours while the old process ends; then it is that of the new process
    end       SIGTERM, the last wave first; SIGKILL after STOP_S_MAX, or when asked twice
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
ONE_BY_ONE: Final = (CLUSTER,)  # brokers hand over what they lead before the next one goes


class ServiceEnded(Exception):
    """A service is gone that should run, or does not get ready."""

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
        return [each for each in found if each.name != SUPERVISOR]

    @property
    def supervisor(self) -> RunRecord | None:
        """The process that shows the services in its terminal, while it runs."""
        found = self.records.find(self.started_by, str(self.folder))
        return next((each for each in found if each.name == SUPERVISOR and each.is_alive), None)

    @property
    def is_alive(self) -> bool:
        return any(each.is_alive for each in self.services)

    def service(self, name: str) -> RunRecord:
        services = self.services
        for each in services:
            if each.name == name:
                return each
        known = ", ".join(each.name for each in services)
        raise ToolError(f"there is no {name} here; there are {known}")

    def supervise(self) -> None:
        """This process is the one that shows them."""
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
        self.records.write(record)
        return record

    def wait_until_ready(
        self,
        records: Iterable[RunRecord],
        show: Callable[[RunRecord, Health], None],
        signals: StopSignals,
    ) -> bool:
        """False if somebody asks for an end before. ServiceEnded if one does not get ready."""
        waiting = {each.name: each for each in records}
        deadline = time.monotonic() + START_S_MAX
        while waiting and not signals.asked:
            for record in list(waiting.values()):
                health = PROBES[record.probe](record.address)
                if not record.is_alive:
                    raise ServiceEnded(record, self.last_words(record))
                show(record, health)
                if health.ready:
                    del waiting[record.name]
                elif time.monotonic() > deadline:
                    raise ServiceEnded(record, f"is not ready after {START_S_MAX:.0f} s")
            time.sleep(LOOK_EVERY_S)
        return not signals.asked

    def last_words(self, record: RunRecord) -> str:
        """How a process has ended, as far as we can know."""
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
        """Children that have ended give their pids back."""
        for child in self._children.values():
            child.poll()

    def kill(self, name: str) -> RunRecord:
        """SIGKILL, as a power cut has it."""
        record = self.service(name)
        if not record.is_alive:
            raise ToolError(f"{name} does not run; `ottla cluster restart` starts it again")
        self.records.write(replace(record, note="was killed by `ottla cluster kill`"))
        record.process.send(signal.SIGKILL)
        _wait_for_the_end([record], STOP_S_MAX, lambda: False)
        return record

    def restart(self, name: str, show: Callable[[RunRecord, Health], None]) -> RunRecord:
        """Stop it if it runs, start it with the command it had, wait until it is ready."""
        record = self.service(name)
        # Who watches the stack sees a process that is alive, this one, until the new one is.
        self.records.write(replace(record, process=own_identity(), note="is being restarted"))
        self._end_wave([record], lambda: False, lambda ended: None)
        process = launch(record.command, Path(record.log))
        started = replace(record, process=self._identity(process), note="")
        self.records.write(started)
        with StopSignals() as signals:
            self.wait_until_ready([started], show, signals)
        return started

    def end(
        self, show: Callable[[RunRecord], None], urgent: Callable[[], bool] = lambda: False
    ) -> None:
        """All of them, the last wave first; then nothing is recorded of them."""
        services = self.services
        for wave in sorted({each.wave for each in services}, reverse=True):
            members = [each for each in services if each.wave == wave]
            groups: Sequence[list[RunRecord]] = [members]
            if self.started_by in ONE_BY_ONE:
                groups = [[each] for each in reversed(members)]
            for group in groups:
                self._end_wave(group, urgent, show)
        self.forget()

    def forget(self) -> None:
        for each in self.records.find(self.started_by, str(self.folder)):
            self.records.remove(each)

    def _end_wave(
        self,
        records: Iterable[RunRecord],
        urgent: Callable[[], bool],
        show: Callable[[RunRecord], None],
    ) -> None:
        running = [each for each in records if each.is_alive]
        for each in running:
            each.process.send(signal.SIGKILL if urgent() else signal.SIGTERM)
            each.process.send(signal.SIGCONT)  # one that is paused would not hear of it
        left = _wait_for_the_end(running, STOP_S_MAX, urgent, show)
        for each in left:
            each.process.send(signal.SIGKILL)
        _wait_for_the_end(left, STOP_S_MAX, lambda: False, show)
        self.reap()

    def _identity(self, process: subprocess.Popen[bytes]) -> ProcessIdentity:
        self._children[process.pid] = process
        return identity_of(process.pid) or ProcessIdentity(process.pid, "")  # ended already


def _wait_for_the_end(
    records: Iterable[RunRecord],
    timeout_s: float,
    urgent: Callable[[], bool],
    show: Callable[[RunRecord], None] = lambda record: None,
) -> list[RunRecord]:
    """Those that still run when the time is over, or when it is urgent."""
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
    """The one whose data lie there; without a folder the one that runs. ToolError if none does."""
    records = RunRecords()
    if data is not None:
        stack = Stack(started_by, data.absolute(), records)
        if not stack.services:
            raise ToolError(f"nothing runs with data in {data}; `{started_by}` starts it")
        return stack
    folders = sorted({each.folder for each in records.find(started_by)})
    stacks = [Stack(started_by, Path(each), records) for each in folders]
    for dead in [each for each in stacks if not each.is_alive and each.supervisor is None]:
        dead.forget()
        stacks.remove(dead)
    here = [each for each in stacks if each.folder == default.absolute()]
    if here or len(stacks) == 1:
        return (here or stacks)[0]
    if stacks:
        listed = ", ".join(str(each.folder) for each in stacks)
        raise ToolError(f"several run, with data in {listed}: --data chooses one")
    raise ToolError(f"nothing runs; `{started_by}` starts it")


def shown(path: str | os.PathLike[str]) -> str:
    """Relative to where we stand, if that is shorter."""
    relative = os.path.relpath(path)
    return relative if len(relative) < len(str(path)) else str(path)
