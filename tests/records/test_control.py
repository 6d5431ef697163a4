"""Transaction markers, byte for byte and in both directions."""

from __future__ import annotations

import pytest

from ottla.errors import ErrorCode, KafkaError
from ottla.records.batch import AppendOrigin, build_batch, check_batches, read_header
from ottla.records.control import Marker, build_marker, read_marker
from ottla.records.rebuild import rebuild_batch
from ottla.records.record import Record, read_records


@pytest.mark.parametrize("commit", [True, False])
def test_a_marker_is_read_as_it_was_built(commit: bool) -> None:
    data = build_marker(Marker(commit, 12), producer_id=9, producer_epoch=3, timestamp=1000)
    [header] = check_batches(data, batch_size_max=1000, origin=AppendOrigin.COORDINATOR)
    assert header.control
    assert header.transactional
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (9, 3, -1)
    marker = read_marker(data, header)
    assert marker is not None
    assert (marker.commit, marker.coordinator_epoch) == (commit, 12)


def test_the_bytes_of_a_marker_are_kafkas() -> None:
    data = build_marker(Marker(True, 5), producer_id=9, producer_epoch=3, timestamp=1000)
    [record] = read_records(data, read_header(data))
    assert record.key == b"\x00\x00\x00\x01"
    assert record.value == b"\x00\x00\x00\x00\x00\x05"
    assert record.timestamp == 1000


def test_a_client_may_not_write_a_marker() -> None:
    data = build_marker(Marker(True, 5), producer_id=9, producer_epoch=3, timestamp=1000)
    with pytest.raises(KafkaError) as caught:
        check_batches(data, batch_size_max=1000)
    assert caught.value.code is ErrorCode.INVALID_RECORD


def control(key: bytes | None, value: bytes | None) -> bytes:
    return build_batch([Record(key=key, value=value)], control=True)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, b"\0" * 6),
        (b"\0\0\0", b"\0" * 6),
        (b"\xff\xff\0\0", b"\0" * 6),
        (b"\0\0\0\1", None),
        (b"\0\0\0\1", b"\0" * 5),
    ],
)
def test_a_marker_that_is_too_short_is_refused(key: bytes | None, value: bytes | None) -> None:
    data = control(key, value)
    with pytest.raises(KafkaError) as caught:
        read_marker(data, read_header(data))
    assert caught.value.code is ErrorCode.INVALID_RECORD


def test_other_control_records_are_not_markers() -> None:
    data = control(b"\0\0\0\2", b"leader change")
    assert read_marker(data, read_header(data)) is None


def test_later_versions_may_be_longer() -> None:
    data = control(b"\0\1\0\1more", b"\0\1\0\0\0\7more")
    marker = read_marker(data, read_header(data))
    assert marker is not None
    assert marker.coordinator_epoch == 7
    assert "coordinator_epoch=7" in repr(marker)


def test_an_emptied_marker_is_not_a_marker() -> None:
    data = build_marker(Marker(True, 5), producer_id=9, producer_epoch=3, timestamp=1000)
    emptied = rebuild_batch(read_header(data), [])
    assert read_marker(emptied, read_header(emptied)) is None
