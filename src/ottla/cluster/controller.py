"""The controller: the one broker that decides on topics and elects partition leaders.

It holds an ephemeral key, and raises the controller epoch when it takes it. Every commit checks
that epoch, which fences a former controller that has not noticed the loss of its key yet. The
controller has no state that its successor would need: the image shows what is left to do
(`reconcile`).
"""

from __future__ import annotations

import logging
import os
import random
from collections.abc import Callable, Iterable, Mapping, Sequence

from ottla.cluster import layout, leader_election, reassignments, topics
from ottla.cluster.cluster_membership import random_uuid
from ottla.cluster.image import MetadataImage, TopicImage
from ottla.cluster.leader_election import LeaderElectionType
from ottla.cluster.metadata_cache import MetadataCache
from ottla.cluster.metadata_writer import WRITES_AT_ONCE_MAX, Decision, MetadataWriter, Result
from ottla.cluster.reassignments import TargetReplicas
from ottla.cluster.store import (
    Check,
    Conflict,
    Delete,
    EphemeralKey,
    KeyChange,
    MetaStore,
    MetaStoreError,
    VersionedValue,
    Write,
)
from ottla.cluster.topics import RandomChoices, TopicSpec
from ottla.config import ServerConfig
from ottla.errors import ErrorCode, KafkaError

MutationQuota = Callable[[str, int], None]
"""Called with a topic and the count of partitions before these are created or deleted, and again
when a decision is retried after a conflict; KafkaError refuses."""
TopicPartition = tuple[str, int]

log = logging.getLogger("ottla.cluster")


