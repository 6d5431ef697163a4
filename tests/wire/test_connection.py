"""The broker's side of a connection, without a socket."""

from __future__ import annotations

import struct
from typing import cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.slices import FileSlice
from ottla.wire.apis import APIS, ApiKey
from ottla.wire.connection import (
    BUFFER_BYTES,
    BUFFER_BYTES_KEPT_MAX,
    Connection,
    ProtocolError,
    Request,
)
from ottla.wire.fields import Message, Part
from ottla.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.wire.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from ottla.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.wire.messages.metadata import MetadataRequest
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.wire.peer import Peer

FRAME_BYTES_MAX = 4 * 1024 * 1024
SERVED = {api.key: (api.version_min, api.version_max) for api in APIS.values()}
SERVED[ApiKey.PRODUCE] = (0, 13)  # as advertised


UNHURRIED = settings(deadline=None)  # a busy machine is not a failure


class ZeroFile:
    """A file of zeros."""

    def fileno(self) -> int:
        return -1

    def pread(self, size: int, position: int) -> bytes:
        return bytes(size)


def connect(frame_bytes_max: int = FRAME_BYTES_MAX) -> Connection:
    return Connection(SERVED, frame_bytes_max=frame_bytes_max)


def feed(connection: Connection, data: bytes) -> None:
    """Feeds bytes as a loop does: only as many at a time as fit the buffer."""
    while data:
        room = connection.get_buffer(-1)
        count = min(len(room), len(data))
        assert count > 0
        room[:count] = data[:count]
        connection.received(count)
        data = data[count:]


def requests(connection: Connection, data: bytes) -> list[Request]:
    """All requests in `data`, read as a loop does: before each new piece."""
    found = []
    while data:
        room = connection.get_buffer(-1)
        count = min(len(room), len(data))
        room[:count] = data[:count]
        connection.received(count)
        data = data[count:]
        while (request := connection.next_request()) is not None:
            found.append(request)
    return found


def frame(message: Message, api_key: int, version: int, peer: Peer | None = None) -> bytes:
    return join((peer or Peer()).request(message, api_key, version, "tester"))


def join(parts: list[Part]) -> bytes:
    return b"".join(part.read() if isinstance(part, FileSlice) else part for part in parts)


def heartbeat(generation_id: int = 7) -> HeartbeatRequest:
    return HeartbeatRequest(group_id="g", generation_id=generation_id, member_id="m")


def produce(records: bytes, acks: int = 1) -> ProduceRequest:
    partition = PartitionProduceData(index=2, records=records)
    topic = TopicProduceData(name="orders", partition_data=[partition])
    return ProduceRequest(acks=acks, timeout=30_000, topic_data=[topic])


def records_of(request: Request) -> memoryview:
    body = cast(ProduceRequest, request.body)
    records = body.topic_data[0].partition_data[0].records
    assert isinstance(records, memoryview)
    return records


# Reading ------------------------------------------------------------------------------------------


def test_a_request_arriving_byte_by_byte_is_read_when_complete() -> None:
    connection = connect()
    data = frame(heartbeat(), ApiKey.HEARTBEAT, 4)
    for byte in data[:-1]:
        feed(connection, bytes([byte]))
        assert connection.next_request() is None
    feed(connection, data[-1:])
    request = connection.next_request()
    assert request is not None
    assert request.body == heartbeat()
    assert (request.api_key, request.version, request.client_id) == (12, 4, "tester")
    assert (request.sequence, request.correlation_id) == (0, 0)
    assert request.size == len(data) - 4
    assert request.api is APIS[12]
    assert not request.unsupported
    assert connection.next_request() is None


def test_several_requests_in_one_buffer() -> None:
    peer = Peer()
    data = b"".join(frame(heartbeat(n), ApiKey.HEARTBEAT, n % 5, peer) for n in range(20))
    connection = connect()
    feed(connection, data)
    for n in range(20):
        request = connection.next_request()
        assert request is not None
        assert (request.sequence, request.version, request.correlation_id) == (n, n % 5, n)
        assert request.body == heartbeat(n)
    assert connection.next_request() is None
    assert connection.pending() == 20


