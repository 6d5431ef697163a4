"""One connector that runs on this worker: started, paused, restarted, stopped.

    running = start("lines", config, spark=session.start, worker=Worker(properties),
                    on_state=print)
    running.status      running.pause()      running.stop()

A task that fails stays FAILED while the others go on, as in Kafka. If the broker or Spark fails,
the supervisor restarts the query, with back-off.
"""

from __future__ import annotations

import logging
import os
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from ottla.connect.errors import ConnectException
from ottla.connect.run import connector_query as query
from ottla.connect.run import remote_tasks
from ottla.connect.run.connector_instance import ConnectorInstance
from ottla.connect.run.connector_status import (
    ConnectorState,
    ConnectorStatus,
    TargetState,
    TaskStatus,
)
from ottla.connect.run.datasource import failure_in
from ottla.connect.run.offset_committer import OffsetCommitter, starting_offsets
from ottla.connect.run.task_requests import ConnectorJob, TaskReport
from ottla.connect.run.worker_context import WorkerContext
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

TASKS_END_S_MIN: Final = 1.0
"""How long tasks may take to stop if the wait for the end of their batch took all the time."""
TAKEN_OVER: Final = "has taken over"
"""In the error of a task or a group member that another worker has fenced."""


def start_connector(
    name: str,
    config: Mapping[str, str],
    *,
    spark: Callable[[], SparkSession],
    worker: WorkerContext,
    generation: int = 0,
    target: TargetState = TargetState.STARTED,
    on_state: Callable[[ConnectorStatus], None] = lambda status: None,
    supervisor: Supervisor | None = None,
) -> ConnectorRunner:
    """Returns at once. `spark` is called when a session is needed, and again if it died.

    `on_state` is called on a thread of the supervisor, at every change.
    """
    supervisor = supervisor or Supervisor(name)
    return ConnectorRunner(name, config, spark, worker, generation, target, on_state, supervisor)


