"""The SQL types, with ksqlDB's and Spark's names.

The Python values of a row, wherever rows are handled outside Spark:

    BOOLEAN bool   INTEGER, BIGINT int   DOUBLE float   STRING str   BYTES bytes
    DECIMAL decimal.Decimal   TIME datetime.time   DATE datetime.date
    TIMESTAMP datetime.datetime in UTC, with its time zone   ARRAY list   MAP dict   STRUCT dict
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from ottla.rows.reserved_words import RESERVED_WORDS


class SqlBaseType(StrEnum):
    BOOLEAN = "BOOLEAN"
    INTEGER = "INTEGER"
    BIGINT = "BIGINT"
    DOUBLE = "DOUBLE"
    STRING = "STRING"
    BYTES = "BYTES"
    DECIMAL = "DECIMAL"
    TIME = "TIME"
    DATE = "DATE"
    TIMESTAMP = "TIMESTAMP"
    ARRAY = "ARRAY"
    MAP = "MAP"
    STRUCT = "STRUCT"


@dataclass(frozen=True, slots=True)
class SqlField:
    """One field of a STRUCT."""

    name: str
    type: SqlType


@dataclass(frozen=True, slots=True)
class SqlType:
    """`key` is a MAP's key type; `element` is an ARRAY's, or a MAP's value type."""

    kind: SqlBaseType
    precision: int = 0
    scale: int = 0
    key: SqlType | None = None
    element: SqlType | None = None
    fields: tuple[SqlField, ...] = ()

    def __str__(self) -> str:
        """As in a statement: `ARRAY<STRUCT<A INTEGER, B STRING>>`, `DECIMAL(4, 2)`."""
        if self.kind is SqlBaseType.DECIMAL:
            return f"DECIMAL({self.precision}, {self.scale})"
        if self.kind is SqlBaseType.ARRAY:
            return f"ARRAY<{self.element}>"
        if self.kind is SqlBaseType.MAP:
            return f"MAP<{self.key}, {self.element}>"
        if self.kind is SqlBaseType.STRUCT:
            fields = ", ".join(f"{quoted(field.name)} {field.type}" for field in self.fields)
            return f"STRUCT<{fields}>"
        return self.kind.value

    @property
    def is_number(self) -> bool:
        return self.kind in NUMBERS

    @property
    def spark(self) -> str:
        """Spark's name, as in a schema string or a CAST."""
        if self.kind is SqlBaseType.DECIMAL:
            return f"decimal({self.precision},{self.scale})"
        if self.kind is SqlBaseType.ARRAY:
            assert self.element is not None
            return f"array<{self.element.spark}>"
        if self.kind is SqlBaseType.MAP:
            assert self.key is not None
            assert self.element is not None
            return f"map<{self.key.spark},{self.element.spark}>"
        if self.kind is SqlBaseType.STRUCT:
            fields = ",".join(
                f"{spark_name(field.name)}:{field.type.spark}" for field in self.fields
            )
            return f"struct<{fields}>"
        return SPARK_NAMES[self.kind]

    def to_json(self) -> dict[str, Any]:
        """As in ksqlDB's REST API."""
        return {
            "type": self.kind.value,
            "fields": [
                {"name": field.name, "schema": field.type.to_json()} for field in self.fields
            ]
            or None,
            "memberSchema": self.element.to_json() if self.element else None,
            **({"keySchema": self.key.to_json()} if self.key else {}),
            **(
                {"parameters": {"precision": self.precision, "scale": self.scale}}
                if self.kind is SqlBaseType.DECIMAL
                else {}
            ),
        }

    @staticmethod
    def from_json(data: dict[str, Any]) -> SqlType:
        parameters = data.get("parameters") or {}
        member, key = data.get("memberSchema"), data.get("keySchema")
        return SqlType(
            SqlBaseType(data["type"]),
            precision=int(parameters.get("precision", 0)),
            scale=int(parameters.get("scale", 0)),
            key=SqlType.from_json(key) if key else None,
            element=SqlType.from_json(member) if member else None,
            fields=tuple(
                SqlField(field["name"], SqlType.from_json(field["schema"]))
                for field in data.get("fields") or ()
            ),
        )


BOOLEAN: Final = SqlType(SqlBaseType.BOOLEAN)
INTEGER: Final = SqlType(SqlBaseType.INTEGER)
BIGINT: Final = SqlType(SqlBaseType.BIGINT)
DOUBLE: Final = SqlType(SqlBaseType.DOUBLE)
STRING: Final = SqlType(SqlBaseType.STRING)
BYTES: Final = SqlType(SqlBaseType.BYTES)
TIME: Final = SqlType(SqlBaseType.TIME)
DATE: Final = SqlType(SqlBaseType.DATE)
TIMESTAMP: Final = SqlType(SqlBaseType.TIMESTAMP)

NUMBERS: Final = frozenset(
    {SqlBaseType.INTEGER, SqlBaseType.BIGINT, SqlBaseType.DECIMAL, SqlBaseType.DOUBLE}
)

SPARK_NAMES: Final = {
    SqlBaseType.BOOLEAN: "boolean",
    SqlBaseType.INTEGER: "int",
    SqlBaseType.BIGINT: "bigint",
    SqlBaseType.DOUBLE: "double",
    SqlBaseType.STRING: "string",
    SqlBaseType.BYTES: "binary",
    SqlBaseType.TIME: "time(3)",
    SqlBaseType.DATE: "date",
    SqlBaseType.TIMESTAMP: "timestamp",
}


DECIMAL_DIGITS_MAX: Final = 38  # Spark's


def decimal(precision: int, scale: int) -> SqlType:
    return SqlType(SqlBaseType.DECIMAL, precision=precision, scale=scale)


def array(element: SqlType) -> SqlType:
    return SqlType(SqlBaseType.ARRAY, element=element)


def map_of(key: SqlType, value: SqlType) -> SqlType:
    return SqlType(SqlBaseType.MAP, key=key, element=value)


def struct(*fields: tuple[str, SqlType]) -> SqlType:
    return SqlType(
        SqlBaseType.STRUCT, fields=tuple(SqlField(name, type_) for name, type_ in fields)
    )


def quoted(name: str) -> str:
    """A name for a statement, quoted where necessary."""
    plain = name.isascii() and name.replace("_", "A").isalnum() and not name[0].isdigit()
    if plain and name == name.upper() and name not in RESERVED_WORDS:
        return name
    return "`" + name.replace("`", "``") + "`"


def spark_name(name: str) -> str:
    """A name for Spark SQL, in backquotes."""
    return "`" + name.replace("`", "``") + "`"
