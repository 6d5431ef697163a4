"""Hosts of stateful tasks (engine/host_process.py): each serves some of the tasks.

worker -> host   ("has", digest of the plan)       True; a host with another plan exits
                 ("run", folder of the query, batch, task, rows, now)   the rows to send
                 ("end",)
"""

from __future__ import annotations

import contextlib
import hashlib
import traceback
from collections.abc import Sequence
from typing import Any, Final

from ottla.engine import host_process
from ottla.engine.failures import StreamsError
from ottla.engine.host_process import FinalAnswer, HostConnection, HostDisconnect
from ottla.engine.task_host import TaskHost
from ottla.spark.chunk_processor import unpickled

TRIES_MAX: Final = 10


class HostFault(RuntimeError):
    """A fault outside the topology, described in the message."""


def connect_to_task_host(name: str, plan: bytes) -> TaskClient:
    """A connection to the host `name`, started if needed; `plan` is a pickled TaskPlan."""
    digest = hashlib.sha256(plan).hexdigest()
    owner = host_process.owner_pid()
    address = f"streams-{owner}-{name}"

    def serve(ready: int) -> None:
        host_process.exit_with(owner)
        server = TaskServer(digest, plan)
        host_process.serve(address, server.answer, owner=owner, ready=ready)
        server.close()

    for _ in range(TRIES_MAX):
        line = host_process.connect_or_start(address, host_process.fork_host(serve))
        with contextlib.suppress(HostDisconnect):  # it was about to exit
            if line.ask(("has", digest)):
                return TaskClient(line)
        line.close()
    raise HostDisconnect(f"Connection refused: the host process {name} keeps exiting")


class TaskClient:
    """A worker's side of a host. HostDisconnect: the host has died, and Spark reruns the batch with
    a new one."""

    def __init__(self, line: HostConnection) -> None:
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
        """Ends the host process, which loses its memory."""
        with contextlib.suppress(HostDisconnect):
            self.line.ask(("end",))
        self.close()

    def _ask(self, *words: Any) -> Any:
        kind, answer = self.line.ask(words)
        if kind == "failed":
            raise StreamsError(answer)
        if kind == "broken":
            raise HostFault(answer)
        return answer


class TaskServer:
    """The host's side."""

    def __init__(self, digest: str, plan: bytes) -> None:
        self._digest = digest
        self._plan = plan
        self._task_host: TaskHost | None = None

    def answer(self, words: Sequence[Any], line: HostConnection) -> Any:
        verb, *arguments = words
        if verb == "has" and arguments == [self._digest]:
            return True
        if verb in ("has", "end"):
            self.close()  # before the answer: the next host starts after it, and needs the copies
            return FinalAnswer(False)
        try:
            if self._task_host is None:
                self._task_host = TaskHost(unpickled(self._plan))
            return "done", getattr(self._task_host, verb)(*arguments)
        except StreamsError as error:
            traceback.print_exc()
            return "failed", str(error)
        except Exception as error:
            traceback.print_exc()
            return "broken", f"{type(error).__name__}: {error}"

    def close(self) -> None:
        if self._task_host is not None:
            self._task_host.close()
