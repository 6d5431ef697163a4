"""Counts ISR changes and leader elections by comparing each metadata image with the one before."""

from __future__ import annotations

from collections.abc import Iterator

from ottla.cluster.image import NO_LEADER, MetadataImage, PartitionRegistration, TopicImage
from ottla.metrics import MetricFamily, counter


class PartitionChangeCounts:
    """ISR changes of partitions led here, and elections while this broker is the controller.

    `apply` gets every image. Counting images instead of events includes the changes that other
    brokers make.
    """

    def __init__(self, node_id: int, image: MetadataImage) -> None:
        self._node_id = node_id
        self._topics = image.topics
        self.isr_shrinks = 0
        self.isr_expands = 0
        self.elections = 0
        self.unclean_elections = 0

    def apply(self, image: MetadataImage) -> None:
        before, self._topics = self._topics, image.topics
        if before is image.topics:
            return
        controls = image.controller_id == self._node_id
        for name, topic in image.topics.items():
            known = before.get(name)
            if known is not None and known is not topic and known.id == topic.id:
                self._compare(known, topic, controls=controls)

    def _compare(self, before: TopicImage, after: TopicImage, *, controls: bool) -> None:
        for old, new in zip(before.partitions, after.partitions, strict=False):  # it may grow
            if old is new:
                continue
            if new.leader == self._node_id:
                self._count_isr(old, new)
            if controls and new.leader not in (old.leader, NO_LEADER):
                self.elections += 1
                self.unclean_elections += new.leader not in old.isr

    def _count_isr(self, old: PartitionRegistration, new: PartitionRegistration) -> None:
        self.isr_shrinks += len(new.isr) < len(old.isr)
        self.isr_expands += len(new.isr) > len(old.isr)

    def families(self) -> Iterator[MetricFamily]:
        name = "kafka_server_replicamanager"
        yield counter(
            f"{name}_isrshrinks_total",
            "Shrinks of the ISR of partitions led here, made by any broker.",
            self.isr_shrinks,
        )
        yield counter(
            f"{name}_isrexpands_total",
            "Expansions of the ISR of partitions led here.",
            self.isr_expands,
        )
        name = "kafka_controller_controllerstats"
        yield counter(
            f"{name}_leaderelectionrateandtimems_count",
            "Leader elections while this broker was the controller.",
            self.elections,
        )
        yield counter(
            f"{name}_uncleanleaderelections_total",
            "Elections of a leader outside of the ISR: records may be lost.",
            self.unclean_elections,
        )
