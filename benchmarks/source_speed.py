"""python -m benchmarks.source_speed: how fast the Spark source decodes, without Spark and broker.

Builds what a fetch brings and makes Arrow's columns of it, as Spark's worker does. Time is the
process's own CPU time, the best of several rounds, which other work on the machine disturbs least.
Run it with the interpreter of the compiled build to measure that one (`make compile`); `--loop`
shows what the interpreted loop does without numpy.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Callable
from functools import partial

from ottla import build
from ottla.client.protocol.range_fetcher import CompletedFetch, OffsetRange
from ottla.records.batch import BatchHeader, build_batch, read_header
from ottla.records.compression import CODEC_NAMES
from ottla.records.record import Record
from ottla.spark import chunks, record_spans

NOW_MS = 1_700_000_000_000
EVERYTHING = OffsetRange("t", 0, 0, 1 << 60)

# Name, bytes of a value at least and at most, bytes of a batch, headers of a record, compression.
Shape = tuple[str, int, int, int, int, str]
SHAPES: list[Shape] = [
    ("100 B", 100, 100, 16_384, 0, "none"),
    ("50 to 150 B", 50, 150, 16_384, 0, "none"),
    ("50 to 150 B, large batches", 50, 150, 1_000_000, 0, "none"),
    ("50 to 150 B, two headers", 50, 150, 16_384, 2, "none"),
    ("50 to 150 B, lz4", 50, 150, 16_384, 0, "lz4"),
    ("500 to 1500 B", 500, 1500, 16_384, 0, "none"),
    ("500 to 1500 B, large batches", 500, 1500, 1_000_000, 0, "none"),
    ("50 to 150 B, one record a batch", 50, 150, 1, 0, "none"),
]


def main() -> None:
    given = arguments()
    if given.loop:
        chunks.locate_spans = record_spans.locate_spans
    loop = ", the loop alone" if given.loop else ""
    print(f"{build.BUILD_NAME}{loop}: best of {given.rounds} rounds over {given.mb} MB, CPU time")
    for shape in SHAPES:
        fetched, count = fetch(shape, given.mb * 1_000_000)
        seconds = best(partial(decode, fetched, shape[4] > 0), given.rounds)
        rate = count / seconds
        size = len(fetched.data) / seconds / 1e6
        print(f"{shape[0]:32} {rate:12,.0f} records/s {size:8,.0f} MB/s", flush=True)


def fetch(shape: Shape, size: int) -> tuple[CompletedFetch, int]:
    _, least, most, batch_bytes, headers, codec = shape
    chance = random.Random(1)
    batches: list[bytes] = []
    written = count = 0
    while written < size:
        records: list[Record] = []
        room = batch_bytes
        while room > 0:
            value = chance.randbytes(chance.randint(least, most) // 2).hex().encode()
            records.append(
                Record(
                    timestamp=NOW_MS + count // 10,
                    key=b"key-%012d" % chance.randrange(50_000),
                    value=value,
                    headers=[(f"name-{number}", b"header") for number in range(headers)],
                )
            )
            room -= len(value) + 30
        base_offset = count
        count += len(records)
        batches.append(
            build_batch(records, base_offset=base_offset, compression=CODEC_NAMES.index(codec))
        )
        written += len(batches[-1])
    data = b"".join(batches)
    return CompletedFetch(EVERYTHING, 0, data, headers_of(data), ()), count


def headers_of(data: bytes) -> list[BatchHeader]:
    found, position = [], 0
    while position < len(data):
        found.append(read_header(data, position))
        position += found[-1].size
    return found


def decode(fetched: CompletedFetch, with_headers: bool) -> None:
    for _ in chunks.decode(fetched, with_headers=with_headers, committed=False):
        pass


def best(work: Callable[[], None], rounds: int) -> float:
    times = []
    for _ in range(rounds):
        began = time.process_time()
        work()
        times.append(time.process_time() - began)
    return min(times)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    add = parser.add_argument
    add("--mb", type=int, default=16, help="bytes of record batches")
    add("--rounds", type=int, default=7)
    add("--loop", action="store_true", help="without numpy, in an interpreted build")
    return parser.parse_args()


if __name__ == "__main__":
    main()
