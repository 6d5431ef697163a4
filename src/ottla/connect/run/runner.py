"""A connector that runs: started, watched, paused, restarted, stopped.

    running = start("lines", config, spark=session.start, worker=Worker(properties),
                    on_state=print)
    running.status      running.pause()      running.stop()

A task that fails stays failed and the others go on, as in Kafka; for what is the broker's or
Spark's trouble the supervisor restarts the query, with back-off.
"""

from __future__ import annotations

import logging
import os
import threading
import uuid
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from ottla.connect.errors import ConnectException
from ottla.connect.run import hosts, query
from ottla.connect.run.committing import Committing, starts_of
from ottla.connect.run.cutting import Cut
from ottla.connect.run.orders import Job, Report
from ottla.connect.run.planner import failure_in
from ottla.connect.run.states import State, Status, Target, TaskStatus
from ottla.connect.run.worker import Worker
from ottla.queries.failures import FailureClass, QueryFailure, cause_of, class_of, text_of
from ottla.queries.launcher import QueryLauncher
from ottla.queries.lifecycle import Recovery
from ottla.queries.query_run import QueryRun
from ottla.queries.specification import Cancelled, QuerySpecification
from ottla.queries.supervisor import Supervisor
from ottla.spark.session import process_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger("ottla.connect")

REPLACED: Final = "has taken over"
"""What a task or a seat says whose connector runs on another worker."""


def start(
    name: str,
    config: Mapping[str, str],
    *,
    spark: Callable[[], SparkSession],
    worker: Worker,
    generation: int = 0,
    target: Target = Target.STARTED,
    on_state: Callable[[Status], None] = lambda status: None,
    supervisor: Supervisor | None = None,
) -> Runner:
    """Returns at once. `spark` is called when a session is needed, and again if it died.

    `on_state` is called in a thread of the supervisor's, with every change.
    """
    given = supervisor or Supervisor(name)
    return Runner(name, config, spark, worker, generation, target, on_state, given)