class Controller:
    """Creates and deletes topics, elects leaders and reassigns partitions, while it is elected.

    `config` returns the broker's current configuration.
    """

    def __init__(
        self,
        store: MetaStore,
        metadata: MetadataCache,
        writer: MetadataWriter,
        *,
        broker_id: int,
        config: Callable[[], ServerConfig],
        rng: random.Random | None = None,
        urandom: Callable[[int], bytes] = os.urandom,
    ) -> None:
        self._store = store
        self._metadata = metadata
        self._writer = writer
        self._broker_id = broker_id
        self._config = config
        self._rng = rng if rng is not None else random.Random()
        self._urandom = urandom
        self._ephemeral_key: EphemeralKey | None = None
        self._epoch = 0
        self._epoch_version = -1
        # The last image that left nothing to do, and the unclean election setting at that time.
        self._reconciled: tuple[MetadataImage, bool] | None = None

    @property
    def active(self) -> bool:
        return self._ephemeral_key is not None and not self._ephemeral_key.lost.is_set()

    @property
    def superseded(self) -> bool:
        """True if this broker has the key, but another broker has raised the epoch since: one that
        lost its session, and the key with it, between the two steps of its election. The epoch
        check now fails all commits of this broker, so it must resign."""
        return self.active and self._metadata.image.controller_epoch > self._epoch

    async def elect(self, now_ms: int) -> bool:
        """Try to become the controller; False if another broker is."""
        value = layout.dump({"version": 1, "brokerid": self._broker_id, "timestamp": str(now_ms)})
        try:
            await self._delete_former_key()
            ephemeral = await self._store.create_ephemeral(layout.CONTROLLER, value)
        except Conflict:
            return False
        try:
            # Raising the epoch fences the former controller, so it comes after taking the key: only
            # the owner of the key may do that. The key alone fences nothing, because the former
            # controller may not know yet that its session has expired.
            entry = await self._raise_epoch()
        except BaseException:
            await ephemeral.release()
            raise
        if entry is None:  # the key was lost, and another broker was faster
            await ephemeral.release()
            return False
        self._ephemeral_key = ephemeral
        self._epoch = layout.load(entry)
        self._epoch_version = entry.version
        self._reconciled = None
        changes = [
            KeyChange(layout.CONTROLLER, ephemeral.entry),
            KeyChange(layout.CONTROLLER_EPOCH, entry),
        ]
        self._metadata.apply(changes)
        return True

    async def _delete_former_key(self) -> None:
        """Delete the key if a former process of this broker left it: that session expires only
        after seconds, and until then no other broker would take over."""
        entry = await self._store.get(layout.CONTROLLER)
        if entry is not None and layout.load(entry)["brokerid"] == self._broker_id:
            await self._store.delete(layout.CONTROLLER, version=entry.version)

    async def _raise_epoch(self) -> VersionedValue | None:
        key = layout.CONTROLLER_EPOCH
        entry = await self._store.get(key)
        epoch = 1 if entry is None else layout.load(entry) + 1
        value = layout.dump(epoch)
        try:
            if entry is None:
                return VersionedValue(value, await self._store.create(key, value))
            return VersionedValue(value, await self._store.put(key, value, version=entry.version))
        except Conflict:
            return None

    async def resign(self) -> None:
        ephemeral, self._ephemeral_key = self._ephemeral_key, None
        if ephemeral is not None:
            await ephemeral.release()
            self._metadata.apply([KeyChange(layout.CONTROLLER, None)])

    # Requests of clients

    async def create_topics(
        self,
        specs: Sequence[TopicSpec],
        *,
        validate_only: bool = False,
        charge: MutationQuota | None = None,
    ) -> dict[str, TopicImage | KafkaError]:
        """For each topic the created topic or the error. The names must be distinct."""
        choices = {spec.name: self._random_choices() for spec in specs}

        def decide(image: MetadataImage) -> tuple[list[Write], dict[str, TopicImage | KafkaError]]:
            results: dict[str, TopicImage | KafkaError] = {}
            writes: list[Write] = []
            partition_count = 0
            for spec in specs:
                try:
                    topic, more = topics.create_topic(
                        image, self._config(), spec, choices[spec.name]
                    )
                    partition_count += len(topic.partitions)
                    topics.check_partition_count(partition_count)
                    if charge is not None:
                        charge(spec.name, len(topic.partitions))
                except KafkaError as error:
                    results[spec.name] = error
                else:
                    results[spec.name] = topic
                    writes.extend(more)
            return ([] if validate_only else writes), results

        return await self._commit_decision(decide)

    async def create_partitions(
        self,
        counts: Mapping[str, tuple[int, Sequence[Sequence[int]] | None]],
        *,
        validate_only: bool = False,
        charge: MutationQuota | None = None,
    ) -> dict[str, KafkaError | None]:
        """Add partitions: name -> (new total count, replicas of the new partitions or None)."""
        choices = self._random_choices()

        def grow(image: MetadataImage, name: str) -> list[Write]:
            count, assignment = counts[name]
            writes = topics.create_partitions(image, name, count, assignment, choices)
            if charge is not None:
                charge(name, count - len(image.topics[name].partitions))
            return writes

        return await self._writer.commit_for_each(
            counts, grow, validate_only=validate_only, fence=self._fence
        )

    async def delete_topics(
        self, names: Iterable[str], *, charge: MutationQuota | None = None
    ) -> dict[str, KafkaError | None]:
        def delete(image: MetadataImage, name: str) -> list[Write]:
            writes = topics.delete_topic(image, name)
            if charge is not None:
                charge(name, len(image.topics[name].partitions))
            return writes

        return await self._writer.commit_for_each(names, delete, fence=self._fence)

    async def elect_leaders(
        self, partitions: Iterable[TopicPartition], election: LeaderElectionType
    ) -> dict[TopicPartition, KafkaError | None]:
        """Elect leaders on request (ElectLeaders): None or the error of each partition."""

        def elect(image: MetadataImage, partition: TopicPartition) -> list[Write]:
            return leader_election.elect(image, *partition, election)

        return await self._writer.commit_for_each(partitions, elect, fence=self._fence)

    async def reassign(
        self,
        targets: Mapping[str, Mapping[int, TargetReplicas]],
        *,
        allow_replication_factor_change: bool = True,
    ) -> dict[TopicPartition, KafkaError | None]:
        """Start, change or cancel reassignments; `reconcile` completes them."""
        results: dict[TopicPartition, KafkaError | None] = {}
        for name, replicas in targets.items():

            def decide(
                image: MetadataImage,
                name: str = name,
                replicas: Mapping[int, TargetReplicas] = replicas,
            ) -> tuple[list[Write], dict[int, KafkaError | None]]:
                return reassignments.reassign(
                    image,
                    name,
                    replicas,
                    allow_replication_factor_change=allow_replication_factor_change,
                )

            errors = await self._commit_decision(decide)
            results |= {(name, index): error for index, error in errors.items()}
        return results

    async def unregister(self, broker_id: int) -> None:
        """Unregister a broker that won't come back. A live broker registers again, as in Kafka."""
        epoch_key = layout.broker_epoch_key(broker_id)
        try:
            entry = await self._store.get(epoch_key)
            if entry is None:
                message = f"Broker ID {broker_id} is not currently registered"
                raise KafkaError(ErrorCode.BROKER_ID_NOT_REGISTERED, message)
            writes: list[Write] = [Delete(epoch_key, entry.version)]
            if broker_id in self._metadata.image.brokers:
                writes = [Check(epoch_key, entry.version), Delete(layout.broker_key(broker_id), 0)]
            await self._writer.commit(writes, self._fence)
        except MetaStoreError as error:
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, str(error)) from error

    # Reactions to changes of the cluster

    async def reconcile(self) -> None:
        """Elect leaders, shrink ISRs and complete reassignments as the newest image requires.

        Only topics that have changed since the last call are examined.
        """
        unclean = leader_election.unclean_by_config(self._config())
        while (image := self._metadata.image) is not self._reconciled_image():
            for topic in self._changed_topics(image):
                if any(partition.reassigning for partition in topic.partitions):
                    await self._commit_decision(_complete_in(topic.name))
            count = await self._writer.commit_until_done(
                lambda now: leader_election.reconcile(now, unclean, self._changed_topics(now)),
                self._fence,
            )
            if count:
                log.info("Changed the leader or the ISR of %d partitions", count)
            self._reconciled = image, self._config().unclean_leader_election_enable

    async def rebalance(self) -> None:
        """Elect preferred leaders where the imbalance of a broker is above the limit."""
        percentage = self._config().leader_imbalance_per_broker_percentage
        writes = leader_election.rebalance(self._metadata.image, percentage)
        if writes:
            log.info("Starting preferred replica leader election for %d partitions", len(writes))
        for start in range(0, len(writes), WRITES_AT_ONCE_MAX):
            try:
                chunk = writes[start : start + WRITES_AT_ONCE_MAX]
                await self._writer.commit(chunk, self._fence)
            except Conflict as conflict:  # the next round tries again
                log.info("Preferred replica leader election stopped: %s", conflict)
                return

    def _reconciled_image(self) -> MetadataImage | None:
        return None if self._reconciled is None else self._reconciled[0]

    def _changed_topics(self, image: MetadataImage) -> Iterable[TopicImage]:
        """The topics that may need a change: all if brokers or the unclean setting changed."""
        if self._reconciled is None:
            return image.topics.values()
        reconciled, unclean = self._reconciled
        if (
            reconciled.brokers is not image.brokers
            or unclean != self._config().unclean_leader_election_enable
        ):
            return image.topics.values()
        known = reconciled.topics
        return [topic for name, topic in image.topics.items() if known.get(name) is not topic]

    async def _commit_decision(self, decide: Decision[Result]) -> Result:
        return await self._writer.commit_decision(decide, self._fence)

    def _fence(self) -> Check:
        if not self.active:
            raise KafkaError(ErrorCode.NOT_CONTROLLER)
        return Check(layout.CONTROLLER_EPOCH, self._epoch_version)

    def _random_choices(self) -> RandomChoices:
        count = max(1, len(self._metadata.image.brokers))
        return RandomChoices(
            topic_id=random_uuid(self._urandom),
            start=self._rng.randrange(count),
            shift=self._rng.randrange(count),
        )


def _complete_in(name: str) -> Decision[None]:
    def decide(image: MetadataImage) -> tuple[list[Write], None]:
        topic = image.topics.get(name)
        return ([] if topic is None else reassignments.complete_reassignments(image, topic)), None

    return decide
