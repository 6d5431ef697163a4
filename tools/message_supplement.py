"""What Kafka's messages have beyond the newest kio: versions that kio does not know yet.

Each `Addition` makes the next version of a message out of the one before it: which fields a class
gains, and which it loses. The facts are those of the message definitions of Kafka 4.4. When kio
has a version, its addition goes.
"""

from __future__ import annotations

import dataclasses
import types
import uuid
from collections.abc import Mapping
from typing import Any, Final

from kio.static.primitive import i16, i32

REQUIRED: Final = object()  # the default of a field that has none
CONSTANTS: Final = ("__type__", "__flexible__", "__api_key__", "__header_schema__")


@dataclasses.dataclass(frozen=True)
class AddedField:
    """A field that is added after the class's fields, or that replaces one."""

    name: str
    annotation: Any
    kafka_type: str
    default: object = REQUIRED
    instead_of: str | None = None


@dataclasses.dataclass(frozen=True)
class Addition:
    """A version of a request and its response: the added fields, by class name."""

    version: int
    fields: Mapping[str, tuple[AddedField, ...]]


TOPIC_ID: Final = (AddedField("topic_id", uuid.UUID | None, "uuid", instead_of="name"),)

SUPPLEMENT: Final[Mapping[str, Addition]] = {
    "api_versions": Addition(  # KIP-1242
        5,
        {
            "ApiVersionsRequest": (
                AddedField("cluster_id", str | None, "string", None),
                AddedField("node_id", i32, "int32", i32(-1)),
            )
        },
    ),
    "txn_offset_commit": Addition(  # KIP-1319
        6,
        {
            "TxnOffsetCommitRequestTopic": TOPIC_ID,
            "TxnOffsetCommitResponseTopic": TOPIC_ID,
        },
    ),
    "delete_groups": Addition(
        3, {"DeletableGroupResult": (AddedField("error_message", str | None, "string", None),)}
    ),
}


def supplemented(module: str, classes: Mapping[int, type]) -> dict[int, type]:
    """All versions of a message: kio's and the added one."""
    addition = SUPPLEMENT.get(module)
    if addition is None:
        return dict(classes)
    newest = max(classes)
    assert newest == addition.version - 1, f"kio has {module} v{newest}: drop the supplement"
    return {**classes, addition.version: next_version(classes[newest], addition)}


def next_version(cls: Any, addition: Addition) -> type:
    """The class in the added version, including the classes nested in it."""
    added = addition.fields.get(cls.__name__, ())
    by_place = {field.instead_of: field for field in added if field.instead_of is not None}
    fields = []
    for field in dataclasses.fields(cls):
        if field.name in by_place:
            fields.append(_field(by_place[field.name]))
            continue
        kind = _inner(field.type, addition)
        copy = dataclasses.field(default=field.default, metadata=field.metadata)
        fields.append((field.name, kind, copy))
    fields += [_field(field) for field in added if field.instead_of is None]
    constants = {name: value for name, value in vars(cls).items() if name in CONSTANTS}
    return dataclasses.make_dataclass(
        cls.__name__,
        fields,
        namespace={**constants, "__version__": i16(addition.version), "__module__": cls.__module__},
        frozen=True,
        slots=True,
        kw_only=True,
    )


def _field(added: AddedField) -> tuple[str, Any, Any]:
    metadata = {"kafka_type": added.kafka_type}
    default: Any = dataclasses.MISSING if added.default is REQUIRED else added.default
    field: Any = dataclasses.field(default=default, metadata=metadata)
    return added.name, added.annotation, field


def _inner(annotation: Any, addition: Addition) -> Any:
    """A field's type with nested messages of the added version."""
    if dataclasses.is_dataclass(annotation):
        return next_version(annotation, addition)
    if isinstance(annotation, types.GenericAlias):
        return tuple[_inner(annotation.__args__[0], addition), ...]
    if isinstance(annotation, types.UnionType):
        first, *rest = (_inner(kind, addition) for kind in annotation.__args__)
        for kind in rest:
            first |= kind
        return first
    return annotation
