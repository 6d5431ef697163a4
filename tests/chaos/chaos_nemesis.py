"""The nemesis: executes a plan on a cluster, and counts what it did."""

from __future__ import annotations

import heapq
import itertools
import time
from collections import Counter
from collections.abc import Callable

from chaos_certificates import CertificateExchange
from chaos_cluster import ChaosBroker, Cluster
from chaos_plan import CLIENTS, EXCHANGES, ZOOKEEPER, Fault

ROLL_S_MAX = 20.0

Action = Callable[[], None]


class Nemesis:
    """`tick` executes what is due. Faults that overlap on one broker do not stack: the second one
    is skipped if the broker is already down."""

    def __init__(
        self, cluster: Cluster, find: Callable[[str], str | None], accident: Callable[[str], None]
    ) -> None:
        self._cluster = cluster
        self._find = find
        """From LEADER or CONTROLLER to a broker's number, if it is known."""
        self._accident = accident
        self._due: list[tuple[float, int, Action]] = []
        self._numbers = itertools.count()
        self._rolling: list[str] = []
        self.exchange: CertificateExchange | None = None
        """Where listeners are over TLS."""
        self.done: Counter[str] = Counter()

    @property
    def busy(self) -> bool:
        return bool(self._due) or bool(self._rolling)

    def schedule(self, storm: tuple[Fault, ...]) -> None:
        start = time.monotonic()
        for fault in storm:
            if not fault.kind.endswith("worker"):
                self.at(start + fault.at_s, lambda fault=fault: self.inflict(fault))

    def at(self, when: float, action: Action) -> None:
        heapq.heappush(self._due, (when, next(self._numbers), action))

    def tick(self) -> None:
        while self._due and self._due[0][0] <= time.monotonic():
            heapq.heappop(self._due)[2]()
        self._reap()

    def _reap(self) -> None:
        """The brokers that were stopped and have exited."""
        for broker in self._cluster.brokers.values():
            ended = not broker.wanted and broker.process is not None and not broker.alive()
            if ended and (said := self._cluster.end(broker)):
                self._accident(said)

    def inflict(self, fault: Fault) -> None:
        targets = [self._find(target) or "" for target in fault.targets]
        brokers = [self._cluster.brokers[target] for target in targets if target]
        if len(brokers) < len(fault.targets):
            return
        kinds: dict[str, Callable[[Fault, list[ChaosBroker]], bool]] = {
            "kill": self._kill,
            "stop": self._stop,
            "pause": self._pause,
            "isolate": self._isolate,
            "cut": self._cut,
            "cut one way": self._cut,
            "cut from zookeeper": self._cut_away,
            "expire": self._cut_away,
            "cut from clients": self._cut_away,
            "cut from clients one way": self._cut_away,
            "delay": self._delay,
            "slow disk": self._slow_disk,
            "clock jump": self._clock_jump,
            "kill zookeeper": self._kill_zookeeper,
            "pause zookeeper": self._pause_zookeeper,
            "rolling restart": self._rolling_restart,
            "kill all": self._kill_all,
            **dict.fromkeys(EXCHANGES, self._exchange),
        }
        if kinds[fault.kind](fault, brokers):
            self.done[fault.kind] += 1

    def _later(self, fault: Fault, action: Action) -> None:
        self.at(time.monotonic() + fault.for_s, action)

    # Brokers

    def _kill(self, fault: Fault, brokers: list[ChaosBroker]) -> bool:
        (broker,) = brokers
        if not broker.wanted:
            return False
        broker.die()
        self._later(fault, lambda: self._back(broker))
        return True

    def _back(self, broker: ChaosBroker) -> None:
        if not broker.wanted:
            if broker.process is None:
                broker.launch()
            else:  # still on its way out
                self.at(time.monotonic() + 0.2, lambda: self._back(broker))

    def _stop(self, fault: Fault, brokers: list[ChaosBroker]) -> bool:
        (broker,) = brokers
        if not broker.wanted:
            return False
        broker.leave()
        self._later(fault, lambda: self._back(broker))
        return True

    def _pause(self, fault: Fault, brokers: list[ChaosBroker]) -> bool:
        (broker,) = brokers
        if not broker.wanted or broker.paused:
            return False
        broker.pause()
        self._later(fault, broker.resume)
        return True

    def _kill_all(self, fault: Fault, brokers: list[ChaosBroker]) -> bool:
        """A power failure without damage to the disks."""
        for broker in self._cluster.brokers.values():
            if broker.wanted:
                broker.die()
            self._later(fault, lambda broker=broker: self._back(broker))
        return True

    def _rolling_restart(self, fault: Fault, brokers: list[ChaosBroker]) -> bool:
        """One broker after the other, each when the one before it is alive again."""
        if self._rolling:
            return False
        self._rolling = list(self._cluster.brokers)
        self._roll(time.monotonic())
        return True

    def _roll(self, deadline: float) -> None:
        brokers = self._cluster.brokers.values()
        whole = all(broker.wanted and broker.alive() for broker in brokers)
        if not whole and time.monotonic() < deadline:
            self.at(time.monotonic() + 0.1, lambda: self._roll(deadline))
            return
        if not self._rolling:
            return
        broker = self._cluster.brokers[self._rolling.pop(0)]
        if broker.wanted:
            broker.leave()
            self.at(time.monotonic() + 0.1, lambda: self._back(broker))
        if self._rolling:
            self.at(time.monotonic() + 0.5, lambda: self._roll(time.monotonic() + ROLL_S_MAX))

    # The network

    def _isolate(self, fault: Fault, brokers: list[ChaosBroker]) -> bool:
        (broker,) = brokers
        others = [other for other in self._cluster.brokers if other != broker.number]
        for other in others:
            self._cut_for(fault, broker.number, other)
        return True

    def _cut(self, fault: Fault, brokers: list[ChaosBroker]) -> bool:
        one, other = (broker.number for broker in brokers)
        self._cut_for(fault, one, other, one_way=fault.kind.endswith("one way"))
        return True

    def _cut_away(self, fault: Fault, brokers: list[ChaosBroker]) -> bool:
        """From ZooKeeper, or from clients."""
        (broker,) = brokers
        who = CLIENTS if "clients" in fault.kind else ZOOKEEPER
        self._cut_for(fault, broker.number, who, one_way=fault.kind.endswith("one way"))
        return True

    def _cut_for(self, fault: Fault, one: str, other: str, *, one_way: bool = False) -> None:
        network = self._cluster.network
        if one_way:
            network.cut_one_way(one, other)
        else:
            network.cut(one, other)
        self._later(fault, lambda: network.heal(one, other, reset=fault.reset))

    def _delay(self, fault: Fault, brokers: list[ChaosBroker]) -> bool:
        one, other = (broker.number for broker in brokers)
        self._cluster.network.delay(one, other, fault.size)
        self._later(fault, lambda: self._cluster.network.heal(one, other))
        return True

    # The machine

    def _slow_disk(self, fault: Fault, brokers: list[ChaosBroker]) -> bool:
        (broker,) = brokers
        broker.control(sync_s=fault.size)
        self._later(fault, lambda: broker.control(sync_s=0.0))
        return True

    def _clock_jump(self, fault: Fault, brokers: list[ChaosBroker]) -> bool:
        (broker,) = brokers
        broker.control(clock_ms=fault.size)
        self._later(fault, lambda: broker.control(clock_ms=0))
        return True

    # Certificates

    def _exchange(self, fault: Fault, brokers: list[ChaosBroker]) -> bool:
        """A broker that is down gets its certificate, too."""
        assert self.exchange is not None
        self.exchange.ask(fault.kind, brokers[0].number if brokers else "")
        return True

    # ZooKeeper

    def _kill_zookeeper(self, fault: Fault, brokers: list[ChaosBroker]) -> bool:
        if not self._cluster.zookeeper_runs:
            return False
        self._cluster.kill_zookeeper()
        self._later(fault, self._cluster.start_zookeeper)
        return True

    def _pause_zookeeper(self, fault: Fault, brokers: list[ChaosBroker]) -> bool:
        if not self._cluster.zookeeper_runs:
            return False
        self._cluster.pause_zookeeper()
        self._later(fault, self._cluster.resume_zookeeper)
        return True
