"""Random messages as kio has them, and the same messages as Ottla has them.

kio is another implementation of the protocol: what both encode and decode alike is right, or has
the same mistake in both.
"""

from __future__ import annotations

import dataclasses
import datetime
import io
import random
import types
import typing
import uuid
from importlib import import_module

from kio.schema.errors import ErrorCode
from kio.schema.index import schema_name_map
from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType

from message_supplement import SUPPLEMENT, next_version
from ottla.wire.fields import ZERO_UUID, Message, Writer

EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
MILLISECOND = datetime.timedelta(milliseconds=1)
INTEGER_BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
STRINGS = ["", "a", "orders", "Žluťoučký kůň", "x" * 126, "x" * 127, "x" * 128, "y" * 300, "\0"]
BLOBS = [b"", b"\0", b"\xff" * 5, bytes(range(256)), b"r" * 127]


def all_messages() -> list[tuple[str, str, list[int]]]:
    """Module, kind ("request", "response" or "data"), versions: kio's, and those of the supplement,
    which are written and read by kio as well."""
    found: dict[tuple[str, str], list[int]] = {}
    for module, versions in schema_name_map.items():
        for version, kinds in versions.items():
            for kind in kinds:
                if kind is not EntityType.header:
                    found.setdefault((module, kind.name), []).append(version)
    for (module, _), known in found.items():
        if module in SUPPLEMENT:
            known.append(SUPPLEMENT[module].version)
    return [(module, kind, sorted(versions)) for (module, kind), versions in found.items()]


def kio_class(module: str, kind: str, version: int) -> type:
    """The class of a message itself, which is the last one in its module."""
    addition = SUPPLEMENT.get(module)
    if addition is not None and version == addition.version:
        return next_version(kio_class(module, kind, version - 1), addition)
    source = import_module(f"kio.schema.{module}.v{version}.{kind}")
    classes: list[type] = [c for c in vars(source).values() if dataclasses.is_dataclass(c)]
    return [c for c in classes if c.__module__ == source.__name__][-1]


def kio_bytes(message: object) -> bytes:
    with io.BytesIO() as buffer:
        entity_writer(type(message))(buffer, message)
        return buffer.getvalue()


def kio_read(cls: type, data: bytes) -> object:
    message, size = entity_reader(cls)(data, 0)
    assert size == len(data)
    return message


def our_bytes(message: Message, version: int) -> bytes:
    writer = Writer()
    message.write(writer, version)
    return b"".join(typing.cast(list[bytes], writer.finish()))


def random_message(cls: type, source: random.Random) -> object:
    """An instance of one of kio's classes: nulls, empty arrays, edges of ranges, tagged fields."""
    return cls(**{f.name: random_field(f, source) for f in dataclasses.fields(cls)})


def random_field(field: dataclasses.Field[object], source: random.Random) -> object:
    annotation, nullable = split_none(field.type)
    if "tag" in field.metadata and field.default is not dataclasses.MISSING:
        if source.random() < 0.5:
            return field.default
    elif nullable and source.random() < 0.3:
        return None
    if typing.get_origin(annotation) is tuple:
        annotation, _ = split_none(typing.get_args(annotation)[0])
        count = source.choice([0, 1, 1, 2, 3, 130 if "kafka_type" in field.metadata else 2])
        return tuple(random_value(field, annotation, source) for _ in range(count))
    return random_value(field, annotation, source)


def random_value(
    field: dataclasses.Field[object], annotation: object, source: random.Random
) -> object:
    kind = field.metadata.get("kafka_type")
    if kind is None:
        return random_message(typing.cast(type, annotation), source)
    if kind in INTEGER_BITS:
        limit = 1 << (INTEGER_BITS[kind] - 1)
        edge = source.choice([-limit, -1, 0, 1, limit - 1])
        return source.choice([edge, source.randrange(-limit, limit)])
    match kind:
        case "uint16":
            return source.choice([0, 9092, 0xFFFF])
        case "bool":
            return source.random() < 0.5
        case "error_code":
            return source.choice(list(ErrorCode))
        case "float64":
            return source.choice([0.0, -1.5, 1e300])
        case "timedelta_i32":
            return source.choice([-1, 0, 30_000, (1 << 31) - 1]) * MILLISECOND
        case "timedelta_i64":
            return source.choice([-1, 0, 604_800_000, 1 << 42]) * MILLISECOND
        case "datetime_i64":
            return EPOCH + datetime.timedelta(seconds=source.randrange(1 << 32))
        case "uuid":
            return uuid.UUID(bytes=source.randbytes(16))
        case "string":
            return source.choice(STRINGS)
        case "bytes" | "records":
            return source.choice(BLOBS)
    raise AssertionError(kind)


def ours(message: object, names: types.ModuleType) -> Message:
    """The same message as an instance of Ottla's class for it, made by its constructor."""
    cls: type[Message] = getattr(names, our_name(type(message), names))
    fields = dataclasses.fields(typing.cast(typing.Any, message))
    return cls(**{f.name: our_value(f, getattr(message, f.name), names) for f in fields})


def our_name(cls: type, names: types.ModuleType) -> str:
    """A response's nested class has another name where the request has a class of that name too."""
    prefixed = f"Response{cls.__name__}"
    return (
        prefixed
        if cls.__module__.endswith("response") and hasattr(names, prefixed)
        else cls.__name__
    )


def our_value(field: dataclasses.Field[object], value: object, names: types.ModuleType) -> object:
    if isinstance(value, tuple):
        return [our_value(field, element, names) for element in value]
    if dataclasses.is_dataclass(value):
        absent = "tag" in field.metadata and value == field.default
        return None if absent else ours(value, names)
    kind = field.metadata.get("kafka_type")
    if value is None and typing.get_origin(split_none(field.type)[0]) is tuple:
        return None
    if kind == "uuid":
        return ZERO_UUID if value is None else typing.cast(uuid.UUID, value).bytes
    if kind == "datetime_i64":
        if value is None:
            return -1
        return (typing.cast(datetime.datetime, value) - EPOCH) // MILLISECOND
    if isinstance(value, datetime.timedelta):
        return value // MILLISECOND
    return value.value if isinstance(value, ErrorCode) else value


def split_none(annotation: object) -> tuple[object, bool]:
    if typing.get_origin(annotation) in (types.UnionType, typing.Union):
        (inner,) = [a for a in typing.get_args(annotation) if a is not types.NoneType]
        return inner, True
    return annotation, False
