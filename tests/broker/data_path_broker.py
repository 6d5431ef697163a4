"""A whole broker, driven without a socket: requests and responses go through the bytes of a frame.

A `Client` is the client's end of a conversation (Peer) and the server's (Connection), back to back,
with the broker behind it; it does with answers what `net/` does.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from ottla.broker.broker import Broker
from ottla.cluster.topics import TopicSpec
from ottla.config import ServerConfig
from ottla.errors import ErrorCode
from ottla.records.batch import build_batch, read_header
from ottla.records.record import Record, read_records
from ottla.slices import FileSlice
from ottla.testing.manual_clock import START_MS, ManualClock
from ottla.wire.apis import ApiKey
from ottla.wire.connection import Connection, Request
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from ottla.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)
from ottla.wire.peer import Peer

NOW_MS = START_MS
ROOM = 1 << 20


class Client:
    """A client of `broker`, with this client id."""

    def __init__(self, broker: Broker, client_id: str | None = "test") -> None:
        self.broker = broker
        self.client_id = client_id
        self._peer = Peer()
        self._wire = Connection(
            broker.served, frame_bytes_max=broker.config.socket_request_max_bytes
        )
        self._session = broker.connected("PLAINTEXT", "127.0.0.1", 1)

    def begin(self, key: ApiKey, request: Any, version: int) -> Callable[[], Awaitable[Any]]:
        """Submits a request; the result waits for the response and decodes it."""
        received = self.receive_message(key, request, version)
        answer = self.dispatch(received)

        async def end() -> Any:
            response = await answer if inspect.isawaitable(answer) else answer
            for part in self._wire.reply(received, response):
                self._peer.receive_data(part.read() if isinstance(part, FileSlice) else part)
            outcome = self._peer.next_response()
            return None if outcome is None else outcome.body

        return end

    async def ask(self, key: ApiKey, request: Any, version: int | None = None) -> Any:
        """The response, as a client of this version (by default the newest) decodes it."""
        if version is None:
            version = self.broker.served[key][1]
        return await self.begin(key, request, version)()

    def receive_message(self, key: ApiKey, request: Any, version: int) -> Request:
        parts = self._peer.request(request, key, version, self.client_id)
        return self.receive(b"".join(bytes(part) for part in parts))  # type: ignore[arg-type]

    def receive(self, data: bytes) -> Request:
        """The server's requests from these bytes, in pieces that fit its buffer."""
        request = None
        while data:
            assert request is None
            room = self._wire.get_buffer(len(data))
            count = min(len(room), len(data))
            room[:count] = data[:count]
            self._wire.received(count)
            data = data[count:]
            request = self._wire.next_request()
        assert request is not None
        return request

    def reply(self, request: Request) -> list[Any]:
        """The parts of an immediate response."""
        return self._wire.reply(request, self.dispatch(request))

    def dispatch(self, request: Request) -> Any:
        """What the broker gives to `net/`: a response, an awaitable of one, or None."""
        return self.broker.dispatch(self._session, request)

    # The data path

    async def create(self, name: str, partitions: int = 1, **configs: str) -> None:
        settings = {key.replace("_", "."): value for key, value in configs.items()}
        spec = TopicSpec(name, partitions, configs=settings)
        result = (await self.broker.controller.create_topics([spec]))[name]
        assert not isinstance(result, Exception), result

    async def produce(
        self, topic: str, data: bytes | None, version: int = 13, index: int = 0, **options: Any
    ) -> PartitionProduceResponse:
        request = self.produce_request(topic, data, index, **options)
        response = await self.ask(ApiKey.PRODUCE, request, version)
        (answered,) = response.responses
        if version >= 13:
            assert answered.topic_id == request.topic_data[0].topic_id
        else:
            assert answered.name == topic
        (outcome,) = answered.partition_responses
        assert outcome.index == index
        return outcome  # type: ignore[no-any-return]

    def produce_request(
        self, topic: str, data: bytes | None, index: int = 0, *, acks: int = -1, **options: Any
    ) -> ProduceRequest:
        partition = PartitionProduceData(index=index, records=data)
        asked = TopicProduceData(topic, self.topic_id(topic), [partition])
        return ProduceRequest(acks=acks, timeout=1000, topic_data=[asked], **options)

    async def fetch(
        self, topic: str, offset: int, version: int = 18, index: int = 0, **options: Any
    ) -> PartitionData:
        """The only partition in the response of a fetch without a session."""
        request = self.fetch_request(topic, {index: offset}, **options)
        response = await self.ask(ApiKey.FETCH, request, version)
        assert (response.error_code, response.session_id) == (0, 0)
        (answered,) = response.responses
        if version >= 13:
            assert answered.topic_id == request.topics[0].topic_id
        else:
            assert answered.topic == topic
        (outcome,) = answered.partitions
        assert outcome.partition_index == index
        return outcome  # type: ignore[no-any-return]

    def fetch_request(
        self,
        topic: str,
        offsets: dict[int, int],
        *,
        partition: dict[str, Any] | None = None,
        **options: Any,
    ) -> FetchRequest:
        """Fetches these partitions; by default without waiting."""
        more = {"partition_max_bytes": ROOM, **(partition or {})}
        partitions = [
            FetchPartition(partition=index, fetch_offset=offset, **more)
            for index, offset in offsets.items()
        ]
        topics = [FetchTopic(topic, self.topic_id(topic), partitions)]
        return FetchRequest(topics=topics, **{"max_wait": 0, "min_bytes": 1, **options})

    def topic_id(self, topic: str) -> bytes:
        known = self.broker.image.topics.get(topic)
        return bytes(range(16)) if known is None else known.id


def batch(*values: bytes, key: bytes | None = b"k", timestamp: int = NOW_MS, **more: Any) -> bytes:
    return build_batch([Record(timestamp=timestamp, key=key, value=v) for v in values], **more)


def by_producer(sequence: int, *values: bytes, producer: int = 7, epoch: int = 0) -> bytes:
    return batch(*values, producer_id=producer, producer_epoch=epoch, base_sequence=sequence)


def records_of(outcome: PartitionData) -> list[Record]:
    """The records of the whole batches in a partition's answer."""
    found: list[Record] = []
    data = bytes(outcome.records or b"")  # type: ignore[arg-type]
    position = 0
    while position < len(data):
        header = read_header(data, position)
        if position + header.size > len(data):
            break
        found += read_records(data, header)
        position += header.size
    return found


def code(outcome: Any) -> str:
    return ErrorCode(outcome.error_code).name


Act = Callable[[Client], Awaitable[None]]


def run(path: Path, *acts: Act, clock: ManualClock | None = None, **properties: str) -> None:
    """Each act has its own broker process; the broker restarts between acts."""

    async def play() -> None:
        for act in acts:
            broker = Broker(broker_config(path, **properties), clock=clock or ManualClock())
            await broker.start()
            try:
                await act(Client(broker))
            finally:
                await broker.stop()

    asyncio.run(play())


def broker_config(path: Path, **properties: str) -> ServerConfig:
    return ServerConfig(
        {
            "log.dirs": str(path / "logs"),
            "listeners": "PLAINTEXT://127.0.0.1:0",
            "offsets.topic.num.partitions": "3",
            "ottla.metadata.sync.enable": "false",
            **{key.replace("_", "."): value for key, value in properties.items()},
        }
    )


def waiters(broker: Broker) -> int:
    """All registered waiters; there are none when no request waits."""
    return sum(len(partition.waiting) for partition in broker.partitions)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.001)
