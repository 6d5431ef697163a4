"""The checks work: each violation, planted in a valid history, is found."""

from __future__ import annotations

import struct
from dataclasses import replace

import pytest
from delivery_checks import violations
from delivery_faults import BROKER, schedule
from delivery_groups import GroupLog, classic_members
from delivery_history import CommittedRead, History
from delivery_log import (
    ABORT,
    COMMIT,
    AbortedTransaction,
    Batch,
    Record,
    batches_of,
    committed,
    shown_by_a_client,
)

from ottla.records.control import Marker, build_marker

IN, OUT, GROUP = "in", "out", "group"
SOURCE, WORKER = 1, 2  # producer ids


class Partition:
    """Writes a log like a broker."""

    def __init__(self) -> None:
        self.batches: list[Batch] = []
        self.end = 0

    def data(self, producer_id: int, *records: tuple[str, str], transactional: bool = True) -> None:
        stored = tuple(
            Record(self.end + number, key.encode(), value.encode())
            for number, (key, value) in enumerate(records)
        )
        last = self.end + len(stored) - 1
        self.batches.append(Batch(self.end, last, producer_id, 0, transactional, None, stored))
        self.end = last + 1

    def marker(self, producer_id: int, kind: int) -> None:
        key = struct.pack(">hh", 0, kind)
        record = Record(self.end, key, b"\0\0\0\0\0\0")
        self.batches.append(Batch(self.end, self.end, producer_id, 0, True, kind, (record,)))
        self.end += 1


def offset_batch(at: int, offset: int | None, producer_id: int = -1) -> Batch:
    """A record of `__consumer_offsets`: the group's offset in in-0."""
    key = struct.pack(">hh5sh2si", 1, 5, GROUP.encode(), 2, IN.encode(), 0)
    value = None if offset is None else struct.pack(">hqi", 3, offset, -1)
    record = Record(at, key, value)
    return Batch(at, at, producer_id, 0, producer_id >= 0, None, (record,))


def sound(mode: str = "exactly_once") -> History:
    """Two transactions of the source, one of them aborted; one of the worker, which copies."""
    into, out = Partition(), Partition()
    transactional = mode == "exactly_once"
    first = [(f"s.1.1.{n}.3", f"s.1.1.{n}.3") for n in range(3)]
    into.data(SOURCE, *first, transactional=transactional)
    if transactional:
        into.marker(SOURCE, COMMIT)
        into.data(SOURCE, ("s.1.2.0.1", "s.1.2.0.1"))
        into.marker(SOURCE, ABORT)
    copied = [(f"t.1.1.{n}.3", value) for n, (_, value) in enumerate(first)]
    out.data(WORKER, *copied, transactional=transactional)
    if transactional:
        out.marker(WORKER, COMMIT)
    history = History(mode, IN, OUT, GROUP)
    history.logs = {(IN, 0): into.batches, (OUT, 0): out.batches}
    for place, log in history.logs.items():
        end = log[-1].last_offset + 1
        history.series[place, "high watermark"] = [0, end]
        history.series[place, "last stable offset"] = [0, end]
        history.again += [(place, batch) for batch in log]
        history.committed_reads.append(CommittedRead(place, 0, end, tuple(committed(log))))
    history.group_offsets[IN, 0] = [-1, 3]
    history.group_batches = [offset_batch(0, 1), offset_batch(1, 3)]
    history.journals = {
        "s.1": [["acked", value, IN, 0, n] for n, (_, value) in enumerate(first)],
        "o.1": [
            ["read", place[0], place[1], record.offset, (record.value or b"").decode()]
            for place, log in history.logs.items()
            for record in committed(log)
        ],
    }
    history.journals["s.1"] += [["committed", "s.1.1"], ["aborted", "s.1.2"]]
    if not transactional:
        history.journals["s.1"] = history.journals["s.1"][:3]
    history.observers = ["o.1"]
    return history


def without_output(history: History, number: int) -> None:
    """One copied record was never written; the observer and the fetches agree with the log."""
    log = history.logs[OUT, 0]
    kept = [record for record in log[0].records if record.offset != number]
    moved = tuple(replace(record, offset=place) for place, record in enumerate(kept))
    log[0] = replace(log[0], records=moved, last_offset=len(moved) - 1)
    rest = Partition()
    rest.end = len(moved)
    if len(log) > 1:
        rest.marker(WORKER, COMMIT)
        log[1:] = rest.batches
    agree(history)


def agree(history: History) -> None:
    """All readers agree with the logs: only the logs are wrong."""
    history.again = []
    history.committed_reads = []
    history.journals["o.1"] = [
        ["read", place[0], place[1], record.offset, (record.value or b"").decode()]
        for place, log in history.logs.items()
        for record in committed(log)
    ]


def write_again(history: History, place: tuple[str, int], key: str, value: str) -> None:
    more = Partition()
    more.end = history.logs[place][-1].last_offset + 1
    more.data(9, (key, value), transactional=False)
    history.logs[place] += more.batches
    agree(history)


