"""A client that sends exactly the given request in exactly the given version.

kio, another implementation, encodes and decodes messages, so a mistake in wire/ cannot hide
behind the same mistake in its test. Fields that a test does not name are zero, empty or null.
"""

from __future__ import annotations

import datetime
import io
import socket
import struct
import time
import types
import typing
from collections.abc import Sequence
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from typing import Any

import crc32c
from kio.index import load_request_schema, load_response_schema
from kio.schema.errors import ErrorCode
from kio.serial import entity_reader, entity_writer

from message_supplement import SUPPLEMENT, next_version

TIMEOUT_S = 60.0
KEYS = {
    "produce": 0, "fetch": 1, "list_offsets": 2, "metadata": 3, "offset_commit": 8,
    "offset_fetch": 9, "find_coordinator": 10, "join_group": 11, "heartbeat": 12, "leave_group": 13,
    "sync_group": 14, "describe_groups": 15, "list_groups": 16, "sasl_handshake": 17,
    "api_versions": 18, "create_topics": 19, "delete_topics": 20, "delete_records": 21,
    "init_producer_id": 22, "offset_for_leader_epoch": 23, "describe_acls": 29,
    "describe_configs": 32, "alter_configs": 33, "describe_log_dirs": 35, "sasl_authenticate": 36,
    "create_partitions": 37,
    "delete_groups": 42, "incremental_alter_configs": 44, "offset_delete": 47,
    "describe_user_scram_credentials": 50, "describe_cluster": 60, "describe_topic_partitions": 75,
    "share_group_heartbeat": 76, "share_group_describe": 77, "share_fetch": 78,
    "share_acknowledge": 79, "initialize_share_group_state": 83, "read_share_group_state": 84,
    "write_share_group_state": 85, "describe_share_group_offsets": 90,
}  # fmt: skip


@cache
def schema_of(api: str, kind: str, version: int) -> Any:
    """kio's class, or one that the supplement makes of kio's newest."""
    addition = SUPPLEMENT.get(api)
    if addition is not None and version == addition.version:
        return next_version(schema_of(api, kind, version - 1), addition)
    load = load_request_schema if kind == "request" else load_response_schema
    return load(KEYS[api], version)


