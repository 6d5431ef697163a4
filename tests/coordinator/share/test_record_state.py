"""Ranges of records in the same state, and what holds after an update."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ottla.coordinator.share.record_state import STORABLE, RecordState, StateBatch, combine, merge

AVAILABLE = RecordState.AVAILABLE
ACKNOWLEDGED = RecordState.ACKNOWLEDGED
ARCHIVED = RecordState.ARCHIVED


def test_an_update_in_the_middle_splits_a_range() -> None:
    combined = combine([StateBatch(0, 9, AVAILABLE, 1)], [StateBatch(3, 5, ACKNOWLEDGED, 1)], 0)
    assert combined == [
        StateBatch(0, 2, AVAILABLE, 1),
        StateBatch(3, 5, ACKNOWLEDGED, 1),
        StateBatch(6, 9, AVAILABLE, 1),
    ]


def test_records_before_the_start_are_forgotten() -> None:
    batches = [StateBatch(0, 4, ARCHIVED, 1), StateBatch(5, 9, AVAILABLE, 2)]
    assert combine(batches, [], 7) == [StateBatch(7, 9, AVAILABLE, 2)]


def test_adjacent_equal_ranges_are_merged() -> None:
    batches = [StateBatch(0, 1, ARCHIVED, 1), StateBatch(2, 2, ARCHIVED, 1)]
    assert merge(batches) == [StateBatch(0, 2, ARCHIVED, 1)]
    apart = [StateBatch(0, 1, ARCHIVED, 1), StateBatch(3, 3, ARCHIVED, 1)]
    assert merge(apart) == apart


BATCHES = st.lists(
    st.builds(
        lambda first, size, state, count: StateBatch(first, first + size, state, count),
        st.integers(0, 40),
        st.integers(0, 12),
        st.sampled_from(sorted(STORABLE)),
        st.integers(0, 3),
    ),
    max_size=12,
)


@given(BATCHES, BATCHES, st.integers(0, 30))
def test_combined_batches_keep_the_last_state_of_each_record(
    first: list[StateBatch], second: list[StateBatch], start: int
) -> None:
    expected: dict[int, tuple[RecordState, int]] = {}
    for batch in [*first, *second]:
        for offset in range(max(start, batch.first_offset), batch.last_offset + 1):
            expected[offset] = (batch.state, batch.delivery_count)
    combined = combine(combine([], first, 0), second, start)
    said = {
        offset: (batch.state, batch.delivery_count)
        for batch in combined
        for offset in range(batch.first_offset, batch.last_offset + 1)
    }
    assert said == expected
    assert combined == sorted(combined)
