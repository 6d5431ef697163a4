"""Runs a topology on Spark, from start to close.

with Application(topology, application_id="counts", bootstrap_servers="localhost:9092") as app:
    app.start()
    print(app.store("counts").get("hello"))
    app.wait()
"""

from __future__ import annotations

import logging
import re
import shutil
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, Self

from ottla.engine.failures import StreamsError
from ottla.engine.graph import Graph, changelog_topic
from ottla.engine.state_folder import state_folder
from ottla.errors import KafkaError
from ottla.queries import group_progress as progress
from ottla.queries.application_topics import (
    PreparedSubtopology,
    internal_topics,
    prepare_application_topics,
)
from ottla.queries.cluster import KafkaCluster, delete_topics
from ottla.queries.failures import QueryFailure, failure_of
from ottla.queries.lifecycle import Recovery, StatusReport
from ottla.queries.query_run import QueryRun
from ottla.queries.specification import Cancelled, QuerySpecification
from ottla.queries.starting_positions import SubtopologyStart
from ottla.queries.states import QueryState, QueryStatus
from ottla.queries.supervisor import SupervisedQuery, Supervisor
from ottla.queries.task_runtime import TaskRuntime
from ottla.spark.checkpoints import Position
from ottla.spark.sink.commit_log import OLDER
from ottla.streams.run.read_only_store import InvalidStateStore, ReadOnlyStore
from ottla.streams.run.settings import settings_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger("ottla.streams")

STATE_DIR: Final = "./streams-state"
COMMIT_S: Final = 5.0
CLOSE_S: Final = 60.0


class ApplicationState(StrEnum):
    """Kafka's states of a KafkaStreams instance."""

    CREATED = "CREATED"
    REBALANCING = "REBALANCING"
    RUNNING = "RUNNING"
    PENDING_SHUTDOWN = "PENDING_SHUTDOWN"
    NOT_RUNNING = "NOT_RUNNING"
    PENDING_ERROR = "PENDING_ERROR"
    ERROR = "ERROR"


OVER: Final = (ApplicationState.NOT_RUNNING, ApplicationState.ERROR)
ENDING: Final = (*OVER, ApplicationState.PENDING_SHUTDOWN, ApplicationState.PENDING_ERROR)


class Reaction(StrEnum):
    """The answer of an uncaught exception handler."""

    REPLACE_THREAD = "REPLACE_THREAD"
    """Restarts the sub-topology where it stopped."""
    SHUTDOWN_CLIENT = "SHUTDOWN_CLIENT"
    SHUTDOWN_APPLICATION = "SHUTDOWN_APPLICATION"


class HasGraph(Protocol):
    @property
    def graph(self) -> Graph: ...


StateListener = Callable[[ApplicationState, ApplicationState], None]
"""Takes the new and the old state."""
UncaughtHandler = Callable[[Exception], Reaction]


def shut_down(error: Exception) -> Reaction:
    return Reaction.SHUTDOWN_CLIENT


