"""Comparable forms of values that Spark can't compare."""

from __future__ import annotations

from ottla.rows.types import SqlBaseType, SqlType


def comparable(text: str, type_: SqlType) -> str:
    """Spark can't compare maps. A map becomes its sorted entries; a value with maps inside,
    JSON."""
    if not has_map(type_):
        return text
    if type_.kind is SqlBaseType.MAP and type_.element is not None and not has_map(type_.element):
        return f"array_sort(map_entries({text}))"
    return f"to_json({text})"


def has_map(type_: SqlType) -> bool:
    inner = [type_.element] if type_.element else [field.type for field in type_.fields]
    return type_.kind is SqlBaseType.MAP or any(has_map(inner_type) for inner_type in inner)
