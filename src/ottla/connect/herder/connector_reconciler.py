"""Brings this worker's connectors to their desired state, with one thread for each.

The desired state is what the config topic holds: a config, and a target state. Only the newest one
counts; those that arrive while a query stops are skipped. A thread per connector, because stopping
a query may take long and must not hold up the others.
"""

from __future__ import annotations

import logging
import threading
import traceback
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from ottla.connect.run.connector_status import ConnectorState, ConnectorStatus, TargetState

CLOSE_S_MAX: Final = 60.0

log = logging.getLogger("ottla.connect")


@dataclass(frozen=True, slots=True)
class DesiredState:
    config: Mapping[str, str]
    offset: int
    target: TargetState
    generation: int

    def same(self, other: DesiredState | None) -> bool:
        """A new generation of the group alone changes nothing."""
        return other is not None and (self.offset, self.target) == (other.offset, other.target)


class RunningConnector(Protocol):
    """What run.connector_runner returns. Only `stop` waits."""

    @property
    def status(self) -> ConnectorStatus: ...

    @property
    def task_configs(self) -> list[dict[str, str]]: ...

    def pause(self) -> None: ...

    def resume(self) -> None: ...

    def restart(self, *, include_tasks: bool = False, only_failed: bool = False) -> None: ...

    def restart_task(self, task: int) -> None: ...

    def stop(self) -> None: ...


class StartConnector(Protocol):
    """run.connector_runner.start_connector, with worker and Spark bound."""

    def __call__(
        self,
        name: str,
        config: Mapping[str, str],
        *,
        generation: int,
        target: TargetState,
        on_state: Callable[[ConnectorStatus], None],
    ) -> RunningConnector: ...


class ConnectorRunListener(Protocol):
    """Gets what the running connectors report, to be written to the topics."""

    def on_status(self, status: ConnectorStatus) -> None: ...

    def on_task_configs(self, name: str, tasks: Sequence[Mapping[str, str]]) -> None: ...

    def on_stopped(self, name: str, generation: int) -> None:
        """The connector was stopped because it was revoked from this worker, or deleted."""


class ConnectorReconciler:
    """`on_stopped` is called after a connector that this worker no longer owns has stopped."""

    def __init__(
        self, start: StartConnector, listener: ConnectorRunListener, on_stopped: Callable[[], None]
    ) -> None:
        self._start = start
        self._listener = listener
        self._on_stopped = on_stopped
        self._lock = threading.Lock()
        self._runs: dict[str, _ConnectorThread] = {}

    def names(self) -> Collection[str]:
        """The connectors that run, and those that are being stopped."""
        with self._lock:
            return list(self._runs)

    def set_desired(self, states: Mapping[str, DesiredState]) -> None:
        """Exactly these connectors are to run here."""
        with self._lock:
            for name, run in self._runs.items():
                if name not in states:
                    run.set_desired(None)
            for name, desired in states.items():
                (self._runs.get(name) or self._new(name)).set_desired(desired)

    def restart(self, name: str, *, include_tasks: bool, only_failed: bool) -> None:
        run = self._runs.get(name)
        if run is not None:
            run.restart(include_tasks, only_failed)

    def restart_task(self, name: str, task: int) -> None:
        """Raises KeyError if there is no such task."""
        self._runs[name].restart_task(task)

    def close(self) -> None:
        with self._lock:
            runs = list(self._runs.values())
        for run in runs:
            run.set_desired(None)
        for run in runs:
            run.thread.join(CLOSE_S_MAX)

    def _new(self, name: str) -> _ConnectorThread:
        run = self._runs[name] = _ConnectorThread(name, self._start, self._listener, self._remove)
        run.thread.start()
        return run

    def _remove(self, run: _ConnectorThread) -> bool:
        """Remove a stopped connector, unless it was assigned again meanwhile. True: its thread may
        end."""
        with self._lock:
            if run.desired is not None:
                return False
            del self._runs[run.name]
        self._on_stopped()
        return True


class _ConnectorThread:
    def __init__(
        self,
        name: str,
        start: StartConnector,
        listener: ConnectorRunListener,
        remove: Callable[[_ConnectorThread], bool],
    ) -> None:
        self.name = name
        self.desired: DesiredState | None = None
        self._start_connector = start
        self._listener = listener
        self._remove = remove
        self._changed = threading.Condition()
        self._new = False
        self._applied: DesiredState | None = None
        self._running: RunningConnector | None = None
        self.thread = threading.Thread(target=self._work, name=f"connector-{name}", daemon=True)

    def set_desired(self, desired: DesiredState | None) -> None:
        with self._changed:
            same = desired is self.desired or (desired is not None and desired.same(self.desired))
            self.desired = desired
            if not same:
                self._new = True
                self._changed.notify_all()

    def restart(self, include_tasks: bool, only_failed: bool) -> None:
        """A connector that failed to start is started."""
        running = self._running
        if running is not None:
            running.restart(include_tasks=include_tasks, only_failed=only_failed)
            return
        with self._changed:
            self._applied, self._new = None, True
            self._changed.notify_all()

    def restart_task(self, task: int) -> None:
        if self._running is None:
            raise KeyError(task)
        self._running.restart_task(task)

    def _work(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._new)
                self._new, desired = False, self.desired
            try:
                self._reconcile(desired)
            except Exception as error:
                self._failed(desired, error)
            if desired is None and self._remove(self):
                return

    def _reconcile(self, desired: DesiredState | None) -> None:
        before, self._applied = self._applied, desired
        if desired is None:
            self._stop()
            self._listener.on_stopped(self.name, before.generation if before else 0)
        elif desired.target is TargetState.STOPPED:
            self._stop()
            self._listener.on_status(
                ConnectorStatus(self.name, ConnectorState.STOPPED, generation=desired.generation)
            )
        elif before is not None and before.offset == desired.offset and self._running is not None:
            if desired.target is TargetState.PAUSED:
                self._running.pause()
            elif before.target is not TargetState.STARTED:
                self._running.resume()
        else:
            self._stop()
            self._start(desired)

    def _start(self, desired: DesiredState) -> None:
        def on_status(status: ConnectorStatus) -> None:
            applied = self._applied
            if (
                applied is None
                or applied.offset != desired.offset
                or applied.target is TargetState.STOPPED
            ):
                return  # a late report of an earlier run
            if self._running is not None and self._running.task_configs:
                self._listener.on_task_configs(self.name, self._running.task_configs)
            self._listener.on_status(status)

        self._running = self._start_connector(
            self.name,
            desired.config,
            generation=desired.generation,
            target=desired.target,
            on_state=on_status,
        )
        if self._running.task_configs:
            self._listener.on_task_configs(self.name, self._running.task_configs)

    def _stop(self) -> None:
        running, self._running = self._running, None
        if running is not None:
            running.stop()

    def _failed(self, desired: DesiredState | None, error: Exception) -> None:
        log.error("Connector %s failed: %s", self.name, error, exc_info=True)
        if desired is not None:
            trace = "".join(traceback.format_exception(error))
            status = ConnectorStatus(
                self.name, ConnectorState.FAILED, trace, generation=desired.generation
            )
            self._listener.on_status(status)
