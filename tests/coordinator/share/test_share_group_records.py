"""The records of a share group; the bytes here were written by Apache Kafka 4.3.1."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.coordinator.share import group_records
from ottla.coordinator.share.group_records import (
    ShareGroupCurrentAssignment,
    ShareGroupMemberMetadata,
    ShareGroupRecordType,
    StatePartitions,
    read_share_group_key,
    write_key,
)
from ottla.errors import KafkaError

GROUP_ID = "g86f839"
MEMBER_ID = "00000000-0000-0000-0000-000000000002"
TOPIC_ID = bytes.fromhex("b4b05892511842daa6de0947fafe6b01")
PARTITIONS = {TOPIC_ID: (0,)}


@pytest.mark.parametrize(
    ("kind", "member_id", "data"),
    [
        (
            ShareGroupRecordType.MEMBER,
            MEMBER_ID,
            "000a00076738366638333900" + "24" + MEMBER_ID.encode().hex(),
        ),
        (ShareGroupRecordType.GROUP, "", "000b000767383666383339"),
        (ShareGroupRecordType.TARGET, "", "000c000767383666383339"),
        (ShareGroupRecordType.STATE_PARTITIONS, "", "000f000767383666383339"),
    ],
)
def test_keys(kind: ShareGroupRecordType, member_id: str, data: str) -> None:
    assert write_key(kind, GROUP_ID, member_id).hex() == data
    assert read_share_group_key(bytes.fromhex(data)) == (kind, GROUP_ID, member_id)


def test_a_member() -> None:
    data = bytes.fromhex("0000000670726f62650b2f3132372e302e302e3102087433336232623200")
    member = ShareGroupMemberMetadata(None, "probe", "/127.0.0.1", ("t33b2b2",))
    assert group_records.read_member(data) == member
    assert group_records.write_member(member) == data


def test_a_group() -> None:
    data = bytes.fromhex("000000000006000000000000000000")
    assert group_records.read_group(data) == (6, 0)
    assert group_records.write_group(6, 0) == data


def test_a_target_assignment_has_its_timestamp() -> None:
    data = bytes.fromhex("000000000004010008000001a1e225765a")
    assert group_records.read_target(data) == (4, 0x1A1E225765A)
    assert group_records.write_target(4, 0x1A1E225765A) == data
    assert group_records.read_target(group_records.write_target(4, 0)) == (4, 0)


def test_assignments() -> None:
    target = bytes.fromhex("000002b4b05892511842daa6de0947fafe6b0102000000000000")
    assert group_records.read_member_target(target) == PARTITIONS
    assert group_records.write_member_target(PARTITIONS) == target
    current = bytes.fromhex(
        "000000000004000000030002b4b05892511842daa6de0947fafe6b0102000000000000"
    )
    assert group_records.read_current(current) == ShareGroupCurrentAssignment(4, 3, PARTITIONS)
    assert group_records.write_current(ShareGroupCurrentAssignment(4, 3, PARTITIONS)) == current


def test_partitions_with_a_state() -> None:
    assert group_records.write_state_partitions({}).hex() == "000001010100"
    topics = {TOPIC_ID: StatePartitions("jobs", (0, 1, 2))}
    assert (
        group_records.read_state_partitions(group_records.write_state_partitions(topics)) == topics
    )


def test_records_of_other_groups_are_skipped() -> None:
    assert read_share_group_key(b"\x00\x02\x00\x01g") is None
    assert read_share_group_key(b"") is None


@given(st.binary(max_size=60))
def test_malformed_records_are_refused(data: bytes) -> None:
    readers = [
        group_records.read_member, group_records.read_group, group_records.read_target,
        group_records.read_member_target, group_records.read_current,
        group_records.read_state_partitions, read_share_group_key,
    ]  # fmt: skip
    refused = 0
    for read in readers:
        try:
            read(data)  # type: ignore[operator]
        except KafkaError:
            refused += 1
    assert refused <= len(readers)
    with pytest.raises(KafkaError):
        group_records.read_member(b"\x00\x07" + data)
