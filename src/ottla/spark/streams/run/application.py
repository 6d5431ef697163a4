"""A topology that runs: on Spark, from start to close.

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
from enum import StrEnum
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Protocol, Self

from ottla.errors import KafkaError
from ottla.spark.running.checkpoints import Position
from ottla.spark.running.cluster import Cluster, delete_topics
from ottla.spark.running.kept import Kept
from ottla.spark.running.states import QueryState, State
from ottla.spark.sink.decisions import OLDER
from ottla.spark.streams.failures import StreamsError
from ottla.spark.streams.graph import Graph, changelog_topic
from ottla.spark.streams.run import progress
from ottla.spark.streams.run.queries import Ground
from ottla.spark.streams.run.questions import InvalidStateStore, ReadOnlyStore
from ottla.spark.streams.run.settings import settings_of
from ottla.spark.streams.run.topics import Piece, internal_topics, prepare

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

log = logging.getLogger("ottla.streams")

STATE_DIR: Final = "./streams-state"
LOOK_S: Final = 0.05
TELL_S: Final = 5.0
CLOSE_S: Final = 60.0
REPLACE_S_MAX: Final = 60.0


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
    """What an uncaught exception handler answers."""

    REPLACE_THREAD = "REPLACE_THREAD"
    """The sub-topology is started again, where it was."""
    SHUTDOWN_CLIENT = "SHUTDOWN_CLIENT"
    SHUTDOWN_APPLICATION = "SHUTDOWN_APPLICATION"


class HasGraph(Protocol):
    @property
    def graph(self) -> Graph: ...


StateListener = Callable[[ApplicationState, ApplicationState], None]
"""Given the new state and the old one."""
UncaughtHandler = Callable[[Exception], Reaction]


def shut_down(error: Exception) -> Reaction:
    return Reaction.SHUTDOWN_CLIENT


class Application:
    """`config` has Kafka's names, and Spark's (`spark.*`). `spark` gives a session; without it one
    is started for `master`, or for the Spark Connect server `remote`."""

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
        self._graph = topology.graph
        self._settings = settings_of(config or {})
        self._cluster = Cluster(bootstrap_servers, self._settings.client)
        self._home = Path(state_dir).absolute() / application_id
        wishes = self._settings.spark
        given = spark or (lambda: _started(application_id, master, remote, wishes))
        self._ground = Ground(application_id, given, self._cluster, self._home, self._settings)
        self._is_jvm_ours = remote is None
        self._listener = state_listener
        self._handler = uncaught_exception_handler
        self._lock = threading.Lock()
        self._state = ApplicationState.CREATED
        self._changed = threading.Condition()
        self._pieces: list[Piece] = []
        self._kept: dict[int, Kept] = {}
        self._stores: dict[str, ReadOnlyStore] = {}
        self._told: Position = {}
        self._committed = progress.Committed()
        self._replaced = 0
        self._stopping = threading.Event()
        self._thread = threading.Thread(
            target=self._run, name=f"streams {application_id}", daemon=True
        )

    # Its life

    @property
    def state(self) -> ApplicationState:
        return self._state

    def start(self) -> Self:
        """Returns at once, but for what can be known to be wrong now: a setting, a topic, a state
        that is not there."""
        with self._lock:
            if self._state is not ApplicationState.CREATED:
                raise StreamsError("The client is either already started or already stopped")
            if self._is_jvm_ours:
                self._ground.warm_up()
            replicas = self._settings.replicas
            self._pieces = prepare(
                self._graph, self.application_id, self._cluster, replicas=replicas
            )
            self._committed = progress.committed(self._cluster, self.application_id)
            self._ground.beginning.check(self._pieces, self._committed)
            self._set(ApplicationState.REBALANCING)
            self._thread.start()
        return self

    def close(self, timeout_s: float = CLOSE_S) -> bool:
        """Ends at the border of a batch where it can; False: the time was not enough."""
        with self._lock:
            if self._state is ApplicationState.CREATED:
                self._set(ApplicationState.NOT_RUNNING)
            elif self._state not in ENDING:
                self._set(ApplicationState.PENDING_SHUTDOWN)
        self._stopping.set()
        if self._thread.ident is not None:
            self._thread.join(timeout_s)
        with self._lock:
            stores, self._stores = list(self._stores.values()), {}
        for each in stores:
            each.close()
        return not self._thread.is_alive()

    def wait(self, *states: ApplicationState, timeout_s: float | None = None) -> ApplicationState:
        """Until it is in one of these states, or has ended."""
        with self._changed:
            self._changed.wait_for(lambda: self._state in (*states, *OVER), timeout_s)
        return self._state

    def cleanup(self) -> None:
        """Deletes its state on this machine: it is restored from its topics with the next start.
        To begin anew, run kafka-streams-application-reset as well."""
        if self._state not in (ApplicationState.CREATED, *OVER):
            raise StreamsError("Cannot clean up while running.")
        shutil.rmtree(self._home, ignore_errors=True)

    # What it knows

    def store(self, name: str) -> ReadOnlyStore:
        """A store to be asked: get, range, all; fetch for windows and sessions."""
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
        """Those that can be asked."""
        return [name for name, spec in self._graph.stores.items() if spec.changelog]

    def metrics(self) -> dict[int, QueryState]:
        """By sub-topology: state, cause, restarts, rows of the last batch, lag, rate, duration."""
        return {number: each.state() for number, each in list(self._kept.items())}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    # The thread

    def _run(self) -> None:
        try:
            for piece in self._pieces:
                self._begin(piece)
            self._watch()
        except Exception as error:
            log.exception("application %s can't run", self.application_id)
            self._fail(error)
        for each in self._kept.values():
            each.stop_soon()
        for each in self._kept.values():
            each.stop()
        self._ground.close()
        self._tell()
        with self._lock:
            failed = self._state is ApplicationState.PENDING_ERROR
            self._set(ApplicationState.ERROR if failed else ApplicationState.NOT_RUNNING)

    def _begin(self, piece: Piece) -> None:
        start = self._ground.beginning.of(piece, self._committed)

        def begin() -> StreamingQuery:
            return self._ground.begin(piece, start)

        kept = Kept(f"{self.application_id}_{piece.number}", begin, self._ground.pace)
        self._kept[piece.number] = kept
        kept.start()

    def _watch(self) -> None:
        told_s = time.monotonic()
        while not self._stopping.wait(LOOK_S):
            for number, each in list(self._kept.items()):
                if each.phase is State.FAILED and not self._react(number, each.state()):
                    return
            runs = all(each.phase is State.RUNNING for each in self._kept.values())
            with self._lock:
                if self._state not in ENDING:
                    self._set(ApplicationState.RUNNING if runs else ApplicationState.REBALANCING)
            if time.monotonic() - told_s > TELL_S:
                self._tell()
                told_s = time.monotonic()

    def _react(self, number: int, failed: QueryState) -> bool:
        """What becomes of a sub-topology that has failed for good. False: it is the end."""
        error = StreamsError(words_of(failed.cause, self.application_id, self._home))
        if self._handler(error) is Reaction.REPLACE_THREAD:
            (piece,) = (each for each in self._pieces if each.number == number)
            self._kept[number].stop()
            self._replaced += 1
            self._stopping.wait(min(2.0 ** (self._replaced - 1), REPLACE_S_MAX))
            self._begin(piece)
            return True
        self._fail(error)
        return False

    def _fail(self, error: Exception) -> None:
        self.error = error
        with self._lock:
            if self._state not in ENDING:
                self._set(ApplicationState.PENDING_ERROR)

    def _tell(self) -> None:
        """The group shows how far we are; nothing depends on it."""
        position: Position = {}
        for piece in self._pieces:
            position |= self._ground.checkpoint(piece).position()
        new = {topic: each for topic, each in position.items() if self._told.get(topic) != each}
        try:
            progress.tell(self._cluster, self.application_id, new)
            internal = [topic for piece in self._pieces for topic in piece.internal]
            progress.purge(self._cluster, [each for each in internal if each in new], position)
            self._told |= new
        except (KafkaError, OSError) as error:
            log.warning("application %s: offsets are not told: %s", self.application_id, error)

    def _set(self, state: ApplicationState) -> None:
        """With the lock held."""
        before = self._state
        if before is state:
            return
        with self._changed:
            self._state = state
            self._changed.notify_all()
        log.info("application %s: %s", self.application_id, state)
        if self._listener is not None:
            try:
                self._listener(state, before)
            except Exception:
                log.exception("the state listener of %s failed", self.application_id)


def reset_topics(cluster: Cluster, application_id: str) -> list[str]:
    """Deletes the internal topics of an application that does not run; their names."""
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


def words_of(cause: str, application_id: str, home: Path) -> str:
    """Without what Spark has put around it, and without the words of Spark's sink."""
    if OLDER in cause:
        return (
            f"{home} is older than what application {application_id} has written: another instance"
            " has taken over, or this is a copy of former days. Run one instance at a time; delete"
            " the directory, and the state is restored from topics."
        )
    found = re.search(r"StreamsError: (.*?)(?: \(\[|$)", cause)
    return found[1] if found else cause
