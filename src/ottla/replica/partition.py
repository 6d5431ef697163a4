"""One partition as this broker holds it: the log, who leads it, and how far it is committed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ottla.cluster.image import PartitionRegistration
from ottla.errors import ErrorCode, KafkaError
from ottla.records.batch import AppendOrigin
from ottla.records.control import Marker, build_marker
from ottla.replica.commit_waiters import CommitCallback, CommitWaiter, CommitWaiters
from ottla.replica.follower_progress import FollowerProgress
from ottla.replica.watchers import Watchers
from ottla.slices import FileSlice
from ottla.storage.log import Log, LogAppendInfo

READ_UNCOMMITTED: Final = 0
READ_COMMITTED: Final = 1
LOG_END: Final = 2  # what followers read: all that is written
EPOCH_BUMP_FROM: Final = 2  # the transaction version whose markers raise the producer's epoch


class LogReadResult:
    """What a fetch found in one partition."""

    __slots__ = ("aborted", "high_watermark", "last_stable_offset", "records", "start_offset")

    def __init__(
        self,
        *,
        records: FileSlice | None,
        high_watermark: int,
        last_stable_offset: int,
        start_offset: int,
        aborted: list[tuple[int, int]] | None,
    ) -> None:
        self.records = records
        self.high_watermark = high_watermark
        self.last_stable_offset = last_stable_offset
        self.start_offset = start_offset
        self.aborted = aborted


class Partition:
    """One replica, which leads or follows as the cluster's image says. HOT where it leads.

    `followers` is None if this is the only replica: then everything written is committed at once.
    """

    __slots__ = (
        "commits",
        "followers",
        "high_watermark",
        "index",
        "isr",
        "leader",
        "leader_epoch",
        "leads",
        "log",
        "node_id",
        "replicas",
        "tail",
        "topic",
        "topic_id",
        "version",
        "waiting",
    )

    def __init__(
        self,
        topic: str,
        index: int,
        *,
        topic_id: bytes,
        leader_epoch: int,
        log: Log,
        node_id: int = 0,
        high_watermark: int | None = None,
    ) -> None:
        """Until `apply` it follows if there is a high watermark (of the checkpoint), else leads."""
        self.topic = topic
        self.index = index
        self.topic_id = topic_id
        self.log = log
        self.node_id = node_id
        self.leader = node_id
        self.leader_epoch = leader_epoch
        self.leads = high_watermark is None
        self.replicas: tuple[int, ...] = (node_id,)
        self.isr: tuple[int, ...] = (node_id,)
        self.version = -2  # of the state in the store, where -1 means that it does not exist yet
        self.followers: FollowerProgress | None = None
        end = log.end_offset
        known = end if high_watermark is None else max(log.start_offset, high_watermark)
        self.high_watermark = min(known, end)
        self.waiting = Watchers()  # consumers: called when more is committed
        self.tail = Watchers()  # followers: called when more is written
        self.commits = CommitWaiters()

    def __repr__(self) -> str:
        return f"Partition({self.topic}-{self.index})"

    @property
    def last_stable_offset(self) -> int:
        """Every transaction that began below it is decided; read_committed reads up to it.

        It is never below the log's start: DeleteRecords and retention may delete the first records
        of an open transaction.
        """
        log = self.log
        high_watermark = self.high_watermark
        # A marker above the high watermark is not committed: a new leader may not have it. So its
        # transaction still counts as open.
        if high_watermark < log.end_offset:
            unstable = log.unstable_offset(high_watermark)
        else:
            unstable = log.first_unstable_offset
        if unstable is None or unstable > high_watermark:
            return high_watermark
        return max(unstable, log.start_offset)

    @property
    def min_isr(self) -> int:
        """min.insync.replicas, but no more than there are replicas (as in Kafka since 4.0)."""
        return min(self.log.config.min_insync_replicas, len(self.replicas))

    # Leader and follower

    @property
    def state(self) -> PartitionRegistration:
        """The state in the metadata store, as far as this broker knows it."""
        return PartitionRegistration(
            index=self.index,
            replicas=self.replicas,
            leader=self.leader,
            leader_epoch=self.leader_epoch,
            isr=self.isr,
            version=self.version,
        )

    def apply(
        self,
        state: PartitionRegistration,
        now_ms: int,
        *,
        live: Mapping[int, int],
        lag_max_ms: int,
        may_lead: bool,
    ) -> None:
        """Take over a state from the metadata store. A state that is older than ours is ignored.

        `may_lead` is False while this broker is not registered. Another broker may lead by then, so
        this one leads nothing, whatever the state says.
        """
        if (state.leader_epoch, state.version) < (self.leader_epoch, self.version):
            return
        settled = (state.leader_epoch, state.version) != (self.leader_epoch, self.version)
        if not settled and self.leads == may_lead and state.replicas == self.replicas:
            return
        changed = state.leader_epoch != self.leader_epoch or state.leader != self.leader
        was_first = self.version == -2
        self.leader, self.leader_epoch = state.leader, state.leader_epoch
        self.replicas, self.isr, self.version = state.replicas, state.isr, state.version
        if state.leader != self.node_id or not may_lead:
            self._become_follower(changed)
        elif not self.leads or changed or was_first:
            self._become_leader(now_ms, live, lag_max_ms)
        else:
            self._update_replicas(now_ms, live, lag_max_ms, settled=settled)

    def _become_leader(self, now_ms: int, live: Mapping[int, int], lag_max_ms: int) -> None:
        end = self.log.end_offset
        # Noted before the first record of the epoch. After two elections in a row a follower may
        # have records of an epoch that this log lacks. It learns where to truncate only if this log
        # knows a later epoch than any that the follower can ask for (KIP-101).
        self.log.begin_epoch(self.leader_epoch)
        if not self.leads:
            self.followers = None  # the progress of an earlier time as leader is worth nothing
        elif self.followers is not None:
            self.followers.renew(end, now_ms)
        self.leads = True
        self._update_replicas(now_ms, live, lag_max_ms, settled=True)
        self.wake_all()

    def _update_replicas(
        self, now_ms: int, live: Mapping[int, int], lag_max_ms: int, *, settled: bool
    ) -> None:
        """The replicas or the ISR have changed.

        `settled`: the state in the store is newer than ours. So the ISR write under way has either
        succeeded or lost against it, and is no longer pending.
        """
        if self.replicas == (self.node_id,):
            self.followers = None
        elif self.followers is None:
            self.followers = FollowerProgress(
                self.node_id,
                epoch_start=self.log.end_offset,
                isr=self.isr,
                replicas=self.replicas,
                live=live,
                lag_max_ms=lag_max_ms,
                now_ms=now_ms,
            )
        else:
            self.followers.commit(self.isr, self.replicas, now_ms, settled=settled)
            self.tail.wake_all()  # a follower that was removed from the ISR may join again
        if len(self.isr) < self.min_isr:
            self.commits.too_few()
        self.advance(now_ms)

    def _become_follower(self, changed: bool) -> None:
        if not self.leads and not changed:
            return
        self.leads = False
        self.followers = None
        # The records may yet be committed, by the next leader, or be truncated: the producer has to
        # ask there.
        self.commits.end(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        self.wake_all()

    def end(self) -> None:
        """The partition was deleted on this broker."""
        self._become_follower(changed=True)

    def wake_all(self) -> None:
        """Wake every request that waits. `tail` comes first: a partition that is caught up
        (`CaughtUpPartition`) is registered in both, and only a call from `tail` wakes its follower
        at once."""
        self.tail.wake_all()
        self.waiting.wake_all()

    def check_leads(self) -> None:
        if not self.leads:
            raise self.not_leader()

    def not_leader(self) -> KafkaError:
        return KafkaError(
            ErrorCode.NOT_LEADER_OR_FOLLOWER, f"broker {self.node_id} does not lead {self.name}"
        )

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.index}"

    # Committing

    def check_min_isr(self) -> None:
        """Refuse a batch with acks=all that would have fewer copies than min.insync.replicas."""
        if self.followers is not None and len(self.isr) < self.min_isr:
            raise KafkaError(
                ErrorCode.NOT_ENOUGH_REPLICAS,
                f"The size of the current ISR {list(self.isr)} is insufficient to satisfy the "
                f"min.isr requirement of {self.min_isr} for partition {self.name}",
            )

    def on_committed(
        self, offset: int, callback: CommitCallback, *, needs_min_isr: bool = False
    ) -> None:
        """Call `callback` with NONE when everything before `offset` is committed.

        It gets an error if this broker stops leading first or, with `needs_min_isr`, if the ISR
        shrinks below min.insync.replicas. If the outcome is known already, it is called at once.
        """
        if not self.leads:
            callback(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        elif needs_min_isr and self.followers is not None and len(self.isr) < self.min_isr:
            callback(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
        elif self.high_watermark >= offset:
            callback(ErrorCode.NONE)
        else:
            self.commits.add(CommitWaiter(offset, callback, needs_min_isr))

    def advance(self, now_ms: int) -> None:
        """Move the high watermark as far as the followers allow, and wake waiting requests."""
        followers = self.followers
        if not self.leads:
            return
        if followers is None:
            target = self.log.end_offset
        elif len(self.isr) < self.min_isr:
            return  # KIP-966: what is committed has at least min.insync.replicas copies
        else:
            target = followers.high_watermark(self.log.end_offset, now_ms)
        assert target <= self.log.end_offset  # nothing is committed that the leader does not have
        # It never moves back: consumers have read up to here. A new leader's followers may fetch
        # from further back for a while, until their fetches show what they have.
        if target > self.high_watermark:
            self.high_watermark = target
            self.commits.reached(target)
            self.waiting.wake_all()

    def fetched(
        self, broker_id: int, offset: int, *, start_offset: int, broker_epoch: int, now_ms: int
    ) -> tuple[int, ...] | None:
        """A follower has everything before `offset`. Returns the ISR with it, if it is to join."""
        followers = self.followers
        follower = followers.get(broker_id) if followers is not None else None
        if followers is None or follower is None:
            raise KafkaError(
                ErrorCode.UNKNOWN_LEADER_EPOCH,
                f"broker {broker_id} is not a replica of {self.name}",
            )
        if -1 < broker_epoch < follower.broker_epoch:
            raise self.not_leader()  # sent before the broker restarted (KIP-903)
        follower.broker_epoch = broker_epoch
        if start_offset > follower.start_offset:
            follower.start_offset = start_offset
            self.waiting.wake_all()  # a DeleteRecords request may wait for this
        moved = offset != follower.end_offset
        follower.fetched(offset, self.log.end_offset, now_ms)
        if moved:
            self.advance(now_ms)
        if broker_id in self.isr:
            return None
        return followers.joining(broker_id, self.high_watermark)

    # Writing

    def append(
        self, data: memoryview, now_ms: int, *, origin: AppendOrigin = AppendOrigin.CLIENT
    ) -> LogAppendInfo:
        """HOT. Append a client's or a coordinator's batch, as the leader."""
        if not self.leads:
            raise self.not_leader()
        log = self.log
        try:
            appended = log.append(
                data, leader_epoch=self.leader_epoch, now_ms=now_ms, origin=origin
            )
        except KafkaError:
            if self.followers is None:
                # The batch may be in the log although flushing it failed. With one replica all that
                # is in the log is committed.
                self.high_watermark = log.end_offset
            raise
        if self.followers is None:
            self.high_watermark = log.end_offset
            if len(self.waiting):
                self.waiting.wake_all(appended.size)
            return appended
        if appended.size:
            # Followers at the end were caught up until now; their lag counts from here.
            self.followers.left_behind(appended.first_offset, now_ms)
        if len(self.tail):
            self.tail.wake_all(appended.size)
        if self.followers.alone:  # no fetch of a follower would ever move the high watermark
            self.advance(now_ms)
        return appended

    def follow(self, data: memoryview, now_ms: int) -> LogAppendInfo:
        """Append the leader's batches, as a follower."""
        assert not self.leads
        return self.log.append_as_follower(data, now_ms=now_ms)

    def follow_offsets(self, high_watermark: int, start_offset: int, now_ms: int) -> None:
        """Take over the leader's high watermark and start, as far as our own log reaches.

        The high watermark never moves back: a new leader may know less at first than its
        predecessor did, but what was committed remains committed.
        """
        assert not self.leads
        log = self.log
        if start_offset > log.start_offset:
            log.delete_records(min(start_offset, log.end_offset), now_ms)
        target = max(min(high_watermark, log.end_offset), log.start_offset)
        if target > self.high_watermark:
            self.high_watermark = target
            self.waiting.wake_all()

    def truncate(self, offset: int, now_ms: int) -> None:
        """Cut off our records from `offset` on: the leader has others there, or none."""
        assert not self.leads
        self.log.truncate_to(offset, now_ms)
        # The high watermark falls only after an unclean election: any other leader has all that was
        # committed, so nothing below the high watermark is cut off.
        self.high_watermark = min(self.high_watermark, self.log.end_offset)

    def restart(self, offset: int, now_ms: int) -> None:
        """Begin an empty log at `offset`, where the leader's log begins, beyond our end."""
        assert not self.leads
        self.log.truncate_fully_and_start_at(offset, now_ms)
        self.high_watermark = offset

    def append_marker(
        self,
        marker: Marker,
        *,
        producer_id: int,
        producer_epoch: int,
        transaction_version: int,
        now_ms: int,
    ) -> LogAppendInfo:
        """Write the marker that ends a producer's transaction in this partition.

        From then on a later batch of that transaction would begin a new one, which nobody ends. So
        with transaction version 2 the marker has to raise the producer's epoch (KIP-890): such a
        batch is then fenced.
        """
        producer = self.log.producer(producer_id)
        if producer is not None and transaction_version >= EPOCH_BUMP_FROM:
            producer.check_bumped(producer_epoch)
        batch = build_marker(
            marker, producer_id=producer_id, producer_epoch=producer_epoch, timestamp=now_ms
        )
        appended = self.append(
            memoryview(bytearray(batch)), now_ms, origin=AppendOrigin.COORDINATOR
        )
        self.log.unstable_offset(self.high_watermark)  # forgets transactions that are decided
        return appended

    def read(
        self, offset: int, *, size_max: int, isolation: int, whole_first_batch: bool
    ) -> LogReadResult:
        """Batches from the one that holds `offset` on, as far as the isolation level allows."""
        log = self.log
        stable = self.last_stable_offset
        if isolation == LOG_END:
            end = log.end_offset
        else:
            end = stable if isolation == READ_COMMITTED else self.high_watermark
        # Without room for a single byte, only the offset is checked.
        visible = end if size_max > 0 or whole_first_batch else offset
        records = log.read(
            offset, size_max=size_max, end_offset=visible, whole_first_batch=whole_first_batch
        )
        aborted = None
        if isolation == READ_COMMITTED:
            # Below the last stable offset every transaction is decided. The consumer skips the
            # records of the aborted ones by this list; it cannot tell them by the records.
            aborted = []
            if records is not None:
                aborted = log.aborted(offset, log.end_of(records, offset, end))
        return LogReadResult(
            records=records,
            high_watermark=self.high_watermark,
            last_stable_offset=stable,
            start_offset=log.start_offset,
            aborted=aborted,
        )

    def is_cut(self, records: FileSlice, isolation: int) -> bool:
        """True if there is more to read than `records`, which come from the active segment."""
        active = self.log.segments.active
        end = active.size
        if isolation != LOG_END:
            seen = self.high_watermark
            if isolation == READ_COMMITTED:
                seen = self.last_stable_offset
            if seen < self.log.end_offset:
                end = active.position_of(seen)
        return records.position + records.size < end

    def is_behind(self, offset: int) -> bool:
        """True if a reader of `offset` is in an older segment than the active one."""
        return offset < self.log.segments.active.base_offset

    def epoch_end_offset(self, leader_epoch: int) -> tuple[int, int]:
        """The largest epoch up to this one, and where it ends here (KIP-101); -1, -1 if unknown.

        The current epoch is known even before its first record.
        """
        if leader_epoch == self.leader_epoch:
            return leader_epoch, self.log.end_offset
        return self.log.epoch_end_offset(leader_epoch)

    def check_epoch(self, current_leader_epoch: int) -> None:
        """KIP-320: refuse a reader that knows another leader epoch; -1 stands for none."""
        if current_leader_epoch < 0 or current_leader_epoch == self.leader_epoch:
            return
        if current_leader_epoch < self.leader_epoch:
            raise KafkaError(ErrorCode.FENCED_LEADER_EPOCH)
        raise KafkaError(ErrorCode.UNKNOWN_LEADER_EPOCH)

    def delete_records(self, before_offset: int, now_ms: int) -> int:
        """Move the log's start; -1 means the high watermark. Returns the new start."""
        target = self.high_watermark if before_offset == -1 else before_offset
        if target < 0 or target > self.high_watermark:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"{self.topic}-{self.index} holds offsets {self.log.start_offset} to "
                f"{self.high_watermark}; {before_offset} is not among them",
            )
        start = self.log.delete_records(target, now_ms)
        self.wake_all()  # followers delete the same when the next response names the new start
        return start

    @property
    def low_watermark(self) -> int:
        """The offset from which every live replica has the log."""
        start = self.log.start_offset
        return start if self.followers is None else self.followers.low_watermark(start)
