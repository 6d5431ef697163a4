"""The JSON Schema of a model. A Pydantic model writes its own.

Objects of dataclasses are closed (`additionalProperties` is false), as Confluent's serializers for
Java write them: this makes it compatible to add a field with a default.
"""

from __future__ import annotations

import json
from typing import Any

from ottla.schemas.models.python_type import MISSING, PythonType, is_pydantic
from ottla.schemas.models.values import JSON, ModelValues

DRAFT = "http://json-schema.org/draft-07/schema#"
PYDANTIC_DRAFT = "https://json-schema.org/draft/2020-12/schema"
_LEAVES: dict[str, dict[str, Any]] = {
    "bool": {"type": "boolean"},
    "int": {"type": "integer"},
    "float": {"type": "number"},
    "str": {"type": "string"},
    "bytes": {"type": "string", "contentEncoding": "base64"},
    "none": {"type": "null"},
    "any": {},
    "datetime": {"type": "string", "format": "date-time"},
    "date": {"type": "string", "format": "date"},
    "time": {"type": "string", "format": "time"},
    "decimal": {"type": "string"},
    "uuid": {"type": "string", "format": "uuid"},
}


def json_text(of: PythonType) -> str:
    if is_pydantic(of.type):
        return json.dumps({"$schema": PYDANTIC_DRAFT, **of.type.model_json_schema()})
    writer = _JsonSchemaWriter(of)
    written = {"$schema": DRAFT, **writer.definition(of)}
    if writer.definitions:
        written["definitions"] = writer.definitions
    return json.dumps(written)


class _JsonSchemaWriter:
    def __init__(self, root: PythonType) -> None:
        self.root = root
        self.definitions: dict[str, Any] = {}

    def write(self, of: PythonType) -> dict[str, Any]:
        if of.kind in _LEAVES:
            return _LEAVES[of.kind]
        if of.kind == "list":
            return {"type": "array", "items": self.write(of.parts[0])}
        if of.kind == "map":
            return {"type": "object", "additionalProperties": self.write(of.parts[0])}
        if of.kind == "union":
            return {"oneOf": [self.write(part) for part in of.parts]}
        if of.kind == "enum":
            return {"enum": [member.value for member in of.type]}
        if of is self.root:
            return {"$ref": "#"}
        if of.name not in self.definitions:
            self.definitions[of.name] = {}  # it may contain itself
            self.definitions[of.name] = self.definition(of)
        return {"$ref": f"#/definitions/{of.name}"}

    def definition(self, of: PythonType) -> dict[str, Any]:
        if of.kind != "model":
            return self.write(of)
        properties: dict[str, Any] = {}
        for field in of.fields:
            properties[field.name] = schema = dict(self.write(field.type))
            if field.default is not MISSING and "$ref" not in schema:
                values = ModelValues(field.type, JSON, str)
                plain = None if field.default is None else values.to_plain(field.default)
                schema["default"] = plain
        required = [field.name for field in of.fields if field.default is MISSING]
        written: dict[str, Any] = {"title": of.name, "type": "object", "properties": properties}
        if required:
            written["required"] = required
        return {**written, "additionalProperties": False}
