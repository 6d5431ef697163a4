"""Malformed bytes are refused, whatever is wrong with them."""

from __future__ import annotations

import random
import struct
import zlib
from importlib import import_module

import kio_oracle
import pytest
from kio.schema.index import api_key_map

from ottla.wire.apis import APIS, Api
from ottla.wire.connection import Connection, ProtocolError
from ottla.wire.fields import MalformedError
from ottla.wire.messages.metadata import MetadataRequest

CUTS = 40  # places at which each message is cut; all of them where it is shorter
CHANGES = 50

ALL = [pytest.param(*message, id="-".join(message[:2])) for message in kio_oracle.all_messages()]


def cuts(data: bytes, source: random.Random) -> list[int]:
    lengths = range(len(data))
    return list(lengths) if len(data) <= CUTS else sorted(source.sample(lengths, CUTS))


@pytest.mark.parametrize(("module", "kind", "versions"), ALL)
def test_a_truncated_message_is_malformed(module: str, kind: str, versions: list[int]) -> None:
    names = import_module(f"ottla.wire.messages.{module}")
    for version in versions:
        cls = kio_oracle.kio_class(module, kind, version)
        read = getattr(names, cls.__name__).read
        source = random.Random(zlib.crc32(f"{module} {kind} {version}".encode()))
        data = kio_oracle.kio_bytes(kio_oracle.random_message(cls, source))
        for length in cuts(data, source):
            with pytest.raises(MalformedError):
                read(memoryview(data)[:length], 0, version)


@pytest.mark.parametrize(("module", "kind", "versions"), ALL)
def test_changed_bytes_give_another_message_or_are_malformed(
    module: str, kind: str, versions: list[int]
) -> None:
    names = import_module(f"ottla.wire.messages.{module}")
    version = versions[-1]
    cls = kio_oracle.kio_class(module, kind, version)
    read = getattr(names, cls.__name__).read
    source = random.Random(zlib.crc32(f"{module} {kind}".encode()))
    original = kio_oracle.kio_bytes(kio_oracle.random_message(cls, source))
    for _ in range(CHANGES if original else 0):
        data = bytearray(original)
        for _ in range(source.randint(1, 3)):
            data[source.randrange(len(data))] = source.choice([0, 1, 0x7F, 0x80, 0xFF])
        try:
            message, _ = read(memoryview(data), 0, version)
        except MalformedError:
            continue
        written = kio_oracle.our_bytes(message, version)
        again, end = read(written, 0, version)
        assert end == len(written)
        assert kio_oracle.our_bytes(again, version) == written


@pytest.mark.parametrize("api", list(APIS.values()), ids=lambda api: api.name)
def test_a_truncated_request_is_a_protocol_error(api: Api) -> None:
    key, version = api.key, api.version_max
    source = random.Random(key)
    cls = kio_oracle.kio_class(api_key_map[key], "request", version)
    body = kio_oracle.kio_bytes(kio_oracle.random_message(cls, source))
    tags = b"\0" if version >= api.flexible_from else b""
    data = struct.pack(">hhih", key, version, 1, 2) + b"me" + tags + body
    for length in cuts(data, source):
        connection = Connection({key: (0, version)}, frame_bytes_max=1 << 20)
        frame = struct.pack(">i", length) + data[:length]
        connection.get_buffer(-1)[: len(frame)] = frame
        connection.received(len(frame))
        with pytest.raises(ProtocolError):
            connection.next_request()


@pytest.mark.parametrize(
    ("body", "version"),
    [
        pytest.param(b"\x7f\xff\xff\xff", 1, id="a count without elements"),
        pytest.param(b"\xff\xff\xff\xfe\0\0\0\0", 1, id="a count below null"),
        pytest.param(b"\xff\xff\xff\xff\x0f", 12, id="a compact count of 2^32 - 2"),
        pytest.param(b"\xff\xff\xff\xff\xff\x01", 12, id="a varint of six bytes"),
        pytest.param(b"\0\0\0\1\xff\xff", 1, id="null where it is not allowed"),
        pytest.param(b"\0\0\0\1\x80\x00", 1, id="a string of -32768 bytes"),
        pytest.param(b"\0\0\0\1\0\2\xff\xfe", 1, id="not utf-8"),
        pytest.param(b"\0\0\0\1\0\1\xc5", 1, id="half a utf-8 character"),
        pytest.param(b"\1\0\0\1\0\x7f\0", 12, id="a tag longer than the message"),
    ],
)
def test_absurd_lengths_and_counts_are_malformed(body: bytes, version: int) -> None:
    with pytest.raises(MalformedError):
        MetadataRequest.read(body, 0, version)
