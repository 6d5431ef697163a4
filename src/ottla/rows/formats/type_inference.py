"""TypeInference: the SQL types of a schema's fields, by the rules that all languages share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar

from ottla.rows.types import DECIMAL_DIGITS_MAX, SqlBaseType, SqlField, SqlType, decimal

N = TypeVar("N")
"""A type in the schema's language."""
Name = Callable[[str], str]
Within = tuple[Any, ...]
"""What identifies the records around a type: a record within itself is recursive."""


class UnsupportedTypeError(Exception):
    """A type that SQL does not have."""


class RecursiveSchemaError(Exception):
    """A recursive type, which SQL can't represent."""


class TypeInference(ABC, Generic[N]):
    """`name` maps the names of fields; `skipped` is called for a field that can't be a column."""

    def __init__(
        self, name: Name = str, skipped: Callable[[str], None] = lambda cause: None
    ) -> None:
        self._name = name
        self._skipped = skipped

    @abstractmethod
    def type(self, node: N, within: Within = ()) -> SqlType:
        """Raises UnsupportedTypeError and RecursiveSchemaError."""

    def columns(self, fields: Iterable[tuple[str, N]], within: Within) -> list[SqlField]:
        """Raises RecursiveSchemaError."""
        found: dict[str, SqlField] = {}
        for written_name, node in fields:
            try:
                type_ = self.type(node, within)
            except UnsupportedTypeError as error:
                self._skipped(f"{written_name}: {error}")
                continue
            name = self._name(written_name)
            if name in found:
                self._skipped(f"{written_name}: there is a column {name} already")
            else:
                found[name] = SqlField(name, type_)
        return list(found.values())

    def struct(self, record: str, fields: Iterable[tuple[str, N]], within: Within) -> SqlType:
        """`record` names it in the error for a record without a usable field."""
        columns = self.columns(fields, within)
        if not columns:
            raise UnsupportedTypeError(f"{record} has no field of a type that SQL has")
        return SqlType(SqlBaseType.STRUCT, fields=tuple(columns))


def limited_decimal(precision: int, scale: int) -> SqlType:
    """Limits the precision to Spark's maximum."""
    if not 0 <= scale <= DECIMAL_DIGITS_MAX:
        raise UnsupportedTypeError(f"a decimal with scale {scale}")
    return decimal(max(min(precision, DECIMAL_DIGITS_MAX), scale, 1), scale)
