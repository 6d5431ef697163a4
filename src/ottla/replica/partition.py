"""One partition as this broker holds it: the log, who leads it, and how far it is committed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ottla.cluster.image import Partition as State
from ottla.errors import ErrorCode, KafkaError
from ottla.records.batch import Origin
from ottla.records.control import Marker, build_marker
from ottla.replica.commits import Commit, Commits, Tell
from ottla.replica.leader import Followers
from ottla.replica.waiting import Waiting
from ottla.slices import FileSlice
from ottla.storage.log import Appended, Log

READ_UNCOMMITTED: Final = 0
READ_COMMITTED: Final = 1
LOG_END: Final = 2  # what followers read: all that is written
EPOCH_BUMP_FROM: Final = 2  # the transaction version whose markers raise the producer's epoch


class Read:
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
    """Leads or follows, as the cluster has it. HOT where it leads.

    Where we are the only replica everything written is committed at once (`followers` is None).
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
        """Led by us alone until `apply` says otherwise; that has a high watermark to start from."""
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
        self.version = -2  # of the state in the store; -1 is that of one which is not there yet
        self.followers: Followers | None = None
        end = log.end_offset
        known = end if high_watermark is None else max(log.start_offset, high_watermark)
        self.high_watermark = min(known, end)
        self.waiting = Waiting()  # for what is committed
        self.tail = Waiting()  # for what is written: followers
        self.commits = Commits()

    def __repr__(self) -> str:
        return f"Partition({self.topic}-{self.index})"

    @property
    def last_stable_offset(self) -> int:
        """Up to here every transaction is decided; what is deleted is no longer awaited."""
        log = self.log
        high_watermark = self.high_watermark
        if high_watermark < log.end_offset:  # a marker may be written and not be committed
            unstable = log.unstable_offset(high_watermark)
        else:
            unstable = log.first_unstable_offset
        if unstable is None or unstable > high_watermark:
            return high_watermark
        return max(unstable, log.start_offset)

    @property
    def min_isr(self) -> int:
        """As many replicas must be in sync; of fewer replicas all (as Kafka has it since 4.0)."""
        return min(self.log.config.min_insync_replicas, len(self.replicas))

    # Who leads

    @property
    def state(self) -> State:
        """The cluster's word on this partition, as far as we know it."""
        return State(
            index=self.index,
            replicas=self.replicas,
            leader=self.leader,
            leader_epoch=self.leader_epoch,
            isr=self.isr,
            version=self.version,
        )

    def apply(
        self, state: State, now_ms: int, *, live: Mapping[int, int], lag_max_ms: int, may_lead: bool
    ) -> None:
        """The cluster's word on this partition. One that is older than what we know is dropped.

        `may_lead` is False while we have no session: then we lead nothing, whatever is said.
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
            self._follow(changed)
        elif not self.leads or changed or was_first:
            self._lead(now_ms, live, lag_max_ms)
        else:
            self._changed(now_ms, live, lag_max_ms, settled=settled)

    def _lead(self, now_ms: int, live: Mapping[int, int], lag_max_ms: int) -> None:
        end = self.log.end_offset
        if self.leader_epoch != self.log.epochs.latest:
            self.log.epochs.assign(self.leader_epoch, end)
        if not self.leads:
            self.followers = None
        elif self.followers is not None:
            self.followers.renew(end, now_ms)
        self.leads = True
        self._changed(now_ms, live, lag_max_ms, settled=True)
        self.wake_all()

    def _changed(
        self, now_ms: int, live: Mapping[int, int], lag_max_ms: int, *, settled: bool
    ) -> None:
        """The replicas, or those in sync, are others than before.

        `settled`: the state in the store is another one, which decides what we have under way.
        """
        if self.replicas == (self.node_id,):
            self.followers = None
        elif self.followers is None:
            self.followers = Followers(
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
            self.tail.wake_all()  # who was taken out of the set is to be looked at again
        if len(self.isr) < self.min_isr:
            self.commits.too_few()
        self.advance(now_ms)

    def _follow(self, changed: bool) -> None:
        if not self.leads and not changed:
            return
        self.leads = False
        self.followers = None
        self.commits.end(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        self.wake_all()

    def end(self) -> None:
        """The partition is no longer here."""
        self._follow(changed=True)

    def wake_all(self) -> None:
        """Whoever waits is to look again. Those who wait for what is written come first: a resting
        partition (broker/sessions.py) takes this for news that can't wait, and hears it once."""
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
        """acks=all: nothing is written that would not be as safe as was asked for."""
        if self.followers is not None and len(self.isr) < self.min_isr:
            raise KafkaError(
                ErrorCode.NOT_ENOUGH_REPLICAS,
                f"{self.name} has {len(self.isr)} replica(s) in sync, {self.min_isr} are needed",
            )

    def on_committed(self, offset: int, tell: Tell, *, needs_min_isr: bool = False) -> None:
        """Tell NONE once all before `offset` is committed, or an error as soon as that is lost.

        At once where it is so already. With `needs_min_isr` too few replicas in sync is an error.
        """
        if not self.leads:
            tell(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        elif needs_min_isr and self.followers is not None and len(self.isr) < self.min_isr:
            tell(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
        elif self.high_watermark >= offset:
            tell(ErrorCode.NONE)
        else:
            self.commits.add(Commit(offset, tell, needs_min_isr))

    def advance(self, now_ms: int) -> None:
        """Move the high watermark to where it may be now; who waits for it is told."""
        followers = self.followers
        if not self.leads:
            return
        if followers is None:
            target = self.log.end_offset
        elif len(self.isr) < self.min_isr:  # KIP-966: what is committed has as many copies
            return
        else:
            target = followers.high_watermark(self.log.end_offset, now_ms)
        if target > self.high_watermark:
            self.high_watermark = target
            self.commits.reached(target)
            self.waiting.wake_all()

    def fetched(
        self, broker_id: int, offset: int, *, start_offset: int, broker_epoch: int, now_ms: int
    ) -> tuple[int, ...] | None:
        """A follower has all before `offset`. Gives the in-sync set with it, if it is to join."""
        followers = self.followers
        each = followers.get(broker_id) if followers is not None else None
        if followers is None or each is None:
            raise KafkaError(
                ErrorCode.UNKNOWN_LEADER_EPOCH, f"broker {broker_id} is no replica of {self.name}"
            )
        if -1 < broker_epoch < each.broker_epoch:
            raise self.not_leader()  # from an earlier life (KIP-903)
        each.broker_epoch = broker_epoch
        if start_offset > each.start_offset:
            each.start_offset = start_offset
            self.waiting.wake_all()  # somebody may wait until it has deleted what we have
        moved = offset != each.end_offset
        each.fetched(offset, self.log.end_offset, now_ms)
        if moved:
            self.advance(now_ms)
        if broker_id in self.isr:
            return None
        return followers.joining(broker_id, self.high_watermark)

    # Writing

    def append(self, data: memoryview, now_ms: int, *, origin: Origin = Origin.CLIENT) -> Appended:
        """HOT. A client's or a coordinator's batch, into the log as the leader writes it."""
        if not self.leads:
            raise self.not_leader()
        log = self.log
        try:
            appended = log.append(
                data, leader_epoch=self.leader_epoch, now_ms=now_ms, origin=origin
            )
        except KafkaError:
            if self.followers is None:
                self.high_watermark = log.end_offset  # it may be written, and not be on the disk
            raise
        if self.followers is None:
            self.high_watermark = log.end_offset
            if len(self.waiting):
                self.waiting.wake_all(appended.size)
            return appended
        if appended.size:
            self.followers.left_behind(appended.first_offset, now_ms)
        if len(self.tail):
            self.tail.wake_all(appended.size)
        if self.followers.alone:
            self.advance(now_ms)
        return appended

    def follow(self, data: memoryview, now_ms: int) -> Appended:
        """The leader's batches, as we fetched them."""
        assert not self.leads
        return self.log.append_as_follower(data, now_ms=now_ms)

    def follow_offsets(self, high_watermark: int, start_offset: int, now_ms: int) -> None:
        """What the leader has committed and what it has deleted, as far as we have it.

        A new leader may know less than its predecessor had told us, which is true still.
        """
        log = self.log
        if start_offset > log.start_offset:
            log.delete_records(min(start_offset, log.end_offset), now_ms)
        target = max(min(high_watermark, log.end_offset), log.start_offset)
        if target > self.high_watermark:
            self.high_watermark = target
            self.waiting.wake_all()

    def truncate(self, offset: int, now_ms: int) -> None:
        """The leader has other records from `offset` on, or none."""
        assert not self.leads
        self.log.truncate_to(offset, now_ms)
        self.high_watermark = min(self.high_watermark, self.log.end_offset)

    def restart(self, offset: int, now_ms: int) -> None:
        """The leader's log begins at `offset`, beyond our end: so does ours."""
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
    ) -> Appended:
        """The end of a producer's transaction here, as its coordinator has decided it."""
        producer = self.log.producer(producer_id)
        if producer is not None and transaction_version >= EPOCH_BUMP_FROM:
            producer.check_bumped(producer_epoch)
        batch = build_marker(
            marker, producer_id=producer_id, producer_epoch=producer_epoch, timestamp=now_ms
        )
        appended = self.append(memoryview(bytearray(batch)), now_ms, origin=Origin.COORDINATOR)
        self.log.unstable_offset(self.high_watermark)  # forgets what is decided for good
        return appended

    def read(self, offset: int, *, size_max: int, isolation: int, whole_first_batch: bool) -> Read:
        """Batches from the one that holds `offset`, as far as this reader may see."""
        log = self.log
        stable = self.last_stable_offset
        if isolation == LOG_END:
            end = log.end_offset
        else:
            end = stable if isolation == READ_COMMITTED else self.high_watermark
        # Where there is no room for a byte, all that is left to find out is whether the offset is
        # one of ours.
        visible = end if size_max > 0 or whole_first_batch else offset
        records = log.read(
            offset, size_max=size_max, end_offset=visible, whole_first_batch=whole_first_batch
        )
        aborted = None
        if isolation == READ_COMMITTED:
            aborted = []
            if records is not None:
                aborted = log.aborted(offset, log.end_of(records, offset, end))
        return Read(
            records=records,
            high_watermark=self.high_watermark,
            last_stable_offset=stable,
            start_offset=log.start_offset,
            aborted=aborted,
        )

    def is_cut(self, records: FileSlice, isolation: int) -> bool:
        """Whether more than `records`, which were read from the active segment, can be read now."""
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
        """Whether a reader of `offset` is in an older segment than the one that is written to."""
        return offset < self.log.segments.active.base_offset

    def epoch_end_offset(self, leader_epoch: int) -> tuple[int, int]:
        """The largest epoch up to this one, and where it ended here (KIP-101); -1, -1 if unknown.

        Our own epoch is known before anything was written in it.
        """
        if leader_epoch == self.leader_epoch:
            return leader_epoch, self.log.end_offset
        return self.log.epoch_end_offset(leader_epoch)

    def check_epoch(self, current_leader_epoch: int) -> None:
        """KIP-320: a reader that knows another leader than us is told so. -1 knows none."""
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
        self.wake_all()  # followers do the same when they hear of it
        return start

    @property
    def low_watermark(self) -> int:
        """From where on every live replica has its log."""
        start = self.log.start_offset
        return start if self.followers is None else self.followers.low_watermark(start)
