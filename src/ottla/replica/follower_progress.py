"""What a leader knows about its followers, and what it decides from that. No I/O; time is an
argument.

All rules of the in-sync set (ISR) and of the high watermark are here:

- A follower that fetches from an offset has written everything before it. If that offset is the
  leader's end, it is caught up as of now. If it is where the leader's log ended at the previous
  fetch, the follower was caught up as of that fetch. At the leader's end it stays caught up until
  the leader appends more.
- The high watermark is the least end offset over the maximal ISR: the committed ISR, together with
  a follower whose addition is being written. Because that addition may already be committed, the
  high watermark must not pass what the larger set holds. A removal counts when the store has
  answered.
- The high watermark also waits for a follower that is caught up and may join. Otherwise each append
  would move it on, and under load the follower would never reach it.
- A follower may join when it has reached the high watermark and the start of the leader's epoch,
  when it fetches in the broker epoch that the cluster knows (KIP-903), and when it is not shutting
  down (KIP-841).
- A follower that has not been caught up for replica.lag.time.max.ms leaves the ISR.
- Only one change of the ISR is under way at a time. Two at once could be committed in either order,
  and the maximal ISR would have to cover every combination.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

UNKNOWN: Final = -1


class FollowerState:
    """One follower's progress, as its fetches show it."""

    __slots__ = (
        "broker_epoch",
        "broker_id",
        "caught_up_ms",
        "end_offset",
        "fetched_ms",
        "leader_end",
        "start_offset",
    )

    def __init__(self, broker_id: int, caught_up_ms: int) -> None:
        self.broker_id = broker_id
        self.broker_epoch = UNKNOWN
        self.end_offset = UNKNOWN
        self.start_offset = UNKNOWN
        self.caught_up_ms = caught_up_ms
        self.fetched_ms = 0
        self.leader_end = UNKNOWN  # where the leader's log ended when it last fetched

    def __repr__(self) -> str:
        return f"FollowerState({self.broker_id}, end {self.end_offset})"

    def fetched(self, offset: int, leader_end: int, now_ms: int) -> None:
        if offset >= leader_end:
            self.caught_up_ms = max(self.caught_up_ms, now_ms)
        elif self.leader_end >= 0 and offset >= self.leader_end:
            self.caught_up_ms = max(self.caught_up_ms, self.fetched_ms)
        self.end_offset = offset
        self.leader_end = leader_end
        self.fetched_ms = now_ms

    def is_caught_up(self, leader_end: int, now_ms: int, lag_max_ms: int) -> bool:
        return self.end_offset == leader_end or now_ms - self.caught_up_ms <= lag_max_ms


