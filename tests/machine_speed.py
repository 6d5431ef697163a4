"""The current slowness of this machine: limits in seconds of processor time assume a fast one.

A shared machine runs at half of its speed for hours, while other tenants use its caches and the
other halves of its cores. Processor time does not show that: the same work takes twice as much.
"""

from __future__ import annotations

import sys
import time

LOOPS = 200_000
QUICK_S = 0.0115
"""What the loops take on a machine on which the limits of the tests were found."""
TRIES = 5


def slowness() -> float:
    """1 on a machine that is as quick, 2 on one that takes twice as long; never below 1."""
    return max(1.0, min(_loops_s() for _ in range(TRIES)) / QUICK_S)


def measures_coverage() -> bool:
    """Whether each line is recorded: then times of processor time mean nothing."""
    module = sys.modules.get("coverage")
    return module is not None and module.Coverage.current() is not None


def _loops_s() -> float:
    began = time.thread_time()
    total = 0
    for number in range(LOOPS):
        total += number % 7
    assert total
    return time.thread_time() - began
