"""Interactive queries: an application's stores, in the process that started it.

Tasks hold their stores where Spark runs them. They write changes to the changelog topic in the same
transaction as their output, and a thread here follows that topic with read_committed. So an answer
never contains a change that could still be rolled back.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, TypeVar

from ottla.client.delivery import Setting
from ottla.engine.global_tables import TopicBackedCells
from ottla.engine.stores import StateStore, StoreSpec
from ottla.errors import KafkaError

log = logging.getLogger("ottla.streams")

PAUSE_S: Final = 0.1
PAUSE_S_MAX: Final = 5.0
READY_S_MAX: Final = 60.0
CLOSE_S: Final = 2.0

T = TypeVar("T")


class InvalidStateStore(RuntimeError):
    """The store can't be queried now; the message says why. (Kafka: InvalidStateStoreException.)"""


class ReadOnlyStore:
    """A store without its writing methods, for use by any thread.

    It follows the changelog; `refresh()` waits for all that is committed now. Values come without
    timestamps; `timestamped` returns both.
    """

    READS: Final = frozenset(
        {
            "all",
            "approximate_num_entries",
            "fetch",
            "fetch_range",
            "fetch_session",
            "find_sessions",
            "get",
            "prefix_scan",
            "range",
        }
    )

    def __init__(
        self, spec: StoreSpec, topic: str, servers: str, settings: Mapping[str, Setting]
    ) -> None:
        self.name = spec.name
        self.topic = topic
        self._followed = TopicBackedCells(topic, spec, servers, settings)
        self._spec = spec
        self._store: StateStore = spec.plain.open(self._followed.cells, topic=topic)
        self._lock = threading.Lock()
        self._ready = threading.Event()
        self._closing = threading.Event()
        self._cause = ""
        self._thread = threading.Thread(target=self._follow, name=f"store-{self.name}", daemon=True)
        self._thread.start()

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return self.question(self._store, name)

    @property
    def timestamped(self) -> TimestampedReadOnlyStore:
        """The same store with ValueAndTimestamp answers. (Kafka: timestampedKeyValueStore.)"""
        if self._spec.plain is self._spec:
            raise InvalidStateStore(f"the store {self.name} has no timestamps")
        return TimestampedReadOnlyStore(
            self, self._spec.open(self._followed.cells, topic=self.topic)
        )

    def question(self, store: StateStore, name: str) -> Callable[..., Any]:
        """A method of the store that runs while no change is applied to its cells."""
        if name not in self.READS or not hasattr(store, name):
            raise AttributeError(f"store {self.name} has no {name}")
        ask = getattr(store, name)

        def run_query(*arguments: Any, **named: Any) -> Any:
            self._wait()
            with self._lock:
                answer = ask(*arguments, **named)
                # The caller iterates without the lock, so it gets a copy.
                return iter(list(answer)) if isinstance(answer, Iterator) else answer

        return run_query

    def refresh(self) -> None:
        """Applies all that was committed before this call."""
        self._wait()
        with self._lock:
            self._followed.catch_up()

    def close(self) -> None:
        self._closing.set()
        self._thread.join(CLOSE_S)
        self._followed.close()

    def _wait(self) -> None:
        if self._closing.is_set():
            raise InvalidStateStore(f"the store {self.name} is closed")
        if not self._ready.wait(READY_S_MAX):
            raise InvalidStateStore(
                f"the store {self.name} is not ready: {self._cause or 'still reading its topic'}"
            )

    def _follow(self) -> None:
        pause_s = PAUSE_S
        while not self._closing.is_set():
            try:
                with self._lock:
                    self._followed.catch_up()
                self._ready.set()
                pause_s = PAUSE_S
                self._followed.wait()
            except KafkaError as error:
                self._cause = str(error)
                log.warning("Store %s: %s", self.name, error)
                self._closing.wait(pause_s)
                pause_s = min(pause_s * 2, PAUSE_S_MAX)
            except Exception as error:
                self._cause = f"{type(error).__name__}: {error}"
                log.exception("Store %s: stopped following its changelog", self.name)
                return


class TimestampedReadOnlyStore:
    """A ReadOnlyStore whose answers have timestamps."""

    def __init__(self, run_query: ReadOnlyStore, store: StateStore) -> None:
        self._asked = run_query
        self._store = store

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return self._asked.question(self._store, name)
