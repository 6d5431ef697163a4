"""Objects: properties, and the content model for properties without a schema by name.

A content model is open (anything is allowed), closed (nothing), or partially open (patterns, or one
schema for all others).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.schemas.compatibility.json_difference import JsonDifference
from ottla.schemas.compatibility.name_patterns import NamePattern
from ottla.schemas.json_schema.node import JsonNode

if TYPE_CHECKING:
    from ottla.schemas.compatibility.json_schema import JsonComparison

# A match of a pattern may cost as much as several comparisons.
_MATCH_STEPS = 4


class ContentModel:
    def __init__(self, node: JsonNode) -> None:
        self.node = node
        self.properties = node.named("properties")
        self.patterns = node.named("patternProperties")
        self.compiled = [(NamePattern(text), schema) for text, schema in self.patterns.items()]
        required = node.get("required")
        self.required = set(required) if isinstance(required, list) else set()
        rest = node.child("additionalProperties")
        if rest is None:
            rest = node.child("unevaluatedProperties")
        self.rest = node.at(True) if rest is None else rest

    @property
    def is_open(self) -> bool:
        return self.rest.accepts_everything and not self.patterns

    def matching(self, name: str, comparison: JsonComparison) -> list[JsonNode]:
        """The schemas of the patterns that a name matches."""
        found: list[JsonNode] = []
        for pattern, schema in self.compiled:
            comparison.take_step(_MATCH_STEPS)
            if pattern.matches(name):
                found.append(schema)
        return found

    def covering(self, name: str, comparison: JsonComparison) -> list[JsonNode]:
        """The schemas that a property without a schema by name must satisfy."""
        return self.matching(name, comparison) or [self.rest]


def object_differences(
    comparison: JsonComparison, new: JsonNode, old: JsonNode, path: str
) -> list[JsonDifference]:
    now, before = ContentModel(new), ContentModel(old)
    found: list[JsonDifference] = []
    for name, schema in before.properties.items():
        where = f"{path}/properties/{name}"
        if name in now.properties:
            found += comparison.compare(now.properties[name], schema, where)
            found += _required(now, before, name, where)
            for pattern_schema in now.matching(name, comparison):
                found += comparison.compare(pattern_schema, schema, where)
        else:
            found += _removed(comparison, now, name, schema, where)
    for name in now.properties:
        if name not in before.properties:
            found += _added(comparison, now, before, name, f"{path}/properties/{name}")
    # Confluent's registry ignores required names without a schema.
    for name in sorted(now.required - before.required - now.properties.keys()):
        found.append(JsonDifference("REQUIRED_ATTRIBUTE_ADDED", f"{path}/required/{name}", name))
    found += _patterns(comparison, now, before, path)
    found += _rest(comparison, now, before, path)
    found += _names(comparison, new, old, path)
    return found + _dependencies(comparison, new, old, path)


def _required(
    now: ContentModel, before: ContentModel, name: str, path: str
) -> list[JsonDifference]:
    if name not in now.required or name in before.required or _has_default(now, name):
        return []
    return [JsonDifference("REQUIRED_ATTRIBUTE_ADDED", path, name)]


def _has_default(model: ContentModel, name: str) -> bool:
    schema = model.properties[name].followed()
    return isinstance(schema.raw, dict) and "default" in schema.raw


def _removed(
    comparison: JsonComparison, now: ContentModel, name: str, schema: JsonNode, path: str
) -> list[JsonDifference]:
    if schema.accepts_nothing:
        return []
    covering = now.covering(name, comparison)
    if covering == [now.rest] and now.rest.accepts_nothing:
        if comparison.lenient:
            return []
        return [JsonDifference("PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL", path, name)]
    if any(comparison.compare(cover, schema, path) for cover in covering):
        kind = "PROPERTY_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL"
        return [JsonDifference(kind, path, name)]
    return []


def _added(
    comparison: JsonComparison, now: ContentModel, before: ContentModel, name: str, path: str
) -> list[JsonDifference]:
    schema = now.properties[name]
    found: list[JsonDifference] = []
    if name in now.required and name not in before.required and not _has_default(now, name):
        kind = "REQUIRED_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL"
        if before.is_open:
            kind = "PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL"
        found.append(JsonDifference(kind, path, name))
    covering = before.covering(name, comparison)
    # All patterns allow what one of them allows: one that fits is enough.
    if not all(comparison.compare(schema, cover, path) for cover in covering):
        return found
    if covering == [before.rest] and before.rest.accepts_everything:
        if not comparison.lenient and not found:
            found.append(JsonDifference("PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL", path, name))
    else:
        kind = "PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL"
        found.append(JsonDifference(kind, path, name))
    return found


def _patterns(
    comparison: JsonComparison, now: ContentModel, before: ContentModel, path: str
) -> list[JsonDifference]:
    found: list[JsonDifference] = []
    for pattern, schema in now.patterns.items():
        where = f"{path}/patternProperties/{pattern}"
        earlier = before.patterns.get(pattern)
        if earlier is not None:
            found += comparison.compare(schema, earlier, where)
        elif not before.rest.accepts_nothing and comparison.compare(schema, before.rest, where):
            found.append(JsonDifference("PATTERN_PROPERTY_ADDED", where, pattern))
    for pattern, schema in before.patterns.items():
        where = f"{path}/patternProperties/{pattern}"
        if pattern not in now.patterns and comparison.compare(now.rest, schema, where):
            if now.rest.accepts_nothing and comparison.lenient:
                continue
            kind = "PROPERTY_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL"
            found.append(JsonDifference(kind, where, pattern))
    return found


def _rest(
    comparison: JsonComparison, now: ContentModel, before: ContentModel, path: str
) -> list[JsonDifference]:
    where = f"{path}/additionalProperties"
    if comparison.lenient or before.rest.accepts_nothing or now.rest.accepts_everything:
        return []
    if now.rest.accepts_nothing:
        return [JsonDifference("ADDITIONAL_PROPERTIES_REMOVED", where)]
    if comparison.compare(now.rest, before.rest, where):
        return [JsonDifference("ADDITIONAL_PROPERTIES_NARROWED", where)]
    return []


def _names(
    comparison: JsonComparison, new: JsonNode, old: JsonNode, path: str
) -> list[JsonDifference]:
    now = new.child("propertyNames")
    if now is None:
        return []
    before = old.child("propertyNames") or old.at(True)
    if comparison.compare(now, before, f"{path}/propertyNames"):
        return [JsonDifference("PROPERTY_NAMES_NARROWED", f"{path}/propertyNames")]
    return []


def _dependencies(
    comparison: JsonComparison, new: JsonNode, old: JsonNode, path: str
) -> list[JsonDifference]:
    found: list[JsonDifference] = []
    for word in ("dependencies", "dependentSchemas"):
        before = old.named(word)
        for name, schema in new.named(word).items():
            where = f"{path}/{word}/{name}"
            if name in before:
                found += comparison.compare(schema, before[name], where)
            elif not schema.accepts_everything:
                found.append(JsonDifference("DEPENDENCY_SCHEMA_ADDED", where, name))
    for word in ("dependencies", "dependentRequired"):
        for name, wanted in (new.get(word) or {}).items():
            if not isinstance(wanted, list):
                continue
            where = f"{path}/{word}/{name}"
            earlier = (old.get(word) or {}).get(name)
            if not isinstance(earlier, list):
                found.append(JsonDifference("DEPENDENCY_ARRAY_ADDED", where, name))
            elif not set(wanted) <= set(earlier):
                found.append(JsonDifference("DEPENDENCY_ARRAY_EXTENDED", where, name))
    return found