@UNHURRIED
@given(pieces=st.lists(st.integers(1, 200), min_size=1, max_size=60))
def test_pieces_of_any_size_give_the_same_requests(pieces: list[int]) -> None:
    peer = Peer()
    data = b"".join(frame(heartbeat(n), ApiKey.HEARTBEAT, 4, peer) for n in range(30))
    connection = connect()
    found = []
    for size in [*pieces, len(data)]:
        found += requests(connection, data[:size])
        data = data[size:]
    assert [cast(HeartbeatRequest, r.body).generation_id for r in found] == list(range(30))


def test_a_frame_larger_than_the_buffer() -> None:
    for size in (BUFFER_BYTES, 3 * BUFFER_BYTES + 1, FRAME_BYTES_MAX - 200):
        records = bytes(range(256)) * (size // 256)
        connection = connect()
        (request,) = requests(connection, frame(produce(records), ApiKey.PRODUCE, 9))
        assert records_of(request) == records


def test_a_frame_that_begins_at_the_end_of_the_buffer() -> None:
    small = frame(heartbeat(), ApiKey.HEARTBEAT, 4)
    large = frame(produce(b"r" * (BUFFER_BYTES - 500)), ApiKey.PRODUCE, 9)
    connection = connect()
    found = requests(connection, small * 20 + large + small * 20)
    assert [request.api_key for request in found] == [12] * 20 + [0] + [12] * 20
    assert records_of(found[20]).nbytes == BUFFER_BYTES - 500


def test_memory_grows_with_what_was_sent_not_with_what_was_announced() -> None:
    connection = connect()
    feed(connection, struct.pack(">i", FRAME_BYTES_MAX) + bytes(8))
    assert connection.get_buffer(-1).nbytes < BUFFER_BYTES
    feed(connection, bytes(BUFFER_BYTES))
    assert connection.get_buffer(-1).nbytes <= BUFFER_BYTES


def test_the_buffer_shrinks_after_a_large_frame() -> None:
    connection = connect()
    requests(connection, frame(produce(b"r" * BUFFER_BYTES_KEPT_MAX), ApiKey.PRODUCE, 9))
    assert connection.get_buffer(-1).nbytes == BUFFER_BYTES


def test_the_buffer_stays_while_frames_need_it() -> None:
    connection = connect()
    requests(connection, frame(produce(b"r" * 1_000_000), ApiKey.PRODUCE, 9))
    assert connection.get_buffer(-1).nbytes > 1_000_000
    requests(connection, frame(heartbeat(), ApiKey.HEARTBEAT, 4))
    assert connection.get_buffer(-1).nbytes == BUFFER_BYTES


def test_records_can_be_patched_in_place() -> None:
    connection = connect()
    (request,) = requests(connection, frame(produce(b"r" * 100), ApiKey.PRODUCE, 9))
    records = records_of(request)
    records[:8] = b"patched!"
    assert bytes(records_of(request)[:10]) == b"patched!rr"


def test_views_of_an_old_request_do_not_stop_the_buffer_from_changing() -> None:
    connection = connect()
    kept = []
    peer = Peer()
    for size in (10, BUFFER_BYTES, 10, BUFFER_BYTES_KEPT_MAX, 10):
        kept += requests(connection, frame(produce(b"r" * size), ApiKey.PRODUCE, 9, peer))
    assert [records_of(request).nbytes for request in kept][3] == BUFFER_BYTES_KEPT_MAX


def test_bytes_after_the_body_are_ignored() -> None:
    data = bytearray(frame(heartbeat(), ApiKey.HEARTBEAT, 4)) + b"more"
    struct.pack_into(">i", data, 0, len(data) - 4)
    (request,) = requests(connect(), bytes(data))
    assert request.body == heartbeat()


def test_unknown_tagged_fields_in_header_and_body_are_skipped() -> None:
    tags = b"\x02\x63\x03abc\xe8\x07\x00"  # tags 99 and 1000
    body = b"\x02g\x00\x00\x00\x07\x02m\x00" + tags
    header = struct.pack(">hhih", 12, 4, 5, 2) + b"me" + tags
    data = header + body
    (request,) = requests(connect(), struct.pack(">i", len(data)) + data)
    assert request.body == heartbeat()
    assert request.client_id == "me"


# Refusing -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [-1, -(2**31), 0, 7, FRAME_BYTES_MAX + 1, 2**31 - 1])
@pytest.mark.parametrize("more", [b"", bytes(100)])
def test_a_size_out_of_bounds_is_refused(size: int, more: bytes) -> None:
    connection = connect()
    feed(connection, struct.pack(">i", size) + more)
    with pytest.raises(ProtocolError, match=str(size)):
        connection.next_request()


@pytest.mark.parametrize(
    ("api_key", "version"),
    [(12, 5), (12, -1), (0, 2), (0, 14), (4, 0), (999, 0), (-1, 0), (3, 99)],
)
def test_an_unserved_api_is_refused(api_key: int, version: int) -> None:
    connection = connect()
    feed(connection, struct.pack(">ihhih", 110, api_key, version, 1, -1) + bytes(100))
    with pytest.raises(ProtocolError, match="not served"):
        connection.next_request()


def test_an_api_that_exists_but_is_not_served_is_refused() -> None:
    connection = Connection({18: (0, 4)}, frame_bytes_max=1000)
    feed(connection, frame(heartbeat(), ApiKey.HEARTBEAT, 4))
    with pytest.raises(ProtocolError, match="api key 12"):
        connection.next_request()


@pytest.mark.parametrize("version", [-1, 6, 99, 32767])
def test_an_unknown_version_of_api_versions_is_answered_in_v0(version: int) -> None:
    connection = connect()
    body = frame(ApiVersionsRequest(), ApiKey.API_VERSIONS, 3)[12:]
    data = struct.pack(">hhi", 18, version, 77) + body
    (request,) = requests(connection, struct.pack(">i", len(data)) + data)
    assert request.unsupported
    assert request.body is None
    reply = join(connection.reply(request, ApiVersionsResponse(error_code=35)))
    assert reply == struct.pack(">iihi", 10, 77, 35, 0)


@UNHURRIED
@given(data=st.binary(max_size=300))
def test_random_bytes_raise_only_protocol_errors(data: bytes) -> None:
    converse(data)


@UNHURRIED
@given(
    api_key=st.sampled_from(sorted(SERVED)),
    version=st.integers(-1, 18),
    body=st.binary(max_size=200),
)
def test_random_bodies_raise_only_protocol_errors(api_key: int, version: int, body: bytes) -> None:
    data = struct.pack(">hhi", api_key, version, 1) + body
    converse(struct.pack(">i", len(data)) + data)


@UNHURRIED
@given(data=st.data())
def test_randomly_changed_bytes_raise_only_protocol_errors(data: st.DataObject) -> None:
    changed = bytearray(frame(produce(b"r" * 80), ApiKey.PRODUCE, 9))
    for position in data.draw(st.lists(st.integers(0, len(changed) - 1), max_size=4)):
        changed[position] = data.draw(st.integers(0, 255))
    converse(bytes(changed))


def converse(data: bytes) -> None:
    connection = connect(frame_bytes_max=BUFFER_BYTES)
    try:
        found = requests(connection, data)
    except ProtocolError:
        return
    assert all(request.unsupported or request.body is not None for request in found)


# Replying -----------------------------------------------------------------------------------------


def three_requests(connection: Connection) -> list[Request]:
    peer = Peer()
    return requests(
        connection,
        b"".join(frame(heartbeat(n), ApiKey.HEARTBEAT, 4, peer) for n in range(3)),
    )


def test_a_reply_is_sent_at_once_if_it_is_its_turn() -> None:
    connection = connect()
    for request in three_requests(connection):
        reply = join(connection.reply(request, HeartbeatResponse(error_code=27)))
        id_ = request.correlation_id
        assert reply == struct.pack(">iibihb", 12, id_, 0, 0, 27, 0)
    assert connection.pending() == 0


def test_replies_out_of_order_are_released_in_order() -> None:
    connection = connect()
    first, second, third = three_requests(connection)
    assert connection.reply(third, HeartbeatResponse(error_code=3)) == []
    assert connection.reply(second, HeartbeatResponse(error_code=2)) == []
    assert connection.pending() == 1
    sent = join(connection.reply(first, HeartbeatResponse(error_code=1)))
    peer = Peer()
    for n in range(3):
        peer.request(heartbeat(n), ApiKey.HEARTBEAT, 4)
    peer.receive_data(sent)
    for n in range(3):
        response = peer.next_response()
        assert response is not None
        assert response.body == HeartbeatResponse(error_code=n + 1)
    assert connection.pending() == 0


def test_requests_without_a_reply_leave_no_gap() -> None:
    connection = connect()
    first, second, third = three_requests(connection)
    assert connection.reply(second, None) == []
    assert len(connection.reply(first, HeartbeatResponse())) == 1
    assert len(connection.reply(third, HeartbeatResponse())) == 1
    fourth, fifth, _ = three_requests(connection)
    assert len(connection.reply(fifth, HeartbeatResponse())) == 0
    assert len(connection.reply(fourth, None)) == 1


@UNHURRIED
@given(order=st.permutations(range(12)), holes=st.sets(st.integers(0, 11)))
def test_any_order_of_replies_gives_the_order_of_requests(
    order: list[int], holes: set[int]
) -> None:
    connection = connect()
    peer = Peer()
    data = b"".join(frame(heartbeat(n), ApiKey.HEARTBEAT, 4, peer) for n in range(12))
    found = requests(connection, data)
    sent = b""
    for n in order:
        response = None if n in holes else HeartbeatResponse(error_code=n)
        sent += join(connection.reply(found[n], response))
    codes = [struct.unpack_from(">h", sent, start + 13)[0] for start in range(0, len(sent), 16)]
    assert codes == [n for n in range(12) if n not in holes]
    assert connection.pending() == 0


def test_a_request_is_answered_once() -> None:
    connection = connect()
    first, second, _ = three_requests(connection)
    connection.reply(second, HeartbeatResponse())
    with pytest.raises(AssertionError):
        connection.reply(second, HeartbeatResponse())
    connection.reply(first, HeartbeatResponse())
    with pytest.raises(AssertionError):
        connection.reply(first, HeartbeatResponse())


@pytest.mark.parametrize("version", [4, 11, 12, 17])
def test_records_in_files_are_parts_of_their_own(version: int) -> None:
    connection = connect()
    (request,) = requests(connection, frame(fetch_request(), ApiKey.FETCH, version))
    slices = [FileSlice(ZeroFile(), 0, 1000), FileSlice(ZeroFile(), 50, 70_000)]
    partitions = [PartitionData(partition_index=n, records=s) for n, s in enumerate(slices)]
    partitions.insert(1, PartitionData(partition_index=9, records=b"in memory"))
    topic = FetchableTopicResponse(topic="orders", partitions=partitions)
    parts = connection.reply(request, FetchResponse(responses=[topic]))

    kinds = [isinstance(part, FileSlice) for part in parts]
    assert kinds[:4] == [False, True, False, True]
    assert len(parts) == (5 if version >= 12 else 4)  # tags follow the records
    assert [part for part in parts if isinstance(part, FileSlice)] == slices
    sent = join(parts)
    assert struct.unpack_from(">i", sent) == (len(sent) - 4,)
    peer = Peer()
    peer.request(fetch_request(), ApiKey.FETCH, version)
    peer.receive_data(sent)
    response = peer.next_response()
    assert response is not None
    received = cast(FetchResponse, response.body).responses[0].partitions
    sizes = [len(partition.records or b"") for partition in received]
    assert sizes == [1000, 9, 70_000]


def fetch_request() -> Message:
    return FetchRequest(max_wait=500)


def test_metadata_of_null_topics_is_not_metadata_of_no_topics() -> None:
    for topics in (None, []):
        request = frame(MetadataRequest(topics=topics), ApiKey.METADATA, 12)
        (read,) = requests(connect(), request)
        assert cast(MetadataRequest, read.body).topics == topics


def test_connections_that_share_a_scratch_buffer_do_not_disturb_each_other() -> None:
    """Frames cut at every position, on two connections in turn: each keeps its own bytes."""
    scratch = memoryview(bytearray(BUFFER_BYTES))
    served = {int(ApiKey.PRODUCE): (3, 13)}
    pair = [Connection(served, frame_bytes_max=FRAME_BYTES_MAX, scratch=scratch) for _ in range(2)]
    frames = [frame(produce(bytes([65 + n]) * 50), ApiKey.PRODUCE, 9) * 2 for n in range(2)]
    for cut in range(1, len(frames[0])):
        seen: list[list[bytes]] = [[], []]
        for piece in (slice(0, cut), slice(cut, None)):
            for number, connection in enumerate(pair):
                data = frames[number][piece]
                connection.get_buffer(-1)[: len(data)] = data
                connection.received(len(data))
                while (request := connection.next_request()) is not None:
                    seen[number].append(bytes(records_of(request)))
                    connection.reply(request, None)
                connection.settle()
        assert seen == [[b"A" * 50] * 2, [b"B" * 50] * 2]
