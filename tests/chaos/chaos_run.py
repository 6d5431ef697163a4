"""One run: a cluster, workers, storms by a seed with calm after each, then the evaluation."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from chaos_certificates import CertificateExchange
from chaos_cluster import SESSION_MS, Cluster
from chaos_history import OFFSETS, TRANSACTIONS, ClusterHistory, replicas_on_disk
from chaos_nemesis import Nemesis
from chaos_plan import CONTROLLER, LEADER, ChaosTargets, Fault, Plan, make_plan
from chaos_security import ClusterSecurity, refusals
from chaos_watch import Watch
from delivery_clients import AIOKAFKA, FRANZ_GO, JAVA
from delivery_faults import Fault as WorkerFault
from delivery_log import committed
from delivery_run import TICK_S, WORKER_START_S, Run, Slot, end
from delivery_watch import wait_until

PARTITIONS = 3
CONVERGE_S = 45.0
"""The time limit for recovery after the last fault of a storm: every broker is back in every ISR,
all name the same leaders, and producers get acknowledgements again."""
CALM_S = 120.0
PATIENCE_MAX = 10
"""How often a group that still makes progress gets half of the calm period in addition."""


@dataclass(slots=True)
class ClusterRun(Run):
    calm_s: float = CALM_S
    converge_s: float = CONVERGE_S
    settings: dict[str, str] = field(default_factory=dict)
    zookeepers: int = 1
    secured: bool = False
    """Every listener is SASL_SSL, and certificates are exchanged."""
    history: ClusterHistory = field(init=False)
    plan: Plan = field(init=False)
    cluster: Cluster = field(init=False)
    _nemesis: Nemesis = field(init=False)
    _watch: Watch = field(init=False)
    _exchange: CertificateExchange | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        Run.__post_init__(self)
        old = self.history
        self.history = ClusterHistory(old.mode, old.input, old.output, old.group)
        victims = tuple(slot.name for slot in self._slots.values() if slot.role != "observer")
        setting = ChaosTargets(workers=victims, session_s=SESSION_MS / 1000)
        if self.secured:
            setting = setting.secured()
        self.plan = make_plan(self.seed, self.seconds, setting)
        self._broker_away = True  # _supervise restarts missing processes
        self._make_cluster()

    def _make_cluster(self) -> None:
        security = None
        numbers = ("1", "2", "3")
        if self.secured:
            authorities = 1 + self.plan.count("new authority")
            folder = self.directory / "certificates"
            security = ClusterSecurity(folder, numbers, authorities)
        self.cluster = self._broker = Cluster(
            self.directory, self.settings, numbers, self.zookeepers, security
        )

    def __call__(self) -> ClusterHistory:
        self.say(f"{self.case}: {self.plan}")
        try:
            self._start_cluster()
            try:
                for slot in self._slots.values():
                    self._start_worker(slot)
                self._suffer()
                self._calm_down(self._watch)
            finally:
                if self._exchange is not None:
                    self._exchange.stop()
                self._watch.stop()
                self._kill_all()
            self._stop_cluster()
        finally:
            self.cluster.stop()
            self._collect()
        return self.history

    def _start_cluster(self) -> None:
        cluster, topics = self.cluster, (self.history.input, self.history.output)
        cluster.start()
        for topic in topics:
            cluster.make_topic(topic, PARTITIONS)
        journal = str(self.directory / "cluster.journal")
        self._watch = Watch(self.history, cluster, PARTITIONS, self.seed, journal)
        self._nemesis = Nemesis(cluster, self._find, self._watch.accident)
        if cluster.security is not None:
            cluster.security.admit(cluster.bootstrap, topics, self.history.group)
            self._exchange = CertificateExchange(cluster, cluster.security, self._watch.accident)
            self._nemesis.exchange = self._exchange
            self._exchange.start()
        self._watch.start()

    def _credentials(self, slot: Slot) -> dict[str, str]:
        security = self.cluster.security
        return {} if security is None else security.credentials(slot.role)

    def _workers(self) -> list[Slot]:
        workers = [
            Slot("source0", "source"),
            Slot("source1", "source", AIOKAFKA),
            Slot("transform0", "transform"),
            Slot("transform1", "transform"),
            Slot("observer0", "observer"),
        ]
        if self.case.mode == "exactly_once":
            workers.append(Slot("source2", "source", JAVA))
            if FRANZ_GO.exists():
                workers.append(Slot("source3", "source", FRANZ_GO))
            else:
                self.say("without franz-go: tools/setup_test_clients.sh --maven builds it")
        return workers

    # Storms

    def _suffer(self) -> None:
        wait_until(lambda: all(map(self._is_ready, self._slots.values())), WORKER_START_S)
        for storm in self.plan.storms:
            self._nemesis.schedule(storm)
            start = time.monotonic()
            for fault in storm:
                if fault.kind.endswith("worker"):
                    self._at(start + fault.at_s, lambda fault=fault: self._hurt_worker(fault))
            while self._due or self._nemesis.busy:
                self._supervise()
                time.sleep(TICK_S)
            self._heal()
        self.done.update(self._nemesis.done)

    def _hurt_worker(self, fault: Fault) -> None:
        kind = fault.kind.split()[0]
        self._inflict(WorkerFault(fault.at_s, fault.targets[0], kind, fault.for_s))

    def _heal(self) -> None:
        self.cluster.heal()
        start, acked = time.monotonic(), self._acked()
        troubles = "not looked yet"
        took_s = None
        while took_s is None and time.monotonic() - start < self.converge_s:
            self._supervise()
            troubles = self._troubles(start)
            if not troubles and self._acked() <= acked:
                troubles = "no produce has been acknowledged since"
            if not troubles:
                took_s = round(time.monotonic() - start, 2)
            time.sleep(0.1)
        self._watch.tell("healed", self._watch.now_s(), took_s, self.converge_s, troubles)
        self.say(f"healed in {took_s} s {troubles}")

    def _acked(self) -> int:
        """Acknowledged produces so far, of all sources."""
        return self._acked_by("source")

    def _acked_by(self, role: str) -> int:
        journals = self.directory.glob(f"{role}*.journal")
        return sum(path.read_bytes().count(b'["acked"') for path in journals)

    def _troubles(self, since: float) -> str:
        """Why the cluster has not recovered; empty if it has."""
        everybody = {int(number) for number in self.cluster.brokers}
        leaders: dict[Any, set[tuple[int, int]]] = {}
        for watch in self._watch.watches:
            name = f"broker {watch.broker.number}"
            if watch.brokers_seen != everybody:
                return f"{name} knows of the brokers {sorted(watch.brokers_seen)}"
            if missing := set(self._watch.places) - watch.metadata.keys():
                return f"{name} does not know {sorted(missing)}"
            for place, partition in watch.metadata.items():
                if partition.leader_id < 0 or set(partition.isr_nodes) != everybody:
                    leader, isr = partition.leader_id, partition.isr_nodes
                    return f"{name}: {place} has leader {leader}, isr {isr}"
                leaders.setdefault(place, set()).add((partition.leader_epoch, partition.leader_id))
        several = {place: named for place, named in leaders.items() if len(named) > 1}
        if several:
            return f"different leaders are named: {several}"
        return "" if self._exchange is None else self._exchange.troubles()

    def _find(self, target: str) -> str | None:
        """A broker's number: of the leader, of the controller, or the one that is given."""
        if target == LEADER:
            place = self._watch.places[0]
            named = [
                (watch.metadata[place].leader_epoch, watch.metadata[place].leader_id)
                for watch in self._watch.watches
                if place in watch.metadata
            ]
            leader = str(max(named)[1]) if named else ""
            return leader if leader in self.cluster.brokers else None
        return self._controller() if target == CONTROLLER else target

    def _controller(self) -> str | None:
        for watch in self._watch.watches:
            if (found := str(watch.controller)) in self.cluster.brokers:
                return found
        return None

    def _supervise(self) -> None:
        self._nemesis.tick()
        self.history.accidents += self.cluster.revive()
        Run._supervise(self)

    # The end

    def _collect(self) -> None:
        Run._collect(self)
        self.history.merge()
        for broker in self.cluster.brokers.values() if self.secured else ():
            found = refusals(broker.log_path.read_text(errors="replace"))
            self.history.accidents += [f"broker {broker.number}: {line}" for line in found]

    def _calm_down(self, watch: Watch) -> None:  # type: ignore[override]
        """After the faults: sources stop, all input is processed, observers reach the end."""
        of_role: dict[str, list[Slot]] = {}
        for slot in self._slots.values():
            of_role.setdefault(slot.role, []).append(slot)
        self._wait_supervised(lambda: all(map(self._is_ready, self._slots.values())), "all start")
        self._wait_supervised(lambda: self._through() >= self.records_min, "enough comes out")
        for process in self._zombies:
            end(process)
        self._stop_workers(of_role["source"])
        self._wait_while_it_moves(
            lambda: watch.caught_up() and self._all_transformed(), "the group reads to the end"
        )
        self._stop_workers(of_role["transform"])
        self._wait_supervised(watch.caught_up, "every transaction ends")
        total = sum(self._visible_count(place) for place in watch.places)
        wait_until(
            lambda: all(self._seen(s) >= total for s in of_role["observer"]), self.calm_s / 3
        )
        self._stop_workers(of_role["observer"])

    def _wait_while_it_moves(self, condition: Callable[[], bool], what: str) -> None:
        """Only a standstill is an error: on a slow machine sources may be ahead by minutes."""
        for _ in range(PATIENCE_MAX):
            before = self._acked_by("transform")
            wait_until(lambda: self._supervised(condition), self.calm_s / 2)
            if condition() or self._acked_by("transform") == before:
                break
        self._wait_supervised(condition, what)

    def _supervised(self, condition: Callable[[], bool]) -> bool:
        self._supervise()
        return condition()

    def _visible_count(self, place: Any) -> int:
        return len(committed(self._watch.log(place)))

    def _all_transformed(self) -> bool:
        for place in self._watch.places:
            if place[0] != self.history.input:
                continue
            shown = [record.offset for record in committed(self._watch.log(place))]
            if shown and self._watch.group_place(place) <= shown[-1]:
                return False
        return True

    def _stop_cluster(self) -> None:
        """Stop the brokers, one after another; then read their disks."""
        for broker in self.cluster.brokers.values():
            broker.leave()
            if said := self.cluster.end(broker):
                self.history.accidents.append(said)
        places = [*self._watch.places, OFFSETS, TRANSACTIONS]
        for number, broker in self.cluster.brokers.items():
            for place, batches in replicas_on_disk(broker.data_directory, places).items():
                self.history.replicas[int(number), place] = batches