class ConnectorRunner(QuerySpecification):
    """One connector. Every method may be called by any thread; only `stop` waits."""

    def __init__(
        self,
        name: str,
        config: Mapping[str, str],
        spark: Callable[[], SparkSession],
        worker: WorkerContext,
        generation: int,
        target: TargetState,
        on_state: Callable[[ConnectorStatus], None],
        supervisor: Supervisor,
    ) -> None:
        super().__init__(name)
        self.config = dict(config)
        self.generation = generation
        self._spark = spark
        self._worker = worker
        self._target = target
        self._on_state = on_state
        self._status = ConnectorStatus(name, ConnectorState.UNASSIGNED, generation=generation)
        self._connector = ConnectorInstance(
            name, self.config, worker, on_request=self._on_connector_request
        )
        self._committer = OffsetCommitter(name, worker)
        self._failed: dict[int, str] = {}
        self._topics: frozenset[str] = frozenset()
        self._lock = threading.Lock()
        self._run: ConnectorRun | None = None
        self._stopped = False
        self._triggers = supervisor.triggers
        self._query = supervisor.supervise(self)
        self._query.begin()

    @property
    def status(self) -> ConnectorStatus:
        return self._status

    @property
    def task_configs(self) -> list[dict[str, str]]:
        """Empty until the connector has generated them."""
        return self._connector.task_configs

    def pause(self) -> None:
        """Stops the query and the tasks; the Connector object stays started."""
        self._set_target(TargetState.PAUSED)

    def resume(self) -> None:
        self._set_target(TargetState.STARTED)

    def restart(self, *, include_tasks: bool = False, only_failed: bool = False) -> None:
        """Restarts the connector and, if asked, its tasks; or only those that FAILED (KIP-745)."""
        with self._lock:
            if not only_failed or self._status.state is ConnectorState.FAILED:
                self._connector.restart_at_next_start()
            if include_tasks:
                self._failed.clear()
        self._query.restart()

    def restart_task(self, task: int) -> None:
        """Raises KeyError if there is no such task."""
        if task >= len(self.task_configs):
            raise KeyError(task)
        with self._lock:
            self._failed.pop(task, None)
        self._query.restart()

    def stop(self) -> None:
        """When it returns, nothing of this connector runs."""
        self._stopped = True
        self._query.stop()
        self._connector.stop()
        self._committer.leave()
        self._publish(
            ConnectorState.UNASSIGNED,
            dict.fromkeys(self._task_numbers(), ConnectorState.UNASSIGNED),
        )

    def _set_target(self, target: TargetState) -> None:
        with self._lock:
            self._target = target
        self._query.restart()

    def _on_connector_request(self) -> None:
        """The connector requested a reconfiguration, or raised an error. A query that runs polls
        for this; without one the supervisor has to be woken."""
        if self._run is None:
            self._query.restart()

    # -- QuerySpecification

    def start(self, cancelled: Cancelled) -> QueryRun | None:
        if self._target is TargetState.STOPPED:
            self._connector.stop()
            self._committer.leave()
            self._publish(ConnectorState.STOPPED, {})
            return None
        trace = self._connector.start()
        if trace is not None:
            self._committer.leave()
            self._publish(ConnectorState.FAILED, {}, trace)
            return None
        if self._connector.task_configs_changed:
            self._failed.clear()
        if self._target is TargetState.PAUSED:
            self._publish(
                ConnectorState.PAUSED, dict.fromkeys(self._live_tasks(), ConnectorState.PAUSED)
            )
            return None
        if not self._live_tasks():
            self._committer.leave()
            self._publish(ConnectorState.RUNNING, {})
            return None
        self._run = self._start_run()
        self._publish(
            ConnectorState.RUNNING, dict.fromkeys(self._live_tasks(), ConnectorState.RUNNING)
        )
        return self._run

    def failed(self, error: Exception) -> QueryFailure:
        text = text_of(error)
        found = failure_in(text)
        trace = self._connector.redacted(found.trace if found is not None else text)
        if found is not None and found.task is not None:
            return QueryFailure(FailureClass.FATAL, cause_of(trace), trace, task=found.task)
        kind = FailureClass.SUPERSEDED if TAKEN_OVER in trace else class_of(trace)
        if not self._stopped and kind is FailureClass.SUPERSEDED:
            log.error("Connector %s was fenced: it runs on another worker now", self.name)
            self._publish(
                ConnectorState.UNASSIGNED,
                dict.fromkeys(self._task_numbers(), ConnectorState.UNASSIGNED),
            )
        elif not self._stopped and kind is not FailureClass.FATAL:
            self._publish(
                ConnectorState.RUNNING,
                dict.fromkeys(self._live_tasks(), ConnectorState.RESTARTING),
                trace,
            )
        return QueryFailure(kind, cause_of(trace), trace)

    def recover(self, failure: QueryFailure) -> Recovery:
        """Go on without the failed task. If no task is to blame, all of them fail."""
        failed = self._live_tasks() if failure.task is None else [failure.task]
        for task in failed:
            log.error("Task %s-%d FAILED\n%s", self.name, task, failure.text)
            self._failed[task] = failure.text
        return Recovery.AT_ONCE

    def _start_run(self) -> ConnectorRun:
        """If the query does not start, its tasks end at once, before any back-off: a fenced worker
        must release what the connector's new owner works on (files, database connections)."""
        if not self._connector.is_source:
            self._committer.join_soon(self._worker.resolved(self.config))
        session = self._spark().newSession()
        job = self._new_job(session)
        preparing = remote_tasks.prepare_processes(job, process_of(session)) if job.local else None

        def end_tasks(wait_s: float = remote_tasks.STOP_S) -> None:
            if preparing is not None:
                preparing.join()
            self._end_tasks(job, wait_s)

        try:
            connector_query = query.start_connector_query(
                session, job, starting_offsets(job), QueryLauncher()
            )
        except BaseException:
            end_tasks()
            raise
        return ConnectorRun(connector_query, self, end_tasks)

    def poll_tasks(self, run: ConnectorRun) -> None:
        """Called regularly while the query runs: commits reported offsets, and restarts the query
        if the connector wants other tasks."""
        self._handle_reports(run.connector_query.reports(), run)
        self._committer.check()
        if self._connector.needs_attention and not self._connector.is_unchanged():
            self._query.restart()

    def collect_last_reports(self, run: ConnectorRun) -> None:
        self._run = None
        try:
            self._handle_reports(run.connector_query.reports(all_of_them=True), None)
        except Exception as error:
            # Spark may be gone. Offsets that stay uncommitted are read or polled again.
            log.warning(
                "Connector %s: the last task reports are lost: %s", self.name, text_of(error)
            )

    def _new_job(self, session: SparkSession) -> ConnectorJob:
        master = session.conf.get("spark.master") or ""
        config = self._worker.resolved(self.config)
        job = ConnectorJob(
            name=self.name,
            run=uuid.uuid4().hex,
            source=self._connector.is_source,
            task_class=self._connector.task_class,
            config=config,
            worker=self._worker,
            tasks=[
                (task, self._worker.resolved(self.task_configs[task]))
                for task in self._live_tasks()
            ],
            local=master.startswith("local"),
            idle_s=self._triggers.interval_ms({}) / 1000,
            process=os.getpid() if query.is_local(session, master) else 0,
        )
        if not job.source:
            # Before the committed offsets are read: from here on only this worker commits, so a
            # zombie cannot move the position from which this query starts.
            self._committer.join(config)
            query.make_dead_letter_topic(self.name, config, self._worker)
            return job
        if not self._worker.standalone:
            query.make_offsets_topic(config, self._worker)
        if not self._worker.exactly_once and not query.spark_retries_tasks(master):
            return job
        if self._worker.standalone:
            raise ConnectException(
                f"A standalone worker keeps offsets in a file: its Spark is local[*], not {master}"
            )
        # Spark runs a failed task again, perhaps elsewhere, while the first attempt still polls.
        # Only transactions decide which attempt counts, so such a Spark always gets them.
        job = replace(job, exactly_once=True)
        return replace(job, first_batch=query.take_over(job) + 1)

    def _handle_reports(self, reports: list[TaskReport], run: QueryRun | None) -> None:
        if not reports:
            return
        self._committer.handle_reports(reports)
        topics = self._topics.union(*(report.topics for report in reports))
        seen = progress_in_records(run.figures() if run is not None else {}, reports)
        self._status = replace(self._status, progress=seen or self._status.progress)
        if topics != self._topics:
            self._topics = topics
            self._notify(replace(self._status, topics=topics))

    def _end_tasks(self, job: ConnectorJob, wait_s: float) -> None:
        tasks = [number for number, _ in job.tasks]
        try:
            self._committer.handle_reports(remote_tasks.stop_tasks(job.run, tasks, wait_s=wait_s))
        except Exception:
            log.warning("Connector %s: stopping the tasks failed", self.name, exc_info=True)

    def _task_numbers(self) -> list[int]:
        return list(range(len(self.task_configs)))

    def _live_tasks(self) -> list[int]:
        return [task for task in self._task_numbers() if task not in self._failed]

    def _publish(
        self, state: ConnectorState, tasks: Mapping[int, ConnectorState], trace: str | None = None
    ) -> None:
        """Publishes the status; tasks that FAILED keep that state."""
        failed = {} if state is ConnectorState.STOPPED else dict(self._failed)
        statuses = [TaskStatus(task, how) for task, how in tasks.items() if task not in failed]
        statuses += [TaskStatus(task, ConnectorState.FAILED, why) for task, why in failed.items()]
        ordered = tuple(sorted(statuses, key=lambda task: task.id))
        self._notify(replace(self._status, state=state, trace=trace, tasks=ordered))

    def _notify(self, status: ConnectorStatus) -> None:
        before, self._status = self._status, status
        if replace(before, progress={}) == replace(status, progress={}):
            return
        try:
            self._on_state(status)
        except Exception:
            log.exception("Connector %s: the status listener failed", self.name)


