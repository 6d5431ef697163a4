"""Interactive queries: the stores of an application, asked where the application was started.

Tasks keep their stores where Spark runs them. What they change goes to the changelog topic in the
same transaction as what they send; a thread follows that topic here. So an answer never tells of
anything that could still be taken back.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, TypeVar

from ottla.client.delivery import Setting
from ottla.engine.global_tables import FollowedCells
from ottla.engine.stores import AnyStore, StoreSpec
from ottla.errors import KafkaError

log = logging.getLogger("ottla.streams")

PAUSE_S: Final = 0.1
PAUSE_S_MAX: Final = 5.0
READY_S_MAX: Final = 60.0
CLOSE_S: Final = 2.0

T = TypeVar("T")


class InvalidStateStore(RuntimeError):
    """The store can't be asked now; the sentence says why. (Kafka: InvalidStateStoreException.)"""


class ReadOnlyStore:
    """A store to be read, by any thread: methods of the store that write are not there.

    It has what was committed when it was asked, or later; `refresh()` waits for all that is in
    the changelog now. Values come as they are; with their times from `timestamped`.
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
        self._followed = FollowedCells(topic, spec, servers, settings)
        self._spec = spec
        self._store: AnyStore = spec.plain.open(self._followed.cells, topic=topic)
        self._lock = threading.Lock()
        self._ready = threading.Event()
        self._closing = threading.Event()
        self._cause = ""
        self._thread = threading.Thread(target=self._follow, name=f"store-{self.name}", daemon=True)
        self._thread.start()

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return self.question(self._store, name)

    @property
    def timestamped(self) -> Timed:
        """The same, but answers are ValueAndTimestamp. (Kafka: timestampedKeyValueStore.)"""
        if self._spec.plain is self._spec:
            raise InvalidStateStore(f"the store {self.name} keeps no timestamps")
        return Timed(self, self._spec.open(self._followed.cells, topic=self.topic))

    def question(self, store: AnyStore, name: str) -> Callable[..., Any]:
        """A method of the store, asked while nothing is written to its cells."""
        if name not in self.READS or not hasattr(store, name):
            raise AttributeError(f"store {self.name} has no {name}")
        ask = getattr(store, name)

        def asked(*arguments: Any, **named: Any) -> Any:
            self._wait()
            with self._lock:
                answer = ask(*arguments, **named)
                # Whoever goes through the answer must not meet what is written meanwhile.
                return iter(list(answer)) if isinstance(answer, Iterator) else answer

        return asked

    def refresh(self) -> None:
        """All is known that was committed before this call."""
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
                f"the store {self.name} is not read yet: {self._cause or 'it takes long'}"
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
                log.warning("store %s: %s", self.name, error)
                self._closing.wait(pause_s)
                pause_s = min(pause_s * 2, PAUSE_S_MAX)
            except Exception as error:
                self._cause = f"{type(error).__name__}: {error}"
                log.exception("store %s is not followed any more", self.name)
                return


class Timed:
    """A ReadOnlyStore that tells the times of its values."""

    def __init__(self, asked: ReadOnlyStore, store: AnyStore) -> None:
        self._asked = asked
        self._store = store

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return self._asked.question(self._store, name)
