"""The targets of tools/fuzz.py."""

from __future__ import annotations

import random
import struct
import types
import typing
from collections.abc import Callable
from typing import Protocol

from fuzz_damage import mutate
from ottla.errors import KafkaError
from ottla.records.batch import (
    BATCH_OVERHEAD,
    AppendOrigin,
    BatchHeader,
    build_batch,
    check_batches,
    patch,
    read_header,
    rewrite_timestamps,
)
from ottla.records.checksum import crc32c
from ottla.records.compression import compress, decompress
from ottla.records.control import Marker, build_marker, read_marker
from ottla.records.rebuild import rebuild_batch, recompress
from ottla.records.record import Record, read_records, records_without_key
from ottla.wire.apis import APIS, Api
from ottla.wire.connection import Connection, ProtocolError
from ottla.wire.fields import Message, Part, Writer
from ottla.wire.peer import Peer

FRAME_BYTES_MAX = 1 << 20
BATCH_SIZE_MAX = 1 << 20
UNPACKED_SIZE_MAX = 4 << 20
NOW_MS = 1_700_000_000_000
MENDED = 0.7  # how many damaged inputs have their size or checksum put right

STRINGS = ("", "a", "orders", "Žluťoučký kůň", "x" * 126, "x" * 127, "y" * 300, "\0")
NUMBERS = (-1, 0, 1, 2, 7, 100, 127)


class Target(Protocol):
    """Something that reads bytes."""

    name: str

    def make(self, source: random.Random) -> bytes:
        """A valid input, which `run` accepts."""

    def damage(self, data: bytearray, source: random.Random) -> None:
        """Damage a valid input, but mostly repair sizes and checksums, so that it gets further."""

    def run(self, data: bytes, source: random.Random) -> bool:
        """True if the input was accepted, False if it was refused with the right error."""


class Finding(Exception):
    """A target did not fail but contradicted itself."""


def all_targets() -> list[Target]:
    from fuzz_storage import Appends, Storage  # which are built on this module

    return [Frames(), Responses(), Batches(), Payloads(), Appends(), Storage()]


# Messages -----------------------------------------------------------------------------------------


class Frames:
    """Requests of every API and version into a server's Connection, in pieces of any size."""

    name = "frames"

    def __init__(self) -> None:
        self._served = {key: (api.version_min, api.version_max) for key, api in APIS.items()}

    def make(self, source: random.Random) -> bytes:
        frames = []
        peer = Peer()
        for _ in range(source.choice((1, 1, 1, 2, 3))):
            api, version = random_api(source)
            request = random_message(api.request, version, source)
            client_id = source.choice((None, "", "fuzz"))
            frames.append(joined(peer.request(request, api.key, version, client_id)))
        return b"".join(frames)

    def damage(self, data: bytearray, source: random.Random) -> None:
        mutate(data, source)
        if source.random() < MENDED:
            mend_size(data)

    def run(self, data: bytes, source: random.Random) -> bool:
        connection = Connection(self._served, frame_bytes_max=FRAME_BYTES_MAX)
        requests = []
        position = 0
        try:
            while position < len(data):
                room = connection.get_buffer(-1)
                size = min(len(room), len(data) - position, source.choice((1, 7, 100, 1 << 20)))
                room[:size] = data[position : position + size]
                connection.received(size)
                position += size
                while (request := connection.next_request()) is not None:
                    if request.body is not None:
                        check_rereads(request.body, request.version)
                    requests.append(request)
        except ProtocolError:
            return False
        source.shuffle(requests)
        parts = 0
        for request in requests:
            version = 0 if request.unsupported else request.version
            response = random_message(request.api.response, version, source)
            parts += len(connection.reply(request, response))
        if parts < len(requests) or connection.pending():
            raise Finding(f"{len(requests)} requests, but {parts} parts of replies")
        return bool(requests)


class Responses:
    """Responses of every API and version into a client's Peer."""

    name = "responses"

    def make(self, source: random.Random) -> bytes:
        api, version = random_api(source)
        header = api.response_header_version(version)
        writer = Writer()
        start = writer.buffer
        start += struct.pack(">iihh", 0, 0, api.key, version)  # the last two are for `run`
        if header:
            start.append(0)
        random_message(api.response, version, source).write(writer, version)
        frame = bytearray(joined(writer.finish()))
        mend_size(frame)
        return bytes(frame)

    def damage(self, data: bytearray, source: random.Random) -> None:
        mutate(data, source)
        if source.random() < MENDED:
            mend_size(data)

    def run(self, data: bytes, source: random.Random) -> bool:
        if len(data) < 12:
            return False
        key, version = struct.unpack_from(">hh", data, 8)
        api = APIS.get(key)
        if api is None or not api.version_min <= version <= api.version_max:
            return False
        frame = bytearray(data[:8] + data[12:])
        frame[:4] = struct.pack(">i", struct.unpack_from(">i", data)[0] - 4 & 0x7FFFFFFF)
        peer = Peer(response_bytes_max=FRAME_BYTES_MAX)
        peer.request(_no_acks_zero(random_message(api.request, version, source)), key, version)
        try:
            peer.receive_data(frame)
            response = peer.next_response()
        except ProtocolError:
            return False
        if response is not None:
            check_rereads(response.body, response.version)
        return response is not None


