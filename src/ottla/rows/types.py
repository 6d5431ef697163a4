"""The types of the SQL: ksqlDB's names for them, and Spark's.

Values of a row in Python, wherever rows are handled outside Spark:

    BOOLEAN bool   INTEGER, BIGINT int   DOUBLE float   STRING str   BYTES bytes
    DECIMAL decimal.Decimal   TIME datetime.time   DATE datetime.date
    TIMESTAMP datetime.datetime in UTC, with its time zone   ARRAY list   MAP dict   STRUCT dict
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from ottla.rows.reserved_words import RESERVED


class Kind(StrEnum):
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
class Field:
    """One field of a STRUCT."""

    name: str
    type: SqlType


@dataclass(frozen=True, slots=True)
class SqlType:
    """`key` is a MAP's; `element` an ARRAY's, or the values' of a MAP."""

    kind: Kind
    precision: int = 0
    scale: int = 0
    key: SqlType | None = None
    element: SqlType | None = None
    fields: tuple[Field, ...] = ()

    def __str__(self) -> str:
        """As a statement has it: `ARRAY<STRUCT<A INTEGER, B STRING>>`, `DECIMAL(4, 2)`."""
        if self.kind is Kind.DECIMAL:
            return f"DECIMAL({self.precision}, {self.scale})"
        if self.kind is Kind.ARRAY:
            return f"ARRAY<{self.element}>"
        if self.kind is Kind.MAP:
            return f"MAP<{self.key}, {self.element}>"
        if self.kind is Kind.STRUCT:
            fields = ", ".join(f"{quoted(each.name)} {each.type}" for each in self.fields)
            return f"STRUCT<{fields}>"
        return self.kind.value

    @property
    def is_number(self) -> bool:
        return self.kind in NUMBERS

    @property
    def spark(self) -> str:
        """Spark's name for it, as in a schema string or a CAST."""
        if self.kind is Kind.DECIMAL:
            return f"decimal({self.precision},{self.scale})"
        if self.kind is Kind.ARRAY:
            assert self.element is not None
            return f"array<{self.element.spark}>"
        if self.kind is Kind.MAP:
            assert self.key is not None
            assert self.element is not None
            return f"map<{self.key.spark},{self.element.spark}>"
        if self.kind is Kind.STRUCT:
            fields = ",".join(f"{spark_name(each.name)}:{each.type.spark}" for each in self.fields)
            return f"struct<{fields}>"
        return SPARK_NAMES[self.kind]

    def to_json(self) -> dict[str, Any]:
        """As ksqlDB's REST describes a type."""
        return {
            "type": self.kind.value,
            "fields": [{"name": each.name, "schema": each.type.to_json()} for each in self.fields]
            or None,
            "memberSchema": self.element.to_json() if self.element else None,
            **({"keySchema": self.key.to_json()} if self.key else {}),
            **(
                {"parameters": {"precision": self.precision, "scale": self.scale}}
                if self.kind is Kind.DECIMAL
                else {}
            ),
        }

    @staticmethod
    def from_json(data: dict[str, Any]) -> SqlType:
        parameters = data.get("parameters") or {}
        member, key = data.get("memberSchema"), data.get("keySchema")
        return SqlType(
            Kind(data["type"]),
            precision=int(parameters.get("precision", 0)),
            scale=int(parameters.get("scale", 0)),
            key=SqlType.from_json(key) if key else None,
            element=SqlType.from_json(member) if member else None,
            fields=tuple(
                Field(each["name"], SqlType.from_json(each["schema"]))
                for each in data.get("fields") or ()
            ),
        )


BOOLEAN: Final = SqlType(Kind.BOOLEAN)
INTEGER: Final = SqlType(Kind.INTEGER)
BIGINT: Final = SqlType(Kind.BIGINT)
DOUBLE: Final = SqlType(Kind.DOUBLE)
STRING: Final = SqlType(Kind.STRING)
BYTES: Final = SqlType(Kind.BYTES)
TIME: Final = SqlType(Kind.TIME)
DATE: Final = SqlType(Kind.DATE)
TIMESTAMP: Final = SqlType(Kind.TIMESTAMP)

NUMBERS: Final = frozenset({Kind.INTEGER, Kind.BIGINT, Kind.DECIMAL, Kind.DOUBLE})

SPARK_NAMES: Final = {
    Kind.BOOLEAN: "boolean",
    Kind.INTEGER: "int",
    Kind.BIGINT: "bigint",
    Kind.DOUBLE: "double",
    Kind.STRING: "string",
    Kind.BYTES: "binary",
    Kind.TIME: "time(3)",
    Kind.DATE: "date",
    Kind.TIMESTAMP: "timestamp",
}


def decimal(precision: int, scale: int) -> SqlType:
    return SqlType(Kind.DECIMAL, precision=precision, scale=scale)


def array(element: SqlType) -> SqlType:
    return SqlType(Kind.ARRAY, element=element)


def map_of(key: SqlType, value: SqlType) -> SqlType:
    return SqlType(Kind.MAP, key=key, element=value)


def struct(*fields: tuple[str, SqlType]) -> SqlType:
    return SqlType(Kind.STRUCT, fields=tuple(Field(name, each) for name, each in fields))


def quoted(name: str) -> str:
    """A name as it must be written in a statement: quoted where it would not be read as it is."""
    plain = name.isascii() and name.replace("_", "A").isalnum() and not name[0].isdigit()
    if plain and name == name.upper() and name not in RESERVED:
        return name
    return "`" + name.replace("`", "``") + "`"


def spark_name(name: str) -> str:
    """A name as Spark SQL wants it: in back quotes."""
    return "`" + name.replace("`", "``") + "`"
