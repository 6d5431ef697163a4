"""What `Avro()`, `JsonSchema()` and `Protobuf()` read: dicts and lists that carry their schema.

As with Java's GenericRecord, a value that was read without a class can be written again: to another
topic, a repartition topic, the changelog of a store. Otherwise they are a plain dict and list.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ottla.schemas.schema_types import Reference


class CarriedSchema:
    """`kind` is AVRO, JSON or PROTOBUF; `record` is the full name of the Protobuf message."""

    __slots__ = ("_hash", "kind", "record", "references", "text")

    def __init__(
        self, kind: str, text: str, references: Sequence[Reference] = (), record: str = ""
    ) -> None:
        self.kind = kind
        self.text = text
        self.references = tuple(references)
        self.record = record
        self._hash = hash((kind, text, self.references, record))  # looked up for every record

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CarriedSchema) and self._parts() == other._parts()

    def __reduce__(self) -> tuple[Any, ...]:
        return CarriedSchema, self._parts()

    def _parts(self) -> tuple[str, str, tuple[Reference, ...], str]:
        return self.kind, self.text, self.references, self.record


class GenericRecord(dict[str, Any]):
    """A record, message or object. `record | {"total": 3}` has the same schema."""

    __slots__ = ("schema",)

    def __init__(
        self,
        values: Mapping[str, Any] | Iterable[tuple[str, Any]] = (),
        schema: CarriedSchema | None = None,
    ) -> None:
        super().__init__(values)
        self.schema = schema

    def __or__(self, other: Any) -> GenericRecord:  # type: ignore[override]
        copy = self.copy()
        copy.update(other)
        return copy

    def copy(self) -> GenericRecord:
        return GenericRecord(self, self.schema)

    __copy__ = copy

    def __reduce__(self) -> tuple[Any, ...]:
        return GenericRecord, (dict(self), self.schema)


class GenericList(list[Any]):
    """An array at the root of a schema."""

    __slots__ = ("schema",)

    def __init__(self, values: Iterable[Any] = (), schema: CarriedSchema | None = None) -> None:
        super().__init__(values)
        self.schema = schema

    def __reduce__(self) -> tuple[Any, ...]:
        return GenericList, (list(self), self.schema)


GENERIC = (GenericRecord, GenericList)
SCALARS = (str, int, float, bool, bytes)
"""Types that need no schema to be carried along, as in Java."""


def carrying(value: Any, schema: CarriedSchema) -> Any:
    """The value with its schema, if it is a dict or a list."""
    if type(value) is dict:
        return GenericRecord(value, schema)
    if type(value) is list:
        return GenericList(value, schema)
    return value