def _no_acks_zero(message: Message) -> Message:
    """A Produce that gets a response."""
    if hasattr(message, "acks"):
        message.acks = 1
    return message


def check_rereads(message: Message, version: int) -> None:
    """A message that was read can be written, and then reads the same."""
    first = written(message, version)
    again, position = type(message).read(first, 0, version)  # type: ignore[attr-defined]
    if position != len(first) or written(again, version) != first:
        raise Finding(f"v{version} does not read as it was written: {message!r}")


def written(message: Message, version: int) -> bytes:
    writer = Writer()
    message.write(writer, version)
    return joined(writer.finish())


def joined(parts: list[Part]) -> bytes:
    return b"".join(typing.cast(list[bytes], parts))


def mend_size(data: bytearray) -> None:
    if len(data) >= 4:
        struct.pack_into(">i", data, 0, len(data) - 4)


def random_api(source: random.Random) -> tuple[Api, int]:
    api = APIS[source.choice(list(APIS))]
    return api, source.randint(api.version_min, api.version_max)


def random_message(kind: object, version: int, source: random.Random) -> Message:
    """An instance of one of the generated classes, which can be written in `version`."""
    message = _instance(kind, source, 0.3)
    try:
        message.write(Writer(), version)
    except (AssertionError, struct.error):  # a null or a sign that this version does not know
        return _instance(kind, source, 0.0)
    return message


def _instance(kind: object, source: random.Random, nulls: float) -> Message:
    """By the constructor's annotations; `nulls` is the probability of null, and of -1."""
    cls = typing.cast(type[Message], kind)
    return cls(**{name: _value(hint, source, nulls) for name, hint in _hints(cls).items()})


_HINTS: dict[type, dict[str, object]] = {}


def _hints(cls: type) -> dict[str, object]:
    hints = _HINTS.get(cls)
    if hints is None:
        constructor: Callable[..., None] = cls.__init__  # type: ignore[misc]
        hints = typing.get_type_hints(constructor)
        hints.pop("return", None)
        _HINTS[cls] = hints
    return hints


def _value(hint: object, source: random.Random, nulls: float) -> object:
    if typing.get_origin(hint) in (types.UnionType, typing.Union):
        inner = [part for part in typing.get_args(hint) if part is not types.NoneType]
        if any(typing.get_origin(part) is list for part in inner):
            (hint,) = inner  # None stands for an empty list wherever null is not allowed
        elif bytes in inner:  # records
            return source.choice((b"", build_batch([Record(value=b"v")]), b"\xff" * 70))
        elif source.random() < nulls:
            return None
        else:
            (hint,) = inner
    if typing.get_origin(hint) is list:
        (element,) = typing.get_args(hint)
        return [_value(element, source, nulls) for _ in range(source.choice((0, 1, 1, 2)))]
    if hint is bool:
        return source.random() < 0.5
    if hint is int:
        return source.choice(NUMBERS if nulls else NUMBERS[1:])
    if hint is float:
        return source.choice((0.0, -1.5, 1e300))
    if hint is str:
        return source.choice(STRINGS)
    if hint is bytes:
        return source.randbytes(16)  # a uuid must have this size, and bytes may
    return _instance(hint, source, nulls)


# Batches ------------------------------------------------------------------------------------------


class Batches:
    """Batches, as a client, a coordinator and a leader would send them."""

    name = "batches"

    def make(self, source: random.Random) -> bytes:
        return b"".join(random_batch(source) for _ in range(source.choice((1, 1, 1, 2, 3))))

    def damage(self, data: bytearray, source: random.Random) -> None:
        mutate(data, source)
        if source.random() < MENDED:
            mend_batches(data)

    def run(self, data: bytes, source: random.Random) -> bool:
        taken = False
        for origin in AppendOrigin:
            try:
                headers = check_batches(data, batch_size_max=BATCH_SIZE_MAX, origin=origin)
            except KafkaError:
                continue
            taken = taken or bool(headers)
            for header in headers:
                check_walk(data, header)
                check_reading(data, header, source)
        if len(data) >= BATCH_OVERHEAD:
            check_unchecked(data)
        return taken


