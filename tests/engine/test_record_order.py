"""The order in which a task processes rows, compared with the rule of Kafka's tasks."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ottla.engine.record_order import in_record_order
from ottla.engine.records import InputRow

Lanes = list[list[int]]


def rows_of(lanes: Lanes) -> list[InputRow]:
    return [
        InputRow(f"topic-{number}", 0, offset, timestamp, None, None)
        for number, lane in enumerate(lanes)
        for offset, timestamp in enumerate(lane)
    ]


def by_kafkas_rule(lanes: Lanes) -> list[tuple[str, int]]:
    """The oldest head record of all lanes; the first lane on a tie."""
    left = [list(enumerate(lane)) for lane in lanes]
    taken = []
    while any(left):
        heads = [(lane[0][1], number) for number, lane in enumerate(left) if lane]
        number = min(heads)[1]
        taken.append((f"topic-{number}", left[number].pop(0)[0]))
    return taken


@given(st.lists(st.lists(st.integers(0, 9), max_size=12), min_size=1, max_size=4))
def test_the_oldest_head_record_of_all_partitions_comes_next(lanes: Lanes) -> None:
    ordered = in_record_order(reversed(rows_of(lanes)))
    assert [(row.topic, row.offset) for row in ordered] == by_kafkas_rule(lanes)


def test_of_records_with_one_timestamp_those_of_tables_come_first() -> None:
    rows = rows_of([[5, 6], [5, 6]])
    ordered = in_record_order(rows, tables={"topic-1"})
    assert [row.topic[-1] for row in ordered] == ["1", "0", "1", "0"]
    earlier = in_record_order(rows_of([[4], [5]]), tables={"topic-1"})
    assert [row.topic[-1] for row in earlier] == ["0", "1"]
