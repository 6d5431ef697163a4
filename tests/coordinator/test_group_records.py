"""The records of `__consumer_offsets` against bytes that Apache Kafka 4.3.1's own classes wrote."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.coordinator.records import (
    CommittedOffset,
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    partition_for,
    read_group_value,
    read_key,
    read_offset_value,
    write_group_key,
    write_group_value,
    write_offset_key,
    write_offset_value,
)
from ottla.errors import ErrorCode, KafkaError
from ottla.wire.fields import ZERO_UUID

OFFSET_KEY = "0001 0009 6772757070652dc3a4 0006 6f7264657273 00000007"
GROUP_KEY = "0002 0009 6772757070652dc3a4"
OFFSET_VALUES = [
    "0000 0000011f71fb04cb 0004 6ec3a468 0000018bcfe56800",
    "0001 0000011f71fb04cb 0004 6ec3a468 0000018bcfe56800 0000018bcfe6b980",
    "0002 0000011f71fb04cb 0004 6ec3a468 0000018bcfe56800",
    "0003 0000011f71fb04cb 00000005 0004 6ec3a468 0000018bcfe56800",
    "0004 0000011f71fb04cb 00000005 05 6ec3a468 0000018bcfe56800 00",
]
OFFSET_VALUE_WITH_TOPIC_ID = (
    "0004 0000011f71fb04cb 00000005 05 6ec3a468 0000018bcfe56800"
    "01 00 10 00112233445566778899aabbccddeeff"
)
GROUP_VALUES = [
    "0000 0008 636f6e73756d6572 00000003 0005 72616e6765 0003 632d31 00000002"
    "0003 632d31 0001 63 000a 2f3132372e302e302e31 0000afc8 00000003 010203 00000001 09"
    "0003 642d32 0001 64 0004 2f3a3a31 00002710 00000000 00000000",
    "0001 0008 636f6e73756d6572 00000003 0005 72616e6765 0003 632d31 00000002"
    "0003 632d31 0001 63 000a 2f3132372e302e302e31 000493e0 0000afc8 00000003 010203 00000001 09"
    "0003 642d32 0001 64 0004 2f3a3a31 0000ea60 00002710 00000000 00000000",
    "0002 0008 636f6e73756d6572 00000003 0005 72616e6765 0003 632d31 0000018bcfe56801 00000002"
    "0003 632d31 0001 63 000a 2f3132372e302e302e31 000493e0 0000afc8 00000003 010203 00000001 09"
    "0003 642d32 0001 64 0004 2f3a3a31 0000ea60 00002710 00000000 00000000",
    "0003 0008 636f6e73756d6572 00000003 0005 72616e6765 0003 632d31 0000018bcfe56801 00000002"
    "0003 632d31 0003 692d31 0001 63 000a 2f3132372e302e302e31 000493e0 0000afc8"
    "00000003 010203 00000001 09"
    "0003 642d32 ffff 0001 64 0004 2f3a3a31 0000ea60 00002710 00000000 00000000",
    "0004 09 636f6e73756d6572 00000003 06 72616e6765 04 632d31 0000018bcfe56801 03"
    "04 632d31 04 692d31 02 63 0b 2f3132372e302e302e31 000493e0 0000afc8 04 010203 02 09 00"
    "04 642d32 00 02 64 05 2f3a3a31 0000ea60 00002710 01 01 00 00",
]
GROUP_VALUE_EMPTY = "0003 0000 00000000 ffff ffff 0000018bcfe56801 00000000"

COMMITTED = CommittedOffset(1234567890123, 5, "näh", 1700000000000, -1, ZERO_UUID)
TOPIC_ID = bytes.fromhex("00112233445566778899aabbccddeeff")
MEMBERS = [
    MemberMetadata("c-1", "i-1", "c", "/127.0.0.1", 300000, 45000, b"\x01\x02\x03", b"\x09"),
    MemberMetadata("d-2", None, "d", "/::1", 60000, 10000, b"", b""),
]
GROUP = GroupMetadataValue("consumer", 3, "range", "c-1", 1700000000001, MEMBERS)


def test_keys_are_kafkas_bytes() -> None:
    assert write_offset_key("gruppe-ä", "orders", 7) == bytes.fromhex(OFFSET_KEY)
    assert write_group_key("gruppe-ä") == bytes.fromhex(GROUP_KEY)


def test_keys_are_read() -> None:
    assert read_key(bytes.fromhex(OFFSET_KEY)) == OffsetCommitKey("gruppe-ä", "orders", 7)
    assert read_key(bytes.fromhex(GROUP_KEY)) == GroupMetadataKey("gruppe-ä")


def test_the_oldest_offset_key_is_read() -> None:
    old = b"\x00\x00" + bytes.fromhex(OFFSET_KEY)[2:]
    assert read_key(old) == OffsetCommitKey("gruppe-ä", "orders", 7)


def test_a_key_of_another_protocol_is_skipped() -> None:
    assert read_key(bytes.fromhex("0011 0001 67")) is None


def test_offset_values_are_written_as_kafka_writes_them() -> None:
    assert write_offset_value(COMMITTED) == bytes.fromhex(OFFSET_VALUES[4])
    with_id = COMMITTED._replace(topic_id=TOPIC_ID)
    assert write_offset_value(with_id) == bytes.fromhex(OFFSET_VALUE_WITH_TOPIC_ID)


def test_an_offset_with_its_own_retention_is_written_as_version_1() -> None:
    expiring = COMMITTED._replace(expire_timestamp_ms=1700000086400)
    assert write_offset_value(expiring) == bytes.fromhex(OFFSET_VALUES[1])


@pytest.mark.parametrize("version", range(5))
def test_offset_values_of_every_version_are_read(version: int) -> None:
    expected = COMMITTED
    if version < 3:
        expected = expected._replace(leader_epoch=-1)
    if version == 1:
        expected = expected._replace(expire_timestamp_ms=1700000086400)
    assert read_offset_value(bytes.fromhex(OFFSET_VALUES[version])) == expected


def test_the_topic_id_is_read_from_its_tag() -> None:
    value = read_offset_value(bytes.fromhex(OFFSET_VALUE_WITH_TOPIC_ID))
    assert value == COMMITTED._replace(topic_id=TOPIC_ID)


def test_an_unknown_tag_is_skipped() -> None:
    data = bytes.fromhex(OFFSET_VALUES[4])[:-1] + bytes.fromhex("01 07 02 abcd")
    assert read_offset_value(data) == COMMITTED


def test_group_values_are_written_as_kafka_writes_them() -> None:
    assert write_group_value(GROUP) == bytes.fromhex(GROUP_VALUES[3])
    empty = GroupMetadataValue("", 0, None, None, 1700000000001, [])
    assert write_group_value(empty) == bytes.fromhex(GROUP_VALUE_EMPTY)
    assert read_group_value(bytes.fromhex(GROUP_VALUE_EMPTY)) == empty


@pytest.mark.parametrize("version", range(5))
def test_group_values_of_every_version_are_read(version: int) -> None:
    expected = GROUP
    members = list(MEMBERS)
    if version < 3:
        members = [member._replace(group_instance_id=None) for member in members]
    if version < 1:  # no rebalance timeout of its own: the session timeout stands in
        members = [m._replace(rebalance_timeout_ms=m.session_timeout_ms) for m in members]
    if version < 2:
        expected = expected._replace(state_timestamp_ms=-1)
    expected = expected._replace(members=members)
    assert read_group_value(bytes.fromhex(GROUP_VALUES[version])) == expected


@pytest.mark.parametrize(
    ("group_id", "partition"),
    [
        ("", 0),
        ("a", 47),
        ("my-group", 12),
        ("gruppe-ä", 48),
        ("polygenelubricants", 0),  # its hash is the smallest int32, which has no absolute value
        ("console-consumer-12345", 6),
        ("😀 emoji", 1),  # two UTF-16 units for one character
        ("group-1", 49),
    ],
)
def test_a_group_is_in_the_partition_that_kafka_chooses(group_id: str, partition: int) -> None:
    assert partition_for(group_id, 50) == partition


@pytest.mark.parametrize(
    "data",
    ["", "00", "0001 0005 61", "0001 ffff", "0002 0001 ff", "0001 0001 61 0001 62 0000"],
)
def test_a_malformed_key_is_refused(data: str) -> None:
    with pytest.raises(KafkaError) as caught:
        read_key(bytes.fromhex(data))
    assert caught.value.code is ErrorCode.CORRUPT_MESSAGE


@given(st.binary(max_size=120), st.sampled_from([0, 1, 2, 3, 4, 5, -1]))
def test_random_values_give_a_value_or_a_clean_error(data: bytes, version: int) -> None:
    prefixed = version.to_bytes(2, "big", signed=True) + data
    for read in (read_offset_value, read_group_value):
        code = ErrorCode.CORRUPT_MESSAGE
        try:
            read(prefixed)
        except KafkaError as error:
            code = error.code
        assert code is ErrorCode.CORRUPT_MESSAGE


def test_a_string_too_long_for_its_length_field_is_refused() -> None:
    with pytest.raises(KafkaError) as caught:
        write_group_key("g" * 40_000)
    assert caught.value.code is ErrorCode.INVALID_REQUEST


text = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
int64 = st.integers(-(2**63), 2**63 - 1)
int32 = st.integers(-(2**31), 2**31 - 1)


@given(int64, int32, text, int64, st.binary(min_size=16, max_size=16))
def test_offset_values_survive_a_round_trip(
    offset: int, epoch: int, metadata: str, commit_ms: int, topic_id: bytes
) -> None:
    value = CommittedOffset(offset, epoch, metadata, commit_ms, -1, topic_id)
    assert read_offset_value(write_offset_value(value)) == value