MODES = ["at_most_once", "at_least_once", "exactly_once"]


@pytest.mark.parametrize("mode", MODES)
def test_a_sound_history_has_no_violations(mode: str) -> None:
    assert violations(sound(mode)) == []


def test_a_lost_record_is_found_unless_it_may_be_lost() -> None:
    for mode, found in (("at_least_once", True), ("exactly_once", True), ("at_most_once", False)):
        history = sound(mode)
        without_output(history, 2)
        assert any("never came out" in violation for violation in violations(history)) is found


def test_a_missing_acknowledged_record_is_found() -> None:
    history = sound("at_least_once")
    history.journals["s.1"].append(["acked", "s.1.9.0.1", IN, 0, 77])
    assert any("there is None" in violation for violation in violations(history))


def test_a_doubled_record_is_found_unless_it_may_be_doubled() -> None:
    for mode, found in (("at_least_once", False), ("exactly_once", True), ("at_most_once", True)):
        history = sound(mode)
        write_again(history, (OUT, 0), "t.2.1.0.1", "s.1.1.0.3")
        assert any("2 times in out" in violation for violation in violations(history)) is found


@pytest.mark.parametrize("mode", MODES)
def test_a_record_from_nowhere_is_found(mode: str) -> None:
    history = sound(mode)
    write_again(history, (OUT, 0), "t.2.1.0.1", "s.7.7.0.1")
    assert any("never went in" in violation for violation in violations(history))


def test_a_torn_transaction_is_found() -> None:
    history = sound()
    without_output(history, 1)
    assert any("[0, 2] of the 3 records of t.1.1" in violation for violation in violations(history))


def test_a_committed_transaction_without_its_marker_is_found() -> None:
    history = sound()
    log = history.logs[IN, 0]
    log[1] = replace(log[1], marker=ABORT)
    agree(history)
    found = violations(history)
    assert any("s.1.1 was committed, and nothing of it" in violation for violation in found)


def test_an_aborted_transaction_that_is_seen_is_found() -> None:
    history = sound()
    log = history.logs[IN, 0]
    log[3] = replace(log[3], marker=COMMIT)
    agree(history)
    assert any(
        "s.1.2 was aborted, and is to be seen" in violation for violation in violations(history)
    )


def test_a_list_of_aborted_transactions_that_lacks_one_is_found() -> None:
    history = sound()
    log = history.logs[IN, 0]
    shown = tuple(shown_by_a_client(log, []))
    history.committed_reads.append(CommittedRead((IN, 0), 0, 6, shown))
    assert any(
        "too many" in violation and "s.1.2" in violation for violation in violations(history)
    )
    assert shown_by_a_client(log, [AbortedTransaction(SOURCE, 4)]) == committed(log)


def test_an_observer_that_saw_an_aborted_record_is_found() -> None:
    history = sound()
    history.journals["o.1"].insert(3, ["read", IN, 0, 4, "s.1.2.0.1"])
    assert any(violation.startswith("o.1 of ('in', 0)") for violation in violations(history))


def test_an_observer_that_missed_a_record_or_saw_it_twice_is_found() -> None:
    for change in (lambda lines: lines.pop(1), lambda lines: lines.insert(1, lines[0])):
        history = sound()
        change(history.journals["o.1"])
        assert any(violation.startswith("o.1 of ('in', 0)") for violation in violations(history))


@pytest.mark.parametrize("name", ["high watermark", "last stable offset"])
def test_a_watermark_that_goes_back_is_found(name: str) -> None:
    history = sound()
    history.series[(IN, 0), name] = [0, 6, 4, 6]
    assert any(f"{name} went back from 6 to 4" in violation for violation in violations(history))


def test_a_gap_is_found() -> None:
    history = sound()
    del history.logs[IN, 0][2]
    agree(history)
    assert any("offset 4 is missing, 5 follows" in violation for violation in violations(history))


def test_an_offset_that_changes_is_found() -> None:
    history = sound()
    first = history.logs[IN, 0][0]
    other = replace(first.records[0], value=b"changed")
    history.again.append(((IN, 0), replace(first, records=(other, *first.records[1:]))))
    assert any("offset 0 was" in violation for violation in violations(history))


@pytest.mark.parametrize("offsets", [[-1, 3, -1], [3, 0], [3, 2, 3]])
def test_a_committed_offset_that_goes_back_is_found(offsets: list[int]) -> None:
    history = sound()
    history.group_offsets[IN, 0] = offsets
    assert any("by OffsetFetch went from 3" in violation for violation in violations(history))
    history = sound()
    history.group_batches += [offset_batch(2, None)]
    assert any("in the log went from 3 to -1" in violation for violation in violations(history))