class ConnectorRun(QueryRun):
    """A running query of a connector; its tasks end with it."""

    polls_block = True
    waits_for_data = True

    def __init__(
        self,
        connector_query: query.ConnectorQuery,
        runner: ConnectorRunner,
        end_tasks: Callable[[float], None],
    ) -> None:
        super().__init__(connector_query.query)
        self.connector_query = connector_query
        self._runner = runner
        self._end_tasks = end_tasks
        self._lock = threading.Lock()
        self._ended = False

    def poll(self) -> bool:
        with self._lock:
            if not self._ended:
                self._runner.poll_tasks(self)
        return super().poll()

    def stop(self) -> None:
        """One deadline for both waits, as for a worker of Kafka: tasks that have not finished their
        batch in the first one have spent a part of the second."""
        deadline = time.monotonic() + remote_tasks.STOP_S
        super().stop()
        with self._lock:
            if self._ended:
                return
            self._ended = True
            self._runner.collect_last_reports(self)
            self.connector_query.close()
            self._end_tasks(max(deadline - time.monotonic(), TASKS_END_S_MIN))


def progress_in_records(progress: dict[str, Any], reports: list[TaskReport]) -> Mapping[str, Any]:
    """Progress by records: Spark counts cells, while each task's newest report counts records."""
    if not progress:
        return {}
    records = sum({report.task: report.records for report in reports}.values())
    per_second = records * 1000 / max(progress["batch_ms"], 1)
    return {**progress, "rows": records, "rows_per_second": per_second}
