"""Where a Spark job dies: points of the sink's work, at which a process kills itself or others.

Spark's Python workers import this module with the writers below. The environment has the point and
when: OTTLA_DIE = {"point": ..., "hit": n, "who": ..., "mark": file, "once": ...}, the n-th time
that a process passes it. The file exists once a process has died there; with "once" its successors
continue.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from pyspark.sql.datasource import DataSourceStreamWriter, DataSourceWriter
from pyspark.sql.types import StructType

import ottla.spark.sink.commit_log as decisions
import ottla.spark.sink.writers as writers
from ottla.client.delivery import Delivery
from ottla.client.protocol.sender import Sender
from ottla.spark import fork_server
from ottla.spark.sink.options import WriteOptions
from ottla.spark.source import OttlaDataSource

DIE = "OTTLA_DIE"
DRIVER = "OTTLA_DRIVER"
WEAK = "OTTLA_WEAK"
"""In the environment: writers are at least once, whatever the query asks for."""

# Each point with the moment that it is.
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
# Only a Python worker; the driver and its JVM, while the workers continue for a moment; or all.
WHO = ("worker", "driver", "all")


class DyingWriter(writers.StreamWriter):
    pass


class DyingBatchWriter(writers.BatchWriter):
    pass


class DyingDataSource(OttlaDataSource):
    """format("ottla"), in a process that will die."""

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        made = super().writer(schema, overwrite)
        assert isinstance(made, writers.BatchWriter)
        return DyingBatchWriter(chosen(made._options))

    def streamWriter(  # noqa: N802
        self, schema: StructType, overwrite: bool
    ) -> DataSourceStreamWriter:
        made = super().streamWriter(schema, overwrite)
        assert isinstance(made, writers.StreamWriter)
        return DyingWriter(chosen(made._options))


def chosen(options: WriteOptions) -> WriteOptions:
    if WEAK not in os.environ:
        return options
    return replace(options, delivery=Delivery.AT_LEAST_ONCE)


class Point:
    """Kills the process when it is passed for the n-th time."""

    def __init__(self, crash: Mapping[str, Any]) -> None:
        self.name: str = crash["point"]
        self._left: int = crash["hit"]
        self._who: str = crash["who"]
        self._mark: str = crash["mark"]
        self._once: bool = crash["once"]

    def passed(self) -> None:
        self._left -= 1
        if self._left == 0 and (is_first(self._mark) or not self._once):
            die(self._who)


def is_first(mark: str) -> bool:
    """True for the process that makes the file."""
    try:
        os.close(os.open(mark, os.O_CREAT | os.O_EXCL))
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
    """A process and all its descendants, itself first. The process from which Spark's Python
    processes are forked counts as a child of the JVM."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = entry.read_text().rpartition(")")[2].split()
            words = (entry.parent / "cmdline").read_text().split("\0")
        except OSError:
            continue
        parent = fields[1]
        if fork_server.__name__ in words:
            parent = words[words.index(fork_server.__name__) + 1]
        children.setdefault(int(parent), []).append(int(entry.parent.name))
    found = [root]
    for pid in found:
        found += children.get(pid, ())
    return found


def is_python_worker(pid: int) -> bool:
    """Of Spark: the daemon, or one that it has forked."""
    try:
        name = Path(f"/proc/{pid}/comm").read_text().strip()
        return fork_server.DAEMON in (name, *Path(f"/proc/{pid}/cmdline").read_text().split("\0"))
    except OSError:
        return False


def place_of(point: str) -> tuple[object, str, Callable[..., Any]]:
    """The function that a point belongs to, and what to make of it."""
    where: dict[str, tuple[object, str, Callable[..., Any]]] = {
        "initialized": (decisions, "init_transactions", after),
        "sent": (Sender, "finish", before),
        "written": (writers, "_write", after),
        "deciding": (writers, "_commit", before),
        "half decided": (decisions, "commit_offset", after),
        "decided": (decisions, "end_transactions", before),
        "half ended": (decisions, "end_transactions", in_the_middle),
        "ended": (decisions, "end_transactions", after),
    }
    return where[point]


def install(point: Point) -> None:
    """Patch the point into the sink."""
    owner, name, wrap = place_of(point.name)
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
