"""Avro schemas -> Connect schemas, as Confluent's AvroConverter reads them."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Final

from ottla.connect.converters.avro_from_connect import LOGICAL, NAMED
from ottla.connect.converters.avro_settings import (
    DEFAULT_NAME,
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
    UNION,
    AvroSettings,
)
from ottla.connect.converters.sum_types import SUM_TYPE_FIELD, SUM_TYPE_UNION
from ottla.connect.data import DECIMAL, STRING_SCHEMA, Schema, Type
from ottla.connect.errors import DataException
from ottla.connect.schema import SCALE
from ottla.schemas.avro.node import AvroField, AvroNode

log = logging.getLogger("ottla.connect")

TYPES: Final = {
    "boolean": Type.BOOLEAN,
    "int": Type.INT32,
    "long": Type.INT64,
    "float": Type.FLOAT32,
    "double": Type.FLOAT64,
    "string": Type.STRING,
    "enum": Type.STRING,
    "bytes": Type.BYTES,
    "fixed": Type.BYTES,
}
NARROW: Final = {"int8": Type.INT8, "int16": Type.INT16}
LOGICAL_OF: Final = {
    (avro, kind): name
    for name, avro in LOGICAL.items()
    for kind in ({"decimal": ("bytes", "fixed"), "timestamp-millis": ("long",)}.get(avro, ("int",)))
}
Default = Callable[[Schema, AvroNode, Any], Any]
"""Converts a default in JSON to a Connect value."""


class ConnectFromAvro:
    """For one schema. Recursive schemas raise, because Connect schemas are immutable trees."""

    def __init__(self, settings: AvroSettings, default: Default) -> None:
        self._settings = settings
        self._default = default
        self._open: list[str] = []
        self._unions = 0

    def of(
        self,
        node: AvroNode,
        *,
        optional: bool = False,
        field: AvroField | None = None,
        version: int | None = None,
    ) -> Schema:
        if node.kind == "union":
            inner = self._only_branch(node)
            if inner is not None:
                is_nullable = len(node.branches) > 1
                return self.of(inner, optional=optional or is_nullable)
        parts = self._parts(node)
        said = self._notes(node, parts, version)
        if optional:
            said["optional"] = True
        schema = Schema(**said)
        return self._with_default(schema, node, field)

    def _only_branch(self, node: AvroNode) -> AvroNode | None:
        others = [branch for branch in node.branches if branch.kind != "null"]
        if len(node.branches) == 1 and others and self._settings.flatten_singletons:
            return others[0]
        return others[0] if len(node.branches) == 2 and len(others) == 1 else None

    def _parts(self, node: AvroNode) -> dict[str, Any]:
        if node.kind == "null":
            raise DataException("Standalone null schemas are not supported by this converter")
        if node.kind in ("record", "error"):
            return self._record(node)
        if node.kind == "union":
            return self._union(node)
        if node.kind == "map":
            return {
                "type": Type.MAP,
                "key_schema": STRING_SCHEMA,
                "value_schema": self.of(node.element),
            }
        if node.kind == "array":
            return self._array(node)
        return self._scalar(node)

    def _scalar(self, node: AvroNode) -> dict[str, Any]:
        parts: dict[str, Any] = {"type": TYPES[node.kind], "parameters": {}}
        name = LOGICAL_OF.get((str(node.properties.get("logicalType")), node.kind))
        if name is not None:
            parts |= {"name": name, "version": 1}
        if name == DECIMAL:
            parts["parameters"] |= _decimal_parameters(node)
        if node.kind == "int" and name is None:
            narrow = node.properties.get("connect.type")
            if narrow is not None and "logicalType" not in node.properties:
                if narrow not in NARROW:
                    raise DataException(f"Connect type annotation {narrow} for Avro int field")
                parts["type"] = NARROW[narrow]
        if node.kind == "fixed":
            parts["parameters"][FIXED_SIZE] = str(node.size)
        if node.kind == "enum":
            parts["parameters"] |= self._enum_parameters(node)
        return parts

    def _enum_parameters(self, node: AvroNode) -> dict[str, str]:
        parameters = {}
        if self._settings.meta_data:
            if node.doc is not None:
                parameters[ENUM_DOC + node.simple_name] = node.doc
            if node.default is not None:
                parameters[ENUM_DEFAULT + node.simple_name] = node.default
        kind = self._settings.enum_parameter
        parameters[kind] = node.name
        for number, symbol in enumerate(node.symbols):
            parameters[f"{kind}.{symbol}"] = str(number) if self._settings.generalized else symbol
        return parameters

    def _array(self, node: AvroNode) -> dict[str, Any]:
        element = node.element
        if not is_map_entry(element):
            return {"type": Type.ARRAY, "value_schema": self.of(element)}
        fields = {field.name: field.type for field in element.fields}
        if fields.keys() != {"key", "value"}:
            raise DataException(
                "Found map encoded as array of key-value pairs, but array elements do not match "
                "the expected format."
            )
        keys, values = self.of(fields["key"]), self.of(fields["value"])
        return {"type": Type.MAP, "key_schema": keys, "value_schema": values}

    def _record(self, node: AvroNode) -> dict[str, Any]:
        if node.name in self._open:
            raise DataException(
                f"The record {node.name} contains itself: recursive schemas are not supported"
            )
        self._open.append(node.name)
        parameters: dict[str, str] = {}
        if self._settings.meta_data:
            if node.doc is not None:
                parameters[RECORD_DOC] = node.doc
            docs = ((field.name, field.doc) for field in node.fields)
            parameters |= {FIELD_DOC + name: doc for name, doc in docs if doc is not None}
        fields = [(field.name, self._field(field)) for field in node.fields]
        self._open.pop()
        return {"type": Type.STRUCT, "fields": fields, "parameters": parameters}

    def _field(self, field: AvroField) -> Schema:
        schema = self.of(field.type, field=field)
        own = field.properties.get("connect.parameters")
        if self._settings.meta_data and isinstance(own, dict):
            more = {name: str(text) for name, text in own.items()}
            schema = schema.replace(parameters={**(schema.parameters or {}), **more})
        return schema

    def _union(self, node: AvroNode) -> dict[str, Any]:
        parts: dict[str, Any] = {"type": Type.STRUCT, "name": UNION, "parameters": {}}
        if self._settings.generalized:
            parts["name"] = f"connect_union_{self._unions}"
            parts["parameters"][SUM_TYPE_UNION] = parts["name"]
            self._unions += 1
        fields: dict[str, Schema] = {}
        for index, branch in enumerate(node.branches):
            if branch.kind == "null":
                parts["optional"] = True
                continue
            name = branch_field(branch, index, self._settings)
            if name in fields:
                raise DataException("Multiple union schemas map to the Connect union field name")
            fields[name] = self.of(branch, optional=True)
        return parts | {"fields": fields}

    def _notes(self, node: AvroNode, parts: dict[str, Any], version: int | None) -> dict[str, Any]:
        """The properties connect.*, if a Connect converter wrote the schema."""
        properties = node.properties
        if self._settings.meta_data:
            if isinstance(properties.get("connect.doc"), str):
                parts["doc"] = properties["connect.doc"]
            parts["parameters"] = parts.get("parameters", {}) | _parameters(node)
        own = properties.get("connect.version", version)
        if own is not None:
            if not isinstance(own, int):
                raise DataException(f"Invalid Connect version found: {own}")
            if parts.setdefault("version", own) != own:
                raise DataException(
                    "Mismatched versions: version already added to SchemaBuilder "
                    f"({parts['version']}) differs from version in source schema ({own})"
                )
        for name, value in properties.items():
            if name.startswith("avro"):
                parts.setdefault("parameters", {})[name] = str(value)
        named = properties.get("connect.name", node.name if node.kind in NAMED else None)
        if named and not str(named).startswith(f"{NAMESPACE}.{DEFAULT_NAME}"):
            parts["name"] = _name(parts.get("name"), named, node)
        parts["parameters"] = parts.get("parameters") or None
        return parts

    def _with_default(self, schema: Schema, node: AvroNode, field: AvroField | None) -> Schema:
        noted = node.properties.get("connect.default")
        default = noted
        if field is not None and field.has_default and field.default is not None:
            default = field.default
            if self._settings.meta_data and noted is None:
                more = {**(schema.parameters or {}), FIELD_DEFAULT: "true"}
                schema = schema.replace(parameters=more)
        if default is None:
            return schema
        try:
            return schema.replace(default=self._default(schema, node, default))
        except (DataException, KeyError, TypeError, ValueError, AttributeError) as error:
            log.warning("Ignoring invalid default for schema %s: %s", node.key, error)
            return schema


def branch_field(branch: AvroNode, index: int, settings: AvroSettings) -> str:
    """The name of a branch's field in the struct of its union."""
    if settings.generalized:
        return f"{SUM_TYPE_FIELD}{index}"
    if branch.kind in ("record", "error", "enum", "fixed"):
        return branch.name if settings.enhanced else branch.simple_name
    return branch.kind


