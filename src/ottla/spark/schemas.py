"""Functions for columns of Avro, JSON Schema or Protobuf, with a schema registry.

    from ottla.spark.schemas import from_avro, to_avro

    orders = records.select(from_avro("value", registry=url, subject="orders-value").alias("order"))
    values = sold.select(to_avro(struct("id", "price"), registry=url, subject="sold-value"))

They are like Spark's own functions of these names, but use a registry: bytes have the id of their
schema in front (Confluent's wire format). They work in batch and streaming queries, on whole Arrow
arrays, with the formats of SQL (ottla.rows.formats).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
from pyspark.sql.pandas.functions import arrow_udf

from ottla.client.schema_registry import URL, RegisteredSchema, SchemaRegistry
from ottla.rows.formats.arrow import arrow_type, spread
from ottla.rows.formats.codec import Codec, codec_of
from ottla.rows.formats.registry_format import registry_of
from ottla.rows.schema import Column as SqlColumn
from ottla.rows.schema import FormatInfo
from ottla.rows.schema_inference import infer_columns
from ottla.rows.schema_properties import FULL_NAME, SCHEMA_ID, SUBJECT
from ottla.rows.types import SqlBaseType, SqlField, SqlType
from ottla.spark.column_types import column_type

if TYPE_CHECKING:
    from pyspark.sql import Column

Registry = str | Mapping[str, str]
"""A URL, or the settings of Confluent's serializers: schema.registry.url, basic.auth.*, ..."""
Options = Mapping[str, str]

FORMATS: Final = {"AVRO": "AVRO", "JSON": "JSON_SR", "PROTOBUF": "PROTOBUF"}
MODES: Final = ("FAILFAST", "PERMISSIVE")
RECORD_NAME: Final = "topLevelRecord"  # Spark's own
HALVES_MAX: Final = 100


def from_avro(
    column: Column | str,
    schema: str = "",
    *,
    registry: Registry,
    subject: str = "",
    options: Options | None = None,
) -> Column:
    """Deserializes a column of Avro. The result type is that of `schema`, or of the subject's
    latest version; each value is read with its own schema, whose fields are matched by name.

    options: mode, FAILFAST (default) or PERMISSIVE, which turns unreadable values into null.
    """
    return _reader("from_avro", "AVRO", column, schema, registry, subject, options)


def from_json_schema(
    column: Column | str,
    schema: str = "",
    *,
    registry: Registry,
    subject: str = "",
    options: Options | None = None,
) -> Column:
    """The same for JSON with a schema id in front."""
    return _reader("from_json_schema", "JSON", column, schema, registry, subject, options)


def from_protobuf(
    column: Column | str,
    message_name: str = "",
    schema: str = "",
    *,
    registry: Registry,
    subject: str = "",
    options: Options | None = None,
) -> Column:
    """The same for Protobuf; the default `message_name` is the file's first message."""
    options = {**(options or {}), "messageName": message_name}
    return _reader("from_protobuf", "PROTOBUF", column, schema, registry, subject, options)


def to_avro(
    column: Column | str,
    schema: str = "",
    *,
    registry: Registry,
    subject: str,
    options: Options | None = None,
) -> Column:
    """Serializes a column as Avro with its schema id in front. Without `schema`, the schema is
    derived from the column's type and registered with the first batch.

    options: recordName and recordNamespace of a derived schema; auto.register.schemas (true),
    use.latest.version (false), as for Confluent's serializers.
    """
    return _writer("to_avro", "AVRO", column, schema, registry, subject, options)


def to_json_schema(
    column: Column | str,
    schema: str = "",
    *,
    registry: Registry,
    subject: str,
    options: Options | None = None,
) -> Column:
    return _writer("to_json_schema", "JSON", column, schema, registry, subject, options)


def to_protobuf(
    column: Column | str,
    message_name: str = "",
    schema: str = "",
    *,
    registry: Registry,
    subject: str,
    options: Options | None = None,
) -> Column:
    """The same for Protobuf; the column must be a struct."""
    options = {**(options or {}), "messageName": message_name}
    return _writer("to_protobuf", "PROTOBUF", column, schema, registry, subject, options)


# In the process that plans the query


def _reader(
    function: str,
    kind: str,
    column: Column | str,
    text: str,
    given: Registry,
    subject: str,
    options: Options | None,
) -> Column:
    options = options or {}
    mode = options.get("mode", MODES[0]).upper()
    if mode not in MODES:
        raise ValueError(f"{function}: mode must be one of {', '.join(MODES)}, not {mode}")
    if bool(text) == bool(subject):
        raise ValueError(f"{function}: give either a schema or a subject")
    settings = _settings(given)
    registry = _registry(settings)
    schema = RegisteredSchema(0, kind, text) if text else registry.version(subject)
    if schema.kind != kind:
        raise ValueError(f"{function}: the schema of {subject} is {schema.kind}, not {kind}")
    wrapped = _is_record(registry, schema)
    properties = {SCHEMA_ID: str(schema.id)}  # fields keep their names
    if options.get("messageName"):
        properties[FULL_NAME] = options["messageName"]
    fields = infer_columns(registry, schema, properties, part="VALUE", wrapped=wrapped)
    type_ = SqlType(SqlBaseType.STRUCT, fields=tuple(fields)) if wrapped else fields[0].type
    plan = ColumnPlan(kind, wrapped, properties, fields, settings)
    strict = mode == MODES[0]

    def read(data: pa.Array) -> pa.Array:
        return read_column(data, plan, type_, function, strict=strict)

    return _applied(read, function, type_.spark, column)


