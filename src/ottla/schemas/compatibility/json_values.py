"""Types, limits, enums: the constraints of a JSON Schema on the value itself."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from ottla.schemas import json_text
from ottla.schemas.compatibility.json_difference import JsonDifference
from ottla.schemas.json_schema.keywords import TYPES
from ottla.schemas.json_schema.node import JsonNode

# Keywords that imply one type.
_IMPLIED = {
    "object": (
        *("properties", "patternProperties", "additionalProperties", "unevaluatedProperties"),
        *("required", "minProperties", "maxProperties", "propertyNames"),
        *("dependencies", "dependentRequired", "dependentSchemas"),
    ),
    "array": (
        *("items", "prefixItems", "additionalItems", "unevaluatedItems", "uniqueItems"),
        *("minItems", "maxItems", "contains", "minContains", "maxContains"),
    ),
    "string": ("minLength", "maxLength", "pattern"),
    "number": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
}
# Keyword, type, and whether a larger number is tighter.
_COUNTS = (
    ("minLength", "string", True),
    ("maxLength", "string", False),
    ("minItems", "array", True),
    ("maxItems", "array", False),
    ("minContains", "array", True),
    ("maxContains", "array", False),
    ("minProperties", "object", True),
    ("maxProperties", "object", False),
)


def types_of(node: JsonNode) -> frozenset[str]:
    """The types a schema accepts: by `type`, by its enum, by its keywords, or all."""
    types = node.get("type")
    if types is not None:
        return frozenset([types] if isinstance(types, str) else types)
    values = enum_of(node)
    if values is not None:
        return frozenset(_type_name(value) for value in values)
    implied = [
        name for name, words in _IMPLIED.items() if any(node.get(w) is not None for w in words)
    ]
    return frozenset(implied or TYPES)


def enum_of(node: JsonNode) -> list[Any] | None:
    if isinstance(node.raw, dict) and "const" in node.raw:
        return [node.raw["const"]]
    values = node.get("enum")
    return values if isinstance(values, list) else None


def value_differences(new: JsonNode, old: JsonNode, path: str) -> list[JsonDifference]:
    found = _types(new, old, path)
    if found:
        return found
    types = types_of(old)
    found += _enums(new, old, path)
    for word, name, larger_is_tighter in _COUNTS:
        if name in types:
            found += _limit(word, new.get(word), old.get(word), larger_is_tighter, path)
    if "string" in types:
        found += _pattern(new, old, path)
    if "number" in types or "integer" in types:
        found += _bounds(new, old, path) + _multiples(new, old, path)
    return found


def _types(new: JsonNode, old: JsonNode, path: str) -> list[JsonDifference]:
    if new.get("type") is None:
        return []
    if new.get("connect.type") == old.get("connect.type") == "bytes":
        return []  # Connect's own mark: the value stays bytes in every JSON type
    accepted, written = types_of(new), types_of(old)
    lost = sorted(
        name
        for name in written
        if name not in accepted and not (name == "integer" and "number" in accepted)
    )
    if not lost:
        return []
    narrowed = len(lost) < len(written) or (lost == ["number"] and "integer" in accepted)
    info = f"{', '.join(sorted(written))} before, {', '.join(sorted(accepted))} now"
    return [JsonDifference("TYPE_NARROWED" if narrowed else "TYPE_CHANGED", path, info)]


def _enums(new: JsonNode, old: JsonNode, path: str) -> list[JsonDifference]:
    accepted = enum_of(new)
    if accepted is None:
        return []
    written = enum_of(old)
    if written is None:
        return [JsonDifference("ENUM_ARRAY_CHANGED", f"{path}/enum", "there was no enum before")]
    now = {json_text.write_json(value, sort_keys=True) for value in accepted}
    before = {json_text.write_json(value, sort_keys=True) for value in written}
    lost = sorted(before - now)
    if not lost:
        return []
    name = "ENUM_ARRAY_NARROWED" if now < before else "ENUM_ARRAY_CHANGED"
    return [JsonDifference(name, f"{path}/enum", f"missing: {', '.join(lost)}"[:500])]


def _limit(
    word: str, now: Any, before: Any, larger_is_tighter: bool, path: str
) -> list[JsonDifference]:
    if now is None or now == before or (larger_is_tighter and now == 0):
        return []
    name = "".join(f"_{letter}" if letter.isupper() else letter for letter in word).upper()
    if before is None:
        return [JsonDifference(f"{name}_ADDED", f"{path}/{word}", f"{now}")]
    if (now > before) != larger_is_tighter:
        return []
    change = "INCREASED" if larger_is_tighter else "DECREASED"
    return [JsonDifference(f"{name}_{change}", f"{path}/{word}", f"{before} before, {now} now")]


def _pattern(new: JsonNode, old: JsonNode, path: str) -> list[JsonDifference]:
    now, before = new.get("pattern"), old.get("pattern")
    if now is None or now == before:
        return []
    name = "PATTERN_ADDED" if before is None else "PATTERN_CHANGED"
    return [JsonDifference(name, f"{path}/pattern", f"{before} before, {now} now")]


def _bounds(new: JsonNode, old: JsonNode, path: str) -> list[JsonDifference]:
    found: list[JsonDifference] = []
    for word, sign in (("minimum", 1), ("maximum", -1)):
        now, before = _bound(new, word, sign), _bound(old, word, sign)
        if now is None or (before is not None and now <= before):
            continue
        name = f"EXCLUSIVE_{word.upper()}" if now[1] else word.upper()
        change = "ADDED" if before is None else ("INCREASED" if sign > 0 else "DECREASED")
        info = f"{None if before is None else before[0] * sign} before, {now[0] * sign} now"
        found.append(JsonDifference(f"{name}_{change}", f"{path}/{word}", info))
    return found


def _bound(node: JsonNode, word: str, sign: int) -> tuple[Fraction, bool] | None:
    """The tighter of a side's two limits, larger = tighter, and whether it is exclusive."""
    plain, exclusive = node.get(word), node.get(f"exclusive{word.capitalize()}")
    found: list[tuple[Fraction, bool]] = []
    if plain is not None:
        found.append((exact(plain) * sign, exclusive is True))
    if exclusive is not None and not isinstance(exclusive, bool):
        found.append((exact(exclusive) * sign, True))
    return max(found, default=None)


def _multiples(new: JsonNode, old: JsonNode, path: str) -> list[JsonDifference]:
    now, before = new.get("multipleOf"), old.get("multipleOf")
    if now is None:
        return []
    where = f"{path}/multipleOf"
    if before is None:
        if exact(now) == 1 and types_of(old) <= {"integer"}:
            return []
        return [JsonDifference("MULTIPLE_OF_ADDED", where, f"{now}")]
    if exact(before) % exact(now) == 0:
        return []
    return [JsonDifference("MULTIPLE_OF_CHANGED", where, f"{before} before, {now} now")]


def exact(number: Any) -> Fraction:
    """The decimal as written: 0.1 is a tenth."""
    return Fraction(repr(number))


def _type_name(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int) or (isinstance(value, float) and value.is_integer()):
        return "integer"
    names = {float: "number", str: "string", list: "array", dict: "object"}
    return names[type(value)]
