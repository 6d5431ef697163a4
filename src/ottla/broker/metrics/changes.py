"""What changes from one image of the cluster to the next: in-sync sets and leaders."""

from __future__ import annotations

from collections.abc import Iterator

from ottla.cluster.image import NO_LEADER, Image, Partition, Topic
from ottla.metrics import Family, counter


class Changes:
    """Counts, for this broker, what others would have to be asked for. `apply` sees each image."""

    def __init__(self, node_id: int, image: Image) -> None:
        self._node_id = node_id
        self._topics = image.topics
        self.isr_shrinks = 0
        self.isr_expands = 0
        self.elections = 0
        self.unclean_elections = 0

    def apply(self, image: Image) -> None:
        before, self._topics = self._topics, image.topics
        if before is image.topics:
            return
        controls = image.controller_id == self._node_id
        for name, topic in image.topics.items():
            known = before.get(name)
            if known is not None and known is not topic and known.id == topic.id:
                self._compare(known, topic, controls=controls)

    def _compare(self, before: Topic, after: Topic, *, controls: bool) -> None:
        for old, new in zip(before.partitions, after.partitions, strict=False):  # it may grow
            if old is new:
                continue
            if new.leader == self._node_id:
                self._count_isr(old, new)
            if controls and new.leader not in (old.leader, NO_LEADER):
                self.elections += 1
                self.unclean_elections += new.leader not in old.isr

    def _count_isr(self, old: Partition, new: Partition) -> None:
        self.isr_shrinks += len(new.isr) < len(old.isr)
        self.isr_expands += len(new.isr) > len(old.isr)

    def families(self) -> Iterator[Family]:
        name = "kafka_server_replicamanager"
        yield counter(
            f"{name}_isrshrinks_total",
            "In-sync sets of partitions led here that lost a member, whoever took it out.",
            self.isr_shrinks,
        )
        yield counter(
            f"{name}_isrexpands_total",
            "In-sync sets of partitions led here that gained a member.",
            self.isr_expands,
        )
        name = "kafka_controller_controllerstats"
        yield counter(
            f"{name}_leaderelectionrateandtimems_count",
            "Leaders that were elected while this broker was the controller.",
            self.elections,
        )
        yield counter(
            f"{name}_uncleanleaderelections_total",
            "Those of them that were not in the in-sync set: records may be lost.",
            self.unclean_elections,
        )
