"""Properties: built batches are read, damaged ones refused, and nothing else happens."""

from __future__ import annotations

import contextlib

from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.errors import KafkaError
from ottla.records.batch import AppendOrigin, build_batch, check_batches, read_header
from ottla.records.compression import decompress
from ottla.records.control import read_marker
from ottla.records.record import (
    Record,
    read_records,
    read_varlong,
    records_without_key,
    write_varint,
)

SIZE_MAX = 1 << 20

timestamps = st.integers(-1, 2**42) | st.integers(-(2**63), 2**63 - 1)
maybe_bytes = st.none() | st.binary(max_size=200)
headers = st.lists(st.tuples(st.text(max_size=10), maybe_bytes), max_size=3)
a_record = st.builds(
    Record, timestamp=timestamps, key=maybe_bytes, value=maybe_bytes, headers=headers
)
some_records = st.lists(a_record, min_size=1, max_size=20)
codecs = st.integers(0, 4)


@given(some_records, codecs, st.integers(0, 2**62))
def test_built_batches_are_read(records: list[Record], codec: int, base_offset: int) -> None:
    data = build_batch(records, compression=codec, base_offset=base_offset)
    [header] = check_batches(data, batch_size_max=SIZE_MAX, origin=AppendOrigin.LEADER)
    for offset, record in enumerate(records, base_offset):
        record.offset = offset
    assert read_records(data, header) == records
    missing = [i for i, record in enumerate(records) if record.key is None]
    assert records_without_key(data, header) == missing


@given(some_records, codecs, st.data())
def test_any_flipped_bit_under_the_checksum_is_refused(
    records: list[Record], codec: int, data: st.DataObject
) -> None:
    batch = bytearray(build_batch(records, compression=codec))
    position = data.draw(st.integers(17, len(batch) - 1))
    batch[position] ^= 1 << data.draw(st.integers(0, 7))
    for origin in AppendOrigin:
        assert _refuses(bytes(batch), origin)


@given(some_records, codecs, st.data())
def test_any_truncation_is_refused(records: list[Record], codec: int, data: st.DataObject) -> None:
    batch = build_batch(records, compression=codec)
    cut = batch[: data.draw(st.integers(0, len(batch) - 1))]
    assert _refuses(cut, AppendOrigin.CLIENT)
    assert _refuses(cut, AppendOrigin.COORDINATOR)
    assert check_batches(cut, batch_size_max=SIZE_MAX, origin=AppendOrigin.LEADER) == []


@given(st.binary(max_size=300), st.sampled_from(AppendOrigin))
def test_random_bytes_raise_only_kafka_errors(data: bytes, origin: AppendOrigin) -> None:
    with contextlib.suppress(KafkaError):
        check_batches(data, batch_size_max=SIZE_MAX, origin=origin)
    with contextlib.suppress(KafkaError):
        read_records(data, read_header(data), size_max=SIZE_MAX)


@given(some_records, codecs, st.data())
def test_damage_behind_a_valid_checksum_raises_only_kafka_errors(
    records: list[Record], codec: int, data: st.DataObject
) -> None:
    """Readers that skip the checksum (a bad disk, a bug) must not crash."""
    batch = bytearray(build_batch(records, compression=codec))
    for _ in range(data.draw(st.integers(1, 4))):
        batch[data.draw(st.integers(21, len(batch) - 1))] = data.draw(st.integers(0, 255))
    for read in (read_records, records_without_key):
        with contextlib.suppress(KafkaError):
            read(batch, read_header(batch), size_max=SIZE_MAX)
    with contextlib.suppress(KafkaError):
        read_marker(batch, read_header(batch))


@given(
    codecs, st.binary(max_size=300), st.sampled_from([b"", b"\x82SNAPPY\0", b"\x04\x22\x4d\x18"])
)
def test_random_bytes_unpack_or_are_refused(codec: int, data: bytes, start: bytes) -> None:
    with contextlib.suppress(KafkaError):
        assert len(decompress(codec, start + data, size_max=SIZE_MAX)) <= SIZE_MAX


@given(st.integers(-(2**63), 2**63 - 1), st.binary(max_size=3))
@settings(max_examples=300)
def test_varlongs_survive_a_round_trip(number: int, before: bytes) -> None:
    out = bytearray(before)
    write_varint(out, number)
    assert read_varlong(bytes(out), len(before)) == (number, len(out))


def _refuses(data: bytes, origin: AppendOrigin) -> bool:
    try:
        return check_batches(data, batch_size_max=SIZE_MAX, origin=origin) == []
    except KafkaError:
        return True
