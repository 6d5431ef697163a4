"""No request blocks the loop: each API with the largest request that the limits allow.

Measures the processor time that the loop's thread takes for one callback, so that a busy machine
does not matter; a slow machine gets proportionally more time.
"""

from __future__ import annotations

import asyncio
import gc
import socket
import struct
import time
from asyncio.events import Handle
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from data_path_broker import Client, run
from every_request import GROUP, TOPIC, TXN
from largest_requests import largest

from machine_speed import measures_coverage, slowness
from ottla.broker.broker import Broker
from ottla.broker.dispatch import ROUTES
from ottla.broker.process import collect_rarely
from ottla.config import ServerConfig
from ottla.wire.apis import ApiKey
from ottla.wire.fields import Message
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest
from ottla.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from ottla.wire.peer import Peer

HOLD_S_MAX = 0.1
TRIES = 3  # the best counts

# This many elements block the loop for longer than that in one piece. Expensive ones, such as
# topics, which have files, are fewer.
CUT_COUNT = 20_000
DEAR = {ApiKey.CREATE_TOPICS: 200, ApiKey.METADATA: 200}
PARTS = 4  # of the APIs, so that they can run in parallel
SASL_BYTES_MAX = 524_288
USERS = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="secret";'
SASL = {
    "listeners": "SASL_PLAINTEXT://127.0.0.1:0,PLAINTEXT://127.0.0.1:0",
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": USERS,
}


class LongestHold:
    """The longest callback of this thread's loops, and its name."""

    def __init__(self) -> None:
        self.hold_s = 0.0
        self.what = ""

    def reset(self) -> None:
        self.hold_s, self.what = 0.0, ""


@contextmanager
def measured(monkeypatch: pytest.MonkeyPatch) -> Iterator[LongestHold]:
    longest = LongestHold()
    run_callback = Handle._run

    def timed(handle: Handle) -> None:
        started = time.thread_time()
        run_callback(handle)
        spent_s = time.thread_time() - started
        if spent_s > longest.hold_s:
            longest.hold_s, longest.what = spent_s, repr(handle)[:300]

    with monkeypatch.context() as patch:
        patch.setattr(Handle, "_run", timed)
        yield longest


def ask(port: int, key: ApiKey, request: Message, version: int) -> None:
    parts = Peer().request(request, key, version, "large")
    send(port, b"".join(bytes(part) for part in parts))  # type: ignore[arg-type]


def send(port: int, data: bytes) -> None:
    """Sends a request and waits for a response or a closed connection."""
    with closing(socket.create_connection(("127.0.0.1", port), timeout=300)) as sock:
        try:
            sock.sendall(data)
            head = sock.recv(4, socket.MSG_WAITALL)
            left = struct.unpack(">i", head)[0] if len(head) == 4 else 0
            while left and (count := len(sock.recv(min(left, 1 << 20)))):
                left -= count
        except ConnectionError:
            pass


async def prepare(client: Client) -> bytes:
    """Creates a topic and the coordinators; returns the id of the topic."""
    await client.create(TOPIC)
    for kind, name in ((0, GROUP), (1, TXN)):
        while True:
            found = await client.ask(
                ApiKey.FIND_COORDINATOR,
                FindCoordinatorRequest(key_type=kind, coordinator_keys=[name]),
            )
            if not found.coordinators[0].error_code:
                break
            await asyncio.sleep(0.01)
    asked = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(GROUP, topics=None)])
    while (await client.ask(ApiKey.OFFSET_FETCH, asked)).groups[0].error_code:
        await asyncio.sleep(0.01)
    return client.topic_id(TOPIC)


def is_short(hold_s: float) -> bool:
    """Measures the speed of the machine only where it matters, because that takes 60 ms."""
    return hold_s < HOLD_S_MAX or hold_s < HOLD_S_MAX * slowness()


def over_limit(longest: LongestHold, port: int, topic_id: bytes, keys: list[int]) -> list[str]:
    """The lists of these APIs that blocked the loop for too long."""
    found = []
    for key in map(ApiKey, keys):
        version = ROUTES[key].version_max
        for label, request in largest(key, version, topic_id, DEAR.get(key, CUT_COUNT)):
            for _ in range(TRIES):
                longest.reset()
                ask(port, key, request, version)
                if is_short(longest.hold_s):
                    break
            else:
                found.append(f"{label}: {longest.hold_s * 1000:.0f} ms in {longest.what}")
    return found


@pytest.mark.skipif(measures_coverage(), reason="coverage takes most of the time")
@pytest.mark.parametrize("part", range(PARTS))
def test_no_request_blocks_the_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: int
) -> None:
    keys = sorted(ROUTES)[part::PARTS]

    async def act(client: Client) -> None:
        topic_id, port = await prepare(client), client.broker.port
        with measured(monkeypatch) as longest:
            over = await asyncio.to_thread(over_limit, longest, port, topic_id, keys)
        assert over == []

    thresholds = gc.get_threshold()
    collect_rarely()  # what it freezes may stay frozen, like the items of every test (conftest)
    try:
        run(tmp_path, act, group_initial_rebalance_delay_ms="0")
    finally:
        gc.set_threshold(*thresholds)


@pytest.mark.parametrize("key", [ApiKey.API_VERSIONS, ApiKey.SASL_AUTHENTICATE])
def test_no_request_before_authentication_holds_the_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: ApiKey
) -> None:
    """As large as sasl.server.max.receive.size allows, and full of tagged fields."""

    async def play() -> None:
        broker = Broker(ServerConfig({"log.dirs": str(tmp_path), **SASL}))
        await broker.start()
        try:
            holds_s = []
            for _ in range(TRIES):
                with measured(monkeypatch) as longest:
                    await asyncio.to_thread(send, broker.port, tagged(key))
                holds_s.append(longest.hold_s)
            assert min(holds_s) > 0
            assert is_short(min(holds_s))
        finally:
            await broker.stop()

    asyncio.run(play())


def tagged(key: ApiKey) -> bytes:
    """The largest request before authentication, nearly all of it useless tagged fields."""
    count = 9_999
    fields = b"".join(_uvarint(number) + b"\x01x" for number in range(count))
    header = struct.pack(">hhih", key, ROUTES[key].version_max, 1, -1)
    body = header + _uvarint(count) + fields
    body += bytes(SASL_BYTES_MAX - len(body))
    return struct.pack(">i", len(body)) + body


def _uvarint(number: int) -> bytes:
    return bytes([number & 0x7F | 0x80, number >> 7]) if number > 0x7F else bytes([number])