def _writer(
    function: str,
    kind: str,
    column: Column | str,
    text: str,
    given: Registry,
    subject: str,
    options: Options | None,
) -> Column:
    options = options or {}
    settings = _settings(given)
    properties = {SUBJECT: subject}
    latest = _is_true(options, "use.latest.version", False)
    if latest or text:
        registry = _registry(settings)
        if latest:
            found = registry.version(subject)
        else:
            registers = _is_true(options, "auto.register.schemas", True)
            found = (registry.register if registers else registry.look_up)(subject, kind, text)
        properties[SCHEMA_ID] = str(found.id)
    name = options.get("messageName") or options.get("recordName", "")
    space = options.get("recordNamespace", "")
    if kind == "AVRO":
        name = name or RECORD_NAME
    if name:
        properties[FULL_NAME] = f"{space}.{name}" if space else name

    def write(values: pa.Array) -> pa.Array:
        return write_column(values, kind, properties, settings)

    return _applied(write, function, "binary", column)


def _applied(
    function: Callable[[pa.Array], pa.Array], name: str, type_: str, column: Column | str
) -> Column:
    function.__name__ = name  # what Spark shows in a plan
    make: Any = arrow_udf  # its overloads know no plain function
    found: Column = make(function, type_)(column)
    return found


def _settings(given: Registry) -> dict[str, str]:
    return {URL: given} if isinstance(given, str) else dict(given)


def _registry(settings: Mapping[str, str]) -> SchemaRegistry:
    found = registry_of(settings)
    if found is None:
        raise ValueError(f"{URL} is not set: give the URL of the schema registry")
    return found


def _is_record(registry: SchemaRegistry, schema: RegisteredSchema) -> bool:
    if schema.kind == "PROTOBUF":
        return True
    root: Any = registry.parsed(schema).body.root
    if schema.kind == "AVRO":
        return bool(root.kind == "record")
    return bool(root.followed().get("properties"))


def _is_true(options: Options, name: str, default: bool) -> bool:
    return str(options.get(name, default)).lower() == "true"


# In the workers


class ColumnPlan:
    """What a worker needs to read or write a column."""

    def __init__(
        self,
        kind: str,
        wrapped: bool,
        properties: Mapping[str, str],
        fields: Sequence[SqlField],
        settings: Mapping[str, str],
    ) -> None:
        pairs = tuple(sorted(properties.items()))
        self.parts = (kind, wrapped, pairs, tuple(fields), json.dumps(settings, sort_keys=True))

    @property
    def half(self) -> Codec:
        return _half(*self.parts)


@lru_cache(HALVES_MAX)
def _half(
    kind: str,
    wrapped: bool,
    properties: tuple[tuple[str, str], ...],
    fields: tuple[SqlField, ...],
    settings: str,
) -> Codec:
    """One per worker process, which caches the schemas that it has fetched."""
    format_ = FormatInfo(FORMATS[kind], wrapped, dict(properties))
    columns = [SqlColumn(field.name, field.type) for field in fields]
    return codec_of(format_, columns, of_key=False, registry=_registry(json.loads(settings)))


def read_column(
    data: pa.Array, plan: ColumnPlan, type_: SqlType, function: str, *, strict: bool
) -> pa.Array:
    valid = data.is_valid().to_numpy(zero_copy_only=False)
    present = data.drop_null().cast(pa.binary())
    arrays, problems = plan.half.read(present)
    if problems and strict:
        raise ValueError(
            f"{function}: {len(problems)} of {len(data)} values can't be read; the first:"
            f" {problems[min(problems)]}. With options mode=PERMISSIVE they are null"
        )
    bad = np.zeros(len(present), bool)
    bad[list(problems)] = True
    wanted = arrow_type(type_)
    if plan.parts[1]:
        found = pa.StructArray.from_arrays(arrays, fields=list(wanted), mask=pa.array(bad))
    else:
        found = arrays[0]
    if not problems and valid.all():
        return found
    good = valid.copy()
    good[np.flatnonzero(valid)[bad]] = False
    return spread(found.filter(pa.array(~bad)), good)


def write_column(
    values: pa.Array, kind: str, properties: Mapping[str, str], settings: Mapping[str, str]
) -> pa.Array:
    type_ = column_type(values.type)
    wrapped = type_.kind is SqlBaseType.STRUCT
    if kind == "PROTOBUF" and not wrapped:
        raise ValueError(f"to_protobuf: the column must be a struct, not {type_}")
    valid = values.is_valid().to_numpy(zero_copy_only=False)
    present = values.drop_null().cast(arrow_type(type_))
    fields = type_.fields if wrapped else (SqlField("value", type_),)
    half = ColumnPlan(kind, wrapped, properties, fields, settings).half
    if not len(present):
        return pa.nulls(len(values), pa.binary())
    written = half.write(present.flatten() if wrapped else [present], len(present))
    return spread(written.cast(pa.binary()), valid)
