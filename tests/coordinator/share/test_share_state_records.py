"""The records of `__share_group_state`; the bytes are those that Apache Kafka 4.3.1 writes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.coordinator.share.record_state import STORABLE, RecordState, StateBatch
from ottla.coordinator.share.state_records import (
    SharePartitionKey,
    SharePartitionState,
    SharePartitionUpdate,
    read_state_record,
    write_snapshot,
    write_snapshot_key,
    write_update,
    write_update_key,
)
from ottla.errors import ErrorCode, KafkaError

KEY = SharePartitionKey("orders", bytes(range(16)), 3)
INT32 = st.integers(0, 2**31 - 1)
INT64 = st.integers(0, 2**62)
BATCHES = st.lists(
    st.builds(
        lambda first, size, state, count: StateBatch(first, first + size, state, count),
        INT64,
        st.integers(0, 1000),
        st.sampled_from(sorted(STORABLE)),
        st.integers(0, 2**15 - 1),
    ),
    max_size=5,
).map(tuple)


def test_a_snapshot_byte_by_byte() -> None:
    state = SharePartitionState(
        1, 2, 3, 40, 5, 60, 70, (StateBatch(41, 45, RecordState.ACKNOWLEDGED, 2),)
    )
    assert write_snapshot_key(KEY).hex() == (
        "0000" "0006" + b"orders".hex() + bytes(range(16)).hex() + "00000003"
    )  # fmt: skip
    assert write_snapshot(state).hex() == (
        "0000" "00000001" "00000002" "00000003" "0000000000000028"
        "000000000000003c" "0000000000000046"
        "02" "0000000000000029" "000000000000002d" "02" "0002" "00"
        "01" "00" "04" "00000005"
    )  # fmt: skip


def test_an_update_without_a_count_has_no_tag() -> None:
    update = SharePartitionUpdate(1, 3, -1, -1, ())
    assert write_update(update).hex() == "00000000000100000003" + "ff" * 8 + "0100"
    assert read_state_record(write_update_key(KEY), write_update(update)) == (KEY, update)


STATES = st.builds(
    SharePartitionState,
    INT32,
    INT32,
    INT32,
    INT64,
    st.integers(-1, 2**31 - 1),
    INT64,
    INT64,
    BATCHES,
)


@given(STATES)
def test_written_records_are_read_again(state: SharePartitionState) -> None:
    assert read_state_record(write_snapshot_key(KEY), write_snapshot(state)) == (KEY, state)
    update = SharePartitionUpdate(
        state.snapshot_epoch,
        state.leader_epoch,
        state.start_offset,
        state.delivery_complete_count,
        state.batches,
    )
    assert read_state_record(write_update_key(KEY), write_update(update)) == (KEY, update)


def test_tombstones_and_unknown_record_types_are_read() -> None:
    assert read_state_record(write_snapshot_key(KEY), None) == (KEY, None)
    assert read_state_record(b"\x00\x63whatever", b"") is None


@given(st.binary(max_size=80), st.booleans())
def test_malformed_records_are_refused_or_read(value: bytes, snapshot: bool) -> None:
    key = write_snapshot_key(KEY) if snapshot else write_update_key(KEY)
    code = ErrorCode.NONE
    try:
        assert read_state_record(key, b"\x00\x00" + value) is not None
    except KafkaError as error:
        code = error.code
    assert code in (ErrorCode.NONE, ErrorCode.CORRUPT_MESSAGE)


def test_a_later_version_is_refused() -> None:
    with pytest.raises(KafkaError):
        read_state_record(
            write_snapshot_key(KEY), b"\x00\x01" + write_snapshot(SharePartitionState())[2:]
        )


def test_the_coordinator_key_is_kafkas() -> None:
    assert str(KEY) == "orders:AAECAwQFBgcICQoLDA0ODw:3"
