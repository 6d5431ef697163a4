"""A load of pre-built frames on raw sockets, in its own process. Prints one JSON line.

    python -m benchmarks.raw_load requests --port 9092 --topic t --connections 16 --seconds 3
    python -m benchmarks.raw_load idle --port 9092 --connections 1000     (until stdin closes)

Real clients batch, retry and copy; this one does nothing but send and count, so that the broker is
what it measures. Every reply is counted, its error code checked where that is free (one request in
flight), and at the end the partitions must hold as many new records as were acknowledged.
"""

from __future__ import annotations

import argparse
import gc
import json
import select
import socket
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from benchmarks import frames

RECEIVE_BYTES = 1 << 16
REPLY_TIMEOUT_S = 30.0
CONNECT_BURST = 50


@dataclass(frozen=True, slots=True)
class RawResult:
    acked: int
    elapsed_s: float
    p50_us: float
    p99_us: float

    @property
    def rate(self) -> float:
        return self.acked / self.elapsed_s


class LoadConnection:
    """One connection: sends `chunk` requests at a time and keeps at most two chunks in flight."""

    def __init__(self, sock: socket.socket, topic: str, partition: int, chunk: int, value: bytes):
        self.sock = sock
        self.chunk = chunk
        self.frames = frames.produce_frame(topic, partition, value=value) * chunk
        self.chunk_reply_size = frames.produce_reply_size(topic) * chunk
        self.received = 0
        self.sent_chunks = 0

    def send(self) -> None:
        self.sock.sendall(self.frames)
        self.sent_chunks += 1

    def receive(self) -> int:
        """Receives what has arrived; returns how many chunks are now complete."""
        data = self.sock.recv(RECEIVE_BYTES)
        if not data:
            raise ConnectionError("the broker closed the connection")
        before = self.received // self.chunk_reply_size
        self.received += len(data)
        return self.received // self.chunk_reply_size - before

    def done(self) -> bool:
        return self.received == self.sent_chunks * self.chunk_reply_size


