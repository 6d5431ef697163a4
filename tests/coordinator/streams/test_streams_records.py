"""Records of streams groups: the bytes are what Kafka 4.3.1's own classes write."""

from __future__ import annotations

import pytest

from ottla.coordinator.streams import records
from ottla.coordinator.streams.member import StreamsGroupMemberMetadata, StreamsMemberState
from ottla.coordinator.streams.records import (
    StreamsGroupCurrentAssignment,
    StreamsGroupMetadataValue,
    StreamsGroupRecordType,
)
from ottla.coordinator.streams.tasks import StreamsTask, TaskRole
from ottla.coordinator.streams.topology import (
    CopartitionIndexes,
    StreamsInternalTopic,
    StreamsSubtopology,
    StreamsTopology,
)
from ottla.coordinator.streams.topology_record import read_topology_record, write_topology_record
from ottla.errors import ErrorCode, KafkaError

ACTIVE, STANDBY = TaskRole.ACTIVE, TaskRole.STANDBY

GROUP = (
    "0000000000070000001cbe991a1402000400000000"
    "011902156e756d2e7374616e6462792e7265706c69636173023100"
)
MEMBER = "00000002720263032f68000493e00000000002700105686f73749c400002057a6f6e6502610000"
CURRENT = (
    "00000000000700000006020202300300000000000000020100090300000005000000070202310200000001"
    "000102023002000000010100050200000005010100"
)
TOPOLOGY = (
    "000000000000020231020675736572730102026300000000ffff020f636c65616e75702e706f6c69637908"
    "636f6d70616374000002027302027200000003000001000202000001020000000000"
)


def test_group() -> None:
    group = StreamsGroupMetadataValue(7, 123456789012, 0, {"num.standby.replicas": "1"})
    assert records.write_group(group).hex() == GROUP
    assert records.read_group(bytes.fromhex(GROUP)) == group
    bare = StreamsGroupMetadataValue(2, -1)
    assert records.write_group(bare).hex() == "000000000002ffffffffffffffff00"
    assert records.read_group(records.write_group(bare)) == bare


def test_member() -> None:
    metadata = StreamsGroupMemberMetadata(
        None, "r", "c", "/h", 300_000, 0, "p", ("host", 40_000), (("zone", "a"),)
    )
    assert records.write_member(metadata).hex() == MEMBER
    assert records.read_member(bytes.fromhex(MEMBER)) == metadata
    alone = metadata._replace(user_endpoint=None, client_tags=())
    assert records.read_member(records.write_member(alone)) == alone


def test_targets() -> None:
    stored = "0000000000070100080000018bcfe56800"
    assert records.write_target(7, 1_700_000_000_000).hex() == stored
    assert records.read_target(bytes.fromhex(stored)) == (7, 1_700_000_000_000)
    tasks = frozenset(
        {StreamsTask(ACTIVE, "0", 0), StreamsTask(ACTIVE, "0", 2), StreamsTask(STANDBY, "1", 1)}
    )
    stored = "0000020230030000000000000002000202310200000001000100"
    assert records.write_member_target(tasks).hex() == stored
    assert records.read_member_target(bytes.fromhex(stored)) == tasks


def test_assignment_of_a_member() -> None:
    current = StreamsGroupCurrentAssignment(
        7,
        6,
        StreamsMemberState.UNREVOKED_TASKS,
        {
            StreamsTask(ACTIVE, "0", 0): 5,
            StreamsTask(ACTIVE, "0", 2): 7,
            StreamsTask(STANDBY, "1", 1): 7,
        },
        {StreamsTask(ACTIVE, "0", 1): 5},
    )
    assert records.write_current(current).hex() == CURRENT
    assert records.read_current(bytes.fromhex(CURRENT)) == current


def test_topology() -> None:
    topology = StreamsTopology(
        0,
        (
            StreamsSubtopology(
                "1",
                ("users",),
                (),
                (StreamsInternalTopic("c", 0, -1, (("cleanup.policy", "compact"),)),),
                ("s",),
                (StreamsInternalTopic("r", 3, 0, ()),),
                (CopartitionIndexes((0,), (), (0,)),),
            ),
        ),
    )
    assert write_topology_record(topology).hex() == TOPOLOGY
    assert read_topology_record(bytes.fromhex(TOPOLOGY)) == topology


def test_keys() -> None:
    assert records.write_key(StreamsGroupRecordType.GROUP, "g") == b"\0\x11\0\1g"
    assert records.write_key(StreamsGroupRecordType.MEMBER_CURRENT, "g", "m") == b"\0\x16\0\1g\0\1m"
    for kind in StreamsGroupRecordType:
        member_id = "m" if kind in records.MEMBER_RECORDS else ""
        written = records.write_key(kind, "g", "m")
        assert records.read_streams_group_key(written) == (kind, "g", member_id)
    assert records.read_streams_group_key(b"\0\x12\0\1g") is None
    assert records.read_streams_group_key(b"\0") is None


@pytest.mark.parametrize("whole", [GROUP, MEMBER, CURRENT, TOPOLOGY])
def test_a_truncated_record_is_refused(whole: str) -> None:
    read = {
        GROUP: records.read_group,
        MEMBER: records.read_member,
        CURRENT: records.read_current,
        TOPOLOGY: read_topology_record,
    }[whole]
    value = bytes.fromhex(whole)
    for size in range(len(value) - 3):
        with pytest.raises(KafkaError) as caught:
            read(value[:size])
        assert caught.value.code is ErrorCode.CORRUPT_MESSAGE


def test_a_state_that_is_not_known_makes_the_member_join_again() -> None:
    value = bytearray.fromhex(CURRENT)
    value[10] = 9
    assert records.read_current(bytes(value)).state is StreamsMemberState.UNKNOWN
