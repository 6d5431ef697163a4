"""AvroConverter's settings, and Confluent's names for records and properties."""

from __future__ import annotations

import re
from typing import Any, Final, NamedTuple
from urllib.parse import quote_plus

from ottla.connect.converters.sum_types import SUM_TYPE_ENUM, enum_parameter_of, is_union_of
from ottla.connect.data import Schema, Type

NAMESPACE: Final = "io.confluent.connect.avro"
DEFAULT_NAME: Final = "ConnectDefault"
MAP_ENTRY: Final = "MapEntry"
UNION: Final = f"{NAMESPACE}.Union"
ENUM: Final = f"{NAMESPACE}.Enum"
ANYTHING: Final = f"{NAMESPACE}.Anything"
RECORD_DOC: Final = f"{NAMESPACE}.record.doc"
FIELD_DOC: Final = f"{NAMESPACE}.field.doc."
ENUM_DOC: Final = f"{NAMESPACE}.enum.doc."
ENUM_DEFAULT: Final = f"{NAMESPACE}.enum.default."
FIELD_DEFAULT: Final = f"{NAMESPACE}.field.default"
"""A parameter for defaults that come from an Avro field, not from Connect."""
FIXED_SIZE: Final = "connect.fixed.size"
PRECISION: Final = "connect.decimal.precision"
PRECISION_DEFAULT: Final = 64

_LEGAL: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_ILLEGAL: Final = re.compile(r"[^A-Za-z0-9_]")

Anything = dict[str, Any]


class AvroSettings(NamedTuple):
    enhanced: bool = False
    meta_data: bool = True
    scrub: bool = False
    optional_keys: bool = False
    flatten_singletons: bool = True
    generalized: bool = False
    ignore_defaults: bool = False

    @property
    def enum_parameter(self) -> str:
        return enum_parameter_of(ENUM, generalized=self.generalized)

    def scrubbed(self, name: str) -> str:
        return scrubbed(name) if self.scrub else name

    def full_name(self, name: str) -> str:
        return ".".join(self.scrubbed(part) for part in name.split("."))

    def has_string_keys(self, schema: Schema) -> bool:
        """True if the map becomes an Avro map; other maps become arrays of entries."""
        keys = schema.key_schema
        return keys.type is Type.STRING and (not keys.optional or self.optional_keys)


def scrubbed(name: str) -> str:
    """URL-encoded, with _ in place of characters that Avro does not allow."""
    if not name or _LEGAL.match(name):
        return name
    encoded = quote_plus(name, safe="*-._")
    return _ILLEGAL.sub("_", f"x{encoded}" if encoded[0].isdigit() else encoded)


def is_union(schema: Schema) -> bool:
    return is_union_of(schema, UNION)


def is_enum(schema: Schema) -> bool:
    parameters = schema.parameters or {}
    return schema.type is Type.STRING and (ENUM in parameters or SUM_TYPE_ENUM in parameters)


def is_fixed(schema: Schema) -> bool:
    return (
        schema.type is Type.BYTES
        and schema.name is not None
        and FIXED_SIZE in (schema.parameters or {})
    )


def anything_schema() -> Anything:
    """The record type of values without a schema; exactly one of its fields is set."""
    fields: list[Any] = [
        {"name": name, "type": ["null", name], "default": None}
        for name in ("boolean", "bytes", "double", "float", "int", "long", "string")
    ]
    entry = {
        "type": "record",
        "name": MAP_ENTRY,
        "fields": [{"name": name, "type": "Anything"} for name in ("key", "value")],
    }
    for name, items in (("array", "Anything"), ("map", entry)):
        of = ["null", {"type": "array", "items": items}]
        fields.append({"name": name, "type": of, "default": None})
    return {"type": "record", "name": "Anything", "namespace": NAMESPACE, "fields": fields}
