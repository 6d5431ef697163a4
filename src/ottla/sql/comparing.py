"""Values that Spark does not compare, as ones that it does."""

from __future__ import annotations

from ottla.rows.types import Kind, SqlType


def comparable(text: str, type_: SqlType) -> str:
    """Spark compares no maps; their sorted entries, or as JSON where a map lies deeper."""
    if not has_map(type_):
        return text
    if type_.kind is Kind.MAP and type_.element is not None and not has_map(type_.element):
        return f"array_sort(map_entries({text}))"
    return f"to_json({text})"


def has_map(type_: SqlType) -> bool:
    inner = [type_.element] if type_.element else [each.type for each in type_.fields]
    return type_.kind is Kind.MAP or any(has_map(each) for each in inner)
