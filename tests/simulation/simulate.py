"""Histories for some minutes, on every core; a line for each with a violation.

python tests/simulation/simulate.py --minutes 10 [--seed 7]
python tests/simulation/simulate.py --seed 7 --story     one of them, with all that happened
"""

from __future__ import annotations

import argparse
import itertools
import multiprocessing
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).parent
TESTS = HERE.parent
sys.path += [str(HERE), str(TESTS / "chaos"), str(TESTS / "delivery"), str(TESTS / "compat")]

from sim_search import histories, story  # noqa: E402

CHUNK = 20


def main() -> int:
    given = arguments()
    first = int.from_bytes(os.urandom(3), "big") if given.seed is None else given.seed
    if given.story:
        (world,) = histories([first])
        print(story(world))
        return 1 if world.found else 0
    print(f"histories from OTTLA_SEED={first} on", flush=True)
    start = time.monotonic()
    count = acked = 0
    failures: list[int] = []
    done: Counter[str] = Counter()
    with multiprocessing.Pool() as pool:
        chunks = (first + number * CHUNK for number in itertools.count())
        for result in pool.imap_unordered(one_chunk, limited(chunks, start, given.minutes)):
            count += CHUNK
            acked += result[0]
            done += result[1]
            for seed, found in result[2]:
                failures.append(seed)
                print(f"FAILED OTTLA_SEED={seed}: {found[0]}", flush=True)
    took_s = time.monotonic() - start
    print(f"{count} histories in {took_s:.0f} s, {count / took_s * 60:.0f} a minute;")
    print(f"{acked} acknowledged, {dict(done)}; {len(failures)} with a finding: {failures}")
    return 1 if failures else 0


def limited(chunks: Iterator[int], start: float, minutes: float) -> Iterator[int]:
    """Yields seeds while there is time, because a pool takes its whole input at once."""
    for number, chunk in enumerate(chunks):
        if time.monotonic() - start > minutes * 60:
            return
        while number > started.value + 2 * (os.cpu_count() or 1):
            time.sleep(0.01)
        yield chunk


started = multiprocessing.Value("i", 0)


def one_chunk(first: int) -> tuple[int, Counter[str], list[tuple[int, list[str]]]]:
    with started.get_lock():
        started.value += 1
    acked = 0
    done: Counter[str] = Counter()
    failures: list[tuple[int, list[str]]] = []
    for world in histories(range(first, first + CHUNK)):
        acked += len(world.history.journals["producer"])
        done += world.done
        if world.found:
            failures.append((world.seed, world.found))
    return acked, done, failures


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="simulate")
    parser.add_argument("--minutes", type=float, default=1)
    parser.add_argument("--seed", type=int, help="of the first history; the next have the next")
    parser.add_argument("--story", action="store_true", help="one history, and what happened")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