def check_walk(data: bytes, header: BatchHeader) -> None:
    again = read_header(data, header.position)
    if again.next_offset != header.next_offset or again.size != header.size:
        raise Finding(f"{again} is not {header}")
    batch = bytearray(data[header.position : header.position + header.size])
    patch(memoryview(batch), 0, 2**40, 5)
    rewrite_timestamps(memoryview(batch), 0, NOW_MS)
    [changed] = check_batches(batch, batch_size_max=len(batch), origin=AppendOrigin.LEADER)
    if changed.base_offset != 2**40 or changed.record_count != header.record_count:
        raise Finding(f"{header} was patched to {changed}")


def check_reading(data: bytes, header: BatchHeader, source: random.Random) -> None:
    try:
        records = read_records(data, header, size_max=UNPACKED_SIZE_MAX)
    except KafkaError:
        check_unchecked(data, header.position)
        return
    if len(records) != header.record_count:
        raise Finding(f"{len(records)} records in {header}")
    missing = [index for index, record in enumerate(records) if record.key is None]
    if records_without_key(data, header, size_max=UNPACKED_SIZE_MAX) != missing:
        raise Finding(f"keys are missing in {missing} of {header}")
    rebuilt = rebuild_batch(header, records)
    if read_records(rebuilt, read_header(rebuilt), size_max=UNPACKED_SIZE_MAX) != records:
        raise Finding(f"{header} was rebuilt with other records")
    other = recompress(data, header, source.randrange(5), size_max=UNPACKED_SIZE_MAX)
    if other is not None:
        again = read_header(other)
        if (
            again.crc != crc32c(memoryview(other)[21:])
            or read_records(other, again, size_max=UNPACKED_SIZE_MAX) != records
        ):
            raise Finding(f"{header} was recompressed to other records")


def check_unchecked(data: bytes, position: int = 0) -> None:
    """Readers that do not check the checksum get records or KafkaError, nothing else."""
    for read in (read_records, records_without_key):
        try:
            read(data, read_header(data, position), size_max=UNPACKED_SIZE_MAX)
        except KafkaError:
            continue
    try:
        read_marker(data, read_header(data, position))
    except KafkaError:
        return


def mend_batches(data: bytearray) -> None:
    """Repair lengths as far as they can be followed, and checksums."""
    position = 0
    while position + BATCH_OVERHEAD <= len(data):
        (length,) = struct.unpack_from(">i", data, position + 8)
        end = position + 12 + length
        if end > len(data) or length < BATCH_OVERHEAD - 12:
            end = len(data)
            struct.pack_into(">i", data, position + 8, end - position - 12)
        checksum = crc32c(memoryview(data)[position + 21 : end])
        struct.pack_into(">I", data, position + 17, checksum)
        position = end


def random_batch(source: random.Random) -> bytes:
    if source.random() < 0.1:
        marker = Marker(source.random() < 0.5, source.randrange(10))
        return build_marker(marker, producer_id=3, producer_epoch=1, timestamp=NOW_MS)
    records = [random_record(source) for _ in range(source.choice((1, 2, 5, 50)))]
    codec = source.randrange(5)
    if source.random() < 0.5:
        return build_batch(records, compression=codec)
    return build_batch(
        records,
        compression=codec,
        producer_id=source.randrange(3),
        producer_epoch=source.randrange(2),
        base_sequence=source.choice((0, 5, 2**31 - 2)),
        transactional=source.random() < 0.5,
    )


def random_record(source: random.Random) -> Record:
    headers: list[tuple[str, bytes | None]] = [
        (source.choice(STRINGS), source.choice((None, b"", b"value")))
        for _ in range(source.choice((0, 0, 1, 3)))
    ]
    timestamp = NOW_MS + source.randrange(-1000, 1000)
    if source.random() < 0.02:
        timestamp = source.choice((-1, 0, 2**63 - 1, -(2**63)))
    return Record(
        timestamp=timestamp,
        key=source.choice((None, b"", b"key", b"k" * 130)),
        value=source.choice((None, b"", b"value", b"v" * 9000, source.randbytes(40))),
        headers=headers,
    )


class Payloads:
    """Compressed bytes without a batch around them; the first byte is the codec."""

    name = "payloads"

    def make(self, source: random.Random) -> bytes:
        codec = source.randrange(1, 5)
        plain = source.choice((b"", b"abc" * 5000, source.randbytes(300), bytes(200_000)))
        return bytes([codec]) + compress(codec, plain)

    def damage(self, data: bytearray, source: random.Random) -> None:
        mutate(data, source)
        if data:
            data[0] = data[0] % 4 + 1

    def run(self, data: bytes, source: random.Random) -> bool:
        if not data:
            return False
        size_max = source.choice((0, 1, 15_000, UNPACKED_SIZE_MAX))
        try:
            plain = decompress(data[0], memoryview(data)[1:], size_max=size_max)
        except KafkaError:
            return False
        if len(plain) > size_max:
            raise Finding(f"{len(plain)} bytes, where {size_max} are the most")
        return True
