"""The controller: the one broker that decides on topics, and on who leads.

It holds one key, and counts up an epoch when it takes it; with every commit the epoch is checked,
so that a controller of old, which has not noticed yet that it is none any more, changes nothing.
It remembers nothing that a new controller would need: whatever is left to do can be seen in the
image (`settle`).
"""

from __future__ import annotations

import logging
import os
import random
from collections.abc import Callable, Iterable, Mapping, Sequence

from ottla.cluster import decisions, layout
from ottla.cluster import decisions_elections as elections
from ottla.cluster import decisions_reassignment as reassignment
from ottla.cluster.commits import WRITES_AT_ONCE_MAX, Commits, Decision, Result
from ottla.cluster.decisions import Dice, NewTopic
from ottla.cluster.decisions_elections import Election
from ottla.cluster.decisions_reassignment import Target
from ottla.cluster.image import Image, Topic
from ottla.cluster.membership import random_uuid
from ottla.cluster.metadata import Metadata
from ottla.cluster.store import (
    Change,
    Check,
    Conflict,
    Delete,
    Entry,
    Hold,
    MetaStore,
    StoreError,
    Write,
)
from ottla.config import ServerConfig
from ottla.errors import ErrorCode, KafkaError

Charge = Callable[[str, int], None]
"""Told of a topic and how many partitions are made or deleted, before they are; KafkaError refuses.
Told again where a decision has to be made anew."""
Place = tuple[str, int]

log = logging.getLogger("ottla.cluster")


