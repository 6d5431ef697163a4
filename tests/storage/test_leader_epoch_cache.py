"""Where leader epochs start and end (KIP-101, KIP-279)."""

from __future__ import annotations

from ottla.storage.leader_epoch_cache import LeaderEpochCache


def test_the_latest_epoch_ends_where_the_log_does() -> None:
    epochs = LeaderEpochCache([(0, 0), (3, 50)])
    assert epochs.end_offset(3, 80) == (3, 80)


def test_an_epoch_ends_where_the_next_one_starts() -> None:
    epochs = LeaderEpochCache([(0, 0), (3, 50)])
    assert epochs.end_offset(0, 80) == (0, 50)


def test_an_epoch_that_wrote_nothing_is_answered_with_the_one_before() -> None:
    epochs = LeaderEpochCache([(0, 0), (3, 50)])
    assert epochs.end_offset(2, 80) == (0, 50)


def test_an_epoch_older_than_the_log_ends_where_the_log_starts() -> None:
    epochs = LeaderEpochCache([(3, 50), (5, 70)])
    assert epochs.end_offset(1, 80) == (1, 50)


def test_unknown_epochs() -> None:
    epochs = LeaderEpochCache([(0, 0), (3, 50)])
    assert epochs.end_offset(4, 80) == (-1, -1)
    assert epochs.end_offset(-1, 80) == (-1, -1)
    assert LeaderEpochCache().end_offset(0, 80) == (-1, -1)


def test_assign_forgets_what_contradicts_it() -> None:
    epochs = LeaderEpochCache([(0, 0), (3, 50), (4, 60)])
    epochs.assign(5, 55)
    assert epochs.entries() == [(0, 0), (3, 50), (5, 55)]
    assert epochs.latest == 5
    assert epochs.dirty


def test_the_current_epoch_is_not_assigned_again() -> None:
    epochs = LeaderEpochCache([(0, 0)])
    epochs.assign(0, 10)
    assert epochs.entries() == [(0, 0)]
    assert not epochs.dirty


def test_a_missing_epoch_is_not_assigned() -> None:
    epochs = LeaderEpochCache()
    epochs.assign(-1, 0)
    assert epochs.entries() == []


def test_epoch_at() -> None:
    epochs = LeaderEpochCache([(1, 10), (3, 50)])
    assert [epochs.epoch_at(offset) for offset in (9, 10, 49, 50, 1000)] == [-1, 1, 1, 3, 3]


def test_truncate_from_end() -> None:
    epochs = LeaderEpochCache([(0, 0), (3, 50), (4, 60)])
    epochs.truncate_from_end(50)
    assert epochs.entries() == [(0, 0)]
    assert epochs.latest == 0
    epochs.truncate_from_end(0)
    assert epochs.entries() == []
    assert epochs.latest == -1


def test_truncate_from_start_keeps_the_epoch_it_falls_into() -> None:
    epochs = LeaderEpochCache([(0, 0), (3, 50), (4, 60)])
    epochs.truncate_from_start(55)
    assert epochs.entries() == [(3, 55), (4, 60)]
    epochs.truncate_from_start(60)
    assert epochs.entries() == [(4, 60)]
    epochs.dirty = False
    epochs.truncate_from_start(60)
    assert not epochs.dirty
