"""Avro schemas: refused ones, and the stored text."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ottla.schemas.schema_types import InvalidSchema, formatted, normalize, parse


def record(*fields: dict[str, Any], name: str = "R", **more: Any) -> str:
    return json.dumps({"type": "record", "name": name, "fields": list(fields), **more})


def test_canonical_text_has_the_order_of_avros_java_library() -> None:
    text = """{"namespace": "a.b", "aliases": ["Old"], "fields": [
        {"type": {"type": "long", "logicalType": "timestamp-millis"}, "name": "at", "doc": "when"},
        {"name": "next", "type": ["null", "a.b.R"], "default": null, "order": "ignore", "k": 1},
        {"name": "n", "type": "double", "default": 1e10}
        ], "name": "R", "doc": "d", "type": "record", "extra": true}"""
    assert parse("AVRO", text, {}).canonical == (
        '{"type":"record","name":"R","namespace":"a.b","doc":"d","fields":['
        '{"name":"at","type":{"type":"long","logicalType":"timestamp-millis"},"doc":"when"},'
        '{"name":"next","type":["null","R"],"default":null,"order":"ignore","k":1},'
        '{"name":"n","type":"double","default":1.0E10}'
        '],"extra":true,"aliases":["Old"]}'
    )


def test_references_stay_names_and_are_inlined_on_request() -> None:
    key = record({"name": "id", "type": "int"}, name="Key", namespace="n")
    text = record({"name": "key", "type": "n.Key"}, name="V", namespace="n")
    schema = parse("AVRO", text, {"n.Key": key})
    assert schema.canonical == (
        '{"type":"record","name":"V","namespace":"n","fields":[{"name":"key","type":"Key"}]}'
    )
    resolved = formatted("AVRO", text, {"n.Key": key}, "resolved")
    assert '"fields":[{"name":"id","type":"int"}]' in resolved
    assert parse("AVRO", resolved, {}).canonical == resolved


def test_the_normal_form_has_an_order_for_properties_and_aliases() -> None:
    one = {
        "name": "a",
        "type": {"type": "int", "z": 1, "b": {"y": 1, "x": 2}},
        "aliases": ["q", "p"],
    }
    two = {
        "aliases": ["p", "q"],
        "name": "a",
        "type": {"b": {"x": 2, "y": 1}, "z": 1, "type": "int"},
    }
    assert parse("AVRO", record(one), {}).canonical != parse("AVRO", record(two), {}).canonical
    assert normalize("AVRO", record(one), {}) == normalize("AVRO", record(two), {})
    assert normalize("AVRO", record(one), {}) == (
        '{"type":"record","name":"R","fields":[{"name":"a","type":{"type":"int",'
        '"b":{"x":2,"y":1},"z":1},"aliases":["p","q"]}]}'
    )


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "not JSON"),
        ('{"type": "record", "name": "R"}', "no fields"),
        (record({"name": "1a", "type": "int"}), "Illegal name"),
        (record({"name": "a", "type": "int"}, {"name": "a", "type": "int"}), "Duplicate field a"),
        (record({"name": "a", "type": "Missing"}), 'Undefined name: "Missing"'),
        (record({"name": "a", "type": "int", "default": "x"}), "Invalid default for field a"),
        (record({"name": "a", "type": "int", "default": 2**31}), "Invalid default for field a"),
        (record({"name": "a", "type": "long", "default": 1.0}), "Invalid default for field a"),
        ('{"type": {"type": "int"}}', "No type"),
        ('["int", "int"]', "Duplicate in union"),
        ('["int", ["string"]]', "Nested union"),
        ('{"type": "enum", "name": "E", "symbols": ["A", "A"]}', "Duplicate enum symbol"),
        ('{"type": "enum", "name": "E", "symbols": ["A"], "default": "B"}', "not a symbol"),
        ('{"type": "fixed", "name": "F", "size": -1}', "size"),
        ('[{"type": "fixed", "name": "F", "size": 1}, {"type": "fixed", "name": "F", "size": 1}]',
         "Can't redefine: F"),
        ('{"type": "array"}', "no items"),
    ],
)  # fmt: skip
def test_invalid_schemas_are_refused_with_the_reason(text: str, reason: str) -> None:
    with pytest.raises(InvalidSchema, match=reason):
        parse("AVRO", text, {})


def test_control_characters_are_written_as_jackson_writes_them() -> None:
    text = r'{"type": "string", "k": "\u001f \\u001f \n"}'
    assert parse("AVRO", text, {}).canonical == r'{"type":"string","k":"\u001F \\u001f \n"}'


def test_a_default_of_a_union_fits_any_branch() -> None:
    parse("AVRO", record({"name": "a", "type": ["null", "int"], "default": 1}), {})
