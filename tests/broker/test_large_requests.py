"""Large requests in turns: same responses, same order, and others are served in between."""

from __future__ import annotations

import asyncio
import logging
import socket
import struct
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from data_path_broker import Client, batch, run

from ottla.broker.large_requests import EncodedResponse
from ottla.wire.apis import ApiKey
from ottla.wire.connection import READ_BYTES_MAX
from ottla.wire.messages.api_versions import ApiVersionsRequest
from ottla.wire.messages.envelope import EnvelopeRequest
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.wire.peer import Peer

COUNT = 5000


def offsets(*indexes: int) -> ListOffsetsRequest:
    partitions = [ListOffsetsPartition(index, timestamp=-1) for index in indexes]
    return ListOffsetsRequest(topics=[ListOffsetsTopic("t", partitions)])


def test_a_large_request_is_answered_as_a_small_one_is(tmp_path: Path) -> None:
    async def act(client: Client) -> None:
        await client.create("t", 3)
        await client.produce("t", batch(b"v"), index=2)
        (small,) = (await client.ask(ApiKey.LIST_OFFSETS, offsets(*range(900)))).topics
        (large,) = (await client.ask(ApiKey.LIST_OFFSETS, offsets(*range(COUNT)))).topics
        assert large.name == small.name
        assert large.partitions[:900] == small.partitions
        assert [partition.partition_index for partition in large.partitions] == list(range(COUNT))
        assert [partition.offset for partition in large.partitions[:4]] == [0, 0, 1, -1]

    run(tmp_path, act)


def test_other_requests_are_served_between_portions(tmp_path: Path) -> None:
    async def act(client: Client) -> None:
        await client.create("t")
        large = asyncio.ensure_future(client.ask(ApiKey.LIST_OFFSETS, offsets(*range(COUNT))))
        other = Client(client.broker)
        answered = 0
        while not large.done():
            assert (await other.ask(ApiKey.LIST_OFFSETS, offsets(0))).topics
            answered += 1
            await asyncio.sleep(0)
        assert answered >= COUNT // 1000
        assert len((await large).topics[0].partitions) == COUNT

    run(tmp_path, act)


def test_all_large_requests_together_have_one_portion_in_a_turn(tmp_path: Path) -> None:
    async def act(client: Client) -> None:
        await client.create("t")
        served: list[int] = []
        turn = 0
        serve = client.broker.partitions.find

        def counting(topic: str, index: int) -> Any:
            if not served or served[-1] != turn:
                served.append(turn)
            return serve(topic, index)

        client.broker.partitions.find = counting  # type: ignore[method-assign]
        clients = [Client(client.broker) for _ in range(5)]
        asked = [client.ask(ApiKey.LIST_OFFSETS, offsets(*range(COUNT))) for client in clients]
        everything = asyncio.gather(*asked)
        while not everything.done():
            turn += 1
            await asyncio.sleep(0)
        assert len(served) >= 5 * COUNT // 1000

    run(tmp_path, act)


def test_a_large_produce_is_not_overtaken(tmp_path: Path) -> None:
    """Both are sent at once, the second one for the last partition of the first."""
    count = 1200

    async def act(client: Client) -> None:
        await client.create("t", count)
        topic_id = client.topic_id("t")
        peer = Peer()

        def produce(*indexes: int) -> bytes:
            data = [PartitionProduceData(index, batch(b"v")) for index in indexes]
            request = ProduceRequest(
                acks=1, timeout=1000, topic_data=[TopicProduceData("t", topic_id, data)]
            )
            parts = peer.request(request, ApiKey.PRODUCE, 13, "c")
            return b"".join(bytes(part) for part in parts)  # type: ignore[arg-type]

        reader, writer = await asyncio.open_connection("127.0.0.1", client.broker.port)
        writer.write(produce(*range(count)) + produce(count - 1))
        answers: list[Any] = []
        while len(answers) < 2:
            peer.receive_data(await reader.read(1 << 16))
            while (response := peer.next_response()) is not None:
                answers.append(response.body)
        first, second = (answer.responses[0].partition_responses for answer in answers)
        assert [partition.index for partition in first] == list(range(count))
        assert {(partition.error_code, partition.base_offset) for partition in first} == {(0, 0)}
        assert [(partition.index, partition.base_offset) for partition in second] == [
            (count - 1, 1)
        ]
        writer.close()

    run(tmp_path, act)


