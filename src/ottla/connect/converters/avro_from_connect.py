"""Connect's schemas in Avro, as Confluent's AvroConverter writes them, property by property."""

from __future__ import annotations

from typing import Any, Final

from ottla.connect.converters.avro_settings import (
    DEFAULT_NAME,
    ENUM,
    ENUM_DEFAULT,
    ENUM_DOC,
    FIELD_DEFAULT,
    FIELD_DOC,
    FIXED_SIZE,
    MAP_ENTRY,
    NAMESPACE,
    PRECISION,
    PRECISION_DEFAULT,
    RECORD_DOC,
    AvroSettings,
    anything_schema,
    is_enum,
    is_fixed,
    is_union,
)
from ottla.connect.converters.sum_types import SUM_TYPE_ENUM
from ottla.connect.data import DATE, DECIMAL, TIME, TIMESTAMP, Schema, Type
from ottla.connect.errors import DataException
from ottla.connect.logical_types import encode_logical, scale_of
from ottla.schemas.avro.defaults import fits
from ottla.schemas.avro.schema import AvroSchema
from ottla.schemas.json_text import write_json

Json = Any
PRIMITIVES: Final = {
    Type.INT8: "int",
    Type.INT16: "int",
    Type.INT32: "int",
    Type.INT64: "long",
    Type.FLOAT32: "float",
    Type.FLOAT64: "double",
    Type.BOOLEAN: "boolean",
    Type.STRING: "string",
    Type.BYTES: "bytes",
}
LOGICAL: Final = {
    DECIMAL: "decimal",
    DATE: "date",
    TIME: "time-millis",
    TIMESTAMP: "timestamp-millis",
}
NAMED: Final = ("record", "enum", "fixed")


def avro_text(schema: Schema | None, settings: AvroSettings) -> tuple[str, str | None]:
    """The schema's text, and the full name of its record."""
    written = anything_schema() if schema is None else _AvroFromConnect(settings).of(schema)
    name = None
    if isinstance(written, dict) and written["type"] in NAMED:
        space = written.get("namespace")
        name = f"{space}.{written['name']}" if space else written["name"]
    return write_json(written), name