class Runner(QuerySpecification):
    """One connector. Every method may be called by any thread; only `stop` waits."""

    def __init__(
        self,
        name: str,
        config: Mapping[str, str],
        spark: Callable[[], SparkSession],
        worker: Worker,
        generation: int,
        target: Target,
        on_state: Callable[[Status], None],
        supervisor: Supervisor,
    ) -> None:
        super().__init__(name)
        self.config = dict(config)
        self.generation = generation
        self._spark = spark
        self._worker = worker
        self._target = target
        self._on_state = on_state
        self._status = Status(name, State.UNASSIGNED, generation=generation)
        self._cut = Cut(name, self.config, worker, on_request=self._requested)
        self._committing = Committing(name, worker)
        self._failed: dict[int, str] = {}
        self._topics: frozenset[str] = frozenset()
        self._lock = threading.Lock()
        self._run: ConnectorRun | None = None
        self._over = False
        self._triggers = supervisor.triggers
        self._query = supervisor.supervise(self)
        self._query.begin()

    @property
    def status(self) -> Status:
        return self._status

    @property
    def task_configs(self) -> list[dict[str, str]]:
        """Empty until the connector has said them."""
        return self._cut.task_configs

    def pause(self) -> None:
        """No batch runs; tasks are stopped, and the connector is not."""
        self._aim(Target.PAUSED)

    def resume(self) -> None:
        self._aim(Target.STARTED)

    def restart(self, *, include_tasks: bool = False, only_failed: bool = False) -> None:
        """The connector, its tasks, or only what of them has failed."""
        with self._lock:
            if not only_failed or self._status.state is State.FAILED:
                self._cut.forget()
            if include_tasks:
                self._failed.clear()
        self._query.restart()

    def restart_task(self, task: int) -> None:
        """KeyError: there is no such task."""
        if task >= len(self.task_configs):
            raise KeyError(task)
        with self._lock:
            self._failed.pop(task, None)
        self._query.restart()

    def stop(self) -> None:
        """When it returns, nothing of this connector runs."""
        self._over = True
        self._query.stop()
        self._cut.stop()
        self._committing.end()
        self._publish(State.UNASSIGNED, dict.fromkeys(self._numbers(), State.UNASSIGNED))

    def _aim(self, target: Target) -> None:
        with self._lock:
            self._target = target
        self._query.restart()

    def _requested(self) -> None:
        """The connector wants its tasks cut otherwise, or has failed. A run looks by itself."""
        if self._run is None:
            self._query.restart()

    # -- its specification

    def start(self, cancelled: Cancelled) -> QueryRun | None:
        if self._target is Target.STOPPED:
            self._cut.stop()
            self._committing.end()
            self._publish(State.STOPPED, {})
            return None
        trace = self._cut.start()
        if trace is not None:
            self._committing.end()
            self._publish(State.FAILED, {}, trace)
            return None
        if self._cut.is_new:
            self._failed.clear()
        if self._target is Target.PAUSED:
            self._publish(State.PAUSED, dict.fromkeys(self._live(), State.PAUSED))
            return None
        if not self._live():
            self._committing.end()
            self._publish(State.RUNNING, {})
            return None
        self._run = self._begun()
        self._publish(State.RUNNING, dict.fromkeys(self._live(), State.RUNNING))
        return self._run

    def failed(self, error: Exception) -> QueryFailure:
        text = text_of(error)
        found = failure_in(text)
        trace = self._cut.shown(found.trace if found is not None else text)
        if found is not None and found.task is not None:
            return QueryFailure(FailureClass.FATAL, cause_of(trace), trace, task=found.task)
        kind = FailureClass.SUPERSEDED if REPLACED in trace else class_of(trace)
        if not self._over and kind is FailureClass.SUPERSEDED:
            log.error("connector %s runs on another worker: it is left to that one", self.name)
            self._publish(State.UNASSIGNED, dict.fromkeys(self._numbers(), State.UNASSIGNED))
        elif not self._over and kind is not FailureClass.FATAL:
            self._publish(State.RUNNING, dict.fromkeys(self._live(), State.RESTARTING), trace)
        return QueryFailure(kind, cause_of(trace), trace)

    def recover(self, failure: QueryFailure) -> Recovery:
        """Without the task that has failed; all have, where it is not the fault of one."""
        failed = self._live() if failure.task is None else [failure.task]
        for task in failed:
            log.error("task %d of connector %s FAILED\n%s", task, self.name, failure.text)
            self._failed[task] = failure.text
        return Recovery.AT_ONCE

    def _begun(self) -> ConnectorRun:
        """Tasks of a run that does not come to be are ended before anything is waited for: one
        that was replaced has to let go of what its successor works on."""
        if not self._cut.is_source:
            self._committing.begin_soon(self._worker.resolved(self.config))
        session = self._spark().newSession()
        job = self._job(session)
        preparing = hosts.prepare(job, process_of(session)) if job.local else None

        def end_tasks() -> None:
            if preparing is not None:
                preparing.join()
            self._end_tasks(job)

        try:
            begun = query.begin(session, job, starts_of(job), QueryLauncher())
        except BaseException:
            end_tasks()
            raise
        return ConnectorRun(begun, self, end_tasks)

    def look(self, run: ConnectorRun) -> None:
        """Now and then while it runs: what tasks have told, and what the connector wants."""
        self._take(run.begun.reports(), run)
        self._committing.check()
        if self._cut.has_asked and not self._cut.is_cut_as_before():
            self._query.restart()

    def look_last(self, run: ConnectorRun) -> None:
        self._run = None
        try:
            self._take(run.begun.reports(all_of_them=True), None)
        except Exception as error:
            # Spark may be gone: what is not committed is read or polled again.
            log.warning("connector %s: the last reports are lost: %s", self.name, text_of(error))

    def _job(self, session: SparkSession) -> Job:
        master = session.conf.get("spark.master") or ""
        config = self._worker.resolved(self.config)
        job = Job(
            name=self.name,
            run=uuid.uuid4().hex,
            source=self._cut.is_source,
            task_class=self._cut.task_class,
            config=config,
            worker=self._worker,
            tasks=[(each, self._worker.resolved(self.task_configs[each])) for each in self._live()],
            local=master.startswith("local"),
            idle_s=self._triggers.interval_ms({}) / 1000,
            process=os.getpid() if query.is_near(session, master) else 0,
        )
        if not job.source:
            self._committing.begin(config)
            query.make_dead_letter_topic(self.name, config, self._worker)
            return job
        if not self._worker.standalone:
            query.make_offsets_topic(config, self._worker)
        if not self._worker.exactly_once and not query.retries_tasks(master):
            return job
        if self._worker.standalone:
            raise ConnectException(
                f"A standalone worker keeps offsets in a file: its Spark is local[*], not {master}"
            )
        job = replace(job, exactly_once=True)
        return replace(job, first_batch=query.decided(job) + 1)

    def _take(self, reports: list[Report], run: QueryRun | None) -> None:
        if not reports:
            return
        self._committing.take(reports)
        topics = self._topics.union(*(report.topics for report in reports))
        seen = in_records(run.figures() if run is not None else {}, reports)
        self._status = replace(self._status, progress=seen or self._status.progress)
        if topics != self._topics:
            self._topics = topics
            self._tell(replace(self._status, topics=topics))

    def _end_tasks(self, job: Job) -> None:
        tasks = [number for number, _ in job.tasks]
        try:
            self._committing.take(hosts.stop(job.run, tasks))
        except Exception:
            log.warning("connector %s: tasks did not stop in order", self.name, exc_info=True)

    def _numbers(self) -> list[int]:
        return list(range(len(self.task_configs)))

    def _live(self) -> list[int]:
        return [task for task in self._numbers() if task not in self._failed]

    def _publish(self, state: State, tasks: Mapping[int, State], trace: str | None = None) -> None:
        """Tasks that have failed stay so, whatever the others do."""
        failed = {} if state is State.STOPPED else dict(self._failed)
        shown = [TaskStatus(each, how) for each, how in tasks.items() if each not in failed]
        shown += [TaskStatus(each, State.FAILED, why) for each, why in failed.items()]
        ordered = tuple(sorted(shown, key=lambda each: each.id))
        self._tell(replace(self._status, state=state, trace=trace, tasks=ordered))

    def _tell(self, status: Status) -> None:
        before, self._status = self._status, status
        if replace(before, progress={}) == replace(status, progress={}):
            return
        try:
            self._on_state(status)
        except Exception:
            log.exception("connector %s: who listens to its state failed", self.name)


class ConnectorRun(QueryRun):
    """Its tasks end with it."""

    polls_block = True
    waits_for_data = True

    def __init__(self, begun: query.Begun, runner: Runner, end_tasks: Callable[[], None]) -> None:
        super().__init__(begun.query)
        self.begun = begun
        self._runner = runner
        self._end_tasks = end_tasks
        self._lock = threading.Lock()
        self._ended = False

    def poll(self) -> bool:
        with self._lock:
            if not self._ended:
                self._runner.look(self)
        return super().poll()

    def stop(self) -> None:
        super().stop()
        with self._lock:
            if self._ended:
                return
            self._ended = True
            self._runner.look_last(self)
            self.begun.close()
            self._end_tasks()


def in_records(progress: dict[str, Any], reports: list[Report]) -> Mapping[str, Any]:
    """Spark counts cells; tasks have counted records, each of them in its newest report."""
    if not progress:
        return {}
    records = sum({each.task: each.records for each in reports}.values())
    per_second = records * 1000 / max(progress["batch_ms"], 1)
    return {**progress, "rows": records, "rows_per_second": per_second}
