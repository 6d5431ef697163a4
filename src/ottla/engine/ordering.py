"""In which order a task takes the rows of a batch; a shuffle keeps none."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import accumulate, chain, groupby
from operator import itemgetter
from typing import Final

from ottla.engine.records import Input

# Of an Input, by their places: nothing is called for each row then.
_origin_topic_partition: Final = itemgetter(8, 0, 1)
_offset_and_turn: Final = itemgetter(2, 7)
_timestamp: Final = itemgetter(3)


def in_order(rows: Iterable[Input], time_of: Callable[[Input], int] = _timestamp) -> list[Input]:
    """As Kafka's tasks take records: each partition in order, of all first ones the oldest."""
    lanes: dict[tuple[str, int], list[Input]] = {}
    for (origin, topic, partition), some in groupby(rows, _origin_topic_partition):
        lanes.setdefault((origin or topic, partition), []).extend(some)
    for lane in lanes.values():
        lane.sort(key=_offset_and_turn)
    if len(lanes) == 1:
        return next(iter(lanes.values()))
    ordered = [lanes[name] for name in sorted(lanes)]
    # Of the first records of all lanes the oldest comes next. A record that is older than one
    # before it in its lane follows that one at once: it counts as if it were as late.
    late_as = [moment for lane in ordered for moment in accumulate(map(time_of, lane), max)]
    rows_of_all = list(chain.from_iterable(ordered))
    return [rows_of_all[place] for place in sorted(range(len(late_as)), key=late_as.__getitem__)]