class _AvroFromConnect:
    """For one schema. A named type is defined at its first use and referenced afterwards."""

    def __init__(self, settings: AvroSettings) -> None:
        self._settings = settings
        self._names: dict[Schema, str] = {}  # schema without default -> name of its named type
        self._defined: dict[str, Schema] = {}
        self._unnamed = 0

    def of(self, schema: Schema, *, in_union: bool = False) -> Json:
        if is_union(schema):
            return self._union(schema)
        base = self._base(schema)
        if not schema.optional or in_union:
            return base
        return [base, "null"] if schema.default is not None else ["null", base]

    def _union(self, schema: Schema) -> Json:
        branches: list[Json] = ["null"] if schema.optional else []
        return branches + [self.of(field.schema, in_union=True) for field in schema.fields]

    def _base(self, schema: Schema) -> Json:
        plain = schema.replace(optional=False, default=None)
        if plain in self._names:
            return self._names[plain]
        made = self._typed(schema)
        if isinstance(made, str):
            return made
        self._add_notes(made, schema)
        if made["type"] in NAMED:
            self._names[plain] = _full(made)
        return made["type"] if len(made) == 1 else made

    def _typed(self, schema: Schema) -> Json:
        if schema.type is Type.STRUCT:
            return self._record(schema)
        if schema.type is Type.ARRAY:
            return {"type": "array", "items": self.of(schema.value_schema)}
        if schema.type is Type.MAP:
            return self._map(schema)
        if is_enum(schema) and (self._settings.enhanced or self._settings.generalized):
            return self._enum(schema)
        if is_fixed(schema):
            size = int((schema.parameters or {})[FIXED_SIZE])
            made = self._define("fixed", schema)
            if isinstance(made, dict):
                made["size"] = size
        else:
            made = {"type": PRIMITIVES[schema.type]}
        if schema.name == DECIMAL and isinstance(made, dict):
            made["scale"] = scale_of(schema)
            made["precision"] = _precision(schema)
        return made

    def _define(self, kind: str, schema: Schema, name: str | None = None) -> Json:
        """The start of a named type's definition, or its name if it is already defined."""
        name = name or schema.name
        if name is None:
            self._unnamed += 1
            number = "" if self._unnamed == 1 else str(self._unnamed)
            space, name = NAMESPACE, f"{DEFAULT_NAME}{number}"
        else:
            space, _, name = self._settings.full_name(name).rpartition(".")
        whole = f"{space}.{name}" if space else name
        before = self._defined.get(whole)
        if before is not None:
            if not _same_shape(before, schema):
                raise DataException(f"Two different schemas have the name {whole}")
            return whole
        self._defined[whole] = schema
        made: Json = {"type": kind, "name": name}
        if space:
            made["namespace"] = space
        return made

    def _record(self, schema: Schema) -> Json:
        made = self._define("record", schema)
        if isinstance(made, str):
            return made
        parameters = schema.parameters or {}
        if RECORD_DOC in parameters:
            made["doc"] = parameters[RECORD_DOC]
        made["fields"] = [
            self._field(
                self._settings.scrubbed(field.name),
                field.schema,
                parameters.get(FIELD_DOC + field.name),
            )
            for field in schema.fields
        ]
        return made

    def _enum(self, schema: Schema) -> Json:
        parameters = schema.parameters or {}
        kind = SUM_TYPE_ENUM if SUM_TYPE_ENUM in parameters else ENUM
        made = self._define("enum", schema, parameters[kind] or schema.name)
        if isinstance(made, str):
            return made
        simple = made["name"]
        if ENUM_DOC + simple in parameters:
            made["doc"] = parameters[ENUM_DOC + simple]
        symbols = (name.partition(f"{kind}.")[::2] for name in parameters)
        made["symbols"] = [symbol for before, symbol in symbols if symbol and not before]
        if ENUM_DEFAULT + simple in parameters:
            made["default"] = parameters[ENUM_DEFAULT + simple]
        return made

    def _map(self, schema: Schema) -> Json:
        if self._settings.has_string_keys(schema):
            return {"type": "map", "values": self.of(schema.value_schema)}
        made = self._define("record", schema, schema.name or self._entry_name(schema))
        if isinstance(made, dict):
            made["fields"] = [
                self._field("key", schema.key_schema, None),
                self._field("value", schema.value_schema, None),
            ]
            if schema.name is not None or made["name"] != MAP_ENTRY:
                made["connect.internal.type"] = MAP_ENTRY
        return {"type": "array", "items": made}

    def _entry_name(self, schema: Schema) -> str:
        """MapEntry; MapEntry2 and so on if a map of other types already has this name."""
        name = first = f"{NAMESPACE}.{MAP_ENTRY}"
        number = 1
        while name in self._defined and not _same_shape(self._defined[name], schema):
            number += 1
            name = f"{first}{number}"
        return name

    def _field(self, name: str, schema: Schema, doc: str | None) -> Json:
        defined_before = set(self._defined)
        made: Json = {"name": name, "type": self.of(schema)}
        if doc is not None:
            made["doc"] = doc
        if schema.default is not None:
            default = json_default(schema, schema.default, self._settings)
            if self._fits(made["type"], default, defined_before):
                made["default"] = default
        elif schema.optional:
            made["default"] = None
        return made

    def _fits(self, type: Json, default: Json, defined: set[str]) -> bool:
        """True if the default is valid in Avro; also if its type is defined elsewhere."""
        if defined and _names_any(type, defined):
            return False
        return fits(AvroSchema(write_json(type), {}).root, default)

    def _add_notes(self, made: dict[str, Json], schema: Schema) -> None:
        """The properties connect.*, in the order in which Confluent's converter adds them."""
        parameters = schema.parameters or {}
        if self._settings.meta_data:
            if schema.doc is not None:
                made["connect.doc"] = schema.doc
            if schema.version is not None:
                made["connect.version"] = schema.version
            kept = {name: text for name, text in parameters.items() if name != FIELD_DEFAULT}
            if kept:
                made["connect.parameters"] = kept
            if schema.default is not None and FIELD_DEFAULT not in parameters:
                made["connect.default"] = json_default(schema, schema.default, self._settings)
            if schema.name is not None:
                made["connect.name"] = schema.name
            if schema.type in (Type.INT8, Type.INT16):
                made["connect.type"] = schema.type.value
        if schema.name in LOGICAL and made["type"] in ("int", "long", "bytes", "fixed"):
            made["logicalType"] = LOGICAL[schema.name]
        made.update({name: text for name, text in parameters.items() if name.startswith("avro")})


def json_default(schema: Schema, value: Any, settings: AvroSettings) -> Json:
    """A default in Avro's JSON encoding: bytes as characters, a union as its first type."""
    if value is None:
        return None
    if is_union(schema):
        found = [(field.schema, value[field.name]) for field in schema.fields]
        return next((json_default(a, b, settings) for a, b in found if b is not None), None)
    raw = encode_logical(schema, value)
    if schema.type is Type.BYTES:
        return bytes(raw).decode("latin-1")
    if schema.type is Type.ARRAY:
        return [json_default(schema.value_schema, item, settings) for item in raw]
    if schema.type is Type.STRUCT:
        return {
            settings.scrubbed(field.name): json_default(field.schema, raw[field.name], settings)
            for field in schema.fields
        }
    if schema.type is not Type.MAP:
        return raw
    keys, values = schema.key_schema, schema.value_schema
    pairs = [(key, json_default(values, item, settings)) for key, item in raw.items()]
    if settings.has_string_keys(schema):
        return dict(pairs)
    return [{"key": json_default(keys, key, settings), "value": item} for key, item in pairs]


def _precision(schema: Schema) -> int:
    return int((schema.parameters or {}).get(PRECISION, PRECISION_DEFAULT))


def _full(made: dict[str, Json]) -> str:
    space = made.get("namespace")
    return f"{space}.{made['name']}" if space else str(made["name"])


def _same_shape(one: Schema, other: Schema) -> bool:
    """True if one definition serves both, ignoring the properties of a single use."""
    bare: dict[str, Any] = {"optional": False, "default": None, "doc": None, "parameters": None}
    return one is other or one.replace(**bare) == other.replace(**bare)


def _names_any(type: Json, names: set[str]) -> bool:
    if isinstance(type, str):
        return type in names
    if isinstance(type, list):
        return any(_names_any(branch, names) for branch in type)
    inner = [type.get("items"), type.get("values"), *(f["type"] for f in type.get("fields", ()))]
    return any(_names_any(item, names) for item in inner if item is not None)
