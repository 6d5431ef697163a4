"""Paths to fields: a name or, with syntax V2, names separated by dots (KIP-821)."""

from __future__ import annotations

import re
from typing import Any, Final

from ottla.connect.config import ConfigDef, ConfigType, Importance
from ottla.connect.data import Field, Schema, Struct
from ottla.connect.errors import ConfigException
from ottla.connect.transforms.transform import require_map, require_struct
from ottla.connect.validators import one_of_any_case

PURPOSE: Final = "nested field access"
# A step in backticks ends at a backtick that precedes a dot or the end of the path. A backslash
# escapes the backtick.
CLOSING: Final = re.compile(r"(\\?)`(\.|$)")


def field_syntax_config(config: ConfigDef) -> ConfigDef:
    return config.define(
        "field.syntax.version",
        ConfigType.STRING,
        "V1",
        Importance.HIGH,
        "V1: field names are taken literally. V2: dots separate nested fields, and a name that "
        "contains dots is put in backticks.",
        validator=one_of_any_case("V1", "V2"),
    )


class FieldPath:
    def __init__(self, path: str, version: str) -> None:
        steps = [path] if version.upper() == "V1" else field_path_steps(path)
        self._before, self._last = steps[:-1], steps[-1]

    def field_of(self, schema: Schema) -> Field | None:
        for step in self._before:
            field = schema.field(step)
            if field is None:
                return None
            schema = field.schema
        return schema.field(self._last)

    def of_struct(self, struct: Struct, with_default: bool) -> Any:
        for step in self._before:
            if step not in struct:
                return None
            inner = struct[step]
            if inner is None:
                return None
            struct = require_struct(inner, PURPOSE)
        if self._last not in struct:
            return None
        return struct[self._last] if with_default else struct.get_without_default(self._last)

    def of_map(self, mapping: dict[str, Any]) -> Any:
        for step in self._before:
            inner = mapping.get(step)
            if inner is None:
                return None
            mapping = require_map(inner, PURPOSE)
        return mapping.get(self._last)


def field_path_steps(path: str) -> list[str]:
    steps: list[str] = []
    position = 0
    while position < len(path):
        if path[position] == "`":
            step, position = _in_backticks(path, position)
        else:
            dot = path.find(".", position)
            end = len(path) if dot < 0 else dot
            step, position = path[position:end], end + 1
        steps.append(step)
    if not path or path.endswith("."):
        steps.append("")
    return steps


def _in_backticks(path: str, start: int) -> tuple[str, int]:
    name, position = "", start + 1
    while True:
        closing = CLOSING.search(path, position)
        if closing is None or (closing.group(1) and closing.group(2) == ""):
            raise ConfigException(
                f"Incomplete backtick pair in path: [{path}], consider adding a backslash before "
                f"backtick at position {start} to escape it"
            )
        name += path[position : closing.start()]
        if not closing.group(1):
            return name, closing.end()
        name += "`"
        position = closing.end() - 1
