"""The client's side of a connection, and both sides together."""

from __future__ import annotations

import struct

import pytest

from ottla.wire.apis import APIS, ApiKey
from ottla.wire.connection import Connection, ProtocolError
from ottla.wire.fields import Part
from ottla.wire.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from ottla.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.wire.messages.produce import ProduceRequest, ProduceResponse
from ottla.wire.peer import Peer

SERVED = {api.key: (api.version_min, api.version_max) for api in APIS.values()}


def join(parts: list[Part]) -> bytes:
    return b"".join(part for part in parts if isinstance(part, bytes | bytearray))


def sent_response(peer: Peer, version: int = 4) -> bytes:
    """A broker's response to a heartbeat of this peer."""
    connection = Connection(SERVED, frame_bytes_max=1000)
    data = join(peer.request(HeartbeatRequest(group_id="g"), ApiKey.HEARTBEAT, version))
    connection.get_buffer(-1)[: len(data)] = data
    connection.received(len(data))
    request = connection.next_request()
    assert request is not None
    return join(connection.reply(request, HeartbeatResponse(error_code=27, throttle_time=9)))


@pytest.mark.parametrize("version", range(5))
def test_a_response_arriving_byte_by_byte_is_read_when_complete(version: int) -> None:
    peer = Peer()
    data = sent_response(peer, version)
    assert peer.pending() == 1
    for byte in data[:-1]:
        peer.receive_data(bytes([byte]))
        assert peer.next_response() is None
    peer.receive_data(data[-1:])
    response = peer.next_response()
    assert response is not None
    throttle_time = 9 if version >= 1 else 0
    assert response.body == HeartbeatResponse(error_code=27, throttle_time=throttle_time)
    assert (response.api_key, response.version, response.correlation_id) == (12, version, 0)
    assert peer.pending() == 0


def test_responses_in_one_piece_belong_to_their_requests() -> None:
    peer = Peer()
    connection = Connection(SERVED, frame_bytes_max=1000)
    data = join(peer.request(HeartbeatRequest(), ApiKey.HEARTBEAT, 0))
    data += join(peer.request(ProduceRequest(acks=0), ApiKey.PRODUCE, 9))
    data += join(peer.request(ProduceRequest(acks=1), ApiKey.PRODUCE, 9))
    data += join(peer.request(ApiVersionsRequest(), ApiKey.API_VERSIONS, 4))
    connection.get_buffer(-1)[: len(data)] = data
    connection.received(len(data))
    answers = [HeartbeatResponse(), None, ProduceResponse(throttle_time=3), ApiVersionsResponse()]
    for answer in answers:
        request = connection.next_request()
        assert request is not None
        peer.receive_data(join(connection.reply(request, answer)))
    for answer in (a for a in answers if a is not None):
        response = peer.next_response()
        assert response is not None
        assert response.body == answer
    assert peer.pending() == 0


def test_an_unsupported_api_versions_request_is_answered_in_v0() -> None:
    peer = Peer()
    peer.request(ApiVersionsRequest(), ApiKey.API_VERSIONS, 4)
    key = struct.pack(">hhh", 18, 0, 3)
    peer.receive_data(struct.pack(">iihi", 16, 0, 35, 1) + key)
    response = peer.next_response()
    assert response is not None
    versions = [ApiVersion(api_key=18, min_version=0, max_version=3)]
    assert response.body == ApiVersionsResponse(error_code=35, api_keys=versions)
    assert response.version == 0


def test_a_response_without_a_request_is_refused() -> None:
    data = sent_response(Peer())
    peer = Peer()
    peer.receive_data(data)
    with pytest.raises(ProtocolError, match="without a request"):
        peer.next_response()


def test_a_response_to_another_request_is_refused() -> None:
    data = sent_response(Peer())
    peer = Peer()
    for _ in range(2):
        peer.request(HeartbeatRequest(), ApiKey.HEARTBEAT, 4)
    peer.receive_data(data + data)
    assert peer.next_response() is not None
    with pytest.raises(ProtocolError, match="correlation id 0"):
        peer.next_response()


@pytest.mark.parametrize("size", [-1, 3, 1001])
def test_a_size_out_of_bounds_is_refused(size: int) -> None:
    peer = Peer(response_bytes_max=1000)
    peer.request(HeartbeatRequest(), ApiKey.HEARTBEAT, 4)
    peer.receive_data(struct.pack(">i", size))
    with pytest.raises(ProtocolError, match=str(size)):
        peer.next_response()


def test_a_response_that_is_too_short_or_too_long_is_refused() -> None:
    for change in (-1, 1):
        peer = Peer()
        data = sent_response(peer)
        body = (data + b"x")[4 : len(data) + change]
        peer.receive_data(struct.pack(">i", len(body)) + body)
        with pytest.raises(ProtocolError, match="Heartbeat v4"):
            peer.next_response()
