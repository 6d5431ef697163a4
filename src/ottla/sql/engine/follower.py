"""Reads the command topic, and carries out what is written there, one command after the other.

Carried out means: the state is changed, at once and as a whole. Whoever runs the queries is told
that there is a new state and works towards it; nothing here waits for Spark.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from ottla.errors import KafkaError
from ottla.rows.errors import SqlError
from ottla.sql.definitions import PartitionCount
from ottla.sql.engine.changes import Around, Change, Failure, State, change, failed_query
from ottla.sql.engine.commands import Command, CommandTopic, Read, read
from ottla.sql.syntax import parse
from ottla.sql.syntax.statements import Statement

POLL_S: Final = 0.2
RETRY_S: Final = 1.0
STATUSES_MAX: Final = 10_000

log = logging.getLogger("ottla.sql")


class Outcome(StrEnum):
    """As ksqlDB names where a command stands. VOID is ours: another command came before it."""

    QUEUED = "QUEUED"
    SUCCESS = "SUCCESS"
    ERROR = "ERROR"
    VOID = "VOID"


@dataclass(frozen=True, slots=True)
class Status:
    command_id: str
    outcome: Outcome
    message: str
    query_id: str = ""
    statement: str = ""
    change: Change | None = None


def carry_out(found: Read, state: State, partition_count: PartitionCount) -> tuple[State, Status]:
    """What a command makes of the state. Whatever is wrong with it is its status, not an error."""
    command = found.command
    if command is not None and command.basis != state.basis:
        words = "Another server's statement came first."
        void = Status(command.id, Outcome.VOID, words, statement=command.statement)
        return replace(state, position=found.offset), void
    after = replace(state, position=found.offset, basis=found.offset)
    if command is None:
        return after, Status("", Outcome.ERROR, found.trouble)
    statement: Statement | None = None
    try:
        (statement,) = parse(command.statement, types=state.catalog.types)
        around = Around(
            found.offset,
            {**command.settings, **command.properties},
            partition_count,
            lenient=True,
        )
        changed = change(statement, state, around)
    except Exception as error:  # a command of an older version may break anything: it is told
        if not isinstance(error, (SqlError, ValueError)):
            log.exception("command %d: %s", found.offset, command.statement)
        return _failed(after, statement, command, found.offset, error)
    state = replace(changed.state, position=found.offset, basis=found.offset)
    return state, Status(
        command.id,
        Outcome.SUCCESS,
        changed.message,
        changed.query_id,
        command.statement,
        changed,
    )


def _failed(
    state: State, statement: Statement | None, command: Command, number: int, error: Exception
) -> tuple[State, Status]:
    """What it would have made stays visible as FAILED, with the cause."""
    cause = str(error) or type(error).__name__
    log.error("command %d can't be carried out: %s\n%s", number, cause, command.statement)
    query = failed_query(statement, number) if statement is not None else None
    if query is not None and query.id not in state.catalog.queries:
        state = replace(state, failures={**state.failures, query.id: Failure(query, cause)})
    query_id = query.id if query else ""
    return state, Status(command.id, Outcome.ERROR, cause, query_id, command.statement)


class Follower:
    """The thread that reads. `changed` is called on it, once after the start and then for each
    command, when the new state is there. Without a topic there is no thread: commands are taken
    from whoever brings them, and are gone with the process."""

    def __init__(
        self,
        topic: CommandTopic | None,
        partition_count: PartitionCount,
        changed: Callable[[State], None],
    ) -> None:
        self._topic = topic
        self._partition_count = partition_count
        self._changed = changed
        self._state = State()
        self._statuses: dict[int, Status] = {}
        self._told = threading.Condition()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="ottla-sql-commands", daemon=True)
        self.replayed = threading.Event()
        self.trouble = ""

    @property
    def state(self) -> State:
        return self._state

    @property
    def degraded(self) -> list[tuple[int, Status]]:
        """The commands that could not be carried out."""
        return [
            (number, each)
            for number, each in list(self._statuses.items())
            if each.outcome is Outcome.ERROR
        ]

    def start(self) -> None:
        if self._topic is not None:
            self._thread.start()
        else:
            self.replayed.set()
            self._changed(self._state)

    def take(self, command: Command) -> int:
        """Carry out a command that is in no topic; its number."""
        assert self._topic is None
        number = self._state.position + 1
        self._carry_out(Read(number, command))
        return number

    def close(self) -> None:
        self._stopping.set()
        if self._thread.ident is not None:
            self._thread.join()

    def statuses(self) -> Iterable[Status]:
        return list(self._statuses.values())

    def wait(self, number: int, timeout_s: float) -> Status | None:
        """Where the command stands when it was read; None if it was not, in this time."""
        with self._told:
            self._told.wait_for(
                lambda: self._state.position >= number or self._stopping.is_set(), timeout_s
            )
            return self._statuses.get(number)

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._follow()
            except KafkaError as error:
                if str(error) != self.trouble:  # the same trouble every second is told of once
                    log.warning("the command topic can't be read, trying again: %s", error)
                self.trouble = str(error)
                self._stopping.wait(RETRY_S)
            except Exception as error:  # who reads commands must not stop for one of them
                self.trouble = f"{type(error).__name__}: {error}"
                log.exception("trouble with the command topic, trying again")
                self._stopping.wait(RETRY_S)

    def _follow(self) -> None:
        assert self._topic is not None
        end = self._topic.make()
        self.trouble = ""
        began = time.monotonic()
        with self._topic.reader() as reader:
            while not self._stopping.is_set():
                if not self.replayed.is_set() and self._state.position + 1 >= end:
                    log.info("%d commands read in %.1f s", end, time.monotonic() - began)
                    self.replayed.set()
                    self._changed(self._state)
                record = reader.poll(POLL_S)
                if record is not None:
                    self.trouble = ""
                    if record.offset > self._state.position:
                        self._carry_out(read(record))

    def _carry_out(self, found: Read) -> None:
        state, status = carry_out(found, self._state, self._partition_count)
        self._state = state
        # First: whoever waits for the status may wait next until the queries are as wanted.
        if self.replayed.is_set():
            self._changed(state)
        with self._told:
            self._statuses[found.offset] = status
            while len(self._statuses) > STATUSES_MAX:
                del self._statuses[next(iter(self._statuses))]
            self._told.notify_all()
