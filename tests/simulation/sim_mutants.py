"""Replication with one built-in fault, which proves that the simulation finds it.

Each is a mistake that systems like this one have made, or that a reader of the code may think
harmless. The faults are patched in here; the project's source has no switch for them.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from ottla.broker import partition_data, registration
from ottla.cluster import leader_election
from ottla.cluster.image import MetadataImage
from ottla.cluster.store import ANY_VERSION
from ottla.errors import ErrorCode
from ottla.replica import isr_writes
from ottla.replica.follower_progress import FollowerProgress
from ottla.replica.partition import Partition
from ottla.storage import follower_append

MUTANTS: dict[str, Callable[[], AbstractContextManager[Any]]] = {}
Mutant = Callable[[], AbstractContextManager[Any]]


def mutant(make: Mutant) -> Mutant:
    MUTANTS[make.__name__.replace("_", "-")] = make
    return make


@mutant
def high_watermark_of_the_minimal_set() -> AbstractContextManager[Any]:
    """A set that is being written counts at once where it is the smaller one."""

    def sort(self: FollowerProgress) -> None:
        minimal = set(self.isr)
        if self.pending is not None:
            minimal &= set(self.pending)
        self._in_sync = [
            follower for follower in self._followers.values() if follower.broker_id in minimal
        ]

    return patch.object(FollowerProgress, "_sort", sort)


@mutant
def truncation_by_high_watermark() -> AbstractContextManager[Any]:
    """What a follower did before KIP-101, when it had another leader."""
    follow = Partition._become_follower

    def cut(self: Partition, changed: bool) -> None:
        if changed and self.log.end_offset > self.high_watermark:
            self.log.truncate_to(self.high_watermark)
        follow(self, changed)

    return patch.object(Partition, "_become_follower", cut)


@mutant
def no_epoch_check() -> AbstractContextManager[Any]:
    """The leader does not look at the epoch of a follower's last record, so nothing is cut off."""
    return patch.object(partition_data, "diverging_partition_data", lambda partition, wanted: None)


@mutant
def unclean_election() -> AbstractContextManager[Any]:
    """Any live replica may lead, in sync or not."""
    return patch.object(leader_election, "unclean_by_config", lambda config: lambda topic: True)


@mutant
def the_dead_stay_in_sync() -> AbstractContextManager[Any]:
    """A restarted broker does not leave the ISRs of its last incarnation."""

    async def stay(*given: Any) -> None:
        pass

    return patch.object(registration, "leave_isrs_at_startup", stay)


@mutant
def acknowledged_by_the_leader_alone() -> AbstractContextManager[Any]:
    """acks=1 where acks=all was asked for."""

    def on_committed(self: Partition, offset: int, callback: Any, **given: Any) -> None:
        callback(ErrorCode.NONE)

    return patch.object(Partition, "on_committed", on_committed)


@mutant
def shown_before_it_is_committed() -> AbstractContextManager[Any]:
    """Consumers read to the end of the log."""
    read = Partition.read

    def read_all(self: Partition, offset: int, *, isolation: int, **given: Any) -> Any:
        return read(self, offset, isolation=2, **given)

    return patch.object(Partition, "read", read_all)


@mutant
def joined_before_it_has_all() -> AbstractContextManager[Any]:
    """A follower is in sync as soon as it fetches."""

    def joining(self: FollowerProgress, broker_id: int, high_watermark: int) -> Any:
        if self.pending is not None or broker_id in self.isr:
            return None
        return (*self.isr, broker_id)

    return patch.object(FollowerProgress, "joining", joining)


@mutant
def sets_written_without_a_version() -> AbstractContextManager[Any]:
    """The last writer wins."""

    alter_isr = isr_writes.alter_isr

    def put_anyway(image: Any, name: str, state: Any, *given: Any) -> Any:
        return alter_isr(image, name, replace(state, version=ANY_VERSION), *given)

    return patch.object(isr_writes, "alter_isr", put_anyway)


@mutant
def a_broker_that_shuts_down_is_taken_back() -> AbstractContextManager[Any]:
    """A leader checks neither the epoch nor the shutdown of a joining broker (before KIP-841)."""
    alter_isr = isr_writes.alter_isr

    def without_checks(image: Any, name: str, state: Any, isr: Any, epochs: Any) -> Any:
        return alter_isr(image, name, state, isr, {})

    def everybody(self: MetadataImage) -> dict[int, int]:
        return {broker.id: broker.epoch for broker in self.brokers.values()}

    both = ExitStack()
    both.enter_context(patch.object(isr_writes, "alter_isr", without_checks))
    both.enter_context(patch.object(MetadataImage, "active_epochs", everybody))
    return both


@mutant
def a_follower_forgets_producers() -> AbstractContextManager[Any]:
    """After a failover a retried batch is not recognised."""
    append = follower_append.append_as_follower

    def forget(log: Any, data: Any, now_ms: int) -> Any:
        with patch.object(type(log), "update_producers", lambda self, data, headers: None):
            return append(log, data, now_ms)

    return patch.object(follower_append, "append_as_follower", forget)


@mutant
def a_leader_without_an_epoch_of_its_own() -> AbstractContextManager[Any]:
    """A new leader continues in its predecessor's epoch."""

    def led(partition: Any, leader: int, isr: Any) -> Any:
        from dataclasses import replace

        return replace(partition, leader=leader, isr=tuple(isr))

    return patch.object(leader_election, "_with_elected", led)
