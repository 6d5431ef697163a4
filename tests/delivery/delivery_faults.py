"""The faults of a run, and when they happen. The list depends only on the seed.

The same seed gives the same faults at the same moments for the same slots, but the processes are at
other points of their work at those moments; so repeat a seed that found something several times.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

BROKER = "broker"

# How often each happens; a worker is killed more often than a broker, as in life.
WORKER_FAULTS = {"kill": 6, "terminate": 1, "pause": 2, "replace": 2}
BROKER_FAULTS = {"kill": 3, "terminate": 1, "pause": 1}
BROKER_SHARE = 0.3
GAP_S = (0.3, 1.3)
QUIET_START_S = 1.5  # a worker takes about that long to start on a busy machine


@dataclass(frozen=True, slots=True)
class Fault:
    at_s: float
    target: str
    """`broker`, or a worker's slot."""
    kind: str
    """kill -9; terminate (SIGTERM, start again); pause (SIGSTOP, SIGCONT); replace: a second worker
    of the same name starts while the first is stopped, which then continues as a zombie."""
    for_s: float
    """How long it stays down, or stopped."""

    def __str__(self) -> str:
        return f"{self.at_s:6.2f} s  {self.kind} {self.target} ({self.for_s:.2f} s)"


def schedule(seed: int, slots: Sequence[str], seconds: float) -> list[Fault]:
    """Faults for so many seconds, with at least one kill of the broker and of a worker."""
    chance = random.Random(f"faults {seed}")
    faults: list[Fault] = []
    at_s = QUIET_START_S
    while at_s < seconds:
        faults.append(one_fault(chance, slots, at_s))
        at_s += chance.uniform(*GAP_S)
    if not any(fault.target == BROKER and fault.kind == "kill" for fault in faults):
        place = chance.randrange(len(faults))
        faults[place] = Fault(faults[place].at_s, BROKER, "kill", 0.1)
    if not any(fault.target != BROKER and fault.kind == "kill" for fault in faults):
        faults.append(Fault(at_s, chance.choice(slots), "kill", 0.1))
    return faults


def one_fault(chance: random.Random, slots: Sequence[str], at_s: float) -> Fault:
    if chance.random() < BROKER_SHARE:
        kinds, target = BROKER_FAULTS, BROKER
    else:
        kinds, target = WORKER_FAULTS, chance.choice(slots)
    kind = chance.choices(list(kinds), weights=list(kinds.values()))[0]
    longest_s = 4.0 if kind in ("pause", "replace") and target != BROKER else 1.0
    return Fault(at_s, target, kind, chance.uniform(0.05, longest_s))
