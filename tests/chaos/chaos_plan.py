"""The plan of faults: what fails, when, and for how long. It depends only on the seed.

A plan is a sequence of storms. In a storm faults start at random moments and overlap; at its end
everything is healed, and the cluster has to recover within a limit before the next storm.

The same seed gives the same plan, but the processes are at other points of their work at those
moments; so repeat a seed that found something several times.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

# Parties of the network beside the brokers, which have numbers.
CLIENTS, ZOOKEEPER = "clients", "zookeeper"

# Targets that are looked up at the moment of the fault.
LEADER, CONTROLLER = "leader", "controller"

BROKER_S = (0.1, 4.0)
"""How long a broker is down, stopped or cut off: from too short to be noticed to longer than the
timeouts of sessions and replicas."""
GAP_S = (0.3, 2.0)
QUIET_START_S = 1.0
STORM_S = 12.0

# How often each happens.
WEIGHTS = {
    "kill": 6,  # kill -9, start again
    "stop": 1,  # SIGTERM, start again
    "pause": 3,  # SIGSTOP, SIGCONT
    "isolate": 2,  # no other broker reaches it
    "cut": 2,  # two brokers
    "cut one way": 3,
    "cut from zookeeper": 2,
    "expire": 2,  # the same, for longer than a session lasts
    "cut from clients": 1,
    "cut from clients one way": 1,
    "delay": 2,
    "slow disk": 2,
    "clock jump": 2,
    "kill zookeeper": 1,
    "pause zookeeper": 1,
    "rolling restart": 1,
    "kill all": 1,
    "kill worker": 3,
    "pause worker": 1,
    "replace worker": 1,
}
# On a cluster over TLS: certificates are exchanged beside all that.
EXCHANGES = {"renew by file": 4, "renew by config": 4, "new authority": 1}
CHANCES = {**WEIGHTS, **EXCHANGES}
# The short mixture of every CI run has one of each of these groups.
ESSENTIAL = (
    ("kill",),
    ("pause",),
    ("isolate", "cut", "cut one way"),
    ("expire",),
    ("kill zookeeper", "pause zookeeper"),
    ("kill worker",),
)

OF_NO_BROKER = frozenset(
    {"kill zookeeper", "pause zookeeper", "rolling restart", "kill all", "new authority"}
)


@dataclass(frozen=True, slots=True)
class Fault:
    at_s: float
    """From the storm's beginning."""
    kind: str
    targets: tuple[str, ...] = ()
    """Brokers by their numbers, LEADER, CONTROLLER, or a worker's slot."""
    for_s: float = 0.0
    size: float = 0.0
    """Seconds of a delay or of a slow sync; milliseconds of a clock's jump."""
    reset: bool = False
    """Whether connections that were cut are broken when the cut ends."""

    def __str__(self) -> str:
        words = [f"{self.at_s:6.2f} s  {self.kind}", *self.targets, f"for {self.for_s:.2f} s"]
        if self.size:
            words.append(f"by {self.size:g}")
        return " ".join(words) + (", then reset" if self.reset else "")


@dataclass(frozen=True, slots=True)
class Plan:
    seed: int
    storms: tuple[tuple[Fault, ...], ...]

    def count(self, kind: str) -> int:
        return sum(fault.kind == kind for storm in self.storms for fault in storm)

    def __str__(self) -> str:
        lines = [f"OTTLA_SEED={self.seed}"]
        for number, storm in enumerate(self.storms, 1):
            lines.append(f"storm {number}:")
            lines += [f"  {fault}" for fault in storm]
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class ChaosTargets:
    """The possible targets."""

    brokers: tuple[str, ...] = ("1", "2", "3")
    workers: tuple[str, ...] = ()
    session_s: float = 4.0
    """ZooKeeper's session timeout; an `expire` lasts longer."""
    kinds: tuple[str, ...] = tuple(WEIGHTS)

    def secured(self) -> ChaosTargets:
        """The same over TLS."""
        return replace(self, kinds=tuple(CHANCES))


def make_plan(
    seed: int, seconds: float, setting: ChaosTargets, *, storm_s: float = STORM_S
) -> Plan:
    """Storms for so many seconds; the first ones include all essential faults."""
    chance = random.Random(f"nemesis {seed}")
    needed = [chance.choice(group) for group in ESSENTIAL]
    needed = [kind for kind in (*needed, *EXCHANGES) if kind in setting.kinds]
    chance.shuffle(needed)
    count = max(1, round(seconds / storm_s))
    storms = []
    for number in range(count):
        share = needed[number::count]
        storms.append(tuple(_storm(chance, setting, min(seconds, storm_s), share)))
    return Plan(seed, tuple(storms))


def _storm(
    chance: random.Random, setting: ChaosTargets, seconds: float, needed: Sequence[str]
) -> Iterator[Fault]:
    moments = [QUIET_START_S]
    while (at_s := moments[-1] + chance.uniform(*GAP_S)) < seconds or len(moments) < len(needed):
        moments.append(at_s)
    kinds = list(setting.kinds)
    weights = [CHANCES[kind] for kind in kinds]
    chosen = [*needed, *chance.choices(kinds, weights, k=len(moments) - len(needed))]
    chance.shuffle(chosen)
    for at_s, kind in zip(moments, chosen, strict=True):
        yield _fault(chance, setting, at_s, kind)


def _fault(chance: random.Random, setting: ChaosTargets, at_s: float, kind: str) -> Fault:
    if kind.endswith("worker"):
        return Fault(at_s, kind, (chance.choice(setting.workers),), chance.uniform(0.05, 4.0))
    for_s, size = chance.uniform(*BROKER_S), 0.0
    targets = (_one_broker(chance, setting),)
    if kind in ("cut", "cut one way", "delay"):
        targets = tuple(chance.sample(setting.brokers, 2))
    elif kind in OF_NO_BROKER:
        targets = ()
    elif kind in EXCHANGES:  # of a broker by its number, so that it is done in every run
        targets = (chance.choice(setting.brokers),)
    if kind == "delay":
        size = chance.choice((0.05, 0.2, 1.0))
    elif kind == "slow disk":
        size = chance.choice((0.1, 0.5, 2.0))
    elif kind == "clock jump":
        size = chance.choice((-3_600_000.0, -2000.0, 500.0, 5000.0, 3_600_000.0))
    elif kind == "expire":
        for_s = setting.session_s * chance.uniform(1.3, 2.0)
    return Fault(at_s, kind, targets, for_s, size, reset="cut" in kind and chance.random() < 0.5)


def _one_broker(chance: random.Random, setting: ChaosTargets) -> str:
    """Any broker, or one whose loss has an effect: the leader or the controller."""
    return chance.choice((*setting.brokers, LEADER, CONTROLLER))
