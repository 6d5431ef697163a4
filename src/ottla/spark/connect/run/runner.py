"""A connector that runs: started, watched, paused, restarted, stopped.

    running = start("lines", config, spark=session.start, worker=Worker(properties),
                    on_state=print)
    running.status      running.pause()      running.stop()

A task that fails stays failed and the others go on, as in Kafka; what is the broker's or Spark's
trouble is tried again, with back-off.
"""

from __future__ import annotations

import logging
import os
import threading
import time
import traceback
import uuid
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from ottla.spark.connect.errors import ConnectException
from ottla.spark.connect.run import hosts, query
from ottla.spark.connect.run.committing import Committing, starts_of
from ottla.spark.connect.run.cutting import Cut
from ottla.spark.connect.run.orders import Job, Report
from ottla.spark.connect.run.planner import failure_in
from ottla.spark.connect.run.states import State, Status, Target, TaskStatus
from ottla.spark.connect.run.worker import Worker
from ottla.spark.running.begin import Pace, Starts
from ottla.spark.running.causes import text_of
from ottla.spark.running.kept import ENDED, Failed, Spell, progress_of, stop_quietly
from ottla.spark.running.states import Tries
from ottla.spark.session import process_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger("ottla.connect")

STOP_S_MAX: Final = 60.0
REPLACED: Final = "has taken over"
REPLACED_S: Final = 60.0
"""Who is told by its herder to run a connector, and was put out by a worker that was not (it had
been frozen, and did not know yet that it is out of the group of workers), tries again later."""
# All connectors of this process: queries start one after the other, and look less often if many.
_starts = Starts()
_pace = Pace()


def start(
    name: str,
    config: Mapping[str, str],
    *,
    spark: Callable[[], SparkSession],
    worker: Worker,
    generation: int = 0,
    target: Target = Target.STARTED,
    on_state: Callable[[Status], None] = lambda status: None,
) -> Running:
    """Returns at once. `spark` is called when a session is needed, and again if it died.

    `on_state` is called in a thread of the runner's, with every change.
    """
    return Running(name, config, spark, worker, generation, target, on_state)


