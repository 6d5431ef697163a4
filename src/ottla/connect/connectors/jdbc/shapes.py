"""Records as rows: which columns a record has, which of them are its key, and their values."""

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
    """The columns of records with the same schemas: those of the key, then the others."""

    keys: tuple[str, ...]
    others: tuple[str, ...]
    schemas: Mapping[str, Schema]
    key_binders: tuple[Convert | None, ...]
    other_binders: tuple[Convert | None, ...]
    key_places: tuple[int, ...]  # of the key's columns in the key's or the value's struct
    other_places: tuple[int, ...]
    mode: str
    plain_key: bool  # the record's key is one value, not a struct

    @property
    def columns(self) -> tuple[str, ...]:
        return self.keys + self.others

    def key(self, record: SinkRecord) -> tuple[Any, ...]:
        """The values of its key's columns, ready to be bound."""
        if self.mode == NO_KEY:
            return ()
        if self.mode == KAFKA:
            return (record.topic, record.partition, record.offset)
        if self.plain_key:
            values: Sequence[Any] = (record.key,)
        else:
            struct: Struct = record.key if self.mode == RECORD_KEY else record.value
            values = _picked(struct, self.key_places)
        return _bound(values, self.key_binders)

    def rest(self, record: SinkRecord) -> tuple[Any, ...]:
        return _bound(_picked(record.value, self.other_places), self.other_binders)


def _picked(struct: Struct, places: Sequence[int]) -> list[Any]:
    fields, values = struct.schema.fields, struct.values_in_order
    return [
        fields[place].schema.default if values[place] is None else values[place] for place in places
    ]


def _bound(values: Sequence[Any], binders: Sequence[Convert | None]) -> tuple[Any, ...]:
    return tuple(
        value if bind is None or value is None else bind(value)
        for value, bind in zip(values, binders, strict=True)
    )


def shape_of(record: SinkRecord, settings: Mapping[str, Any], database: Database) -> Shape:
    """Of all records with these schemas."""
    mode = settings["pk.mode"]
    check(record, settings)
    value_schema = record.value_schema
    keys, key_places, plain = _keys(record, settings)
    wanted = [*settings["fields.whitelist"], *settings["fields.include.list"]]
    others: list[tuple[str, int, Schema]] = []
    if value_schema is not None and record.value is not None:
        others = [
            (field.name, field.index, field.schema)
            for field in value_schema.fields
            if field.name not in keys and (not wanted or field.name in wanted)
        ]
    if not keys and not others:
        raise ConnectException(f"no fields are left of {_place(record)}")
    zone = settings["db.timezone"]
    return Shape(
        tuple(keys),
        tuple(name for name, _, _ in others),
        {**keys, **{name: schema for name, _, schema in others}},
        tuple(database.binder(schema, zone) for schema in keys.values()),
        tuple(database.binder(schema, zone) for _, _, schema in others),
        key_places,
        tuple(place for _, place, _ in others),
        mode,
        plain,
    )


def _keys(
    record: SinkRecord, settings: Mapping[str, Any]
) -> tuple[dict[str, Schema], tuple[int, ...], bool]:
    """The key's columns, where their values are, and whether the key is one plain value."""
    mode, names = settings["pk.mode"], list(settings["pk.fields"])
    if mode == NO_KEY:
        return {}, (), False
    if mode == KAFKA:
        return dict(zip(names or KAFKA_FIELDS, KAFKA_SCHEMAS, strict=True)), (), False
    schema = record.key_schema if mode == RECORD_KEY else record.value_schema
    if schema is None:
        raise ConnectException(
            f"pk.mode={mode} needs records with a schema: {_place(record)} has none"
            f" ({'key' if mode == RECORD_KEY else 'value'}.converter with schemas)"
        )
    if schema.type is not Type.STRUCT:
        if mode == RECORD_VALUE or schema.type in NESTED:
            raise ConnectException(f"pk.mode={mode}: {schema.type} is no key, in {_place(record)}")
        if len(names) != 1:
            raise ConnectException(
                f"pk.mode=record_key: the key of {_place(record)} is one value ({schema.type}):"
                f" pk.fields names its column, and not {len(names)}"
            )
        return {names[0]: schema}, (), True
    fields = []
    for name in names or [field.name for field in schema.fields]:
        field = schema.field(name)
        if field is None:
            raise ConnectException(f"pk.fields: {name} is no field of {_place(record)}")
        fields.append(field)
    return {each.name: each.schema for each in fields}, tuple(each.index for each in fields), False


def check(record: SinkRecord, settings: Mapping[str, Any]) -> None:
    """Records must have the parts that the mode uses."""
    deletes = settings["delete.enabled"]
    if record.value is None and deletes:
        if record.key is None:
            raise ConnectException(f"{_place(record)} has neither key nor value")
        return
    if record.value is None or record.value_schema is None:
        what = "no value" if record.value is None else "a value without schema"
        hint = (
            "delete.enabled=true makes deletions of them"
            if record.value is None
            else "columns are made from schemas: JsonConverter with schemas.enable=true, Avro"
        )
        raise ConnectException(f"{_place(record)} has {what}: {hint}")
    if record.value_schema.type is not Type.STRUCT:
        raise ConnectException(
            f"the value of {_place(record)} is {record.value_schema.type}: columns are made of"
            " a struct's fields (transforms.HoistField makes one)"
        )
    if settings["pk.mode"] == RECORD_KEY and record.key is None:
        raise ConnectException(f"pk.mode=record_key: {_place(record)} has no key")


def _place(record: SinkRecord) -> str:
    return f"the record {record.topic}-{record.partition}@{record.offset}"
