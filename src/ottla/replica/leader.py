"""What a leader knows of its followers, and what follows from that; no I/O, time is an argument.

The rules, all of them here:

- A follower that fetches from an offset has written all before it. When it fetches, it is caught up
  as of now if that is the leader's end, and as of its last fetch if it has what was there then. One
  that is at the leader's end stays caught up until the leader goes on.
- The high watermark is the least end over the maximal in-sync set: the committed one, together with
  a follower whose addition is being written. So it never passes what a set that may already be the
  committed one holds. A removal counts when the store has answered.
- A follower that is caught up and may join is waited for as well: else it would run after a high
  watermark that each append moves on, and never join under load.
- It may join when it has reached the high watermark and the start of the leader's epoch, and when
  it lives in the life (broker epoch) that the cluster knows (KIP-903) and isn't shutting down
  (KIP-841).
- One that has not been caught up for replica.lag.time.max.ms is to leave.
- Only one change of the set is under way at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

UNKNOWN: Final = -1


class Follower:
    """One follower's progress, as its fetches tell it."""

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
        return f"Follower({self.broker_id}, end {self.end_offset})"

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


class Followers:
    """The followers of a partition that we lead, in one epoch of leadership.

    `live` are the brokers that may be in sync, with the epoch of each; somebody else keeps it.
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
        self._followers: dict[int, Follower] = {}
        self._in_sync: list[Follower] = []  # those of the maximal set
        self.epoch_start = epoch_start
        self.isr: tuple[int, ...] = ()  # as committed
        self.pending: tuple[int, ...] | None = None  # a set that is being written
        self.commit(isr, replicas, now_ms, settled=True)

    def __iter__(self) -> Iterator[Follower]:
        return iter(self._followers.values())

    def get(self, broker_id: int) -> Follower | None:
        return self._followers.get(broker_id)

    @property
    def alone(self) -> bool:
        """Nobody else is in the maximal set: what we append may be committed by that alone."""
        return not self._in_sync

    def commit(
        self, isr: Sequence[int], replicas: Sequence[int], now_ms: int, *, settled: bool
    ) -> None:
        """The store has this set, and these replicas; if that is news, nothing is under way."""
        self.isr = tuple(isr)
        if settled:
            self.pending = None
        for broker_id in [each for each in self._followers if each not in replicas]:
            del self._followers[broker_id]
        for broker_id in replicas:
            if broker_id != self._node_id and broker_id not in self._followers:
                caught_up_ms = now_ms if broker_id in self.isr else -self._lag_max_ms - 1
                self._followers[broker_id] = Follower(broker_id, caught_up_ms)
        self._sort()

    def renew(self, epoch_start: int, now_ms: int) -> None:
        """We lead on in a later epoch: what followers have said of our log is still true."""
        self.epoch_start = epoch_start
        for each in self._in_sync:
            each.caught_up_ms = max(each.caught_up_ms, now_ms)

    def begin(self, isr: Sequence[int]) -> None:
        """This set is being written: until its fate is known the larger one counts."""
        assert self.pending is None
        self.pending = tuple(isr)
        self._sort()

    def give_up(self) -> None:
        """It was not written, and never will be."""
        self.pending = None
        self._sort()

    def _sort(self) -> None:
        maximal = set(self.isr)
        if self.pending is not None:
            maximal.update(self.pending)
        self._in_sync = [each for each in self._followers.values() if each.broker_id in maximal]

    def left_behind(self, leader_end: int, now_ms: int) -> None:
        """The leader goes on from `leader_end`: who was there has been caught up until now."""
        for each in self._followers.values():
            if each.end_offset == leader_end and each.caught_up_ms < now_ms:
                each.caught_up_ms = now_ms

    # What follows from it

    def high_watermark(self, leader_end: int, now_ms: int) -> int:
        """As far as the maximal set has come; UNKNOWN while one of it has not said."""
        least = leader_end
        for each in self._in_sync:
            if each.end_offset < least:
                least = each.end_offset
        if len(self._in_sync) < len(self._followers):
            for each in self._followers.values():
                if each.end_offset < least and self._is_joining(each, leader_end, now_ms):
                    least = each.end_offset
        return least

    def _is_joining(self, each: Follower, leader_end: int, now_ms: int) -> bool:
        return self.is_eligible(each) and each.is_caught_up(leader_end, now_ms, self._lag_max_ms)

    def is_eligible(self, each: Follower) -> bool:
        """True if it is registered in the life that fetches, and isn't shutting down."""
        return each.broker_epoch >= 0 and self._live.get(each.broker_id) == each.broker_epoch

    def joining(self, broker_id: int, high_watermark: int) -> tuple[int, ...] | None:
        """The set with this follower in it, if it is to join now."""
        each = self._followers.get(broker_id)
        if (
            each is None
            or self.pending is not None
            or broker_id in self.isr
            or each.end_offset < max(high_watermark, self.epoch_start)
            or not self.is_eligible(each)
        ):
            return None
        return (*self.isr, broker_id)

    def lagging(self, leader_end: int, now_ms: int) -> tuple[int, ...] | None:
        """The set without those who have lagged for too long, if there are any."""
        for each in self._followers.values():  # a clock may be set back: then from now on
            each.caught_up_ms = min(each.caught_up_ms, now_ms)
        if self.pending is not None:
            return None
        late = {
            each.broker_id
            for each in self._followers.values()
            if each.broker_id in self.isr
            and not each.is_caught_up(leader_end, now_ms, self._lag_max_ms)
        }
        if not late:
            return None
        return tuple(each for each in self.isr if each not in late)

    def low_watermark(self, leader_start: int) -> int:
        """From where on every live replica has its log (DeleteRecords)."""
        starts = [each.start_offset for each in self if each.broker_id in self._live]
        return min([leader_start, *starts])
