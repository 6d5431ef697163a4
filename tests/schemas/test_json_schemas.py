"""JSON Schema: references, shapes, text, and what an update may change."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ottla.schemas.compatibility.incompatibilities import incompatibilities
from ottla.schemas.schema_types import InvalidSchema, ParsedSchema, normalize, parse


def schema(value: Any, **references: Any) -> ParsedSchema:
    texts = {name: json.dumps(other) for name, other in references.items()}
    return parse("JSON", json.dumps(value), texts)


def backward(old: Any, new: Any, policy: str = "STRICT") -> list[str]:
    return incompatibilities("BACKWARD", schema(new), [schema(old)], policy)


def error_types(messages: list[str]) -> list[str]:
    return [message.split("'")[1] for message in messages]


def test_canonical_text_keeps_the_order_and_the_normal_form_sorts() -> None:
    text = '{ "type": "object",\n "b": 1.0, "a": {"y": "ü", "x": [ ]} }'
    assert parse("JSON", text, {}).canonical == '{"type":"object","b":1.0,"a":{"y":"ü","x":[]}}'
    assert normalize("JSON", text, {}) == '{"a":{"x":[],"y":"ü"},"b":1.0,"type":"object"}'


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ([], "an object or a boolean"),
        ({"type": "text"}, "#: type must be one or several of"),
        ({"properties": {"a": {"minLength": -1}}}, "#/properties/a: minLength must be"),
        ({"required": "a"}, "required must be a list of names"),
        ({"allOf": []}, "allOf must be"),
        ({"properties": {"a": 1}}, "properties must be an object of schemas"),
        ({"$ref": "#/definitions/a"}, "points at nothing"),
        ({"$ref": "other.json"}, "Nothing is fetched"),
    ],
)
def test_invalid_schemas_are_refused_with_path_and_reason(value: Any, reason: str) -> None:
    with pytest.raises(InvalidSchema, match=reason):
        schema(value)


def test_references_are_found_by_name_id_pointer_and_anchor() -> None:
    other = {"$id": "http://x/other.json", "definitions": {"n": {"$anchor": "n", "type": "number"}}}
    by_name = schema({"$ref": "other.json#/definitions/n"}, **{"other.json": other})
    by_id = schema({"$ref": "http://x/other.json#n"}, **{"other.json": other})
    for found in (by_name, by_id):
        assert not incompatibilities("BACKWARD", found, [schema({"type": "integer"})])
        assert incompatibilities("BACKWARD", found, [schema({"type": "string"})])


def test_keywords_beside_a_reference_apply_since_2019() -> None:
    value = {"$ref": "#/$defs/s", "maxLength": 3, "$defs": {"s": {"type": "string"}}}
    new = "https://json-schema.org/draft/2019-09/schema"
    assert backward({"type": "string"}, value) == []
    assert error_types(backward({"type": "string"}, {**value, "$schema": new})) == [
        "MAX_LENGTH_ADDED"
    ]


OBJECT = {"type": "object", "properties": {"a": {"type": "string"}}}
WITH_B = {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "number"}}}
CLOSED = {"additionalProperties": False}


def test_an_open_object_gets_no_property_unless_lenient() -> None:
    [message] = backward(OBJECT, WITH_B)
    assert "PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL" in message
    assert "'#/properties/b'" in message
    assert '"additionalProperties": false' in message
    assert "LENIENT" in message
    assert backward(OBJECT, WITH_B, "LENIENT") == []
    assert backward(OBJECT, {**WITH_B, "required": ["b"]}, "LENIENT")


def test_a_closed_object_loses_no_property_unless_lenient() -> None:
    old, new = WITH_B | CLOSED, OBJECT | CLOSED
    assert error_types(backward(old, new)) == ["PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL"]
    assert backward(old, new, "LENIENT") == []
    assert backward(new, old) == []


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        ({"type": "integer"}, {"type": "number"}, []),
        ({"type": "number"}, {"type": "integer"}, ["TYPE_NARROWED"]),
        ({"type": "number", "maximum": 5}, {"type": "number", "exclusiveMaximum": 5},
         ["EXCLUSIVE_MAXIMUM_DECREASED"]),
        ({"multipleOf": 0.3}, {"multipleOf": 0.1}, []),
        ({"enum": [1, 2]}, {"enum": [1]}, ["ENUM_ARRAY_NARROWED"]),
        ({"type": "array"}, {"type": "array", "uniqueItems": True}, ["UNIQUE_ITEMS_ADDED"]),
        ({"type": "array", "items": {"type": "string"}},
         {"type": "array", "items": {"type": "number"}}, ["TYPE_CHANGED"]),
        ({"type": "array", "items": {"type": "integer"}},
         {"type": "array", "items": [{"type": "integer"}]},
         ["ITEM_ADDED_TO_OPEN_CONTENT_MODEL"]),
        ({"type": "array", "items": {"type": "integer"}}, {"type": "array", "items": [{}]}, []),
        ({"type": "array", "items": [{"type": "string"}]},
         {"type": "array", "items": [{"type": "string"}, {"type": "null"}]},
         ["ITEM_ADDED_TO_OPEN_CONTENT_MODEL"]),
        ({"oneOf": [{"type": "string"}, {"type": "null"}]}, {"oneOf": [{"type": "string"}]},
         ["SUM_TYPE_NARROWED"]),
        ({"type": ["string", "null"]}, {"oneOf": [{"type": "null"}, {"type": "string"}]}, []),
        ({"not": {"type": "integer"}}, {"not": {"type": "number"}}, ["NOT_TYPE_EXTENDED"]),
        ({"connect.type": "bytes", "type": "string"}, {"connect.type": "bytes", "type": "object"},
         []),
        (True, False, ["TYPE_CHANGED"]),
        (False, {"type": "string"}, []),
    ],
)  # fmt: skip
def test_differences_have_confluents_names(old: Any, new: Any, found: list[str]) -> None:
    assert error_types(backward(old, new)) == found


def test_a_cycle_hides_no_difference() -> None:
    def tree(kind: str) -> dict[str, Any]:
        child = {"type": "array", "items": {"$ref": "#"}}
        return {"type": "object", "properties": {"children": child, "value": {"type": kind}}}

    assert backward(tree("integer"), tree("number")) == []
    assert error_types(backward(tree("number"), tree("string"))) == ["TYPE_CHANGED"]


# Required properties with defaults, overlapping oneOf and untyped schemas are left out: there
# Confluent's rules are kinder than a validator (compatibility/json_schema.py).
LEAVES = st.sampled_from(
    [
        {"type": "string"},
        {"type": "string", "maxLength": 1},
        {"type": "string", "minLength": 1},
        {"type": "integer"},
        {"type": "number"},
        {"type": "number", "minimum": 1},
        {"type": "number", "multipleOf": 0.5},
        {"type": ["string", "null"]},
        {"type": "string", "enum": ["a"]},
        {"type": "boolean"},
        True,
    ]
)


def objects(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    properties = st.dictionaries(st.sampled_from("ab"), inner, max_size=2)
    rest = st.one_of(st.booleans(), inner)
    return st.builds(
        lambda props, more, needed: {
            "type": "object",
            "properties": props,
            "additionalProperties": more,
            "required": sorted(set(props) & set(needed)),
        },
        properties,
        rest,
        st.lists(st.sampled_from("ab")),
    )


def arrays(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.builds(
        lambda items, most: {"type": "array", "items": items, "maxItems": most},
        inner,
        st.integers(1, 2),
    )


SCHEMAS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        objects(inner),
        arrays(inner),
        st.builds(lambda some: {"anyOf": some}, st.lists(inner, min_size=1, max_size=2)),
        st.builds(lambda some: {"allOf": some}, st.lists(inner, min_size=1, max_size=2)),
    ),
    max_leaves=4,
)
SIMPLE = st.sampled_from(["", "a", "ab", 0, 1, 1.5, 2, None, True])
VALUES = st.recursive(
    SIMPLE,
    lambda inner: st.one_of(
        st.lists(inner, max_size=2), st.dictionaries(st.sampled_from("abc"), inner, max_size=2)
    ),
    max_leaves=4,
)


@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
@given(SCHEMAS, SCHEMAS, st.lists(VALUES, min_size=5, max_size=15))
def test_compatible_schemas_are_accepted(old: Any, new: Any, values: list[Any]) -> None:
    if backward(old, new):
        return
    writer, reader = jsonschema.Draft7Validator(old), jsonschema.Draft7Validator(new)
    for value in values:
        assert not writer.is_valid(value) or reader.is_valid(value), value


def test_a_required_name_without_a_schema_is_a_difference() -> None:
    old = {"type": "object", "properties": {"a": {}}}
    assert error_types(backward(old, {**old, "required": ["b"]})) == ["REQUIRED_ATTRIBUTE_ADDED"]
    assert backward({**old, "required": ["b"]}, {**old, "required": ["b"]}) == []