def test_a_commit_that_was_given_up_may_come_after_the_next() -> None:
    history = sound("at_least_once")
    history.group_batches = [offset_batch(n, to) for n, to in enumerate((1, 3, 1, 3))]
    assert any("in the log went from 3 to 1" in violation for violation in violations(history))
    history.journals["t.1"] = [["note", "commit: _TIMED_OUT"]]
    assert violations(history) == []
    history.group_batches = [offset_batch(n, to) for n, to in enumerate((1, 3, 2, 3))]
    assert any("in the log went from 3 to 2" in violation for violation in violations(history))


def test_an_offset_in_a_transaction_counts_when_it_is_committed() -> None:
    log = Partition()
    log.end = 1
    log.marker(WORKER, ABORT)
    aborted = [offset_batch(0, 1, WORKER), *log.batches]
    assert GroupLog().read(aborted).offsets == {}
    log = Partition()
    log.end = 1
    log.marker(WORKER, COMMIT)
    ended = [offset_batch(0, 1, WORKER), *log.batches]
    assert GroupLog().read(ended).offsets == {(GROUP, IN, 0): [1]}


def test_two_owners_in_a_classic_generation_are_found() -> None:
    history = sound()
    history.group_batches.append(generation(2, {"a": [0, 1], "b": [1]}))
    assert any(
        "(b'in', 1) has 2 owners in generation 2" in violation for violation in violations(history)
    )
    history = sound()
    history.group_batches.append(generation(2, {"a": [0], "b": [1]}))
    assert violations(history) == []


def generation(number: int, members: dict[str, list[int]]) -> Batch:
    def text(word: str) -> bytes:
        return struct.pack(">h", len(word)) + word.encode()

    value = struct.pack(">h", 3) + text("consumer") + struct.pack(">i", number)
    value += text("range") + text("a") + struct.pack(">qi", 0, len(members))
    for name, partitions in members.items():
        owned = struct.pack(">hi", 0, 1) + text(IN)
        owned += struct.pack(f">i{len(partitions)}i", len(partitions), *partitions)
        value += text(name) + struct.pack(">h", -1) + text("client") + text("host")
        value += struct.pack(">iii", 1000, 1000, 0) + struct.pack(">i", len(owned)) + owned
    assert classic_members(value)[0] == number
    record = Record(2, struct.pack(">h", 2) + text(GROUP), value)
    return Batch(2, 2, -1, -1, False, None, (record,))


def member_batch(at: int, member: str, epoch: int, held: list[int] | None) -> Batch:
    """ConsumerGroupCurrentMemberAssignment: a member of KIP-848; None is its end."""
    key = struct.pack(">hh5sh", 8, 5, GROUP.encode(), len(member)) + member.encode()
    value = None
    if held is not None:
        topics = b"\2" + b"\7" * 16 + bytes([len(held) + 1])
        topics += struct.pack(f">{len(held)}i", *held) + b"\0"
        value = struct.pack(">hiib", 0, epoch, epoch - 1, 0) + topics + b"\1" + b"\0"
    return Batch(at, at, -1, -1, False, None, (Record(at, key, value),))


def test_two_owners_by_the_new_protocol_are_found() -> None:
    history = sound()
    history.group_batches += [member_batch(2, "a", 1, [0, 1]), member_batch(3, "b", 2, [1])]
    assert any("to a, b" in violation for violation in violations(history))
    history = sound()
    history.group_batches += [
        member_batch(2, "a", 1, [0, 1]), member_batch(3, "a", 2, [0]), member_batch(4, "b", 2, [1]),
        member_batch(5, "a", 2, None), member_batch(6, "b", 3, [0, 1]),
    ]  # fmt: skip
    assert violations(history) == []


def test_a_member_epoch_that_goes_back_is_found() -> None:
    history = sound()
    history.group_batches += [member_batch(2, "a", 5, [0]), member_batch(3, "a", 4, [0])]
    assert any("went back from 5 to 4" in violation for violation in violations(history))


def test_an_unexpected_failure_of_the_run_is_a_violation() -> None:
    history = sound()
    history.accidents.append("the broker died")
    assert violations(history) == ["the broker died"]


def test_batches_are_read_as_the_project_writes_them() -> None:
    """Two independent decoders agree."""
    marker = Marker(commit=True, coordinator_epoch=0)
    data = build_marker(marker, producer_id=7, producer_epoch=3, timestamp=0)
    (batch,) = batches_of(bytes(data))
    assert (batch.producer_id, batch.producer_epoch, batch.marker) == (7, 3, COMMIT)


def test_a_seed_repeats_its_faults() -> None:
    slots = ["source0", "transform0"]
    assert schedule(7, slots, 20) == schedule(7, slots, 20)
    assert schedule(7, slots, 20) != schedule(8, slots, 20)


@pytest.mark.parametrize("seed", range(20))
def test_each_schedule_kills_the_broker_and_a_worker(seed: int) -> None:
    faults = schedule(seed, ["source0", "transform0"], 10)
    assert any(fault.target == BROKER and fault.kind == "kill" for fault in faults)
    assert any(fault.target != BROKER and fault.kind == "kill" for fault in faults)
    times = [fault.at_s for fault in faults]
    assert times == sorted(times)
