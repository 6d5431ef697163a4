"""Where tasks are at home: hosts (engine/hosts.py), each for some of the tasks.

worker -> host   ("has", digest of the plan)       True; one that has another ends
                 ("run", folder of the query, batch, task, rows, now)   what is to be sent
                 ("end",)
"""

from __future__ import annotations

import contextlib
import hashlib
import traceback
from collections.abc import Sequence
from typing import Any, Final

from ottla.engine import hosts
from ottla.engine.failures import StreamsError
from ottla.engine.hosts import HungUp, Last, Line
from ottla.engine.task_host import TaskHost
from ottla.spark.work import unpickled

TRIES_MAX: Final = 10


class HostTrouble(RuntimeError):
    """Not of the topology: the words say of whom."""


def home_of(name: str, plan: bytes) -> TaskClient:
    """A home of tasks: `name` says of which, `plan` is a pickled TaskPlan."""
    digest = hashlib.sha256(plan).hexdigest()
    keeper = hosts.keeper()
    address = f"streams-{keeper}-{name}"

    def serve(ready: int) -> None:
        hosted = TaskServer(digest, plan)
        hosts.serve(address, hosted.answer, keeper=keeper, ready=ready)
        hosted.close()

    for _ in range(TRIES_MAX):
        line = hosts.reached(address, hosts.forked(serve))
        with contextlib.suppress(HungUp):  # it was about to end
            if line.ask(("has", digest)):
                return TaskClient(line)
        line.close()
    raise HungUp(f"Connection refused: processes for {name} do not stay")


class TaskClient:
    """A home, from a worker's side. HungUp: it has died; the batch runs again, with another."""

    def __init__(self, line: Line) -> None:
        self.line = line

    def run(
        self,
        folder: str,
        batch: int,
        number: int,
        cells: Sequence[bytes],
        now_ms: int | None = None,
    ) -> list[bytes]:
        sent: list[bytes] = self._ask("run", folder, batch, number, list(cells), now_ms)
        return sent

    def close(self) -> None:
        self.line.close()

    def end(self) -> None:
        """The process goes, and what it has in its memory."""
        with contextlib.suppress(HungUp):
            self.line.ask(("end",))
        self.close()

    def _ask(self, *words: Any) -> Any:
        kind, answer = self.line.ask(words)
        if kind == "failed":
            raise StreamsError(answer)
        if kind == "broken":
            raise HostTrouble(answer)
        return answer


class TaskServer:
    """A home, in its host."""

    def __init__(self, digest: str, plan: bytes) -> None:
        self._digest = digest
        self._plan = plan
        self._home: TaskHost | None = None

    def answer(self, words: Sequence[Any], line: Line) -> Any:
        verb, *arguments = words
        if verb == "has":
            return arguments == [self._digest] or Last(False)
        if verb == "end":
            return Last()
        try:
            if self._home is None:
                self._home = TaskHost(unpickled(self._plan))
            return "done", getattr(self._home, verb)(*arguments)
        except StreamsError as error:
            traceback.print_exc()
            return "failed", str(error)
        except Exception as error:
            traceback.print_exc()
            return "broken", f"{type(error).__name__}: {error}"

    def close(self) -> None:
        if self._home is not None:
            self._home.close()