class Application:
    """`config` has Kafka's names, and Spark's (`spark.*`). `spark` returns a session; without it,
    one is started for `master`, or for the Spark Connect server `remote`."""

    def __init__(
        self,
        topology: HasGraph,
        *,
        application_id: str,
        bootstrap_servers: str = "localhost:9092",
        state_dir: Path | str = STATE_DIR,
        spark: Callable[[], SparkSession] | None = None,
        master: str = "local[*]",
        remote: str | None = None,
        config: Mapping[str, Any] | None = None,
        state_listener: StateListener | None = None,
        uncaught_exception_handler: UncaughtHandler = shut_down,
    ) -> None:
        self.application_id = application_id
        self.error: Exception | None = None
        self._settings = settings_of(config or {})
        self._graph = topology.graph.configured(self._settings.serdes)
        self._cluster = KafkaCluster(bootstrap_servers, self._settings.client)
        self._state_dir = Path(state_dir).absolute() / application_id
        spark_settings = self._settings.spark
        given = spark or (lambda: _started(application_id, master, remote, spark_settings))
        self._supervisor = Supervisor(application_id)
        self._runtime = TaskRuntime(
            application_id,
            given,
            self._cluster,
            self._state_dir,
            self._settings,
            self._supervisor.triggers,
        )
        self._is_jvm_ours = remote is None
        self._listener = state_listener
        self._handler = uncaught_exception_handler
        self._lock = threading.Lock()
        self._state = ApplicationState.CREATED
        self._changed = threading.Condition()
        self._pieces: list[PreparedSubtopology] = []
        self._queries: dict[int, SupervisedQuery] = {}
        self._stores: dict[str, ReadOnlyStore] = {}
        self._committed_positions: Position = {}
        self._committed = progress.GroupProgress()
        self._stopping = False
        self._wake = threading.Event()
        """Set when a query has changed its state, or when the application should end."""
        self._thread = threading.Thread(
            target=self._run, name=f"streams {application_id}", daemon=True
        )

    # Lifecycle

    @property
    def state(self) -> ApplicationState:
        return self._state

    def start(self) -> Self:
        """Starts in the background. Raises errors that show at once: settings, missing topics, lost
        state."""
        with self._lock:
            if self._state is not ApplicationState.CREATED:
                raise StreamsError("The client is either already started or already stopped")
            if self._is_jvm_ours:
                self._runtime.warm_up()
            replicas = self._settings.replicas
            self._pieces = prepare_application_topics(
                self._graph, self.application_id, self._cluster, replicas=replicas
            )
            self._committed = progress.read_progress(self._cluster, self.application_id)
            self._runtime.beginning.check(self._pieces, self._committed)
            self._set(ApplicationState.REBALANCING)
            self._thread.start()
        return self

    def close(self, timeout_s: float = CLOSE_S) -> bool:
        """Stops, between two batches if possible; False after the timeout."""
        with self._lock:
            if self._state is ApplicationState.CREATED:
                self._set(ApplicationState.NOT_RUNNING)
            elif self._state not in ENDING:
                self._set(ApplicationState.PENDING_SHUTDOWN)
        self._end_soon()
        if self._thread.ident is not None:
            self._thread.join(timeout_s)
        with self._lock:
            stores, self._stores = list(self._stores.values()), {}
        for store in stores:
            store.close()
        return not self._thread.is_alive()

    def wait(self, *states: ApplicationState, timeout_s: float | None = None) -> ApplicationState:
        """Waits until it is in one of these states or has ended."""
        with self._changed:
            self._changed.wait_for(lambda: self._state in (*states, *OVER), timeout_s)
        return self._state

    def cleanup(self) -> None:
        """Deletes the local state, which the next start restores from changelog topics. To start
        from scratch, run kafka-streams-application-reset as well."""
        if self._state not in (ApplicationState.CREATED, *OVER):
            raise StreamsError("Cannot clean up while running.")
        shutil.rmtree(self._state_dir, ignore_errors=True)
        if self._settings.state_folder:
            state_folder(self._settings.state_folder).delete(self.application_id)

    # Stores and metrics

    def store(self, name: str) -> ReadOnlyStore:
        """A read-only store: get, range, all; fetch for windows and sessions."""
        spec = self._graph.stores.get(name)
        if spec is None or not spec.changelog:
            raise InvalidStateStore(
                f"there is no store {name} with a changelog: {', '.join(self.stores) or 'none'}"
            )
        if self._state is ApplicationState.CREATED or self._state in ENDING:
            raise InvalidStateStore(f"the application is not running: its state is {self._state}")
        with self._lock:
            if name not in self._stores:
                topic = changelog_topic(self.application_id, name)
                where = (self._cluster.bootstrap_servers, self._cluster.settings)
                self._stores[name] = ReadOnlyStore(spec, topic, *where)
            return self._stores[name]

    @property
    def stores(self) -> list[str]:
        """The names of the stores that can be queried."""
        return [name for name, spec in self._graph.stores.items() if spec.changelog]

    def metrics(self) -> dict[int, QueryState]:
        """By sub-topology: status, cause, restarts, rows of the last batch, lag, rate, duration."""
        return {number: query.state() for number, query in list(self._queries.items())}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # The thread

    def _run(self) -> None:
        try:
            for piece in self._pieces:
                start = self._runtime.beginning.of(piece, self._committed)
                made = SubtopologyQuery(piece, start, self._runtime, self.react, self._wake.set)
                self._queries[piece.number] = self._supervisor.supervise(made)
            for query in self._queries.values():
                query.begin()
            self._watch()
        except Exception as error:
            log.exception("Application %s failed", self.application_id)
            self._fail(error)
        self._supervisor.close()
        self._runtime.close()
        self._commit_progress()
        with self._lock:
            failed = self._state is ApplicationState.PENDING_ERROR
            self._set(ApplicationState.ERROR if failed else ApplicationState.NOT_RUNNING)

    def _watch(self) -> None:
        """Derives the application's state from its queries until it should end."""
        commit_s = time.monotonic() + COMMIT_S
        while not self._stopping:
            self._wake.wait(max(commit_s - time.monotonic(), 0.0))
            self._wake.clear()
            runs = all(query.phase is QueryStatus.RUNNING for query in self._queries.values())
            with self._lock:
                if self._state not in ENDING:
                    self._set(ApplicationState.RUNNING if runs else ApplicationState.REBALANCING)
            if time.monotonic() >= commit_s:
                self._commit_progress()
                commit_s = time.monotonic() + COMMIT_S

    def _end_soon(self) -> None:
        self._stopping = True
        self._wake.set()

    def react(self, failure: QueryFailure) -> Recovery:
        """Asks the handler about a sub-topology that has failed for good. Any answer but
        REPLACE_THREAD ends all sub-topologies."""
        error: Exception = StreamsError(failure.cause)
        try:
            if self._handler(error) is Reaction.REPLACE_THREAD:
                return Recovery.WITH_BACK_OFF
        except Exception as reason:
            log.exception("Application %s: uncaught exception handler failed", self.application_id)
            error = reason
        self._fail(error)
        self._end_soon()
        return Recovery.NONE

    def _fail(self, error: Exception) -> None:
        self.error = error
        with self._lock:
            if self._state not in ENDING:
                self._set(ApplicationState.PENDING_ERROR)

    def _commit_progress(self) -> None:
        """Commits the progress to the group, for tools that show its lag."""
        position: Position = {}
        for piece in self._pieces:
            position |= self._runtime.checkpoint(piece).position()
        new = {
            topic: offsets
            for topic, offsets in position.items()
            if self._committed_positions.get(topic) != offsets
        }
        try:
            progress.commit_progress(self._cluster, self.application_id, new)
            internal = [topic for piece in self._pieces for topic in piece.internal]
            progress.purge_repartition_topics(
                self._cluster, [topic for topic in internal if topic in new], position
            )
            self._committed_positions |= new
        except (KafkaError, OSError) as error:
            log.warning("Application %s: failed to commit offsets: %s", self.application_id, error)

    def _set(self, state: ApplicationState) -> None:
        """Call with the lock held."""
        before = self._state
        if before is state:
            return
        with self._changed:
            self._state = state
            self._changed.notify_all()
        log.info(
            "Application %s: state transition from %s to %s", self.application_id, before, state
        )
        if self._listener is not None:
            try:
                self._listener(state, before)
            except Exception:
                log.exception("Application %s: state listener failed", self.application_id)


