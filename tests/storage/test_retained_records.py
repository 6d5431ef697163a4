"""The cleaner's own parser of records against the one that all others use."""

from __future__ import annotations

import contextlib
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.errors import KafkaError
from ottla.records.record import Record, write_records
from ottla.storage.retained_records import (
    ENTRY_SIZE,
    KEY_SIZE_MAX,
    filter_records,
    index_keys,
    pick_records,
    stored_key,
)

RECORDS = st.lists(
    st.builds(
        Record,
        offset=st.integers(1, 300),  # here the distance to the record before it
        timestamp=st.integers(-(1 << 40), 1 << 40),
        key=st.one_of(st.none(), st.binary(max_size=3), st.binary(min_size=30, max_size=200)),
        value=st.one_of(st.none(), st.binary(max_size=200)),
        headers=st.lists(st.tuples(st.text(max_size=3), st.none()), max_size=2),
    ),
    min_size=1,
    max_size=30,
)
BASE = 1_000_000


def laid_out(records: list[Record]) -> tuple[bytes, list[int]]:
    """The payload of a batch, and the offset of each record."""
    deltas, delta = [], -1
    for record in records:
        delta += record.offset
        deltas.append(delta)
    return write_records(records, deltas, 0), [BASE + delta for delta in deltas]


@settings(deadline=None)
@given(RECORDS)
def test_the_table_has_the_last_place_of_each_key(records: list[Record]) -> None:
    payload, offsets = laid_out(records)
    places: dict[bytes, int] = {}
    keyless = index_keys(payload, len(records), BASE, 0, places)
    expected = {
        stored_key(record.key): offset << 1 | (record.value is None)
        for record, offset in zip(records, offsets, strict=True)
        if record.key is not None
    }
    assert places == expected
    assert keyless == sum(record.key is None for record in records)
    later: dict[bytes, int] = {}
    index_keys(payload, len(records), BASE, offsets[-1], later)
    assert len(later) == (records[-1].key is not None)


@settings(deadline=None)
@given(RECORDS, st.booleans())
def test_picking_by_offset_and_filtering_by_key_agree(records: list[Record], drop: bool) -> None:
    payload, offsets = laid_out(records)
    places: dict[bytes, int] = {}
    index_keys(payload, len(records), BASE, 0, places)
    wanted = [place for place in sorted(places.values()) if not (drop and place & 1)]
    filtered = filter_records(payload, len(records), BASE, places, drop)
    assert filtered.count == len(wanted)
    assert filtered.tombstones == any(item & 1 for item in wanted)
    if wanted:
        picked = pick_records(payload, len(records), BASE, [item >> 1 for item in wanted])
        assert picked.ranges == filtered.ranges
        assert picked.count == filtered.count
        kept = [r for r, o in zip(records, offsets, strict=True) if o << 1 in wanted
                or o << 1 | 1 in wanted]  # fmt: skip
        assert picked.max_timestamp_delta == max(record.timestamp for record in kept)
        left = b"".join(payload[start:end] for start, end in picked.ranges)
        deltas = [
            offset - BASE
            for offset in offsets
            if offset << 1 in wanted or offset << 1 | 1 in wanted
        ]
        assert left == write_records(kept, deltas, 0)


def test_a_record_later_in_the_table_supersedes() -> None:
    payload, _ = laid_out([Record(offset=1, key=b"a", value=b"1")])
    assert filter_records(payload, 1, 10, {b"a": 11 << 1}, False).count == 0
    assert filter_records(payload, 1, 10, {b"a": 10 << 1}, False).count == 1
    assert filter_records(payload, 1, 10, {}, False).count == 1


@settings(deadline=None)
@given(RECORDS, st.data())
def test_random_bytes_are_only_malformed(records: list[Record], data: st.DataObject) -> None:
    payload, _ = laid_out(records)
    at = data.draw(st.integers(0, len(payload) - 1))
    broken = payload[:at] + bytes([data.draw(st.integers(0, 255))]) + payload[at + 1 :]
    for attempt in (broken, payload[:at]):
        places: dict[bytes, int] = {}
        with contextlib.suppress(KafkaError):
            index_keys(attempt, len(records), BASE, 0, places)
        assert len(places) <= len(records)


def test_truncated_records_are_malformed() -> None:
    payload, _ = laid_out([Record(offset=1, key=b"a", value=b"1")])
    for size in range(len(payload)):
        with pytest.raises(KafkaError):
            index_keys(payload[:size], 1, 0, 0, {})
        with pytest.raises(KafkaError):
            filter_records(payload[:size], 1, 0, {}, False)
        with pytest.raises(KafkaError):
            pick_records(payload[:size], 1, 0, [0])
    with pytest.raises(KafkaError):
        index_keys(payload + b"\0", 1, 0, 0, {})


def test_stored_keys_are_distinct() -> None:
    keys = [b"k" * size for size in range(100)]
    keys += [stored_key(b"k" * 50), stored_key(b"k" * 50)[:KEY_SIZE_MAX]]
    assert len({stored_key(key) for key in keys}) == len(keys)


@pytest.mark.parametrize("count", [20_000, 22_000, 44_000])  # dicts grow at 21,845 and 43,690
def test_an_entry_costs_no_more_than_entry_size(count: int) -> None:
    """log.cleaner.dedupe.buffer.size is kept by counting entries: none may cost more than that."""
    records = [Record(offset=1, key=b"%033d" % number * 2, value=b"v") for number in range(count)]
    payload, _ = laid_out(records)
    del records
    tracemalloc.start()
    try:
        places: dict[bytes, int] = {}
        index_keys(payload, count, 1 << 40, 0, places)
        ordered = sorted(places.values())
        used, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(ordered) == len(places) == count
    assert used / count <= ENTRY_SIZE