class FollowerProgress:
    """The followers of a partition that this broker leads.

    `live` maps the brokers that may be in sync to their epochs. `Partitions` keeps it up to date.
    """

    __slots__ = (
        "_followers",
        "_in_sync",
        "_lag_max_ms",
        "_live",
        "_node_id",
        "epoch_start",
        "isr",
        "pending",
    )

    def __init__(
        self,
        node_id: int,
        *,
        epoch_start: int,
        isr: Sequence[int],
        replicas: Sequence[int],
        live: Mapping[int, int],
        lag_max_ms: int,
        now_ms: int,
    ) -> None:
        self._node_id = node_id
        self._live = live
        self._lag_max_ms = lag_max_ms
        self._followers: dict[int, FollowerState] = {}
        self._in_sync: list[FollowerState] = []  # the members of the maximal ISR
        self.epoch_start = epoch_start
        self.isr: tuple[int, ...] = ()  # as committed
        self.pending: tuple[int, ...] | None = None  # an ISR that is being written
        self.commit(isr, replicas, now_ms, settled=True)

    def __iter__(self) -> Iterator[FollowerState]:
        return iter(self._followers.values())

    def get(self, broker_id: int) -> FollowerState | None:
        return self._followers.get(broker_id)

    @property
    def alone(self) -> bool:
        """True if no follower is in the maximal ISR: then an append may be committed at once."""
        return not self._in_sync

    def commit(
        self, isr: Sequence[int], replicas: Sequence[int], now_ms: int, *, settled: bool
    ) -> None:
        """The store has this ISR and these replicas.

        `settled`: this is a newer state than before, so the write under way is decided.
        """
        self.isr = tuple(isr)
        if settled:
            self.pending = None
        for broker_id in [known for known in self._followers if known not in replicas]:
            del self._followers[broker_id]
        for broker_id in replicas:
            if broker_id != self._node_id and broker_id not in self._followers:
                caught_up_ms = now_ms if broker_id in self.isr else -self._lag_max_ms - 1
                self._followers[broker_id] = FollowerState(broker_id, caught_up_ms)
        self._sort()

    def renew(self, epoch_start: int, now_ms: int) -> None:
        """This broker still leads, in a later epoch. What it knows about followers remains true."""
        self.epoch_start = epoch_start
        for follower in self._in_sync:
            follower.caught_up_ms = max(follower.caught_up_ms, now_ms)

    def begin(self, isr: Sequence[int]) -> None:
        """This ISR is being written: until the outcome is known, the larger set counts."""
        assert self.pending is None
        assert self._node_id in isr  # a leader is always in sync with itself
        self.pending = tuple(isr)
        self._sort()

    def give_up(self) -> None:
        """The pending ISR was not written, and never will be."""
        self.pending = None
        self._sort()

    def _sort(self) -> None:
        maximal = set(self.isr)
        if self.pending is not None:
            maximal.update(self.pending)
        self._in_sync = [
            follower for follower in self._followers.values() if follower.broker_id in maximal
        ]

    def left_behind(self, leader_end: int, now_ms: int) -> None:
        """The leader appends at `leader_end`: followers that are there were caught up until now."""
        for follower in self._followers.values():
            if follower.end_offset == leader_end and follower.caught_up_ms < now_ms:
                follower.caught_up_ms = now_ms

    # Decisions

    def high_watermark(self, leader_end: int, now_ms: int) -> int:
        """The least end offset of the maximal ISR; UNKNOWN until each member has fetched."""
        least = leader_end
        for follower in self._in_sync:
            if follower.end_offset < least:
                least = follower.end_offset
        # Wait for followers that are about to join, too: see the rules above.
        if len(self._in_sync) < len(self._followers):
            for follower in self._followers.values():
                if follower.end_offset < least and self._is_joining(follower, leader_end, now_ms):
                    least = follower.end_offset
        return least

    def _is_joining(self, follower: FollowerState, leader_end: int, now_ms: int) -> bool:
        caught_up = follower.is_caught_up(leader_end, now_ms, self._lag_max_ms)
        return caught_up and self.is_eligible(follower)

    def is_eligible(self, follower: FollowerState) -> bool:
        """True if it fetches in the broker epoch that is registered, and is not shutting down."""
        epoch = follower.broker_epoch
        return epoch >= 0 and self._live.get(follower.broker_id) == epoch

    def joining(self, broker_id: int, high_watermark: int) -> tuple[int, ...] | None:
        """The ISR with this follower in it, if it is to join now."""
        follower = self._followers.get(broker_id)
        if (
            follower is None
            or self.pending is not None
            or broker_id in self.isr
            # Behind the epoch's start it may still have records that this leader never had.
            or follower.end_offset < max(high_watermark, self.epoch_start)
            or not self.is_eligible(follower)
        ):
            return None
        return (*self.isr, broker_id)

    def lagging(self, leader_end: int, now_ms: int) -> tuple[int, ...] | None:
        """The ISR without the followers that have lagged for too long, if there are any."""
        for follower in self._followers.values():  # the clock may have been set back
            follower.caught_up_ms = min(follower.caught_up_ms, now_ms)
        if self.pending is not None:
            return None
        late = {
            follower.broker_id
            for follower in self._followers.values()
            if follower.broker_id in self.isr
            and not follower.is_caught_up(leader_end, now_ms, self._lag_max_ms)
        }
        if not late:
            return None
        return tuple(broker_id for broker_id in self.isr if broker_id not in late)

    def low_watermark(self, leader_start: int) -> int:
        """The offset before which every live replica has deleted its records (DeleteRecords)."""
        starts = [follower.start_offset for follower in self if follower.broker_id in self._live]
        return min([leader_start, *starts])
