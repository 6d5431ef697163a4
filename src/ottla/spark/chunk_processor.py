"""The option `ottla.work`: Python code that processes chunks in the worker that reads them.

It returns a few cells of bytes, each for a task, instead of a Spark row per record; the next stage
or the sink unpacks them. The option's value is the pickled code, because options are text. A
process caches the chunk processor, with its state, for the next task.
"""

from __future__ import annotations

import base64
import pickle
import sys
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Any, Final, Protocol, cast

import pyarrow as pa

from ottla.spark.chunks import Chunk

CACHED_MAX: Final = 16

Cell = tuple[int, bytes]


class ChunkProcessor(Protocol):
    def __call__(self, chunks: Iterable[Chunk]) -> Iterator[Cell]: ...


class TimedChunkProcessor(ChunkProcessor, Protocol):
    def tick(self, now_ms: int) -> Iterator[Cell]: ...


_cached: dict[str, ChunkProcessor] = {}


def packed(make: Callable[[], ChunkProcessor]) -> str:
    """The option's value. `make` is called once per process."""
    return base64.b64encode(pickled(make)).decode("ascii")


def pickled(thing: Any) -> bytes:
    """Pickles code of scripts and notebooks by value, together with sys.path, which the workers'
    processes would not have."""
    from pyspark import cloudpickle

    inner = cloudpickle.dumps(thing)  # type: ignore[no-untyped-call]
    return pickle.dumps((list(sys.path), inner))


def unpickled(data: bytes) -> Any:
    paths, inner = pickle.loads(data)
    sys.path += [path for path in paths if path not in sys.path]
    return pickle.loads(inner)


def process_chunks(
    text: str, chunks: Iterable[Chunk], schema: Any, *, tick_ms: int | None = None
) -> Iterator[Any]:
    """Processes chunks and a tick, and returns the cells as Arrow batches for Spark."""
    work = _work(text)
    ticked = () if tick_ms is None else cast(TimedChunkProcessor, work).tick(tick_ms)
    for task, cell in chain(work(chunks), ticked):
        yield pa.RecordBatch.from_arrays(
            [pa.array([task], pa.int32()), pa.array([cell], pa.binary())], schema=schema
        )


def _work(text: str) -> ChunkProcessor:
    work = _cached.get(text)
    if work is None:
        while len(_cached) >= CACHED_MAX:
            del _cached[next(iter(_cached))]
        make: Callable[[], ChunkProcessor] = unpickled(base64.b64decode(text))
        work = _cached[text] = make()
    return work
