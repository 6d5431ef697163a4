"""A struct: values by the fields of a schema."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ottla.connect.errors import DataException
from ottla.connect.schema import Schema, Type, validate_value
from ottla.rows.java.text import java_text


class Struct(Mapping[str, Any]):
    """Values for the fields of a struct schema; a field that isn't set has its default or None.

    It is read like a dict: `struct["name"]`, `dict(struct)`. `put` checks the value against the
    field's schema; `validate` checks all of them, as the runtime does before it converts a record.
    """

    __slots__ = ("_values", "schema")

    def __init__(self, schema: Schema, values: Mapping[str, Any] | None = None) -> None:
        if schema.type is not Type.STRUCT:
            raise DataException(f"Not a struct schema: {schema!r}")
        self.schema = schema
        self._values: list[Any] = [None] * len(schema._fields)
        for name, value in (values or {}).items():
            self.put(name, value)

    @classmethod
    def of(cls, schema: Schema, values: list[Any]) -> Struct:
        """From values in the order of the fields, unchecked: the caller made them by the schema."""
        made = cls.__new__(cls)
        made.schema = schema
        made._values = values
        return made

    @property
    def values_in_order(self) -> list[Any]:
        """As they were put, without defaults."""
        return self._values

    def __getitem__(self, name: str) -> Any:
        field = self.schema._by_name.get(name)
        if field is None:
            raise DataException(f"{name} is not a valid field name")
        value = self._values[field.index]
        return field.schema.default if value is None else value

    def get_without_default(self, name: str) -> Any:
        field = self.schema._by_name.get(name)
        if field is None:
            raise DataException(f"{name} is not a valid field name")
        return self._values[field.index]

    def put(self, name: str, value: Any) -> Struct:
        field = self.schema._by_name.get(name)
        if field is None:
            raise DataException(f"{name} is not a valid field name")
        validate_value(field.schema, value, f'field: "{name}"')
        self._values[field.index] = value
        return self

    def validate(self) -> None:
        for field, value in zip(self.schema._fields, self._values, strict=True):
            inner = field.schema
            if value is None and (inner.optional or inner.default is not None):
                continue
            validate_value(inner, value, f'field: "{field.name}"')

    def get(self, name: str, default: Any = None) -> Any:
        return self[name] if name in self.schema._by_name else default

    def __contains__(self, name: object) -> bool:
        return name in self.schema._by_name

    def __iter__(self) -> Iterator[str]:
        return iter(self.schema._by_name)

    def __len__(self) -> int:
        return len(self._values)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Struct):
            return NotImplemented
        return self.schema == other.schema and self._values == other._values

    __hash__ = None  # type: ignore[assignment]

    # As Java's toString: only fields that are set.
    def __repr__(self) -> str:
        pairs = zip(self.schema._fields, self._values, strict=True)
        fields = ",".join(
            f"{field.name}={java_text(value)}" for field, value in pairs if value is not None
        )
        return f"Struct{{{fields}}}"
