"""The checks of a cluster work: each violation, planted in a valid history, is found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from chaos_checks import violations
from chaos_history import (
    FOLLOWING,
    ClusterHistory,
    HealTime,
    Leadership,
    Mark,
    Poll,
    merged,
    note,
    replicas_on_disk,
)
from compat_raw import batch as raw_batch
from delivery_log import COMMIT, Batch, Record, batches_of

IN, OUT = ("in", 0), ("out", 0)
BROKERS = (1, 2, 3)


def data(base: int, epoch: int, *names: str, producer: int = 1, keys: str = "") -> Batch:
    records = tuple(
        Record(base + n, (f"{keys}.{n}.{len(names)}" if keys else name).encode(), name.encode())
        for n, name in enumerate(names)
    )
    return Batch(base, base + len(names) - 1, producer, 0, False, None, records, epoch)


def sound() -> ClusterHistory:
    """Three brokers; epoch 0 is led by 1, epoch 1 by 2; at least once, all records are copied."""
    history = ClusterHistory("at_least_once", "in", "out", "group")
    logs = {
        IN: [data(0, 0, "s.1.1.0.2", "s.1.1.1.2"), data(2, 1, "s.1.2.0.1")],
        OUT: [data(0, 0, "s.1.1.0.2", "s.1.1.1.2", keys="t.1.1"), data(2, 1, "s.1.2.0.1")],
    }
    for place, batches in logs.items():
        for broker in BROKERS:
            history.replicas[broker, place] = list(batches)
            history.polls += [Poll(broker, broker, place, batch) for batch in batches]
        history.leaderships += [
            Leadership(1.0, 1, place, 0),
            Leadership(5.0, 2, place, 1, named=True),
        ]
        history.leaderships += [
            Leadership(6.0, 2, place, 1),
            Leadership(7.0, 2, place, 1, named=True),
        ]
        history.marks += [
            Mark(1.0, 1, 1, place, 0, "end offset", 2),
            Mark(6.0, 2, 1, place, 1, "end offset", 2),
            Mark(7.0, 2, 1, place, 1, "end offset", 3),
            Mark(7.5, 1, 1, place, 0, "end offset", 2),  # a former leader that does not know it yet
            Mark(6.0, 3, 1, place, FOLLOWING, "high watermark", 2),
            Mark(8.0, 3, 1, place, FOLLOWING, "high watermark", 3),
            Mark(9.0, 3, 2, place, FOLLOWING, "high watermark", 0),  # another incarnation
        ]
        history.logs[place] = []
    history.journals = {
        "s.1": [["acked", f"s.1.1.{n}.2", "in", 0, n] for n in range(2)]
        + [["acked", "s.1.2.0.1", "in", 0, 2]],
    }
    history.healings.append(HealTime(10.0, 2.5, 30.0, ""))
    return history


def found(change: Callable[[ClusterHistory], object]) -> str:
    history = sound()
    change(history)
    return "\n".join(judged(history))


def judged(history: ClusterHistory) -> list[str]:
    history.merge()
    return violations(history)


def test_a_sound_history_has_no_violations() -> None:
    assert judged(sound()) == []


def test_an_acknowledged_record_that_a_replica_lacks_is_found() -> None:
    assert "broker 3 has None there" in found(lambda h: h.replicas[3, IN].pop())


def test_an_acknowledged_record_that_is_nowhere_is_found() -> None:
    def lose(history: ClusterHistory) -> None:
        history.journals["s.1"].append(["acked", "s.1.3.0.1", "in", 0, 3])

    text = found(lose)
    assert "s.1.3.0.1 was acknowledged at in-0@3; there is None" in text
    assert "s.1.3.0.1" in text
    assert "never came out" in text


def test_two_values_of_an_offset_on_two_disks_are_found() -> None:
    def differ(history: ClusterHistory) -> None:
        history.replicas[3, IN][1] = data(2, 1, "s.1.9.0.1")

    assert "('in', 0)@2: broker 1 at 1.00 s had [2..2 of epoch 1" in found(differ)


def test_two_values_of_an_offset_in_two_polls_are_found() -> None:
    def differ(history: ClusterHistory) -> None:
        history.polls.append(Poll(9.0, 3, IN, data(2, 0, "s.1.2.0.1")))  # only its epoch differs

    assert "broker 3 at 9.00 s had [2..2 of epoch 0" in found(differ)


def test_two_values_of_an_offset_in_differently_cut_batches_are_found() -> None:
    def differ(history: ClusterHistory) -> None:
        history.replicas[2, IN][0:2] = [data(0, 0, "s.1.1.0.2", "s.1.1.1.2", "s.1.2.0.1")]

    assert "the disk of broker 2 had [0..2" in found(differ)


def test_a_record_that_was_shown_and_vanished_is_found() -> None:
    def lose(history: ClusterHistory) -> None:
        history.polls.append(Poll(4.0, 1, IN, data(3, 1, "s.1.3.0.1")))

    assert "('in', 0)@3 was shown by broker 1 at 4.00 s; broker 2 does not have it" in found(lose)


def test_a_replica_that_lags_at_the_end_is_found() -> None:
    def lag(history: ClusterHistory) -> None:
        for broker in (1, 2):
            history.replicas[broker, IN].append(data(3, 1, "s.1.3.0.1"))

    assert "('in', 0) ends differently at each broker: {1: 4, 2: 4, 3: 3}" in found(lag)


def test_an_epoch_that_goes_back_in_a_log_is_found() -> None:
    def go_back(history: ClusterHistory) -> None:
        history.replicas[1, IN].append(data(3, 0, "s.1.3.0.1"))

    assert "epoch 0 at offset 3 follows epoch 1" in found(go_back)


def test_two_leaders_of_an_epoch_are_found() -> None:
    text = found(lambda h: h.leaderships.append(Leadership(6.5, 3, IN, 1)))
    assert "('in', 0) had several leaders in epoch 1 (broker: at): {2: 5.0, 3: 6.5}" in text


def test_metadata_that_names_another_leader_of_an_epoch_is_found() -> None:
    text = found(lambda h: h.leaderships.append(Leadership(6.5, 3, IN, 0, named=True)))
    assert "several leaders in epoch 0" in text


def test_a_partition_without_a_leader_is_no_violation() -> None:
    assert found(lambda h: h.leaderships.append(Leadership(6.5, -1, IN, 1, named=True))) == ""


def test_a_high_watermark_that_goes_back_in_one_incarnation_is_found() -> None:
    text = found(lambda h: h.marks.append(Mark(8.5, 3, 1, IN, FOLLOWING, "high watermark", 2)))
    assert "high watermark of broker 3 (life 1) went back from 3 to 2 at 8.50 s" in text


def test_an_end_that_goes_back_with_a_new_leader_is_found() -> None:
    text = found(lambda h: h.marks.append(Mark(9.0, 3, 1, IN, 2, "end offset", 2)))
    assert "the end offset went back from 3 in epoch 1 to 2 in epoch 2" in text


def test_a_cluster_that_does_not_recover_is_found() -> None:
    text = found(lambda h: h.healings.append(HealTime(20.0, None, 30.0, "in-0 has no leader")))
    assert "30 s later not well: in-0 has no leader" in text


def test_a_doubled_record_is_found() -> None:
    def double(history: ClusterHistory) -> None:
        again = data(3, 1, "s.1.2.0.1")
        for broker in BROKERS:
            history.replicas[broker, IN].append(again)
        history.polls.append(Poll(9.0, 1, IN, again))

    assert "is 2 times in in" in found(double)


def test_a_torn_transaction_is_found() -> None:
    history = sound()
    history.mode = "exactly_once"
    for place in (IN, OUT):
        batches = [
            replace(batch, transactional=True, producer_id=5)
            for batch in history.replicas[1, place]
        ]
        batches[0] = replace(batches[0], records=batches[0].records[:1], last_offset=0)
        batches[1] = data(1, 1, "s.1.2.0.1", producer=5)
        marker = Batch(2, 2, 5, 0, True, COMMIT, (Record(2, b"\0\0\0\1", b""),), 1)
        history.polls = [poll for poll in history.polls if poll.place != place]
        for broker in BROKERS:
            history.replicas[broker, place] = [*batches, marker]
            history.polls += [Poll(1.0, broker, place, batch) for batch in (*batches, marker)]
    history.journals = {}
    assert any("in has [0] of the 2 records of s.1.1" in violation for violation in judged(history))


def test_a_journal_is_read_as_it_was_written(tmp_path: Path) -> None:
    history = ClusterHistory("at_least_once", "in", "out", "group")
    bytes_of = raw_batch([b"one", b"two"])
    for line in (
        ["poll", 1.0, 2, 1, "in", 0, bytes_of.hex()],
        ["led", 1.5, 2, "in", 0, 4],
        ["said", 1.6, 1, "in", 0, 4, 2],
        ["mark", 1.7, 2, 1, "in", 0, 4, "high watermark", 2],
        ["healed", 9.0, None, 30.0, "a replica lags"],
    ):
        note(history, line)
    (poll,) = history.polls
    assert [record.value for record in poll.batch.records] == [b"one", b"two"]
    assert merged(history.polls) == {IN: [poll.batch]}
    assert history.leaderships == [Leadership(1.5, 2, IN, 4), Leadership(1.6, 2, IN, 4, named=True)]
    assert history.marks == [Mark(1.7, 2, 1, IN, 4, "high watermark", 2)]
    assert history.healings == [HealTime(9.0, None, 30.0, "a replica lags")]


def test_replicas_are_read_from_segments(tmp_path: Path) -> None:
    first, second = raw_batch([b"one"]), raw_batch([b"two"])
    moved = (1).to_bytes(8, "big") + second[8:]
    (tmp_path / "in-0").mkdir()
    (tmp_path / "in-0" / "00000000000000000000.log").write_bytes(first)
    (tmp_path / "in-0" / "00000000000000000001.log").write_bytes(moved)
    found = replicas_on_disk(tmp_path, [IN, OUT])
    assert found == {IN: [*batches_of(first), *batches_of(moved)]}


@pytest.mark.parametrize("place", [IN, OUT])
def test_merged_polls_equal_the_log(place: tuple[str, int]) -> None:
    history = sound()
    assert merged(history.polls)[place] == history.replicas[1, place]
