"""The life of a query as a transcript: an event on each line, and below it the instructions.

begin, end, restart                     requests of users
started, batch                          events of its run
complete, stopped                       it has ended without a failure
failed <class> <cause>                  it has ended with a failure
recovered at-once | with-back-off | none
wait <ms>                               time passes; a due retry starts
"""

from __future__ import annotations

from ottla.queries import lifecycle
from ottla.queries.failures import FailureClass, QueryFailure
from ottla.queries.lifecycle import (
    Event,
    Instruction,
    QueryLifecycle,
    Recover,
    Recovery,
    RecoveryResult,
    RestartQuery,
    RetryAt,
    RetryDue,
    RunEnd,
    RunStart,
    StartQuery,
    StartRun,
    StatusReport,
    StopQuery,
    StopRun,
)


def replay(text: str) -> str:
    life = Transcript()
    for line in text.splitlines():
        if not line.startswith("  "):
            life.line(line)
    return "\n".join(life.written) + "\n"


class Transcript:
    def __init__(self) -> None:
        self.written: list[str] = []
        self._query = QueryLifecycle()
        self._now_ms = 0
        self._run = 0
        self._retry_at_ms: int | None = None

    def line(self, line: str) -> None:
        self.written.append(line)
        if not line or line.startswith("#"):
            return
        words = line.split()
        if words[0] == "wait":
            self._wait(int(words[1]))
        else:
            self._handle(self._event(words))

    def _event(self, words: list[str]) -> Event:
        match words:
            case ["begin"]:
                return StartQuery()
            case ["end"]:
                return StopQuery()
            case ["restart"]:
                return RestartQuery()
            case ["started"]:
                return RunStart(self._run)
            case ["batch"]:
                return lifecycle.BatchSuccess(self._run)
            case ["complete" | "stopped"]:
                return RunEnd(self._run)
            case ["failed", kind, *cause]:
                return RunEnd(self._run, QueryFailure(FailureClass(kind), " ".join(cause)))
            case ["recovered", how]:
                return RecoveryResult(Recovery[how.upper().replace("-", "_")])
        raise AssertionError(words)

    def _wait(self, wait_ms: int) -> None:
        until_ms = self._now_ms + wait_ms
        if self._retry_at_ms is not None and self._retry_at_ms <= until_ms:
            self.written.append(f"  after {self._retry_at_ms - self._now_ms} ms")
            self._now_ms, self._retry_at_ms = self._retry_at_ms, None
            self._handle(RetryDue())
        self._now_ms = until_ms

    def _handle(self, event: Event) -> None:
        for instruction in self._query.handle(event, self._now_ms):
            self.written.append(f"  {self._told(instruction)}")

    def _told(self, instruction: Instruction) -> str:
        match instruction:
            case StartRun(run):
                self._run, self._retry_at_ms = run, None
                return f"start run {run}"
            case StopRun(run):
                return f"stop run {run}"
            case RetryAt(at_ms):
                self._retry_at_ms = at_ms
                return f"retry at {at_ms} ms"
            case Recover(failure):
                return f"ask whether {failure.cause!r} can be removed"
            case StatusReport():
                return instruction.line("Q")