def is_map_entry(node: AvroNode) -> bool:
    return node.kind == "record" and (
        node.name == f"{NAMESPACE}.{MAP_ENTRY}"
        or node.properties.get("connect.internal.type") == MAP_ENTRY
    )


def _decimal_parameters(node: AvroNode) -> dict[str, str]:
    scale = node.properties.get("scale")
    parameters = {SCALE: str(scale if isinstance(scale, int) else 0)}
    precision = node.properties.get("precision")
    if precision is not None:
        if not isinstance(precision, int):
            raise DataException("precision property must be a JSON Integer")
        if precision != PRECISION_DEFAULT:
            parameters[PRECISION] = str(precision)
    return parameters


def _parameters(node: AvroNode) -> dict[str, str]:
    found = node.properties.get("connect.parameters")
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise DataException(f"Expected JSON object for schema parameters but found: {found}")
    for text in found.values():
        if not isinstance(text, str):
            raise DataException(f"Expected schema parameter values to be strings but found: {text}")
    return dict(found)


def _name(given: str | None, name: Any, node: AvroNode) -> str:
    if not isinstance(name, str):
        raise DataException(f"Invalid schema name: {name}")
    if given is None or given == name:
        return name
    if node.kind == "fixed" and given == DECIMAL:
        return given  # the name of the fixed type carries no information
    raise DataException(
        f"Mismatched names: name already added to SchemaBuilder ({given}) differs from name in "
        f"source schema ({name})"
    )
