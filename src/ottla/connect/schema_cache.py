"""A cache by schema, for what converters and transforms compile from one."""

from __future__ import annotations

from typing import Final, Generic, TypeVar

from ottla.connect.schema import Schema

T = TypeVar("T")
SIZE: Final = 64


class SchemaCache(Generic[T]):
    """Looks up by identity first: comparing two schemas costs more than converting a value."""

    def __init__(self, size: int = SIZE) -> None:
        self._size = max(size, 1)
        self._by_id: dict[int, tuple[Schema, T]] = {}
        self._by_schema: dict[Schema, T] = {}

    def get(self, schema: Schema) -> T | None:
        found = self._by_id.get(id(schema))
        if found is not None:
            return found[1]
        equal = self._by_schema.get(schema)
        return None if equal is None else self._keep(schema, equal)

    def put(self, schema: Schema, made: T) -> T:
        if len(self._by_schema) >= self._size:
            del self._by_schema[next(iter(self._by_schema))]
        self._by_schema[schema] = made
        return self._keep(schema, made)

    def _keep(self, schema: Schema, made: T) -> T:
        if len(self._by_id) >= self._size:
            del self._by_id[next(iter(self._by_id))]
        self._by_id[id(schema)] = (schema, made)  # the reference keeps the id unique
        return made