class SubtopologyQuery(QuerySpecification):
    """The query of a sub-topology; `react` is called when it fails for good."""

    def __init__(
        self,
        piece: PreparedSubtopology,
        start: SubtopologyStart,
        runtime: TaskRuntime,
        react: Callable[[QueryFailure], Recovery],
        changed: Callable[[], None],
    ) -> None:
        super().__init__(f"{runtime.application_id}_{piece.number}")
        self._piece = piece
        self._start = start
        self._runtime = runtime
        self._react = react
        self._changed = changed

    def start(self, cancelled: Cancelled) -> QueryRun:
        return QueryRun(self._runtime.begin(self._piece, self._start))

    def failed(self, error: Exception) -> QueryFailure:
        found = failure_of(error)
        runtime = self._runtime
        return replace(
            found, cause=words_of(found.cause, runtime.application_id, runtime.state_dir)
        )

    def recover(self, failure: QueryFailure) -> Recovery:
        return self._react(failure)

    def reported(self, report: StatusReport) -> None:
        self._changed()


def reset_topics(cluster: KafkaCluster, application_id: str) -> list[str]:
    """Deletes the internal topics of a stopped application and returns their names."""
    with cluster.admin() as admin:
        found = internal_topics(application_id, admin.topics.names())
    delete_topics(cluster, found)
    return found


def _started(
    application_id: str, master: str, remote: str | None, settings: Mapping[str, str]
) -> SparkSession:
    from ottla.spark import session

    name = f"ottla-streams-{application_id}"
    return session.start(
        master=master,
        remote=remote,
        app_name=name,
        settings=settings,
        java_options=session.FIRST_COMPILER,
    )


def words_of(cause: str, application_id: str, state_dir: Path) -> str:
    """The cause without Spark's wrapping, and in an application's words instead of the sink's."""
    if OLDER in cause:
        return (
            f"{state_dir} is behind the output of application {application_id}: another instance"
            " has taken over, or this is an old copy. Run one instance at a time; delete the"
            " directory, and the state is restored from topics."
        )
    found = re.search(r"StreamsError: (.*?)(?: \(\[|$)", cause)
    return found[1] if found else cause
