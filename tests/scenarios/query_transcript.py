"""A query's life on paper: an event on each line, and below it what the lifecycle instructs.

begin, end, restart                     what people want
started, batch                          what its run does
complete, stopped                       it has ended, without a failure
failed <class> <cause>                  it has ended with one
recovered at-once | with-back-off | none
wait <ms>                               time passes; a retry that is due comes then
"""

from __future__ import annotations

from ottla.queries import lifecycle
from ottla.queries.failures import FailureClass, QueryFailure
from ottla.queries.lifecycle import (
    Begin,
    End,
    Ended,
    Event,
    Instruction,
    Query,
    Recover,
    Recovered,
    Recovery,
    Report,
    Restart,
    RetryAt,
    RetryDue,
    Start,
    Started,
    Stop,
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
        self._query = Query()
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
                return Begin()
            case ["end"]:
                return End()
            case ["restart"]:
                return Restart()
            case ["started"]:
                return Started(self._run)
            case ["batch"]:
                return lifecycle.BatchSucceeded(self._run)
            case ["complete" | "stopped"]:
                return Ended(self._run)
            case ["failed", kind, *cause]:
                return Ended(self._run, QueryFailure(FailureClass(kind), " ".join(cause)))
            case ["recovered", how]:
                return Recovered(Recovery[how.upper().replace("-", "_")])
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
            case Start(run):
                self._run, self._retry_at_ms = run, None
                return f"start run {run}"
            case Stop(run):
                return f"stop run {run}"
            case RetryAt(at_ms):
                self._retry_at_ms = at_ms
                return f"retry at {at_ms} ms"
            case Recover(failure):
                return f"ask whether {failure.cause!r} can be removed"
            case Report():
                return instruction.line("Q")