class Running:
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
    ) -> None:
        self.name = name
        self.config = dict(config)
        self.generation = generation
        self._spark = spark
        self._worker = worker
        self._target = target
        self._on_state = on_state
        self._status = Status(name, State.UNASSIGNED, generation=generation)
        self._changed = threading.Event()
        self._told = False
        """By a person: not by the connector, which may want its tasks cut anew."""
        self._cut = Cut(name, self.config, worker, on_request=self._changed.set)
        self._committing = Committing(name, worker)
        self._failed: dict[int, str] = {}
        self._topics: frozenset[str] = frozenset()
        self._tries = Tries()
        self._lock = threading.Lock()
        self._over = False
        self._thread = threading.Thread(target=self._keep, name=f"connect {name}", daemon=True)
        self._thread.start()

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
        self._wake_up()

    def restart_task(self, task: int) -> None:
        """KeyError: there is no such task."""
        if task >= len(self.task_configs):
            raise KeyError(task)
        with self._lock:
            self._failed.pop(task, None)
        self._wake_up()

    def stop(self) -> None:
        """When it returns, nothing of this connector runs."""
        self._over = True
        self._wake_up()
        if threading.current_thread() is not self._thread:
            self._thread.join(STOP_S_MAX)
            if self._thread.is_alive():
                log.warning("connector %s has not stopped within %.0f s", self.name, STOP_S_MAX)

    def _aim(self, target: Target) -> None:
        with self._lock:
            self._target = target
        self._wake_up()

    def _wake_up(self) -> None:
        self._told = True
        self._changed.set()

    def _keep(self) -> None:
        """Until it is over: do what is wanted, then wait for something else to be wanted."""
        while not self._over:
            self._told = False
            self._changed.clear()
            try:
                if not self._step():
                    self._changed.wait()
            except Exception as error:
                log.exception("connector %s", self.name)
                self._trouble(text_of(error), traceback.format_exc(), 0.0)
        self._cut.stop()
        self._committing.end()
        self._publish(State.UNASSIGNED, dict.fromkeys(self._numbers(), State.UNASSIGNED))

    def _step(self) -> bool:
        """False: there is nothing to do until something changes."""
        if self._target is Target.STOPPED:
            self._cut.stop()
            self._committing.end()
            self._publish(State.STOPPED, {})
            return False
        trace = self._cut.start()
        if trace is not None:
            self._committing.end()
            self._publish(State.FAILED, {}, trace)
            return False
        if self._cut.is_new:
            self._failed.clear()
        if self._target is Target.PAUSED:
            self._publish(State.PAUSED, dict.fromkeys(self._live(), State.PAUSED))
            return False
        if not self._live():
            self._committing.end()
            self._publish(State.RUNNING, {})
            return False
        self._run_once()
        return True

    def _run_once(self) -> None:
        """One run of the query, from its start to its end. Its tasks are ended before anything is
        waited for: who was replaced has to let go of what its successor works on."""
        began = time.monotonic()
        failed: Exception | None = None
        job: Job | None = None
        preparing: threading.Thread | None = None
        try:
            with _pace.counted():
                if not self._cut.is_source:
                    self._committing.begin_soon(self._worker.resolved(self.config))
                session = self._spark().newSession()
                job = self._job(session)
                if job.local:
                    preparing = hosts.prepare(job, process_of(session))
                begun = query.begin(session, job, starts_of(job), _starts)
                try:
                    self._watch(begun)
                finally:
                    begun.close()
        except Exception as error:
            failed = error
        ran_s = time.monotonic() - began
        if preparing is not None:
            preparing.join()
        if job is not None:
            self._end_tasks(job)
        if failed is not None:
            self._failed_run(failed, ran_s)

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
            idle_s=_pace.interval_ms({}) / 1000,
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

    def _watch(self, begun: query.Begun) -> None:
        spell = Spell(begun.query)
        self._publish(State.RUNNING, dict.fromkeys(self._live(), State.RUNNING))

        def wanted() -> bool:
            self._take(begun.reports(), spell)
            self._committing.check()
            return self._over or self._is_wanted_otherwise()

        try:
            if spell.wait(wanted):
                raise Failed(ENDED)
        finally:
            stop_quietly(spell, self.name)
            self._take_last(begun)

    def _is_wanted_otherwise(self) -> bool:
        """A connector that wants its tasks cut anew often gets the same ones again."""
        if not self._changed.is_set():
            return False
        self._changed.clear()
        if not self._told and self._cut.is_cut_as_before():
            return False
        self._changed.set()
        return True

    def _take(self, reports: list[Report], spell: Spell | None) -> None:
        if not reports:
            return
        self._committing.take(reports)
        topics = self._topics.union(*(each.topics for each in reports))
        seen = in_records(progress_of(spell), reports)
        self._status = replace(self._status, progress=seen or self._status.progress)
        if topics != self._topics:
            self._topics = topics
            self._tell(replace(self._status, topics=topics))

    def _take_last(self, begun: query.Begun) -> None:
        try:
            self._take(begun.reports(all_of_them=True), None)
        except Exception as error:
            # Spark may be gone: what is not committed is read or polled again.
            log.warning("connector %s: the last reports are lost: %s", self.name, text_of(error))

    def _end_tasks(self, job: Job) -> None:
        tasks = [number for number, _ in job.tasks]
        try:
            self._committing.take(hosts.stop(job.run, tasks))
        except Exception:
            log.warning("connector %s: tasks did not stop in order", self.name, exc_info=True)

    def _failed_run(self, error: Exception, ran_s: float) -> None:
        if self._over:
            return
        text = text_of(error)
        failure = failure_in(text)
        if failure is not None and failure.task is not None:
            log.error("task %d of connector %s FAILED\n%s", failure.task, self.name, failure.trace)
            self._failed[failure.task] = self._cut.shown(failure.trace)
            return
        trace = self._cut.shown(failure.trace if failure is not None else text)
        self._trouble(trace, trace, ran_s)

    def _trouble(self, cause: str, trace: str, ran_s: float) -> None:
        """Not the connector's own: it is tried again where that may help."""
        if REPLACED in cause:
            log.error("connector %s runs on another worker: it is left to that one", self.name)
            self._publish(State.UNASSIGNED, dict.fromkeys(self._numbers(), State.UNASSIGNED))
            self._changed.wait(REPLACED_S)
            return
        wait_s = self._tries.failed(cause, ran_s)
        if wait_s is None:
            log.error("connector %s FAILED: %s", self.name, trace)
            self._failed |= dict.fromkeys(self._live(), trace)
            return
        log.warning("connector %s: again in %.0f s: %s", self.name, wait_s, trace)
        self._publish(State.RUNNING, dict.fromkeys(self._live(), State.RESTARTING), cause)
        self._changed.wait(wait_s)

    def _numbers(self) -> list[int]:
        return list(range(len(self.task_configs)))

    def _live(self) -> list[int]:
        return [each for each in self._numbers() if each not in self._failed]

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


def in_records(progress: dict[str, Any], reports: list[Report]) -> Mapping[str, Any]:
    """Spark counts cells; tasks have counted records, each of them in its newest report."""
    if not progress:
        return {}
    records = sum({each.task: each.records for each in reports}.values())
    per_second = records * 1000 / max(progress["batch_ms"], 1)
    return {**progress, "rows": records, "rows_per_second": per_second}
