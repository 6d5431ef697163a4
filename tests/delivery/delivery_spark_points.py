"""Where a Spark job dies: points of the sink's work, at which a process kills itself or others.

Spark's Python workers import this module with the writers below. The environment says which point,
and when: OTTLA_DIE = {"point": ..., "hit": n, "who": ...}, at the n-th time that a process comes
there. With "once", a file that does not exist yet, one process dies and those after it go on.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from pyspark.sql.datasource import DataSourceStreamWriter
from pyspark.sql.types import StructType

import ottla.spark.sink.decisions as decisions
import ottla.spark.sink.writers as writers
from ottla.client.protocol.sender import Sender
from ottla.spark import planners
from ottla.spark.source import Ottla

DIE = "OTTLA_DIE"
DRIVER = "OTTLA_DRIVER"

# Each with the moment that it is.
POINTS = {
    "initialized": "a task or a driver has its producer, and has not used it",
    "sent": "a task's records are with the broker, and some not answered for",
    "written": "a task is done, and Spark does not know",
    "deciding": "all tasks are done, and nothing is decided",
    "half decided": "the decision is written, and its transaction is open",
    "decided": "it is decided, and no task's transaction is committed",
    "half ended": "some are committed",
    "ended": "all are committed, and Spark does not know",
}
# A Python worker alone; the driver and its JVM, while the workers go on for a moment; or all.
WHO = ("worker", "driver", "all")


class DyingWriter(writers.StreamWriter):
    pass


class Dying(Ottla):
    """format("ottla"), in a process that will die."""

    def streamWriter(  # noqa: N802
        self, schema: StructType, overwrite: bool
    ) -> DataSourceStreamWriter:
        made = super().streamWriter(schema, overwrite)
        assert isinstance(made, writers.StreamWriter)
        return DyingWriter(made._options)


class Point:
    """Dies when it is passed for the n-th time."""

    def __init__(self, wish: Mapping[str, Any]) -> None:
        self.name: str = wish["point"]
        self._left: int = wish["hit"]
        self._who: str = wish["who"]
        self._once: str = wish.get("once", "")

    def passed(self) -> None:
        self._left -= 1
        if self._left == 0 and self._is_first():
            die(self._who)

    def _is_first(self) -> bool:
        if not self._once:
            return True
        try:
            os.close(os.open(self._once, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return False
        return True


def die(who: str) -> None:
    driver = int(os.environ[DRIVER])
    if who != "worker":
        for pid in family(driver):
            if pid != os.getpid() and (who == "all" or not is_python_worker(pid)):
                kill(pid)
    if who != "driver":
        kill(os.getpid())


def kill(pid: int, number: int = signal.SIGKILL) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)


def family(root: int) -> list[int]:
    """A process and all that it has started, itself first; the process that Spark's Python
    processes are forked from counts as the JVM's, and so do they."""
    children: dict[int, list[int]] = {}
    for each in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = each.read_text().rpartition(")")[2].split()
            words = (each.parent / "cmdline").read_text().split("\0")
        except OSError:
            continue
        parent = fields[1]
        if planners.__name__ in words:
            parent = words[words.index(planners.__name__) + 1]
        children.setdefault(int(parent), []).append(int(each.parent.name))
    found = [root]
    for pid in found:
        found += children.get(pid, ())
    return found


def is_python_worker(pid: int) -> bool:
    """Of Spark: the daemon, or one that it has forked."""
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip() == planners.DAEMON
    except OSError:
        return False


def install(point: Point) -> None:
    """Put the point into the sink, around what it does there."""
    where: dict[str, tuple[object, str, Callable[..., Any]]] = {
        "initialized": (decisions, "initialize", after),
        "sent": (Sender, "finish", before),
        "written": (writers, "_write", after),
        "deciding": (writers, "_commit", before),
        "half decided": (decisions, "commit_offset", after),
        "decided": (decisions, "end_all", before),
        "half ended": (decisions, "end_all", in_the_middle),
        "ended": (decisions, "end_all", after),
    }
    owner, name, wrap = where[point.name]
    setattr(owner, name, wrap(getattr(owner, name), point))


def before(function: Callable[..., Any], point: Point) -> Callable[..., Any]:
    def wrapped(*arguments: Any, **named: Any) -> Any:
        point.passed()
        return function(*arguments, **named)

    return wrapped


def after(function: Callable[..., Any], point: Point) -> Callable[..., Any]:
    def wrapped(*arguments: Any, **named: Any) -> Any:
        result = function(*arguments, **named)
        point.passed()
        return result

    return wrapped


def in_the_middle(function: Callable[..., Any], point: Point) -> Callable[..., Any]:
    def wrapped(cluster: Any, producers: Sequence[Any], *, commit: bool) -> None:
        middle = (len(producers) + 1) // 2
        function(cluster, producers[:middle], commit=commit)
        point.passed()
        function(cluster, producers[middle:], commit=commit)

    return wrapped


if os.environ.get(DIE):
    install(Point(json.loads(os.environ[DIE])))
