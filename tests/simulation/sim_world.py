"""One history: three brokers, their store, clients, and the faults of a seed.

world = World(seed)
found = simulate(world.run())      the violations; empty if there are none
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from chaos_checks import CLUSTER
from chaos_history import FOLLOWING, ClusterHistory, HealTime, Leadership, Mark, Poll, merged
from delivery_checks import acknowledged_records_are_stored, offsets_are_dense, repeated
from delivery_log import batches_of
from sim_broker import DATA, BrokerLife, Machine, Times
from sim_network import STORE, Links, Unreachable

from ottla.cluster import layout
from ottla.cluster.embedded import EmbeddedStore
from ottla.cluster.image import BrokerRegistration as Registration
from ottla.cluster.image import MetadataImage
from ottla.cluster.key_changes import KeyChanges
from ottla.cluster.store import MetaStoreError
from ottla.cluster.topics import RandomChoices, TopicSpec, create_topic
from ottla.config import Listener, ServerConfig
from ottla.errors import ErrorCode, KafkaError
from ottla.records.batch import build_batch
from ottla.records.record import Record
from ottla.replica.partition import Partition
from ottla.storage.log_config import LogConfig

TOPIC = "in"
CLIENT = "client"
RETRY_S = 0.01


@dataclass(frozen=True)
class Settings:
    brokers: int = 3
    partitions: int = 2
    min_insync_replicas: int = 2
    storm_s: float = 0.8
    converge_s: float = 3.0
    producers: int = 2
    gap_s: tuple[float, float] = (0.005, 0.12)
    for_s: tuple[float, float] = (0.005, 0.35)
    unclean: bool = False
    times: Times = field(default_factory=Times)


# How often each happens.
FAULTS = {
    "kill": 6,
    "shut down": 4,
    "power cut": 3,
    "pause": 3,
    "cut": 2,
    "cut one way": 2,
    "isolate": 2,
    "cut from store": 3,
    "cut from store one way": 1,
    "cut from clients": 1,
    "delay": 1,
    "disk full": 1,
    "short write": 1,
    "clock jump": 1,
    "kill all": 1,
}


class World:
    def __init__(self, seed: int, settings: Settings = Settings()) -> None:
        self.seed = seed
        self.settings = settings
        self.chance = Random(f"simulation {seed}")
        self.store = EmbeddedStore(None)
        self.history = ClusterHistory("at_least_once", TOPIC, TOPIC, "")
        self.history.journals["producer"] = []
        self.done: Counter[str] = Counter()
        self.found: list[str] = []
        self.said: list[str] = []
        """What was done, and when: the story of a seed."""
        self.machines = {n: Machine(n) for n in range(1, settings.brokers + 1)}
        self.log_config = LogConfig(
            min_insync_replicas=settings.min_insync_replicas,
            segment_bytes=self.chance.choice((500, 3000, 1 << 20)),
            index_interval_bytes=200,
            flush_messages=self.chance.choice((1, 1 << 60)),
        )
        self.times = replace(
            settings.times,
            store_patience_s=self.chance.choice((None, None, 0.08)),
            fetch_bytes=self.chance.choice((100, 100, 1 << 20)),
        )
        self._give_up_s = 0.0
        self._acked_epochs: Counter[int] = Counter()
        self._ended = False
        self._names = 0
        self._shut_down: set[int] = set()
        """Brokers that have left their in-sync sets and still run."""
        self._fragile: int | None = None
        """A broker that lost what it had not flushed, and may be in an in-sync set still."""

    async def run(self) -> list[str]:
        loop: Any = asyncio.get_running_loop()
        self.loop = loop
        self.links = Links(loop, self.chance)
        self._start_s = loop.time()
        self._make_topic()
        for machine in self.machines.values():
            self._launch(machine)
        self.links.spawn(self._sessions())
        self.links.spawn(self._watch_sets(self.store.changes(layout.TOPICS)))
        producers = [
            self.links.spawn(self._produce(number)) for number in range(self.settings.producers)
        ]
        for machine in self.machines.values():
            self.links.spawn(self._read(machine))
        await asyncio.sleep(0.1)
        await self._storm()
        self._heal()
        await self._converge(producers)
        self._collect()
        return list(self._violations())

    @property
    def now_s(self) -> float:
        return self.loop.time() - self._start_s

    def say(self, text: str) -> None:
        self.said.append(f"{self.now_s:7.4f} {text}")

    # The cluster

    def _make_topic(self) -> None:
        """Creates the topic before any broker starts, with the controller's own decision."""
        from sim_store import at_once

        listener = Listener("PLAINTEXT", "localhost", 9000, "PLAINTEXT")
        brokers = {n: Registration(n, 1, (listener,), None) for n in self.machines}
        spec = TopicSpec(TOPIC, self.settings.partitions, len(self.machines), {}, {})
        dice = RandomChoices(b"\1" * 16, self.chance.randrange(3), self.chance.randrange(3))
        _, writes = create_topic(MetadataImage(brokers=brokers), ServerConfig({}), spec, dice)
        at_once(self.store.commit(writes))
        self.places = [(TOPIC, index) for index in range(self.settings.partitions)]

    def _launch(self, machine: Machine) -> None:
        machine.life = BrokerLife(machine, self, self.log_config, self.times)
        machine.life.begin()

    def _kill(self, machine: Machine) -> bool:
        if machine.life is None:
            return False
        life, machine.life = machine.life, None
        self._shut_down.discard(machine.number)
        life.kill()
        machine.files.kill()
        # Another broker finds the port closed and reports it, or the session expires.
        wait_s = self.chance.choice((0.01, self.settings.times.session_s))
        self.links.at(self.loop.time() + wait_s, self._expire, life)
        return True

    def _expire(self, life: BrokerLife) -> None:
        life.session_is_gone = True
        life.meta_store.session.expire()

    async def _sessions(self) -> None:
        """The store's side of sessions: a silent broker's session expires."""
        heard: dict[BrokerLife, float] = {}
        while True:
            await asyncio.sleep(0.01)
            now_s = self.loop.time()
            for machine in self.machines.values():
                life = machine.life
                if life is None:
                    continue
                cut = self.links.is_cut(life.name, STORE) or self.links.is_cut(STORE, life.name)
                if not (life.paused or cut):
                    heard[life] = now_s
                silent_s = now_s - heard.get(life, now_s)
                if silent_s > self.times.session_s and not life.session_is_gone:
                    self.say(f"session of {life.name} expires")
                    self._expire(life)

    def _begin_shutdown(self, machine: Machine, for_s: float) -> bool:
        """A controlled shutdown; the process ends when it is done, and a while later."""
        life = machine.life
        if life is None or life.paused or life.shutting_down or not life.registered:
            return False

        async def leave() -> None:
            await life.registration.unwatch()
            with contextlib.suppress(MetaStoreError, KafkaError):
                await life.registration.controlled_shutdown()
                if machine.life is life:
                    self._shut_down.add(machine.number)
                    self.say(f"{machine.name} has left its sets")

        def end() -> None:
            if machine.life is life:
                self._kill(machine)
                self._later(self.chance.uniform(*self.settings.for_s), relaunch)

        def relaunch() -> None:
            if machine.life is None:
                self._launch(machine)

        life.shutting_down = True
        life.spawn(leave())
        self._later(for_s, end)
        return True

    async def _watch_sets(self, changes: KeyChanges) -> None:
        """No leader adds a broker in controlled shutdown to an ISR (KIP-841)."""
        known: dict[str, set[int]] = {}
        async for change in changes:
            if change.entry is None or not change.key.endswith("/state"):
                continue
            isr = set(layout.load(change.entry)["isr"])
            for number in (isr - known.get(change.key, isr)) & self._shut_down:
                self.found.append(f"{change.key} took {number} back, which shuts down")
            known[change.key] = isr

    # Faults

    async def _storm(self) -> None:
        kinds, weights = list(FAULTS), list(FAULTS.values())
        end_s = self.now_s + self.settings.storm_s
        while True:
            gap_s = self.chance.uniform(*self.settings.gap_s)
            if self.now_s + gap_s >= end_s:
                return await asyncio.sleep(end_s - self.now_s)
            await asyncio.sleep(gap_s)
            kind = self.chance.choices(kinds, weights)[0]
            machine = self.chance.choice(list(self.machines.values()))
            for_s = self.chance.uniform(*self.settings.for_s)
            self._check_fragile()
            if self._fragile is not None:
                continue
            if self._inflict(kind, machine, for_s):
                self.done[kind] += 1
                self.say(f"{kind} {machine.name} for {for_s:.3f}")

    def _inflict(self, kind: str, machine: Machine, for_s: float) -> bool:
        other = self.chance.choice([m for m in self.machines.values() if m is not machine])
        one, two = machine.name, other.name
        links = self.links
        match kind:
            case "kill":
                if not self._kill(machine):
                    return False
                self._later(for_s, lambda: machine.life or self._launch(machine))
            case "shut down":
                return self._begin_shutdown(machine, for_s)
            case "power cut":
                return self._cut_power(machine, for_s)
            case "kill all":
                for other in self.machines.values():
                    self._kill(other)
                    self._later(for_s, lambda other=other: other.life or self._launch(other))
            case "pause":
                if (life := machine.life) is None or life.paused:
                    return False
                life.pause()
                self._later(for_s, lambda: life.dead or life.resume())
            case "cut":
                links.cut(one, two)
                self._later(for_s, lambda: links.heal(one, two))
            case "cut one way":
                links.cut_one_way(one, two)
                self._later(for_s, lambda: links.heal(one, two))
            case "isolate":
                for other in self.machines.values():
                    links.cut(one, other.name)
                    self._later(for_s, lambda other=other: links.heal(one, other.name))
            case "cut from store":
                links.cut(one, STORE)
                self._later(for_s, lambda: links.heal(one, STORE))
            case "cut from store one way":
                links.cut_one_way(*self.chance.sample((one, STORE), 2))
                self._later(for_s, lambda: links.heal(one, STORE))
            case "cut from clients":
                links.cut_one_way(one, CLIENT)
                self._later(for_s, lambda: links.heal(one, CLIENT))
            case "delay":
                links.slow(one, two, 0.03)
                self._later(for_s, lambda: links.heal(one, two))
            case "disk full":
                machine.files.fill(self.chance.randrange(200))
                self._later(for_s, machine.files.heal)
            case "short write":
                machine.files.short_write(after=self.chance.randrange(20), size=30)
            case "clock jump":
                machine.clock_ms = self.chance.choice((-60_000, -100, 100, 60_000))
                self._later(for_s, lambda: setattr(machine, "clock_ms", 0))
        return True

    def _later(self, seconds: float, action: Any) -> None:
        def act() -> None:
            if not self._ended:
                action()

        self.links.at(self.loop.time() + seconds, act)

    def _cut_power(self, machine: Machine, for_s: float) -> bool:
        """Unflushed bytes are lost or torn. Replication survives that only if others have what this
        broker lost (or if everything is flushed): so one at a time, while every ISR has another
        live member, and no other broker falls until this one has left the ISRs."""
        flushed = self.log_config.flush_messages == 1
        if machine.life is None or not (flushed or self._others_have_all(machine)):
            return False
        self._kill(machine)
        machine.files.crash(self.chance)
        if not flushed:
            self._fragile = machine.number
        self._later(for_s, lambda: machine.life or self._launch(machine))
        return True

    def _others_have_all(self, machine: Machine) -> bool:
        """True if every ISR has another member, and all other brokers are healthy."""
        for other in self.machines.values():
            life = other.life
            if other is machine:
                continue
            if life is None or life.paused or life.session_is_gone or not life.registered:
                return False
            if life.shutting_down:
                return False
            if self.links.is_cut(life.name, STORE) or self.links.is_cut(STORE, life.name):
                return False
        return all(len(isr) > 1 for isr in self._isrs())

    def _isrs(self) -> list[list[int]]:
        return [
            layout.load(self.store._entries[layout.state_key(*place)])["isr"]
            for place in self.places
        ]

    def _check_fragile(self) -> None:
        """True when it has left every ISR: by others, or by itself after a restart."""
        if self._fragile is not None:
            life = self.machines[self._fragile].life
            is_back = life is not None and life.registered
            if is_back or not any(self._fragile in isr for isr in self._isrs()):
                self._fragile = None

    def _heal(self) -> None:
        self._ended = True
        self.say("healed")
        self.links.heal()
        self.links.lost_share = 0.0
        for machine in self.machines.values():
            machine.clock_ms = 0
            machine.files.heal()
            if machine.life is not None and (
                machine.life.has_no_disk or machine.life.shutting_down
            ):
                self._kill(machine)  # by itself: the process ends, and is started again
            if machine.life is None:
                self._launch(machine)
            elif machine.life.paused:
                machine.life.resume()

    # Clients

    async def _produce(self, number: int) -> None:
        """An idempotent producer, which retries a batch until it is acknowledged."""
        sequences = Counter[int]()
        while not self._ended:
            index = self.chance.randrange(self.settings.partitions)
            count = self.chance.randint(1, 3)
            names = [f"p{number}.1.{self._names + n}.0.1" for n in range(count)]
            self._names += count
            records = [Record(0, self.loop.now_ms(), None, name.encode(), []) for name in names]
            data = build_batch(
                records,
                producer_id=number,
                producer_epoch=0,
                base_sequence=sequences[index],
            )
            offset = await self._send(index, data)
            if offset is None:
                return
            sequences[index] += count
            for place, name in enumerate(names):
                line = ["acked", name, TOPIC, index, offset + place]
                self.history.journals["producer"].append(line)
            await asyncio.sleep(self.chance.uniform(0.0, 0.02))

    async def _send(self, index: int, data: bytes) -> int | None:
        while True:
            if self._ended and self.now_s > self._give_up_s:
                return None
            machine = self._leader(index)
            try:
                code, offset, epoch = await self.links.call(
                    CLIENT,
                    machine.name,
                    lambda machine=machine: machine.life,
                    lambda life: life.produce(TOPIC, index, data),
                    self.settings.times.line_patience_s,
                )
            except Unreachable:
                continue
            if code == ErrorCode.NONE:
                self._acked_epochs[index] = max(epoch, self._acked_epochs[index])
                return int(offset)
            # A former leader that does not know its successor yet lacks newer records.
            stale = epoch < self._acked_epochs[index]
            if code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and not stale:
                self.history.accidents.append(
                    f"{TOPIC}-{index} of broker {machine.name} lacks what came before a batch"
                )
                return None
            await asyncio.sleep(RETRY_S)

    def _leader(self, index: int) -> Machine:
        """The leader in some broker's latest metadata, which may be outdated."""
        machines = list(self.machines.values())
        asked = self.chance.choice(machines)
        if asked.life is not None and self.chance.random() < 0.9:
            leader = asked.life.leader_of(TOPIC, index)
            if leader in self.machines:
                return self.machines[leader]
        return self.chance.choice(machines)

    async def _read(self, machine: Machine) -> None:
        """A reader of one broker, leader or not."""
        positions = dict.fromkeys(self.places, 0)
        while True:
            await asyncio.sleep(self.chance.uniform(0.01, 0.06))
            life = machine.life
            if life is None or life.paused:
                continue
            for place in self.places:
                if (found := life.poll(*place, positions[place])) is None:
                    continue
                high_watermark, data = found
                self._mark(life, place, high_watermark)
                for batch in batches_of(data):
                    self.history.polls.append(Poll(self.now_s, machine.number, place, batch))
                    positions[place] = batch.last_offset + 1

    def _mark(self, life: BrokerLife, place: Any, high_watermark: int) -> None:
        partition = life.partitions.find(*place)
        epoch = partition.leader_epoch if partition.leads else FOLLOWING
        mark = Mark(
            self.now_s, life.number, life.count, place, epoch, "high watermark", high_watermark
        )
        self.history.marks.append(mark)

    def led(self, life: BrokerLife, partition: Partition) -> None:
        place = partition.topic, partition.index
        self.history.leaderships.append(
            Leadership(self.now_s, life.number, place, partition.leader_epoch)
        )

    # The end

    async def _converge(self, producers: list[asyncio.Task[None]]) -> None:
        start_s = self.now_s
        self._give_up_s = start_s + self.settings.converge_s * 0.8
        troubles = ""
        while self.now_s - start_s < self.settings.converge_s:
            await asyncio.sleep(0.03)
            troubles = self._troubles()
            if not all(task.done() for task in producers):
                troubles = "a producer is not acknowledged"
            if not troubles:
                break
        took_s = self.now_s - start_s if not troubles else None
        self.history.healings.append(HealTime(start_s, took_s, self.settings.converge_s, troubles))
        await asyncio.sleep(0.12)  # readers see the end

    def _troubles(self) -> str:
        ends: dict[Any, set[Any]] = {}
        for machine in self.machines.values():
            life = machine.life
            if life is None or not life.registered:
                return f"broker {machine.name} is not registered"
            for place in self.places:
                state = life.image.topics[TOPIC].partitions[place[1]]
                if set(state.isr) != set(self.machines) or state.leader < 0:
                    return f"{place}: {state} at broker {machine.name}"
                try:
                    partition = life.partitions.find(*place)
                except Exception as error:
                    return f"{place} at broker {machine.name}: {error}"
                end = partition.log.end_offset
                if partition.high_watermark != end:
                    return f"{place}: {partition.high_watermark} of {end} at {machine.name}"
                ends.setdefault(place, set()).add((end, state.leader, state.leader_epoch))
        return "" if all(len(offsets) == 1 for offsets in ends.values()) else f"{ends}"

    def _collect(self) -> None:
        history = self.history
        for machine in self.machines.values():
            for topic, index in self.places:
                folder = f"{DATA}/{topic}-{index}/"
                nodes = machine.files.nodes
                paths = sorted(p for p in nodes if p.startswith(folder) and p.endswith(".log"))
                data = [batch for path in paths for batch in batches_of(bytes(nodes[path].data))]
                history.replicas[machine.number, (topic, index)] = data
        seen = merged(history.polls)
        history.logs = {place: seen.get(place, []) for place in self.places}

    def _violations(self) -> Iterator[str]:
        yield from self.found
        yield from self.history.accidents
        for check in (*CLUSTER, acknowledged_records_are_stored, offsets_are_dense):
            yield from check(self.history)
        yield from repeated(self.history, TOPIC)