def test_the_requests_of_a_departed_client_are_finished(tmp_path: Path) -> None:
    """As in Kafka, an OffsetCommit is processed completely."""

    async def act(client: Client) -> None:
        await client.create("t")
        request = client.receive_message(ApiKey.LIST_OFFSETS, offsets(*range(COUNT)), 11)
        answer = asyncio.ensure_future(client.dispatch(request))
        await asyncio.sleep(0)
        client.broker.disconnected(client._session)
        response = await answer
        assert isinstance(response, EncodedResponse)
        assert len(response.response.topics[0].partitions) == COUNT  # type: ignore[attr-defined]

    run(tmp_path, act)


def test_a_large_fetch_ends_with_its_client(tmp_path: Path) -> None:
    """Otherwise it would stay in purgatory until max_wait, and wake with every append."""

    async def act(client: Client) -> None:
        await client.create("t")
        partitions = [FetchPartition(partition=0)] + [
            FetchPartition(partition=0, fetch_offset=0) for _ in range(4000)
        ]
        topic = FetchTopic(topic_id=client.topic_id("t"), partitions=partitions)
        fetch = FetchRequest(max_wait=2**31 - 1, min_bytes=1, max_bytes=1, topics=[topic])
        request = client.receive_message(ApiKey.FETCH, fetch, 13)
        assert request.size > READ_BYTES_MAX
        answer = asyncio.ensure_future(client.dispatch(request))
        while client._session.wait is None:
            await asyncio.sleep(0.01)
        client.broker.disconnected(client._session)
        with pytest.raises(asyncio.CancelledError):
            await answer
        assert client._session.wait is None

    run(tmp_path, act)


def test_a_malformed_large_request_closes_its_connection(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    junk = b"\xff" * 100_000
    frame = struct.pack(">ihhih", 10 + len(junk), ApiKey.LIST_OFFSETS, 5, 1, -1) + junk

    def send(port: int) -> bytes:
        with closing(socket.create_connection(("127.0.0.1", port), timeout=60)) as sock:
            sock.sendall(frame)
            return sock.recv(1)

    async def act(client: Client) -> None:
        assert await asyncio.to_thread(send, client.broker.port) == b""
        assert await Client(client.broker).ask(ApiKey.API_VERSIONS, ApiVersionsRequest(), 2)

    with caplog.at_level(logging.WARNING):
        run(tmp_path, act)
    assert "ListOffsets v5" in caplog.text
    assert not any(record.exc_info for record in caplog.records)


def test_an_envelope_with_a_large_request_is_served_in_turns(tmp_path: Path) -> None:
    from ottla.broker.forwarding import _enveloped
    from ottla.wire.apis import APIS
    from ottla.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
    from ottla.wire.peer import read_response

    async def act(client: Client) -> None:
        await client.create("t")
        names = [f"no-such-topic-{number:05}" for number in range(4000)]
        inner = DeleteTopicsRequest(topics=[DeleteTopicState(name) for name in [*names, "t"]])
        session = client._session
        envelope = _enveloped(inner, ApiKey.DELETE_TOPICS, 6, "c", session)
        assert isinstance(envelope, EnvelopeRequest)
        assert len(envelope.request_data) > 1 << 16
        asked = asyncio.ensure_future(client.ask(ApiKey.ENVELOPE, envelope))
        turns = 0
        while not asked.done():
            turns += 1
            await asyncio.sleep(0)
        answer = await asked
        assert answer.error_code == 0
        api = APIS[ApiKey.DELETE_TOPICS]
        found: Any = read_response(answer.response_data, api, 6, 0).body
        assert [response.error_code for response in found.responses] == [3] * 4000 + [0]
        assert turns > 400

    run(tmp_path, act)
