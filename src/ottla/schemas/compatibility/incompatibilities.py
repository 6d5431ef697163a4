"""May a new version of a schema follow the old ones? By Confluent's compatibility levels."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ottla.schemas.compatibility.avro import unreadable as avro_unreadable
from ottla.schemas.compatibility.json_schema import unreadable as json_unreadable
from ottla.schemas.compatibility.protobuf import unreadable as protobuf_unreadable
from ottla.schemas.limits import DIFFERENCES_MAX, TooComplex
from ottla.schemas.schema_types import ParsedSchema

LEVELS = (
    "NONE",
    "BACKWARD",
    "BACKWARD_TRANSITIVE",
    "FORWARD",
    "FORWARD_TRANSITIVE",
    "FULL",
    "FULL_TRANSITIVE",
)
# LENIENT allows adding and removing properties in JSON Schema's open and closed objects.
POLICIES = ("STRICT", "LENIENT", "LOGICAL")
DIFFERENT_TYPE = "Incompatible because of different schema type"


def incompatibilities(
    level: str, new: ParsedSchema, old: Sequence[ParsedSchema], policy: str = "STRICT"
) -> list[str]:
    """Why `new` may not follow `old` (oldest first); empty if it may.

    Transitive levels compare with every old version, newest first, up to the first incompatible
    one; the others compare with the newest only.
    """
    assert level in LEVELS, f"no such level: {level}"
    if level == "NONE":
        return []
    versions = list(reversed(old))
    for version in versions if level.endswith("_TRANSITIVE") else versions[:1]:
        found = _between(level.removesuffix("_TRANSITIVE"), new, version, policy)
        if found:
            return found
    return []


def _between(level: str, new: ParsedSchema, old: ParsedSchema, policy: str) -> list[str]:
    if new.kind != old.kind:
        return [DIFFERENT_TYPE]
    found: list[str] = []
    if level in ("FORWARD", "FULL"):
        found += _unreadable(old, new, "old", "new", policy)
    if level in ("BACKWARD", "FULL"):
        found += _unreadable(new, old, "new", "old", policy)
    return found


def _unreadable(
    reader: ParsedSchema, writer: ParsedSchema, reader_name: str, writer_name: str, policy: str
) -> list[str]:
    try:
        found = _CHECKERS[reader.kind](reader, writer, reader_name, writer_name, policy)
    except TooComplex as error:
        return [
            f"{{errorType:'TOO_COMPLEX', description:'The {reader_name} schema can't be compared "
            f"with the {writer_name} schema: {error}', additionalInfo:'', "
            "remedy:'split the schema into smaller types, or set compatibility to NONE'}"
        ]
    return found[:DIFFERENCES_MAX]


def _avro(
    reader: ParsedSchema, writer: ParsedSchema, reader_name: str, writer_name: str, policy: str
) -> list[str]:
    return avro_unreadable(reader.body.root, writer.body.root, reader_name, writer_name)


def _json(
    reader: ParsedSchema, writer: ParsedSchema, reader_name: str, writer_name: str, policy: str
) -> list[str]:
    new, old = reader.body.root, writer.body.root
    return json_unreadable(new, old, reader_name, writer_name, lenient=policy == "LENIENT")


def _protobuf(
    reader: ParsedSchema, writer: ParsedSchema, reader_name: str, writer_name: str, policy: str
) -> list[str]:
    return protobuf_unreadable(reader.body, writer.body, reader_name, writer_name)


_CHECKERS: dict[str, Callable[[ParsedSchema, ParsedSchema, str, str, str], list[str]]] = {
    "AVRO": _avro,
    "JSON": _json,
    "PROTOBUF": _protobuf,
}
