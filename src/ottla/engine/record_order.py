"""The order in which a task processes the rows of a batch; a shuffle does not preserve any."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable
from itertools import accumulate, chain, groupby
from operator import itemgetter
from typing import Final

from ottla.engine.records import InputRow

# Fields of an Input by index: itemgetter runs in C, without a Python call per row.
_origin_topic_partition: Final = itemgetter(8, 0, 1)
_offset_and_turn: Final = itemgetter(2, 7)
_timestamp: Final = itemgetter(3)


def in_record_order(
    rows: Iterable[InputRow],
    time_of: Callable[[InputRow], int] = _timestamp,
    tables: Container[str] = (),
) -> list[InputRow]:
    """Kafka's order (PartitionGroup): each partition in offset order, and of all partitions' head
    records the one with the smallest timestamp.

    Kafka leaves open which one comes first of those with one timestamp. Here it is that of a topic
    in `tables`: a record of a stream finds the row that was written at the same moment.
    """
    lanes: dict[tuple[str, int], list[InputRow]] = {}
    for (origin, topic, partition), some in groupby(rows, _origin_topic_partition):
        lanes.setdefault((origin or topic, partition), []).extend(some)
    for lane in lanes.values():
        lane.sort(key=_offset_and_turn)
    if len(lanes) == 1:
        return next(iter(lanes.values()))
    ordered = [lanes[name] for name in sorted(lanes, key=lambda it: (it[0] not in tables, it))]
    # A record older than its predecessor in the lane follows it at once, so sorting by the running
    # maximum of the timestamps merges the lanes without a heap.
    late_as = [moment for lane in ordered for moment in accumulate(map(time_of, lane), max)]
    rows_of_all = list(chain.from_iterable(ordered))
    return [rows_of_all[place] for place in sorted(range(len(late_as)), key=late_as.__getitem__)]
