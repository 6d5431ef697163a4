"""JSON Schemas -> Connect schemas, as Confluent's JsonSchemaConverter reads them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from ottla.connect.converters.json_schema_settings import NULL_SYMBOL, ONE_OF, JsonSchemaSettings
from ottla.connect.converters.sum_types import SUM_TYPE_FIELD, SUM_TYPE_UNION
from ottla.connect.data import STRING_SCHEMA, Schema, Type
from ottla.connect.errors import DataException
from ottla.schemas.json_schema.node import JsonNode

DecodeDefault = Callable[[Schema, Any], Any]
NARROW: Final = {
    type.value: type
    for type in (
        *(Type.INT8, Type.INT16, Type.INT32, Type.INT64),
        *(Type.FLOAT32, Type.FLOAT64, Type.BYTES),
    )
}
WORDS: Final = {
    "object": ("properties", "additionalProperties", "required", "patternProperties"),
    "array": ("items", "prefixItems"),
    "string": ("minLength", "maxLength", "pattern", "format"),
    "number": ("minimum", "maximum", "multipleOf", "exclusiveMinimum", "exclusiveMaximum"),
}


class ConnectFromJsonSchema:
    """For one schema. Recursive schemas raise, because Connect schemas are immutable trees."""

    def __init__(self, settings: JsonSchemaSettings, default: DecodeDefault) -> None:
        self._settings, self._default = settings, default
        self._open: list[JsonNode] = []
        self._unions = 0

    def of(self, node: JsonNode, *, optional: bool = False, version: int | None = None) -> Schema:
        node = node.followed()
        if any(node is other for other in self._open):
            raise DataException(
                "The JSON schema contains itself: recursive schemas are not supported"
            )
        self._open.append(node)
        try:
            return self._of(node, optional, version)
        finally:
            self._open.pop()

    def _of(self, node: JsonNode, optional: bool, version: int | None) -> Schema:
        branches = self._branches(node)
        if branches is not None:
            others = [branch for branch in branches if not _is_null(branch)]
            alone = len(branches) == 1 and self._settings.flatten_singletons
            if others and (alone or (len(branches) == 2 and len(others) == 1)):
                nullable = optional or len(branches) == 2
                return self.of(others[0], optional=nullable, version=version)
            parts = self._union(others)
            optional = optional or len(others) < len(branches)
        elif node.children("allOf"):
            return self._all_of(node, optional, version)
        else:
            parts = self._typed(node)
        return self._finished(node, parts, optional, version)

    def _branches(self, node: JsonNode) -> list[JsonNode] | None:
        for word in ("oneOf", "anyOf"):
            found = node.children(word)
            if found and not node.children("allOf"):
                return found
        types = node.get("type")
        if isinstance(types, list):
            return [node.typed(name) for name in types]
        return None

    def _typed(self, node: JsonNode) -> dict[str, Any]:
        kind = _type_of(node)
        marked = node.get("connect.type")
        if kind == "enum":
            values = node.get("enum") if node.get("enum") is not None else [node.get("const")]
            return {"type": Type.STRING, "parameters": self._enum_parameters(values)}
        if kind == "boolean":
            return {"type": Type.BOOLEAN}
        if kind in ("integer", "number"):
            usual = Type.INT64 if kind == "integer" else Type.FLOAT64
            if marked is not None and marked not in NARROW:
                raise DataException(f"Unsupported type {marked}")
            return {"type": usual if marked is None else NARROW[marked]}
        if kind == "string":
            return {"type": Type.BYTES if marked == "bytes" else Type.STRING}
        if kind == "array":
            return self._array(node, marked)
        if kind == "object":
            return self._object(node, marked)
        raise DataException(f"Unsupported schema type {kind}")

    def _array(self, node: JsonNode, marked: Any) -> dict[str, Any]:
        items = node.child("items")
        if items is None or items.accepts_everything:
            raise DataException("Array schema did not specify the items type")
        if marked != "map":
            return {"type": Type.ARRAY, "value_schema": self.of(items)}
        entry = items.followed().named("properties")
        if not {"key", "value"} <= entry.keys():
            raise DataException("A map's entries have the properties key and value")
        keys, values = self.of(entry["key"]), self.of(entry["value"])
        return {"type": Type.MAP, "key_schema": keys, "value_schema": values}

    def _object(self, node: JsonNode, marked: Any) -> dict[str, Any]:
        if marked == "map":
            values = node.child("additionalProperties")
            if values is None:
                raise DataException("Map schema did not specify the value type")
            return {
                "type": Type.MAP,
                "key_schema": STRING_SCHEMA,
                "value_schema": self.of(values),
            }
        found = node.named("properties")
        return self._struct(found, set(node.get("required", ())))

    def _struct(self, properties: dict[str, JsonNode], required: set[str]) -> dict[str, Any]:
        numbered = enumerate(properties.items())
        ordered = sorted(
            (child.get("connect.index", number), number, name, child)
            for number, (name, child) in numbered
        )
        loose = self._settings.optional_if_not_required
        fields = [
            (name, self.of(child, optional=loose and name not in required))
            for _, _, name, child in ordered
        ]
        return {"type": Type.STRUCT, "fields": fields}

    def _union(self, branches: list[JsonNode]) -> dict[str, Any]:
        if not branches:
            raise DataException("A schema whose only value is null is not supported")
        name, begin = ONE_OF, f"{ONE_OF}.field."
        parts: dict[str, Any] = {"type": Type.STRUCT}
        if self._settings.generalized:
            name, begin = f"connect_union_{self._unions}", SUM_TYPE_FIELD
            parts["parameters"] = {SUM_TYPE_UNION: name}
            self._unions += 1
        fields = {
            f"{begin}{index}": self.of(branch, optional=True)
            for index, branch in enumerate(branches)
        }
        return {**parts, "name": name, "fields": fields}

    def _all_of(self, node: JsonNode, optional: bool, version: int | None) -> Schema:
        """allOf: objects are merged into one struct; of other parts the most specific one
        counts."""
        parts = [part.followed() for part in node.parts()]
        properties: dict[str, JsonNode] = {}
        required: set[str] = set()
        _collect(parts, properties, required, set())
        if properties:
            made = self._struct(properties, required)
            return self._finished(node, made, optional, version)
        found = next((p for p in parts if p.get("oneOf") or p.get("anyOf")), None)
        found = found or next((p for p in parts if p.get("type") is not None), None)
        if found is None or any(found is other for other in self._open):
            raise DataException("Unsupported criterion allOf: none of its schemas has a type")
        return self.of(found, optional=optional, version=version)

    def _enum_parameters(self, values: list[Any]) -> dict[str, str]:
        kind = self._settings.enum_parameter
        parameters = {kind: ""}  # JSON Schema's enums have no names
        for number, value in enumerate(values):
            symbol = NULL_SYMBOL if value is None else str(value)
            parameters[f"{kind}.{symbol}"] = str(number) if self._settings.generalized else symbol
        return parameters

    def _finished(
        self, node: JsonNode, parts: dict[str, Any], optional: bool, version: int | None
    ) -> Schema:
        title = node.get("title")
        if isinstance(title, str):
            parts.setdefault("name", title)
        own = node.get("connect.version", version)
        if own is not None:
            parts["version"] = own
        if isinstance(node.get("description"), str):
            parts["doc"] = node.get("description")
        noted = node.get("connect.parameters")
        if isinstance(noted, dict):
            more = {name: str(text) for name, text in noted.items()}
            parts["parameters"] = {**parts.get("parameters", {}), **more}
        schema = Schema(**parts, optional=optional)
        default = node.get("default")
        if default is None:
            return schema
        return schema.replace(default=self._default(schema, default))


def _type_of(node: JsonNode) -> str:
    if "enum" in node.raw or "const" in node.raw:
        kind = node.get("type")
        return kind if kind in ("integer", "number", "boolean") else "enum"
    kind = node.get("type")
    if isinstance(kind, str):
        return kind
    for name, words in WORDS.items():
        if any(word in node.raw for word in words):
            return name
    raise DataException("A JSON schema without a type takes every value: Connect has no such type")


def _is_null(node: JsonNode) -> bool:
    return bool(node.followed().get("type") == "null")


def _collect(
    nodes: list[JsonNode], properties: dict[str, JsonNode], required: set[str], seen: set[int]
) -> None:
    for node in nodes:
        node = node.followed()
        if id(node) in seen:
            continue
        seen.add(id(node))
        properties |= node.named("properties")
        required |= set(node.get("required", ()))
        _collect(node.children("allOf"), properties, required, seen)
