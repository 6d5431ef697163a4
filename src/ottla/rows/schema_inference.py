"""Infers columns from the schemas of a registry, by ksqlDB's rules.

Names are upper-case unless the statement has the schema's id; every column is nullable; a field
whose type SQL does not have is skipped with a log message.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Final

from ottla.client.schema_registry import RegisteredSchema, SchemaRegistry
from ottla.rows.formats.avro.types import AvroTypeInference
from ottla.rows.formats.json_sr.types import JsonTypeInference
from ottla.rows.formats.type_inference import Name, RecursiveSchemaError, UnsupportedTypeError
from ottla.rows.schema_properties import FULL_NAME, SCHEMA_ID
from ottla.rows.types import DECIMAL_DIGITS_MAX, SqlField

log = logging.getLogger("ottla.sql")

ALONE: Final = {"KEY": "ROWKEY", "VALUE": "ROWVAL"}
"""The name of an unwrapped column."""


class SchemaInferenceError(ValueError):
    """No columns can be inferred from the schema; the message says why."""


def infer_columns(
    registry: SchemaRegistry,
    schema: RegisteredSchema,
    properties: Mapping[str, str],
    *,
    part: str,
    wrapped: bool,
) -> list[SqlField]:
    """`properties` are those of the format; `part` is KEY or VALUE. Raises SchemaInferenceError."""
    name = str if SCHEMA_ID in properties else str.upper
    where = f"schema {schema.id}"

    def skipped(cause: str) -> None:
        log.warning("%s: skipping field %s", where, cause)

    try:
        body = registry.parsed(schema).body
        if schema.kind == "PROTOBUF":
            return _protobuf_columns(registry, schema, properties, name, skipped)
        inference = AvroTypeInference if schema.kind == "AVRO" else JsonTypeInference
        type_ = inference(name, skipped).type(body.root)
        if not wrapped:
            return [SqlField(ALONE[part], type_)]
        if not type_.fields:
            raise SchemaInferenceError("KSQL stream/table schema must be structured")
        return list(type_.fields)
    except RecursiveSchemaError as error:
        raise SchemaInferenceError(f"Recursive schemas are not supported: {error}") from None
    except (UnsupportedTypeError, ValueError) as error:
        raise SchemaInferenceError(str(error)) from None


def _protobuf_columns(
    registry: SchemaRegistry,
    schema: RegisteredSchema,
    properties: Mapping[str, str],
    name: Name,
    skipped: Any,
) -> list[SqlField]:
    from ottla.rows.formats.protobuf.types import ProtobufTypeInference
    from ottla.schemas.protobuf.message_types import MessageTypes

    parsed = registry.parsed(schema)
    types = MessageTypes(parsed)
    wanted = properties.get(FULL_NAME)
    message = types.by_name(wanted) if wanted else types.by_indexes((0,))
    digits = _decimals(parsed.body)
    inference = ProtobufTypeInference(
        name, skipped, lambda field: digits.get(field.full_name, (DECIMAL_DIGITS_MAX, 0))
    )
    fields = inference.fields(message.DESCRIPTOR)
    if not fields:
        raise SchemaInferenceError(
            "Schema does not include any columns with types that ksqlDB supports."
        )
    return fields


def _decimals(body: Any) -> dict[str, tuple[int, int]]:
    """Precision and scale of each field that has them in `confluent.field_meta`."""
    found: dict[str, tuple[int, int]] = {}
    for type_ in body.types.values():
        for field in [] if type_.is_enum or type_.element is None else type_.element.all_fields():
            given = dict(_parameters(field.options))
            if "precision" in given or "scale" in given:
                precision = min(int(given.get("precision", DECIMAL_DIGITS_MAX)), DECIMAL_DIGITS_MAX)
                scale = int(given.get("scale", 0))
                found[f"{type_.name}.{field.name}"] = max(precision, scale, 1), scale
    return found


def _parameters(options: list[Any]) -> list[tuple[str, str]]:
    """The parameters of `[(confluent.field_meta) = {params: [{key: "scale", value: "2"}]}]`, also
    with `.params` after the name."""
    pairs = []
    for option in options:
        value = option.value
        if option.name == "(confluent.field_meta)" and option.kind == "map":
            lists = [option for key, option in value if key == "params"]
        elif option.name == "(confluent.field_meta).params":
            lists = [option]
        else:
            continue
        for entry in _maps(lists):
            pairs.append((str(entry.get("key")), str(entry.get("value"))))
    return pairs


def _maps(values: list[Any]) -> list[dict[str, Any]]:
    """The maps of parsed option values, which may be lists of them."""
    found = []
    for item in values:
        kind, value = (item.kind, item.value) if hasattr(item, "kind") else item
        if kind == "list":
            found += _maps(value)
        elif kind == "map":
            found.append({key: _plain(inner) for key, inner in value})
    return found


def _plain(value: Any) -> Any:
    return value.value if hasattr(value, "value") else value[1]
