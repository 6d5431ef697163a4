"""Incompatible changes of a JSON Schema, by Confluent's names."""

from __future__ import annotations

from dataclasses import dataclass

_LIMIT = "keep the limit or loosen it"

# Name: what has changed, and the remedy.
_TEXTS = {
    "TYPE_CHANGED": ("has another type", "keep the type, or allow both with a list of types"),
    "TYPE_NARROWED": ("accepts fewer types", "keep all types of the {writer} schema"),
    "PATTERN_ADDED": ("has a pattern now", "drop the pattern"),
    "PATTERN_CHANGED": ("has another pattern", "keep the pattern or drop it"),
    "MULTIPLE_OF_ADDED": ("has multipleOf now", "drop multipleOf"),
    "MULTIPLE_OF_CHANGED": ("has another multipleOf", "use a divisor of the value before"),
    "REQUIRED_ATTRIBUTE_ADDED": (
        "requires a property that was optional",
        "keep it optional, or give it a default",
    ),
    "REQUIRED_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL": (
        "has a new property that is required",
        "make it optional, or give it a default",
    ),
    "PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL": (
        "restricts a property that could be anything, because the content model is open",
        'close the {writer} schema with "additionalProperties": false, or set the '
        "compatibility policy of the subject to LENIENT",
    ),
    "PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL": (
        "has a new property that does not take what the other schema allows for it",
        "let its schema accept what additionalProperties or patternProperties accepted",
    ),
    "PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL": (
        "no longer allows a property, because its content model is closed",
        'keep the property, drop "additionalProperties": false, or set the compatibility '
        "policy of the subject to LENIENT",
    ),
    "PROPERTY_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL": (
        "lost a property that its additionalProperties or patternProperties do not accept",
        "keep the property, or widen the schema of additional ones",
    ),
    "ADDITIONAL_PROPERTIES_REMOVED": (
        "no longer allows additional properties",
        "keep them allowed, or set the compatibility policy of the subject to LENIENT",
    ),
    "ADDITIONAL_PROPERTIES_NARROWED": (
        "restricts additional properties more",
        "keep their schema, or set the compatibility policy of the subject to LENIENT",
    ),
    "PATTERN_PROPERTY_ADDED": (
        "restricts properties by a new pattern",
        "drop the pattern, or close the {writer} schema first",
    ),
    "PROPERTY_NAMES_NARROWED": ("restricts property names more", "keep propertyNames as it was"),
    "DEPENDENCY_ARRAY_ADDED": ("has a new dependency", "drop the dependency"),
    "DEPENDENCY_ARRAY_EXTENDED": ("has a longer dependency", "require no more than before"),
    "DEPENDENCY_SCHEMA_ADDED": ("has a new dependency", "drop the dependency"),
    "ITEM_ADDED_TO_OPEN_CONTENT_MODEL": (
        "restricts an item that could be anything, because the list is open",
        "close the list in the {writer} schema first, or let the item be anything",
    ),
    "ITEM_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL": (
        "has a new item that does not take what the other schema allows there",
        "let it accept what additional items accepted",
    ),
    "ITEM_REMOVED_FROM_CLOSED_CONTENT_MODEL": (
        "no longer allows an item, because its list is closed",
        "keep the item, or open the list",
    ),
    "ITEM_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL": (
        "lost an item that its additional items do not accept",
        "keep the item, or widen the schema of additional ones",
    ),
    "ADDITIONAL_ITEMS_REMOVED": ("no longer allows additional items", "keep them allowed"),
    "ADDITIONAL_ITEMS_NARROWED": ("restricts additional items more", "keep their schema"),
    "UNIQUE_ITEMS_ADDED": ("wants unique items now", "drop uniqueItems"),
    "CONTAINS_ADDED": ("has contains now", "drop contains"),
    "ENUM_ARRAY_NARROWED": ("has fewer values in its enum", "keep all values"),
    "ENUM_ARRAY_CHANGED": ("has other values in its enum", "keep all values, add to them only"),
    "COMBINED_TYPE_CHANGED": ("is combined in another way", "keep the keyword, or use anyOf"),
    "PRODUCT_TYPE_EXTENDED": ("has one condition more", "drop it: allOf may only get shorter"),
    "SUM_TYPE_NARROWED": ("has fewer alternatives", "keep them: anyOf and oneOf may only grow"),
    "COMBINED_TYPE_SUBSCHEMAS_CHANGED": (
        "has a part that fits none of the other schema",
        "keep a part that accepts the same values",
    ),
    "NOT_TYPE_EXTENDED": ("excludes more with not", "exclude no more than before"),
    "CONDITION_CHANGED": ("has another if, then or else", "keep the condition"),
}


@dataclass(frozen=True, slots=True)
class JsonDifference:
    type: str
    path: str
    info: str = ""

    def message(self, reader: str, writer: str) -> str:
        texts = _TEXTS.get(self.type)
        if texts is None:
            what = "adds" if self.type.endswith("_ADDED") else "tightens"
            texts = (f"{what} a limit", _LIMIT)
        names = {"reader": reader, "writer": writer}
        return (
            f"{{errorType:'{self.type}', description:'The {reader} schema {texts[0]} at path "
            f"'{self.path}', compared with the {writer} schema', additionalInfo:'{self.info}', "
            f"remedy:'{texts[1].format(**names)}'}}"
        )
