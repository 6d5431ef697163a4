"""`ottla.work`: Python that runs where records are read, on whole chunks of them.

What it gives are a few cells of bytes, each for a task, instead of a row of Spark's for each
record: what runs behind the source, or the sink, takes them apart again. The option is text, as all
are: the work itself, pickled. A process keeps it, and what it remembers, for the next task.
"""

from __future__ import annotations

import base64
import pickle
import sys
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Any, Final, Protocol, cast

import pyarrow as pa

from ottla.spark.reading import Chunk

KEPT_MAX: Final = 16

Cell = tuple[int, bytes]


class Work(Protocol):
    def __call__(self, chunks: Iterable[Chunk]) -> Iterator[Cell]: ...


class TimedWork(Work, Protocol):
    def tick(self, now_ms: int) -> Iterator[Cell]: ...


_kept: dict[str, Work] = {}


def packed(make: Callable[[], Work]) -> str:
    """As an option. `make` is called once in each process that does the work."""
    return base64.b64encode(pickled(make)).decode("ascii")


def pickled(thing: Any) -> bytes:
    """With all that was written in a script or a notebook; and where modules beside it are found.

    Workers on this machine are other processes, which have not been told of these places.
    """
    from pyspark import cloudpickle

    inner = cloudpickle.dumps(thing)  # type: ignore[no-untyped-call]
    return pickle.dumps((list(sys.path), inner))


def unpickled(data: bytes) -> Any:
    places, inner = pickle.loads(data)
    sys.path += [each for each in places if each not in sys.path]
    return pickle.loads(inner)


def worked(
    text: str, chunks: Iterable[Chunk], schema: Any, *, tick_ms: int | None = None
) -> Iterator[Any]:
    """What becomes of the chunks, and of a tick of the clock, as Spark takes it from a source."""
    work = _work(text)
    ticked = () if tick_ms is None else cast(TimedWork, work).tick(tick_ms)
    for task, cell in chain(work(chunks), ticked):
        yield pa.RecordBatch.from_arrays(
            [pa.array([task], pa.int32()), pa.array([cell], pa.binary())], schema=schema
        )


def _work(text: str) -> Work:
    work = _kept.get(text)
    if work is None:
        while len(_kept) >= KEPT_MAX:
            del _kept[next(iter(_kept))]
        make: Callable[[], Work] = unpickled(base64.b64decode(text))
        work = _kept[text] = make()
    return work
