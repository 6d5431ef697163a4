"""A hostile schema is refused or compared within bounds: no hang, no RecursionError."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ottla.schemas.compatibility.incompatibilities import incompatibilities
from ottla.schemas.limits import STEPS_MAX, TEXT_CHARS_MAX
from ottla.schemas.schema_types import InvalidSchema, parse


@pytest.mark.parametrize(
    ("kind", "text", "reason"),
    [
        ("AVRO", '{"type":"array","items":' * 5000 + '"int"' + "}" * 5000, "nested more than"),
        ("AVRO", '{"type":"array","items":' * 150 + '"int"' + "}" * 150, "nested more than"),
        ("AVRO", '"' + "a" * TEXT_CHARS_MAX, "characters, the limit is"),
        ("AVRO", "9" * 10000, "not JSON"),
        ("AVRO", "NaN", "not JSON"),
        ("JSON", '{"not":' * 5000 + "{}" + "}" * 5000, "nested more than"),
        ("JSON", '{"$ref":"#/a","a":{"$ref":"#/b"},"b":{"$ref":"#/a"}}', "refers to itself"),
        ("JSON", '{"$ref":"#"}', "refers to itself"),
        ("JSON", '{"$ref":"http://127.0.0.1:1/schema.json"}', "Nothing is fetched"),
        ("JSON", '{"$ref":"file:///etc/passwd"}', "Nothing is fetched"),
        ("JSON", '{"minimum":1e999}', "not a double"),
        ("PROTOBUF", "message A {" * 5000, "nested more than"),
        ("PROTOBUF", "option (a) = " + "{a:" * 5000, "nested more than"),
        ("PROTOBUF", f"package {'a.' * 1000}b;", "a name has more than"),
        ("PROTOBUF", "/*" * 100_000, "unexpected"),
        ("PROTOBUF", '"' + "\\a" * 100_000, "unexpected"),
        ("PROTOBUF", "AAAA" * 1000, "FileDescriptorProto"),
        ("XML", "<a/>", "No schema type XML"),
    ],
)
def test_a_hostile_text_is_invalid(kind: str, text: str, reason: str) -> None:
    with pytest.raises(InvalidSchema, match=reason):
        parse(kind, text, {})


def test_the_default_of_recursive_unions_is_checked_in_bounded_time() -> None:
    branches = ["null", "A", "B"]
    value: Any = 1
    for _ in range(40):
        value = {"x": value}
    a = {"type": "record", "name": "A", "fields": [{"name": "x", "type": "null"}]}
    b = {"type": "record", "name": "B", "fields": [{"name": "x", "type": branches}]}
    a["fields"] = [
        {"name": "y", "type": b, "default": {"x": None}},
        {"name": "x", "type": branches},
    ]
    holder = {"name": "v", "type": ["A", "B"], "default": value}
    text = json.dumps([a, {"type": "record", "name": "R", "fields": [holder]}])
    with pytest.raises(InvalidSchema, match="too large or too deep"):
        parse("AVRO", text, {})


@pytest.mark.parametrize("text", ['"' + '\\"' * 200_000, " " * 500_000 + "!"])
def test_texts_that_invite_quadratic_scans_are_read_once(text: str) -> None:
    for kind in ("AVRO", "JSON", "PROTOBUF"):
        with pytest.raises(InvalidSchema):
            parse(kind, text, {})


def judged(kind: str, value: Any) -> list[str]:
    text = value if isinstance(value, str) else json.dumps(value)
    schema = parse(kind, text, {})
    return incompatibilities("BACKWARD", schema, [parse(kind, text, {})])


def test_branches_that_double_at_each_level_are_compared_once() -> None:
    definitions: dict[str, Any] = {
        f"d{level}": {"anyOf": [{"$ref": f"#/definitions/d{level + 1}"}] * 2}
        for level in range(200)
    }
    definitions["d200"] = {"type": "string"}
    assert judged("JSON", {"definitions": definitions, "$ref": "#/definitions/d0"}) == []


def test_a_schema_that_contains_itself_in_every_way_is_compared() -> None:
    assert judged("JSON", {"allOf": [{"$ref": "#"}, {"anyOf": [{"$ref": "#"}, True]}]}) == []


def test_more_pairs_than_steps_is_incompatible_with_the_reason() -> None:
    count = int(STEPS_MAX**0.5) + 2
    branches = [{"type": "string", "maxLength": number} for number in range(count)]
    old = parse("JSON", json.dumps({"anyOf": branches}), {})
    new = parse("JSON", json.dumps({"anyOf": branches[::-1]}), {})
    [message] = incompatibilities("BACKWARD", new, [old])
    assert "TOO_COMPLEX" in message


def test_a_pattern_that_backtracks_is_not_run() -> None:
    old = {"type": "object", "properties": {"a" * 60 + "!": {"type": "string"}}}
    new = {"type": "object", "patternProperties": {"(a+)+$": {"type": "string"}}}
    [message] = incompatibilities(
        "BACKWARD",
        parse("JSON", json.dumps(new), {}),
        [parse("JSON", json.dumps(old), {})],
    )
    assert "TOO_COMPLEX" in message
    assert "(a+)+$" in message


def test_many_reserved_numbers_are_not_looked_through_for_each_field() -> None:
    reserved = ", ".join(
        str(number) for number in range(2, 60_000, 2) if not 19_000 <= number < 20_000
    )
    fields = "".join(f"int32 f{number} = {number};" for number in range(1, 18_000, 2))
    parse("PROTOBUF", f"message M {{ reserved {reserved}; {fields} }}", {})


def test_wide_schemas_are_compared() -> None:
    fields = [{"name": f"f{number}", "type": "int"} for number in range(2000)]
    assert judged("AVRO", {"type": "record", "name": "R", "fields": fields}) == []
    properties = {f"p{number}": {"type": "string"} for number in range(2000)}
    assert judged("JSON", {"type": "object", "properties": properties}) == []
    lines = "".join(f"int32 f{number} = {number + 1};" for number in range(2000))
    assert judged("PROTOBUF", f"message M {{ {lines} }}") == []
    records = [{"type": "record", "name": f"R{number}", "fields": []} for number in range(1000)]
    assert judged("AVRO", records) == []
