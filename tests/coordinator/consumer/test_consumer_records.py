"""Records of consumer groups: as Kafka 4.3 writes them, and read back whole."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.coordinator.consumer import records
from ottla.coordinator.consumer.member import (
    ClassicMemberMetadata,
    ConsumerGroupMember,
    MemberState,
)
from ottla.coordinator.consumer.records import (
    ConsumerGroupKey,
    ResolvedRegularExpression,
    read_consumer_group_key,
)
from ottla.coordinator.records import read_key
from ottla.errors import ErrorCode, KafkaError
from ottla.wire.fields import MalformedError

ID = bytes(range(16))
PARTITIONS = st.dictionaries(
    st.tuples(st.sampled_from([ID, b"x" * 16]), st.integers(0, 300)), st.integers(0, 2**31 - 1)
)
TEXTS = st.text(max_size=20)
MEMBERS = st.builds(
    ConsumerGroupMember,
    st.just("m"),
    member_epoch=st.integers(-2, 2**31 - 1),
    previous_epoch=st.integers(-1, 2**31 - 1),
    state=st.sampled_from(MemberState),
    instance_id=st.none() | TEXTS,
    rack_id=st.none() | TEXTS,
    client_id=TEXTS,
    client_host=TEXTS,
    rebalance_timeout_ms=st.integers(-1, 2**31 - 1),
    topics=st.frozensets(TEXTS, max_size=3),
    regex=TEXTS,
    assignor=st.none() | TEXTS,
    classic=st.none()
    | st.builds(
        ClassicMemberMetadata,
        st.integers(0, 2**31 - 1),
        st.lists(st.tuples(TEXTS, st.binary(max_size=200)), max_size=3).map(tuple),
    ),
    assigned=PARTITIONS,
    revoking=PARTITIONS,
)


@given(MEMBERS)
def test_a_member_is_read_as_it_was_written(member: ConsumerGroupMember) -> None:
    key, value = records.member_record("g", member)
    assert read_key(key) == ConsumerGroupKey(records.MEMBER, "g", "m")
    assert value is not None
    read = records.read_member("m", value)
    assert (read.topics, read.regex, read.classic) == (member.topics, member.regex, member.classic)
    assert (read.instance_id, read.rack_id) == (member.instance_id, member.rack_id)
    assert (read.client_id, read.client_host) == (member.client_id, member.client_host)
    assert read.rebalance_timeout_ms == member.rebalance_timeout_ms
    assert read.assignor == member.assignor
    key, value = records.current_record("g", member)
    assert read_key(key) == ConsumerGroupKey(records.CURRENT, "g", "m")
    assert value is not None
    current = records.read_current(value)
    assert current.assigned == member.assigned
    assert current.revoking == member.revoking
    assert current[:3] == (member.member_epoch, member.previous_epoch, member.state)


# As Kafka's DumpLogSegments --offsets-decoder reads them: epoch 2 with metadataHash 5; target epoch
# 2 at 1700000000000; member epoch 2, before 1, of one topic partitions 0 and 1 since epochs 1, 2.
WRITTEN = {
    "metadata": (
        records.metadata_record("g", 2, 5),
        "0003000167",
        "0000 00000002 01 00 08 0000000000000005",
    ),
    "metadata without topics": (
        records.metadata_record("g", 2, 0),
        "0003000167",
        "0000 00000002 00",
    ),
    "target": (
        records.target_record("g", 2, 1_700_000_000_000),
        "0006000167",
        "0000 00000002 01 00 08 0000018bcfe56800",
    ),
    "target of a member": (
        records.target_member_record("g", "m", frozenset([(ID, 1), (ID, 0)])),
        "000700016700016d",
        "0000 02" + ID.hex() + "03 00000000 00000001 00 00",
    ),
    "current": (
        records.current_record(
            "g",
            ConsumerGroupMember(
                "m", 2, 1, MemberState.UNRELEASED_PARTITIONS, assigned={(ID, 0): 1, (ID, 1): 2}
            ),
        ),
        "000800016700016d",
        "0000 00000002 00000001 02 02" + ID.hex() + "03 00000000 00000001"
        "01 00 09 03 00000001 00000002 01 00",
    ),
    "regex": (
        records.regex_record("g", "t.*", ResolvedRegularExpression(frozenset(["t1"]), 3, 4)),
        "00100001670003742e2a",
        "0000 02 03 7431 0000000000000003 0000000000000004 00",
    ),
    "member": (
        records.member_record(
            "g",
            ConsumerGroupMember(
                "m",
                client_id="c",
                client_host="/h",
                rebalance_timeout_ms=7,
                topics=frozenset("t"),
                classic=ClassicMemberMetadata(6, (("range", b"\1"),)),
            ),
        ),
        "000500016700016d",
        "0000 00 00 0263 032f68 02 0274 01 00000007 00"
        "01 00 10 01 00000006 02 06 72616e6765 02 01 00 00",
    ),
    "member of KIP-848, as found in a log of Kafka 4.3.1": (
        records.member_record(
            "co-inst",
            ConsumerGroupMember(
                "Y8mdkP2DQo2mr8clfmWn9Q",
                instance_id="inst2",
                client_id="me3",
                client_host="/127.0.0.1",
                rebalance_timeout_ms=300_000,
                topics=frozenset(["t3"]),
            ),
        ),
        "00050007636f2d696e7374001659386d646b503244516f326d7238636c666d576e3951",
        "000006696e73743200046d65330b2f3132372e302e302e310203743301000493e000 01 00 01 00",
    ),
}


@pytest.mark.parametrize("what", WRITTEN)
def test_records_are_written_as_kafka_writes_them(what: str) -> None:
    (key, value), key_hex, value_hex = WRITTEN[what]
    assert key == bytes.fromhex(key_hex)
    assert value == bytes.fromhex(value_hex)


def test_before_kafka_4_3_there_are_no_assignment_epochs() -> None:
    value = bytes.fromhex("0000 00000005 00000004 00 02" + ID.hex() + "02 00000003 00 01 00")
    assert records.read_current(value).assigned == {(ID, 3): 5}


def test_an_unrecognised_state_is_unknown() -> None:
    value = bytes.fromhex("0000 00000005 00000004 09 01 01 00")
    assert records.read_current(value).state is MemberState.UNKNOWN


def test_malformed_records_raise_errors() -> None:
    with pytest.raises(MalformedError):
        records.read_metadata(b"\0\1\0\0\0\0\0")
    with pytest.raises(KafkaError) as caught:
        read_key(b"\0\5\0\1g")
    assert caught.value.code is ErrorCode.CORRUPT_MESSAGE
    assert read_consumer_group_key(b"\0\4\0\1g") == ConsumerGroupKey(
        records.PARTITION_METADATA, "g"
    )
