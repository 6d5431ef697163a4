"""A share-partition as a transcript: one event on a line, and below it the results.

    produce 5 [aborted]              a batch of 5 records
    delay 3 60s                      record 3 is not delivered before that time
    dead letters                     the group has a dead letter queue from now on
    sent 0-4                         these are in the dead letter queue
    fetch MEMBER [max 3] [strict]    the acquired records: offsets xdelivery
    MEMBER accept 0-4 7              also release, reject, gap, renew
    close MEMBER                     its session ends
    pass 30s                         time goes by
    cut 7                            the log now begins at offset 7
    fail                             the next write to the topic of states fails
    restart                          only the topic of states is left

Lines indented by two spaces are results: acquired records, stored states, errors, and finally the
start and next offset of the share-partition.
"""

from __future__ import annotations

from ottla.coordinator.share.partition import (
    AcquireLimits,
    BatchSpan,
    DeadRecords,
    ShareAcknowledgementBatch,
    SharePartition,
    SharePartitionLimits,
    StateTransition,
)
from ottla.coordinator.share.record_state import AcknowledgeType
from ottla.coordinator.share.shard import ShareCoordinatorShard, SharePartitionWrite
from ottla.coordinator.share.state_records import SharePartitionKey
from ottla.errors import ErrorCode, KafkaError
from ottla.records.record import Record

KEY = SharePartitionKey("group", b"t" * 16, 0)
KINDS = {kind.name.lower(): kind for kind in AcknowledgeType}


class SharePlay:
    """A partition, its log, and the topic of its state."""

    def __init__(self) -> None:
        self.now_ms = 0
        self.batches: list[BatchSpan] = []
        self.stored: list[tuple[bytes, bytes | None]] = []
        self.fails = False
        self.due_ms: dict[int, int] = {}  # by offset
        self.limits = SharePartitionLimits()
        self.received: list[str] = []
        self.states = ShareCoordinatorShard(0, updates_per_snapshot=4)
        event = self.states.new_event(0)
        self.states.initialize(KEY, state_epoch=0, start_offset=0, event=event)
        self.stored += event.result.records
        self.partition = SharePartition(0, limits=self.limits)

    def play(self, line: str) -> list[str]:
        self.received = []
        words = line.split()
        match words:
            case ["produce", count, *more]:
                first = self.batches[-1].last + 1 if self.batches else 0
                self.batches.append(BatchSpan(first, first + int(count) - 1, "aborted" in more))
            case ["delay", offset, time]:
                self.due_ms[int(offset)] = int(time.removesuffix("s")) * 1000
            case ["dead", "letters"]:
                self.limits = self.partition.limits = SharePartitionLimits(dead_letters=True)
            case ["sent", ranges]:
                first, _, last = ranges.partition("-")
                self.store(self.partition.archive(int(first), int(last or first)))
            case ["fetch", member, *more]:
                self.fetch(member, more)
            case ["close", member]:
                self.store(self.partition.release(member))
            case ["pass", time]:
                self.now_ms += int(time.removesuffix("s")) * 1000
                due_ms = self.partition.next_deadline_ms()
                if due_ms is not None and due_ms <= self.now_ms:
                    self.store(self.partition.expire(self.now_ms))
            case ["cut", offset]:
                self.partition.move_log_start(int(offset))
                self.batches = [span for span in self.batches if span.last >= int(offset)]
            case ["fail"]:
                self.fails = True
            case ["restart"]:
                self.restart()
            case [member, kind, *ranges]:
                self.acknowledge(member, KINDS[kind], ranges)
        following = self.partition.fetch_offset()
        end = "nothing more for now" if following is None else f"next {following}"
        self.received.append(f"start {self.partition.start_offset}, {end}")
        return self.received

    def fetch(self, member: str, more: list[str]) -> None:
        offset = self.partition.fetch_offset()
        if offset is None:
            return
        most = int(more[more.index("max") + 1]) if "max" in more else 500
        given = self.partition.acquire(
            member,
            [span for span in self.batches if span.last >= offset],
            fetch_offset=offset,
            acquire_limits=AcquireLimits(most, 500, "strict" in more),
            now_ms=self.now_ms,
            delays=self.delays,
        )
        for run in given:
            self.received.append(f"{member} has {run.first}-{run.last} x{run.delivery_count}")

    def delays(self, span: BatchSpan) -> list[tuple[int, int]]:
        return [due for due in self.due_ms.items() if span.first <= due[0] <= span.last]

    def acknowledge(self, member: str, kind: AcknowledgeType, ranges: list[str]) -> None:
        said = []
        for text in ranges:
            first, _, last = text.partition("-")
            said.append(ShareAcknowledgementBatch(int(first), int(last or first), [kind]))
        try:
            self.store(self.partition.acknowledge(member, said, self.now_ms))
        except KafkaError as error:
            self.received.append(f"refused: {error.code.name}, {error.message}")

    def store(self, change: StateTransition) -> None:
        if change.batches:
            write = SharePartitionWrite(
                0, 0, change.start_offset, change.delivery_complete_count, tuple(change.batches)
            )
            event = self.states.new_event(self.now_ms)
            self.states.write(KEY, write, event)
            if self.fails:
                self.fails = False
                self.states.failed(event.result, ErrorCode.KAFKA_STORAGE_ERROR, now_ms=self.now_ms)
                self.partition.rollback(change)
                self.received.append("not stored")
                return
            self.stored += event.result.records
            for batch in change.batches:
                name = batch.state.name.lower()
                self.received.append(
                    f"stored {batch.first_offset}-{batch.last_offset} {name}"
                    f" x{batch.delivery_count}"
                )
        self.partition.commit(change)
        self.tell_dead(change.dead)

    def tell_dead(self, dead: list[DeadRecords]) -> None:
        for letter in dead:
            self.received.append(
                f"dead letters {letter.first}-{letter.last} x{letter.delivery_count}: "
                f"{letter.cause}"
            )

    def restart(self) -> None:
        self.states = ShareCoordinatorShard(0, updates_per_snapshot=4)
        self.states.load(
            Record(offset, key=key, value=value) for offset, (key, value) in enumerate(self.stored)
        )
        state = self.states.state(KEY)
        self.partition = SharePartition(
            state.start_offset, batches=state.batches, limits=self.limits
        )
        self.tell_dead(self.partition.unfinished())


def replay_share(text: str) -> str:
    play = SharePlay()
    lines: list[str] = []
    for line in text.splitlines():
        if line.startswith("  "):
            continue
        lines.append(line)
        if line and not line.startswith("#"):
            lines += [f"  {received}" for received in play.play(line)]
    return "\n".join(lines) + "\n"
