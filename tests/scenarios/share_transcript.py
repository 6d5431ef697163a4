"""A share-partition as a transcript: one event on a line, and below it what comes of it.

    produce 5 [aborted]              a batch of 5 records
    delay 3 60s                      record 3 is not to be given out before that time
    dead letters                     the group has a dead letter queue from now on
    sent 0-4                         these are in the dead letter queue
    fetch MEMBER [max 3] [strict]    what the member is given: offsets xdelivery
    MEMBER accept 0-4 7              also release, reject, gap, renew
    close MEMBER                     its session ends
    pass 30s                         time goes by
    cut 7                            the log begins at offset 7 now
    fail                             the next write to the topic of states fails
    restart                          all that is left is the topic of states

Lines with two spaces before them are what happened: what was given out, what was stored, what was
refused, and last where the share-partition begins and what comes next.
"""

from __future__ import annotations

from ottla.coordinator.share.partition import (
    Acknowledged,
    Change,
    DeadRecords,
    Limits,
    SharePartition,
    Span,
    Wanted,
)
from ottla.coordinator.share.persister import ShareStates, StateWrite
from ottla.coordinator.share.records import StateKey
from ottla.coordinator.share.states import Acknowledgement
from ottla.errors import KafkaError

KEY = StateKey("group", b"t" * 16, 0)
KINDS = {kind.name.lower(): kind for kind in Acknowledgement}


class SharePlay:
    """A partition, its log, and the topic which keeps its state."""

    def __init__(self) -> None:
        self.now_ms = 0
        self.batches: list[Span] = []
        self.stored: list[tuple[bytes, bytes | None]] = []
        self.fails = False
        self.due_ms: dict[int, int] = {}  # by offset
        self.limits = Limits()
        self.told: list[str] = []
        self.states = ShareStates(updates_per_snapshot=4)
        made = self.states.initialize(KEY, state_epoch=0, start_offset=0, now_ms=0)
        assert made.record is not None
        self.stored.append(made.record)
        self.partition = SharePartition(0, limits=self.limits)

    def play(self, line: str) -> list[str]:
        self.told = []
        words = line.split()
        match words:
            case ["produce", count, *more]:
                first = self.batches[-1].last + 1 if self.batches else 0
                self.batches.append(Span(first, first + int(count) - 1, "aborted" in more))
            case ["delay", offset, time]:
                self.due_ms[int(offset)] = int(time.removesuffix("s")) * 1000
            case ["dead", "letters"]:
                self.limits = self.partition.limits = Limits(dead_letters=True)
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
        self.told.append(f"start {self.partition.start_offset}, {end}")
        return self.told

    def fetch(self, member: str, more: list[str]) -> None:
        offset = self.partition.fetch_offset()
        if offset is None:
            return
        most = int(more[more.index("max") + 1]) if "max" in more else 500
        given = self.partition.acquire(
            member,
            [span for span in self.batches if span.last >= offset],
            fetch_offset=offset,
            wanted=Wanted(most, 500, "strict" in more),
            now_ms=self.now_ms,
            delays=self.delays,
        )
        for run in given:
            self.told.append(f"{member} has {run.first}-{run.last} x{run.delivery_count}")

    def delays(self, span: Span) -> list[tuple[int, int]]:
        return [each for each in self.due_ms.items() if span.first <= each[0] <= span.last]

    def acknowledge(self, member: str, kind: Acknowledgement, ranges: list[str]) -> None:
        said = []
        for each in ranges:
            first, _, last = each.partition("-")
            said.append(Acknowledged(int(first), int(last or first), [kind]))
        try:
            self.store(self.partition.acknowledge(member, said, self.now_ms))
        except KafkaError as error:
            self.told.append(f"refused: {error.code.name}, {error.message}")

    def store(self, change: Change) -> None:
        if change.batches:
            write = StateWrite(
                0, 0, change.start_offset, change.delivery_complete_count, tuple(change.batches)
            )
            stored = self.states.write(KEY, write, self.now_ms)
            if self.fails:
                self.fails = False
                stored.undo()
                self.partition.rollback(change)
                self.told.append("not stored")
                return
            assert stored.record is not None
            self.stored.append(stored.record)
            for batch in change.batches:
                name = batch.state.name.lower()
                self.told.append(
                    f"stored {batch.first_offset}-{batch.last_offset} {name}"
                    f" x{batch.delivery_count}"
                )
        self.partition.commit(change)
        self.tell_dead(change.dead)

    def tell_dead(self, dead: list[DeadRecords]) -> None:
        for each in dead:
            self.told.append(
                f"dead letters {each.first}-{each.last} x{each.delivery_count}: {each.cause}"
            )

    def restart(self) -> None:
        self.states = ShareStates(updates_per_snapshot=4)
        for offset, (key, value) in enumerate(self.stored):
            self.states.load(key, value, offset)
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
            lines += [f"  {told}" for told in play.play(line)]
    return "\n".join(lines) + "\n"