class RawClient:
    """One connection; `call` for a request and its reply, `send` and `receive` to pipeline."""

    def __init__(self, bootstrap: str, client_id: str = "raw") -> None:
        host, port = bootstrap.rsplit(":", 1)
        self.socket = socket.create_connection((host, int(port)), timeout=TIMEOUT_S)
        self.client_id = client_id
        self._correlation_id = 0

    def __enter__(self) -> RawClient:
        return self

    def __exit__(self, *exception: object) -> None:
        self.socket.close()

    def call(self, api: str, version: int, **values: Any) -> Any:
        return self.receive(api, version, self.send(api, version, **values))

    def send(self, api: str, version: int, **values: Any) -> int:
        """Sends a request and returns its correlation id."""
        self._correlation_id += 1
        frame = self.frame(api, version, self._correlation_id, **values)
        self.send_bytes(frame)
        return self._correlation_id

    def frame(self, api: str, version: int, correlation_id: int = 1, **values: Any) -> bytes:
        schema = schema_of(api, "request", version)
        header = build(
            schema.__header_schema__, request_api_key=KEYS[api], request_api_version=version,
            correlation_id=correlation_id, client_id=self.client_id,
        )  # fmt: skip
        payload = _write(header) + _write(build(schema, **values))
        return struct.pack(">i", len(payload)) + payload

    def send_bytes(self, data: bytes) -> None:
        self.socket.sendall(data)

    def receive(self, api: str, version: int, correlation_id: int) -> Any:
        frame = self.receive_frame()
        assert struct.unpack_from(">i", frame)[0] == correlation_id, "replies come in order"
        schema = schema_of(api, "response", version)
        flexible_header = schema.__header_schema__.__flexible__
        if flexible_header:
            assert frame[4] == 0, "a response header without tagged fields"
        message, size = _read(schema, frame, 5 if flexible_header else 4)
        assert size == len(frame), f"{len(frame) - size} bytes after the response"
        return message

    def receive_frame(self) -> bytes:
        (size,) = struct.unpack(">i", self.receive_exactly(4))
        return self.receive_exactly(size)

    def receive_exactly(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            chunk = self.socket.recv(size - len(data))
            if not chunk:
                raise ConnectionError("the broker closed the connection")
            data += chunk
        return bytes(data)

    def is_closed_by_broker(self) -> bool:
        """Waits until the broker closes the connection, and discards what it sends before."""
        try:
            while self.socket.recv(65536):
                pass
        except TimeoutError:
            return False
        except ConnectionError:
            return True
        return True


def new_producer(client: RawClient) -> tuple[int, int]:
    """A producer id and its epoch; a broker that has just started may ask for patience."""
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        values = {"transactional_id": None, "transaction_timeout": 60_000}
        given = client.call("init_producer_id", 4, **values)
        if given.error_code == code("none"):
            return given.producer_id, given.producer_epoch
        assert given.error_code == code("coordinator_load_in_progress"), given
        assert time.monotonic() < deadline
        time.sleep(0.1)


def build(schema: Any, **values: Any) -> Any:
    """An entity from plain values: dictionaries for nested entities, ints for milliseconds."""
    unknown = values.keys() - {field.name for field in fields(schema)}
    assert not unknown, f"{schema.__name__} v{schema.__version__} has no {unknown}"
    hints = _hints(schema)
    filled = {}
    for field in fields(schema):
        hint = hints[field.name]
        if field.name in values:
            filled[field.name] = _convert(hint, values[field.name])
        elif field.default is MISSING:
            filled[field.name] = _zero(hint)
    return schema(**filled)


def batch(
    values: Sequence[bytes | None],
    *,
    keys: Sequence[bytes | None] | None = None,
    timestamp: int = 1_700_000_000_000,
    producer: tuple[int, int, int] = (-1, -1, -1),
    magic: int = 2,
    attributes: int = 0,
    records: bytes | None = None,
) -> bytes:
    """A record batch of format 2 as a client writes it; `records` replaces its body."""
    body = b"".join(_record(i, keys[i] if keys else None, value) for i, value in enumerate(values))
    last, at = len(values) - 1, timestamp
    checked = struct.pack(">hiqqqhii", attributes, last, at, at, *producer, len(values))
    checked += body if records is None else records
    head = struct.pack(">ibI", -1, magic, crc32c.crc32c(checked))
    return struct.pack(">qi", 0, len(head) + len(checked)) + head + checked


def code(name: str) -> ErrorCode:
    return ErrorCode[name.lower()]


def _record(offset_delta: int, key: bytes | None, value: bytes | None) -> bytes:
    body = b"\x00" + _varint(0) + _varint(offset_delta) + _field(key) + _field(value) + _varint(0)
    return _varint(len(body)) + body


def _field(data: bytes | None) -> bytes:
    return _varint(-1) if data is None else _varint(len(data)) + data


def _varint(value: int) -> bytes:
    rest = (value << 1) ^ (value >> 63)
    out = bytearray()
    while rest > 127:
        out.append(rest & 127 | 128)
        rest >>= 7
    out.append(rest)
    return bytes(out)


def _write(entity: Any) -> bytes:
    buffer = io.BytesIO()
    entity_writer(type(entity))(buffer, entity)
    return buffer.getvalue()


def _read(schema: Any, data: bytes, position: int) -> tuple[Any, int]:
    message, size = entity_reader(schema)(data, position)
    return message, position + size


@cache
def _hints(schema: Any) -> dict[str, Any]:
    return typing.get_type_hints(schema)


def _is_union(hint: Any) -> bool:
    return isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union


def _convert(hint: Any, value: Any) -> Any:
    if value is None:
        return None
    if _is_union(hint):
        hint = next(
            argument for argument in typing.get_args(hint) if argument is not types.NoneType
        )
    if typing.get_origin(hint) is tuple:
        inner = typing.get_args(hint)[0]
        return tuple(_convert(inner, element) for element in value)
    if is_dataclass(hint):
        return build(hint, **value)
    if isinstance(hint, type) and issubclass(hint, datetime.timedelta):
        return datetime.timedelta(milliseconds=value)
    return value


def _zero(hint: Any) -> Any:
    if _is_union(hint):
        return None
    if typing.get_origin(hint) is tuple:
        return ()
    if isinstance(hint, type):
        for kind, zero in _ZEROES:
            if issubclass(hint, kind):
                return zero
    raise TypeError(f"no zero for {hint}")


_ZEROES: list[tuple[type, Any]] = [
    (bool, False),
    (int, 0),
    (str, ""),
    (bytes, b""),
    (float, 0.0),
    (datetime.timedelta, datetime.timedelta()),
]
