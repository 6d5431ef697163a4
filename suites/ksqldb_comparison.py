"""Whether the records of a run are those that a ksqlDB case expects."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ottla.client.schema_registry import SchemaRegistry
from ottla.rows.schema import Layout
from suites.ksqldb_values import decoded, headers_of, same

Partitions = Sequence[Sequence[Any]]
"""The records of a topic, by partition."""


def difference(
    wanted: Iterable[dict[str, Any]],
    layouts: Mapping[str, Layout],
    records_of: Callable[[str], Partitions],
    registry: SchemaRegistry,
    *,
    merged: bool = False,
) -> str:
    """What differs; empty if each topic of `wanted` has exactly these records in this order.

    Between partitions there is no order: the next record may be that of any of them. `merged`:
    updates of a table may be merged, so that only the last record of each key counts.
    """
    by_topic: dict[str, list[dict[str, Any]]] = {}
    for record in wanted:
        by_topic.setdefault(record["topic"], []).append(record)
    for topic, expected in by_topic.items():
        layout = layouts.get(topic)
        if layout is None:
            return f"no source over {topic}"
        found = [
            [decoded(record, layout, registry) for record in partition]
            for partition in records_of(topic)
        ]
        if merged and layout.is_table:
            found = [_last_of_each_key(record for partition in found for record in partition)]
            expected = _matched(_last_of_each_key(expected), found[0])
        cause = _difference_in(topic, expected, found)
        if cause:
            return cause
    return ""


def _difference_in(
    topic: str, wanted: Sequence[dict[str, Any]], found: Sequence[list[dict[str, Any]]]
) -> str:
    count = sum(map(len, found))
    left = [list(partition) for partition in found if partition]
    for number, expected in enumerate(wanted):
        if not left:
            break
        causes = [record_difference(expected, partition[0]) for partition in left]
        place = next((index for index, cause in enumerate(causes) if not cause), None)
        if place is None:
            return f"{causes[0]} (record {number} of {topic})"
        left[place].pop(0)
        left = [partition for partition in left if partition]
    if count != len(wanted):
        more = "more" if count > len(wanted) else "fewer"
        return f"{more} records: {count} instead of {len(wanted)} in {topic}"
    return ""


def _last_of_each_key(records: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Without tombstones: a row that came and went within a batch leaves none."""
    last: list[dict[str, Any]] = []
    for record in records:
        last = [other for other in last if not _same_row(other, record)] + [record]
    return [record for record in last if record.get("value") is not None]


def _matched(wanted: list[dict[str, Any]], found: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """In the order in which the keys were found."""
    placed = []
    for record in wanted:
        places = (n for n, other in enumerate(found) if _same_row(record, other))
        placed.append((next(places, len(found)), record))
    placed.sort(key=lambda item: item[0])
    return [record for _, record in placed]


def _same_row(first: dict[str, Any], second: dict[str, Any]) -> bool:
    return same(first.get("key"), second.get("key")) and _window(first) == _window(second)


def _window(record: dict[str, Any]) -> tuple[int, int] | None:
    window = record.get("window")
    return (window["start"], window["end"]) if isinstance(window, dict) else window


def record_difference(expected: dict[str, Any], found: dict[str, Any]) -> str:
    for name in ("key", "value"):
        if not same(expected.get(name), found[name]):
            return f"{name}: expected {expected.get(name)!r}, found {found[name]!r}"
    if "window" in expected and expected["window"] is not None:
        wanted = (expected["window"]["start"], expected["window"]["end"])
        if wanted != found["window"]:
            return f"window: expected {wanted}, found {found['window']}"
    if "timestamp" in expected and int(expected["timestamp"]) != found["timestamp"]:
        return f"timestamp: expected {expected['timestamp']}, found {found['timestamp']}"
    if "headers" in expected and headers_of(expected) != found["headers"]:
        return f"headers: expected {headers_of(expected)}, found {found['headers']}"
    return ""
