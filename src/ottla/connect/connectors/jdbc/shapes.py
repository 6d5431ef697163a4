"""Records as rows: the columns of a record, which of them are its key, and their values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ottla.connect.connectors.jdbc.database import Convert, Database
from ottla.connect.connectors.jdbc.sink_config import (
    KAFKA,
    KAFKA_FIELDS,
    NO_KEY,
    RECORD_KEY,
    RECORD_VALUE,
)
from ottla.connect.data import (
    INT32_SCHEMA,
    INT64_SCHEMA,
    STRING_SCHEMA,
    Schema,
    SinkRecord,
    Struct,
    Type,
)
from ottla.connect.errors import ConnectException

KAFKA_SCHEMAS: Final = (STRING_SCHEMA, INT32_SCHEMA, INT64_SCHEMA)
NESTED: Final = (Type.ARRAY, Type.MAP, Type.STRUCT)


@dataclass(frozen=True, slots=True)
class Shape:
    """The columns of records with the same schemas: key columns first, then the others."""

    keys: tuple[str, ...]
    others: tuple[str, ...]
    schemas: Mapping[str, Schema]
    key_binders: tuple[Convert | None, ...]
    other_binders: tuple[Convert | None, ...]
    key_indexes: tuple[int, ...]  # indexes of the key's columns in the key's or value's struct
    other_indexes: tuple[int, ...]
    mode: str
    plain_key: bool  # the record's key is a primitive value, not a struct

    @property
    def columns(self) -> tuple[str, ...]:
        return self.keys + self.others

    def key(self, record: SinkRecord) -> tuple[Any, ...]:
        """The values of the key columns, ready to be bound."""
        if self.mode == NO_KEY:
            return ()
        if self.mode == KAFKA:
            return (record.topic, record.partition, record.offset)
        if self.plain_key:
            values: Sequence[Any] = (record.key,)
        else:
            struct: Struct = record.key if self.mode == RECORD_KEY else record.value
            values = _picked(struct, self.key_indexes)
        return _bound(values, self.key_binders)

    def rest(self, record: SinkRecord) -> tuple[Any, ...]:
        return _bound(_picked(record.value, self.other_indexes), self.other_binders)


def _picked(struct: Struct, indexes: Sequence[int]) -> list[Any]:
    fields, values = struct.schema.fields, struct.values_in_order
    return [
        fields[index].schema.default if values[index] is None else values[index]
        for index in indexes
    ]


def _bound(values: Sequence[Any], binders: Sequence[Convert | None]) -> tuple[Any, ...]:
    return tuple(
        value if bind is None or value is None else bind(value)
        for value, bind in zip(values, binders, strict=True)
    )


def shape_of(record: SinkRecord, settings: Mapping[str, Any], database: Database) -> Shape:
    """The shape of all records with the schemas of this one."""
    mode = settings["pk.mode"]
    check(record, settings)
    value_schema = record.value_schema
    keys, key_indexes, plain = _keys(record, settings)
    wanted = [*settings["fields.whitelist"], *settings["fields.include.list"]]
    others: list[tuple[str, int, Schema]] = []
    if value_schema is not None and record.value is not None:
        others = [
            (field.name, field.index, field.schema)
            for field in value_schema.fields
            if field.name not in keys and (not wanted or field.name in wanted)
        ]
    if not keys and not others:
        raise ConnectException(f"no fields are left to write of {_name_of(record)}")
    zone = settings["db.timezone"]
    return Shape(
        tuple(keys),
        tuple(name for name, _, _ in others),
        {**keys, **{name: schema for name, _, schema in others}},
        tuple(database.binder(schema, zone) for schema in keys.values()),
        tuple(database.binder(schema, zone) for _, _, schema in others),
        key_indexes,
        tuple(index for _, index, _ in others),
        mode,
        plain,
    )


def _keys(
    record: SinkRecord, settings: Mapping[str, Any]
) -> tuple[dict[str, Schema], tuple[int, ...], bool]:
    """The key columns, the indexes of their values, and whether the key is primitive."""
    mode, names = settings["pk.mode"], list(settings["pk.fields"])
    if mode == NO_KEY:
        return {}, (), False
    if mode == KAFKA:
        return dict(zip(names or KAFKA_FIELDS, KAFKA_SCHEMAS, strict=True)), (), False
    schema = record.key_schema if mode == RECORD_KEY else record.value_schema
    if schema is None:
        raise ConnectException(
            f"pk.mode={mode} needs records with a schema: {_name_of(record)} has none"
            f" ({'key' if mode == RECORD_KEY else 'value'}.converter with schemas)"
        )
    if schema.type is not Type.STRUCT:
        if mode == RECORD_VALUE or schema.type in NESTED:
            raise ConnectException(
                f"pk.mode={mode}: {schema.type} cannot be a key, in {_name_of(record)}"
            )
        if len(names) != 1:
            raise ConnectException(
                f"pk.mode=record_key: the key of {_name_of(record)} is primitive ({schema.type}):"
                f" pk.fields must name exactly one column, not {len(names)}"
            )
        return {names[0]: schema}, (), True
    fields = []
    for name in names or [field.name for field in schema.fields]:
        field = schema.field(name)
        if field is None:
            raise ConnectException(f"pk.fields: {name} is not a field of {_name_of(record)}")
        fields.append(field)
    return (
        {field.name: field.schema for field in fields},
        tuple(field.index for field in fields),
        False,
    )


def check(record: SinkRecord, settings: Mapping[str, Any]) -> None:
    """Raises ConnectException unless the record has the parts that pk.mode uses."""
    deletes = settings["delete.enabled"]
    if record.value is None and deletes:
        if record.key is None:
            raise ConnectException(f"{_name_of(record)} has neither key nor value")
        return
    if record.value is None or record.value_schema is None:
        what = "no value" if record.value is None else "a value without schema"
        hint = (
            "delete.enabled=true turns such records into deletions"
            if record.value is None
            else "columns need schemas: use JsonConverter with schemas.enable=true, or Avro"
        )
        raise ConnectException(f"{_name_of(record)} has {what}: {hint}")
    if record.value_schema.type is not Type.STRUCT:
        raise ConnectException(
            f"the value of {_name_of(record)} is {record.value_schema.type}, not a struct, whose"
            " fields become columns (transforms.HoistField creates one)"
        )
    if settings["pk.mode"] == RECORD_KEY and record.key is None:
        raise ConnectException(f"pk.mode=record_key: {_name_of(record)} has no key")


def _name_of(record: SinkRecord) -> str:
    return f"the record {record.topic}-{record.partition}@{record.offset}"