def run_requests(
    *,
    port: int,
    topic: str,
    partitions: int,
    connections: int,
    depth: int,
    seconds: float,
    size: int,
) -> RawResult:
    value = b"x" * size
    socks = connect_all(port, connections)
    probe = connect(port)
    before = end_offsets(probe, topic, partitions)
    chunk = max(1, depth // 2)
    lanes = [LoadConnection(s, topic, i % partitions, chunk, value) for i, s in enumerate(socks)]
    gc.disable()
    if connections == 1 and depth == 1:
        result = _one_in_flight(lanes[0], topic, seconds)
    else:
        result = _many(lanes, chunks_in_flight=1 if depth == 1 else 2, seconds=seconds)
    stored = end_offsets(probe, topic, partitions) - before
    if stored != result.acked:
        raise SystemExit(f"{result.acked} records acknowledged, but {stored} are in the log")
    return result


def _one_in_flight(lane: LoadConnection, topic: str, seconds: float) -> RawResult:
    sock, frame = lane.sock, lane.frames
    reply_size, error_at = lane.chunk_reply_size, frames.produce_error_position(topic)
    latencies: list[int] = []
    clock = time.perf_counter_ns
    start = now = clock()
    deadline = start + int(seconds * 1e9)
    while now < deadline:
        sock.sendall(frame)
        reply = sock.recv(RECEIVE_BYTES)
        while len(reply) < reply_size:
            more = sock.recv(RECEIVE_BYTES)
            if not more:
                raise ConnectionError("the broker closed the connection")
            reply += more
        if reply[error_at : error_at + 2] != b"\0\0":
            raise SystemExit(f"Produce answered with error {frames.produce_error(topic, reply)}")
        then, now = now, clock()
        latencies.append(now - then)
    latencies.sort()
    return RawResult(
        acked=len(latencies),
        elapsed_s=(now - start) / 1e9,
        p50_us=percentile(latencies, 0.50) / 1e3,
        p99_us=percentile(latencies, 0.99) / 1e3,
    )


def _many(lanes: Sequence[LoadConnection], *, chunks_in_flight: int, seconds: float) -> RawResult:
    poller = select.epoll()
    by_fd = {lane.sock.fileno(): lane for lane in lanes}
    for fd in by_fd:
        poller.register(fd, select.EPOLLIN)
    start = time.perf_counter()
    deadline = start + seconds
    for lane in lanes:
        for _ in range(chunks_in_flight):
            lane.send()
    open_lanes = len(lanes)
    while open_lanes:
        events = poller.poll(REPLY_TIMEOUT_S)
        if not events:
            raise SystemExit(f"no reply in {REPLY_TIMEOUT_S} s")
        sending = time.perf_counter() < deadline
        for fd, _ in events:
            lane = by_fd[fd]
            whole = lane.receive()
            if sending:
                for _ in range(whole):
                    lane.send()
            elif lane.done():
                open_lanes -= 1
                poller.unregister(fd)
    elapsed_s = time.perf_counter() - start
    acked = sum(lane.sent_chunks * lane.chunk for lane in lanes)
    return RawResult(acked=acked, elapsed_s=elapsed_s, p50_us=0.0, p99_us=0.0)


def connect(port: int) -> socket.socket:
    sock = socket.create_connection(("127.0.0.1", port), timeout=REPLY_TIMEOUT_S)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock


def connect_all(port: int, count: int) -> list[socket.socket]:
    """Opens connections in bursts: a listen backlog is 50 by default in Kafka, and an overflow
    would cost a second of SYN retry that says nothing about the broker."""
    socks: list[socket.socket] = []
    for first in range(0, count, CONNECT_BURST):
        burst = [connect(port) for _ in range(min(CONNECT_BURST, count - first))]
        for sock in burst:
            call(sock, frames.api_versions_frame())
        socks += burst
    return socks


def call(sock: socket.socket, frame: bytes) -> bytes:
    """One request and its whole reply, length included."""
    sock.sendall(frame)
    reply = b""
    while len(reply) < 4 or len(reply) < 4 + int.from_bytes(reply[:4], "big"):
        data = sock.recv(RECEIVE_BYTES)
        if not data:
            raise ConnectionError("the broker closed the connection")
        reply += data
    return reply


def end_offsets(sock: socket.socket, topic: str, partitions: int) -> int:
    """The sum over the partitions of a topic."""
    replies = (call(sock, frames.end_offset_frame(topic, p)) for p in range(partitions))
    return sum(frames.end_offset(topic, reply) for reply in replies)


def percentile(ordered: Sequence[int], fraction: float) -> float:
    """Nearest rank; the values must be in order."""
    if not ordered:
        return 0.0
    return float(ordered[min(len(ordered) - 1, int(len(ordered) * fraction))])


def hold_idle(port: int, connections: int) -> None:
    socks = connect_all(port, connections)
    print(json.dumps({"connections": len(socks)}), flush=True)
    sys.stdin.read()
    for sock in socks:
        sock.close()


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.raw_load")
    parser.add_argument("mode", choices=["requests", "idle"])
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--topic", default="bench")
    parser.add_argument("--partitions", type=int, default=1)
    parser.add_argument("--connections", type=int, default=1)
    parser.add_argument("--depth", type=int, default=1, help="requests in flight per connection")
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--size", type=int, default=100)
    given = parser.parse_args()
    if given.mode == "idle":
        hold_idle(given.port, given.connections)
        return
    result = run_requests(
        port=given.port,
        topic=given.topic,
        partitions=given.partitions,
        connections=given.connections,
        depth=given.depth,
        seconds=given.seconds,
        size=given.size,
    )
    print(json.dumps(asdict(result)), flush=True)


if __name__ == "__main__":
    main()
