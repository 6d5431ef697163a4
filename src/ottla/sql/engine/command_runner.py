"""The command runner: reads the command topic and executes commands in order.

To execute a command means to replace the state by the next one, atomically. The query reconciler
gets the new state and works towards it; nothing here waits for Spark.
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
from ottla.sql.engine.command_topic import Command, CommandTopic, QueuedCommand, read
from ottla.sql.engine.state_changes import (
    CommandFailure,
    EngineState,
    PlanningContext,
    StateChange,
    failed_query,
    plan_change,
)
from ottla.sql.syntax import parse
from ottla.sql.syntax.statements import Statement

POLL_S: Final = 0.2
RETRY_S: Final = 1.0
STATUSES_MAX: Final = 10_000

log = logging.getLogger("ottla.sql")


class CommandStatusCode(StrEnum):
    """ksqlDB's command statuses, and VOID: another server's command took effect first."""

    QUEUED = "QUEUED"
    SUCCESS = "SUCCESS"
    ERROR = "ERROR"
    VOID = "VOID"


@dataclass(frozen=True, slots=True)
class CommandStatus:
    command_id: str
    outcome: CommandStatusCode
    message: str
    query_id: str = ""
    statement: str = ""
    plan_change: StateChange | None = None


def carry_out(
    found: QueuedCommand, state: EngineState, partition_count: PartitionCount
) -> tuple[EngineState, CommandStatus]:
    """The next state, and the status of the command. Never raises: errors go into the status."""
    command = found.command
    if command is not None and command.basis != state.basis:
        # It was validated against another state. `basis` stays the same, because a void command
        # changes nothing: otherwise it would make the next valid command void as well.
        words = "Another server's statement took effect first."
        void = CommandStatus(command.id, CommandStatusCode.VOID, words, statement=command.statement)
        return replace(state, position=found.offset), void
    after = replace(state, position=found.offset, basis=found.offset)
    if command is None:
        return after, CommandStatus("", CommandStatusCode.ERROR, found.trouble)
    statement: Statement | None = None
    try:
        (statement,) = parse(command.statement, types=state.catalog.types)
        context = PlanningContext(
            found.offset,
            {**command.settings, **command.properties},
            partition_count,
            lenient=True,
        )
        changed = plan_change(statement, state, context)
    except Exception as error:  # commands of older versions may fail anywhere
        if not isinstance(error, (SqlError, ValueError)):
            log.exception("Unexpected error in command %d: %s", found.offset, command.statement)
        return _failed(after, statement, command, found.offset, error)
    state = replace(changed.state, position=found.offset, basis=found.offset)
    return state, CommandStatus(
        command.id,
        CommandStatusCode.SUCCESS,
        changed.message,
        changed.query_id,
        command.statement,
        changed,
    )


def _failed(
    state: EngineState, statement: Statement | None, command: Command, number: int, error: Exception
) -> tuple[EngineState, CommandStatus]:
    """Keep the query that the command would have created, in state FAILED with the cause."""
    cause = str(error) or type(error).__name__
    log.error("Failed to execute command %d: %s\n%s", number, cause, command.statement)
    query = failed_query(statement, number) if statement is not None else None
    if query is not None and query.id not in state.catalog.queries:
        state = replace(state, failures={**state.failures, query.id: CommandFailure(query, cause)})
    query_id = query.id if query else ""
    return state, CommandStatus(
        command.id, CommandStatusCode.ERROR, cause, query_id, command.statement
    )


class CommandRunner:
    """A thread that reads and executes commands. It calls `changed` with each new state: once
    after the replay, then for each command. Without a topic there is no thread: `take` executes
    commands, which are gone when the process ends."""

    def __init__(
        self,
        topic: CommandTopic | None,
        partition_count: PartitionCount,
        changed: Callable[[EngineState], None],
    ) -> None:
        self._topic = topic
        self._partition_count = partition_count
        self._changed = changed
        self._state = EngineState()
        self._statuses: dict[int, CommandStatus] = {}
        self._status_changed = threading.Condition()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="ottla-sql-commands", daemon=True)
        self.replayed = threading.Event()
        self.trouble = ""

    @property
    def state(self) -> EngineState:
        return self._state

    @property
    def degraded(self) -> list[tuple[int, CommandStatus]]:
        """The commands that failed."""
        return [
            (number, status)
            for number, status in list(self._statuses.items())
            if status.outcome is CommandStatusCode.ERROR
        ]

    def start(self) -> None:
        if self._topic is not None:
            self._thread.start()
        else:
            self.replayed.set()
            self._changed(self._state)

    def take(self, command: Command) -> int:
        """Execute a command that is in no topic; return its number."""
        assert self._topic is None
        number = self._state.position + 1
        self._carry_out(QueuedCommand(number, command))
        return number

    def close(self) -> None:
        self._stopping.set()
        if self._thread.ident is not None:
            self._thread.join()

    def statuses(self) -> Iterable[CommandStatus]:
        return list(self._statuses.values())

    def wait(self, number: int, timeout_s: float) -> CommandStatus | None:
        """The status of a command, once it has been read; None after the timeout."""
        with self._status_changed:
            self._status_changed.wait_for(
                lambda: self._state.position >= number or self._stopping.is_set(), timeout_s
            )
            return self._statuses.get(number)

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._follow()
            except KafkaError as error:
                if str(error) != self.trouble:  # the same error every second is logged once
                    log.warning("Failed to read the command topic, retrying: %s", error)
                self.trouble = str(error)
                self._stopping.wait(RETRY_S)
            except Exception as error:  # the command runner must survive any command
                self.trouble = f"{type(error).__name__}: {error}"
                log.exception("Unexpected error while reading the command topic, retrying")
                self._stopping.wait(RETRY_S)

    def _follow(self) -> None:
        assert self._topic is not None
        end = self._topic.make()
        self.trouble = ""
        began = time.monotonic()
        with self._topic.reader() as reader:
            while not self._stopping.is_set():
                if not self.replayed.is_set() and self._state.position + 1 >= end:
                    log.info("Replayed %d commands in %.1f s", end, time.monotonic() - began)
                    self.replayed.set()
                    self._changed(self._state)
                record = reader.poll(POLL_S)
                if record is not None:
                    self.trouble = ""
                    if record.offset > self._state.position:
                        self._carry_out(read(record))

    def _carry_out(self, found: QueuedCommand) -> None:
        state, status = carry_out(found, self._state, self._partition_count)
        self._state = state
        # Before the status is set: a caller that has seen the status may wait for the reconciler
        # next, which must know the new state by then.
        if self.replayed.is_set():
            self._changed(state)
        with self._status_changed:
            self._statuses[found.offset] = status
            while len(self._statuses) > STATUSES_MAX:
                del self._statuses[next(iter(self._statuses))]
            self._status_changed.notify_all()