class Controller:
    """Creates, elects, moves and deletes, while it is the controller.

    `config` gives the broker's configuration of this moment.
    """

    def __init__(
        self,
        store: MetaStore,
        metadata: Metadata,
        commits: Commits,
        *,
        broker_id: int,
        config: Callable[[], ServerConfig],
        dice: random.Random | None = None,
        urandom: Callable[[int], bytes] = os.urandom,
    ) -> None:
        self._store = store
        self._metadata = metadata
        self._commits = commits
        self._broker_id = broker_id
        self._config = config
        self._dice = dice if dice is not None else random.Random()
        self._urandom = urandom
        self._hold: Hold | None = None
        self._epoch = 0
        self._epoch_version = -1
        self._seen: tuple[Image, bool] | None = None  # where nothing was left to be decided

    @property
    def active(self) -> bool:
        return self._hold is not None and not self._hold.lost.is_set()

    @property
    def overtaken(self) -> bool:
        """The key is ours, and another broker has counted the epoch up since: one that lost its
        session, and the key with it, between the two. Nothing that we decide is taken any more."""
        return self.active and self._metadata.image.controller_epoch > self._epoch

    async def elect(self, now_ms: int) -> bool:
        """Try to become the controller; False if another broker is."""
        who = layout.dump({"version": 1, "brokerid": self._broker_id, "timestamp": str(now_ms)})
        try:
            await self._clear_former()
            hold = await self._store.hold(layout.CONTROLLER, who)
        except Conflict:
            return False
        try:
            entry = await self._count_up()
        except BaseException:
            await hold.release()
            raise
        if entry is None:  # not ours any more, and another broker was faster
            await hold.release()
            return False
        self._hold = hold
        self._epoch = layout.load(entry)
        self._epoch_version = entry.version
        self._seen = None
        changes = [Change(layout.CONTROLLER, hold.entry), Change(layout.CONTROLLER_EPOCH, entry)]
        self._metadata.apply(changes)
        return True

    async def _clear_former(self) -> None:
        """Remove the key if it is that of this broker's last process, whose session has not ended
        yet: nobody else would for seconds, as the broker lives again."""
        entry = await self._store.get(layout.CONTROLLER)
        if entry is not None and layout.load(entry)["brokerid"] == self._broker_id:
            await self._store.delete(layout.CONTROLLER, version=entry.version)

    async def _count_up(self) -> Entry | None:
        key = layout.CONTROLLER_EPOCH
        entry = await self._store.get(key)
        epoch = 1 if entry is None else layout.load(entry) + 1
        value = layout.dump(epoch)
        try:
            if entry is None:
                return Entry(value, await self._store.create(key, value))
            return Entry(value, await self._store.put(key, value, version=entry.version))
        except Conflict:
            return None

    async def resign(self) -> None:
        hold, self._hold = self._hold, None
        if hold is not None:
            await hold.release()
            self._metadata.apply([Change(layout.CONTROLLER, None)])

    # What clients ask for

    async def create_topics(
        self,
        wishes: Sequence[NewTopic],
        *,
        validate_only: bool = False,
        charge: Charge | None = None,
    ) -> dict[str, Topic | KafkaError]:
        """Each topic as it is now, or why it could not be; names are different from each other."""
        throws = {wish.name: self._throw() for wish in wishes}

        def decide(image: Image) -> tuple[list[Write], dict[str, Topic | KafkaError]]:
            results: dict[str, Topic | KafkaError] = {}
            writes: list[Write] = []
            partition_count = 0
            for wish in wishes:
                try:
                    topic, more = decisions.create_topic(
                        image, self._config(), wish, throws[wish.name]
                    )
                    partition_count += len(topic.partitions)
                    decisions.check_partition_total(partition_count)
                    if charge is not None:
                        charge(wish.name, len(topic.partitions))
                except KafkaError as error:
                    results[wish.name] = error
                else:
                    results[wish.name] = topic
                    writes.extend(more)
            return ([] if validate_only else writes), results

        return await self._carry_out(decide)

    async def create_partitions(
        self,
        counts: Mapping[str, tuple[int, Sequence[Sequence[int]] | None]],
        *,
        validate_only: bool = False,
        charge: Charge | None = None,
    ) -> dict[str, KafkaError | None]:
        """Let topics grow: name -> (new count, replicas of the new ones or None)."""
        throw = self._throw()

        def grow(image: Image, name: str) -> list[Write]:
            count, assignment = counts[name]
            writes = decisions.create_partitions(image, name, count, assignment, throw)
            if charge is not None:
                charge(name, count - len(image.topics[name].partitions))
            return writes

        return await self._commits.for_each(
            counts, grow, validate_only=validate_only, fence=self._fence
        )

    async def delete_topics(
        self, names: Iterable[str], *, charge: Charge | None = None
    ) -> dict[str, KafkaError | None]:
        def delete(image: Image, name: str) -> list[Write]:
            writes = decisions.delete_topic(image, name)
            if charge is not None:
                charge(name, len(image.topics[name].partitions))
            return writes

        return await self._commits.for_each(names, delete, fence=self._fence)

    async def elect_leaders(
        self, places: Iterable[Place], election: Election
    ) -> dict[Place, KafkaError | None]:
        """Elect leaders because somebody asks for it: None, or why not."""

        def elect(image: Image, place: Place) -> list[Write]:
            return elections.elect(image, *place, election)

        return await self._commits.for_each(places, elect, fence=self._fence)

    async def reassign(
        self,
        targets: Mapping[str, Mapping[int, Target]],
        *,
        allow_replication_factor_change: bool = True,
    ) -> dict[Place, KafkaError | None]:
        """Begin, change or cancel reassignments; what was begun goes on by `settle`."""
        results: dict[Place, KafkaError | None] = {}
        for name, wanted in targets.items():

            def decide(
                image: Image, name: str = name, wanted: Mapping[int, Target] = wanted
            ) -> tuple[list[Write], dict[int, KafkaError | None]]:
                return reassignment.reassign(
                    image,
                    name,
                    wanted,
                    allow_replication_factor_change=allow_replication_factor_change,
                )

            found = await self._carry_out(decide)
            results |= {(name, index): error for index, error in found.items()}
        return results

    async def unregister(self, broker_id: int) -> None:
        """Forget a broker that won't come back. One that lives registers anew, as in Kafka."""
        epoch_key = layout.broker_epoch_key(broker_id)
        try:
            entry = await self._store.get(epoch_key)
            if entry is None:
                message = f"Broker ID {broker_id} is not currently registered"
                raise KafkaError(ErrorCode.BROKER_ID_NOT_REGISTERED, message)
            writes: list[Write] = [Delete(epoch_key, entry.version)]
            if broker_id in self._metadata.image.brokers:
                writes = [Check(epoch_key, entry.version), Delete(layout.broker_key(broker_id), 0)]
            await self._commits.commit(writes, self._fence)
        except StoreError as error:
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, str(error)) from error

    # What the cluster asks for

    async def settle(self) -> None:
        """Decide on all that the newest image leaves to be decided.

        Looking twice does nothing the second time: only what has changed since is looked at.
        """
        unclean = elections.by_config(self._config())
        while (image := self._metadata.image) is not self._looked_at():
            for topic in self._changed(image):
                if any(each.reassigning for each in topic.partitions):
                    await self._carry_out(_completed(topic.name))
            count = await self._commits.carry_out_each(
                lambda now: elections.settle(now, unclean, self._changed(now)), self._fence
            )
            if count:
                log.info("%d partitions have another leader or in-sync set", count)
            self._seen = image, self._config().unclean_leader_election_enable

    async def rebalance(self) -> None:
        """Give leadership back to preferred leaders, where too much of it is elsewhere."""
        percentage = self._config().leader_imbalance_per_broker_percentage
        writes = elections.rebalance(self._metadata.image, percentage)
        if writes:
            log.info("%d partitions go back to their preferred leaders", len(writes))
        for start in range(0, len(writes), WRITES_AT_ONCE_MAX):
            try:
                chunk = writes[start : start + WRITES_AT_ONCE_MAX]
                await self._commits.commit(chunk, self._fence)
            except Conflict as conflict:  # the next round has another look
                log.info("not rebalanced: %s", conflict)
                return

    def _looked_at(self) -> Image | None:
        return None if self._seen is None else self._seen[0]

    def _changed(self, image: Image) -> Iterable[Topic]:
        """The topics of which something may have to be decided."""
        if self._seen is None:
            return image.topics.values()
        seen, unclean = self._seen
        if (
            seen.brokers is not image.brokers
            or unclean != self._config().unclean_leader_election_enable
        ):
            return image.topics.values()
        known = seen.topics
        return [topic for name, topic in image.topics.items() if known.get(name) is not topic]

    async def _carry_out(self, decide: Decision[Result]) -> Result:
        return await self._commits.carry_out(decide, self._fence)

    def _fence(self) -> Check:
        if not self.active:
            raise KafkaError(ErrorCode.NOT_CONTROLLER)
        return Check(layout.CONTROLLER_EPOCH, self._epoch_version)

    def _throw(self) -> Dice:
        count = max(1, len(self._metadata.image.brokers))
        return Dice(
            topic_id=random_uuid(self._urandom),
            start=self._dice.randrange(count),
            shift=self._dice.randrange(count),
        )


def _completed(name: str) -> Decision[None]:
    def decide(image: Image) -> tuple[list[Write], None]:
        topic = image.topics.get(name)
        return ([] if topic is None else reassignment.complete(image, topic)), None

    return decide
