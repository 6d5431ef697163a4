"""The order in which a task takes rows, against the rule of Kafka's tasks."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ottla.engine.ordering import in_order
from ottla.engine.records import Input

Lanes = list[list[int]]


def rows_of(lanes: Lanes) -> list[Input]:
    return [
        Input(f"topic-{number}", 0, offset, timestamp, None, None)
        for number, lane in enumerate(lanes)
        for offset, timestamp in enumerate(lane)
    ]


def by_kafkas_rule(lanes: Lanes) -> list[tuple[str, int]]:
    """Of the first records of all lanes, the oldest; the first lane, if they are as old."""
    left = [list(enumerate(lane)) for lane in lanes]
    taken = []
    while any(left):
        heads = [(lane[0][1], number) for number, lane in enumerate(left) if lane]
        number = min(heads)[1]
        taken.append((f"topic-{number}", left[number].pop(0)[0]))
    return taken


@given(st.lists(st.lists(st.integers(0, 9), max_size=12), min_size=1, max_size=4))
def test_of_the_first_records_of_all_partitions_the_oldest_comes_next(lanes: Lanes) -> None:
    ordered = in_order(reversed(rows_of(lanes)))
    assert [(row.topic, row.offset) for row in ordered] == by_kafkas_rule(lanes)
