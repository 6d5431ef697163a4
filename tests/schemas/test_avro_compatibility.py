"""Avro's resolution rules, with Apache's own Python checker as the oracle."""

from __future__ import annotations

import io
import json
from typing import Any

import avro.compatibility
import avro.schema
import fastavro
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ottla.schemas.compatibility.incompatibilities import LEVELS, incompatibilities
from ottla.schemas.schema_types import ParsedSchema, parse


def avro_schema(value: Any) -> ParsedSchema:
    return parse("AVRO", json.dumps(value), {})


def record(*fields: dict[str, Any], name: str = "R", **more: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields), **more}


def field(name: str, kind: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, **more}


A = record(field("a", "int"))
AB = record(field("a", "int"), field("b", "int"))
AB_DEFAULT = record(field("a", "int"), field("b", "int", default=1))


@pytest.mark.parametrize(
    ("level", "new", "old", "fits"),
    [
        ("NONE", AB, [A], True),
        ("BACKWARD", AB, [A], False),
        ("BACKWARD", AB_DEFAULT, [A], True),
        ("BACKWARD", A, [AB], True),
        ("FORWARD", AB, [A], True),
        ("FORWARD", A, [AB], False),
        ("FULL", AB, [A], False),
        ("FULL", AB_DEFAULT, [A], True),
        ("BACKWARD", AB, [A, AB], True),
        ("BACKWARD_TRANSITIVE", AB, [A, AB], False),
        ("FORWARD_TRANSITIVE", A, [AB, A], False),
        ("FULL_TRANSITIVE", AB_DEFAULT, [A, AB_DEFAULT], True),
    ],
)
def test_each_level_looks_in_its_direction(level: str, new: Any, old: Any, fits: bool) -> None:
    assert level in LEVELS
    found = incompatibilities(level, avro_schema(new), [avro_schema(entry) for entry in old])
    assert (not found) is fits


def test_a_message_names_path_sides_and_remedy() -> None:
    [message] = incompatibilities("BACKWARD", avro_schema(AB), [avro_schema(A)])
    assert message == (
        "{errorType:'READER_FIELD_MISSING_DEFAULT_VALUE', description:'The field 'b' at path "
        "'/fields/1' in the new schema has no default value and is missing in the old schema', "
        "additionalInfo:'b', remedy:'give the field in the new schema a default, or an alias "
        "that the old schema has'}"
    )


def test_the_path_leads_to_the_branch_of_the_writers_union() -> None:
    [message] = incompatibilities("BACKWARD", avro_schema("int"), [avro_schema(["int", "string"])])
    assert "'/1'" in message
    assert "reader type: INT not compatible with writer type: STRING" in message


def test_schemas_of_different_types_are_incompatible() -> None:
    other = parse("JSON", '{"type": "string"}', {})
    assert incompatibilities("BACKWARD", avro_schema("string"), [other]) == [
        "Incompatible because of different schema type"
    ]


def test_a_failure_revokes_the_assumptions_made_on_it() -> None:
    """S fits only if R does. R is tried first and fails, but another branch saves the field."""

    def top(kind: str, *more: Any) -> ParsedSchema:
        inner = record(field("r", ["null", "R"]), name="S")
        first = record(field("s", inner), field("n", kind))
        return avro_schema(record(field("a", [first, *more]), field("s", "S"), name="T"))

    new = top("boolean", record(name="R", namespace="other"))
    messages = incompatibilities("BACKWARD", new, [top("int")])
    assert any("'/fields/1/type" in message for message in messages)


def test_a_long_chain_of_types_is_compared_to_its_end() -> None:
    def chain(last: str) -> list[Any]:
        records = [record(field("v", last), name="R0")]
        records += [
            record(field("v", f"R{number}"), name=f"R{number + 1}") for number in range(120)
        ]
        return [*records, record(field("top", "R120"), name="Top")]

    def top(last: str) -> ParsedSchema:
        return parse("AVRO", json.dumps(record(field("t", chain(last)))), {})

    assert not incompatibilities("FULL", top("int"), [top("int")])
    assert incompatibilities("BACKWARD", top("int"), [top("string")])


PRIMITIVES = ["null", "boolean", "int", "long", "float", "double", "bytes", "string"]
DEFAULTS = {"null": None, "boolean": True, "int": 1, "long": 2, "float": 1.5, "double": 2.5}


@st.composite
def types(draw: st.DrawFn, depth: int = 2) -> Any:
    kind = draw(st.sampled_from([*PRIMITIVES, "array", "map", "union", "enum", "fixed", "record"]))
    if kind in PRIMITIVES or depth == 0:
        return kind if kind in PRIMITIVES else "int"
    if kind == "array":
        return {"type": "array", "items": draw(types(depth=depth - 1))}
    if kind == "map":
        return {"type": "map", "values": draw(types(depth=depth - 1))}
    if kind == "union":
        return draw(st.lists(st.sampled_from(PRIMITIVES), unique=True, min_size=1, max_size=4))
    if kind == "enum":
        symbols = draw(st.lists(st.sampled_from("ABC"), unique=True, min_size=1))
        more = {"default": symbols[0]} if draw(st.booleans()) else {}
        return {"type": "enum", "name": f"E{depth}", "symbols": symbols, **more}
    if kind == "fixed":
        return {"type": "fixed", "name": f"F{depth}", "size": draw(st.integers(1, 2))}
    return {"type": "record", "name": f"R{depth}", "fields": draw(fields(depth - 1))}


@st.composite
def fields(draw: st.DrawFn, depth: int = 1) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    named = False
    for name in draw(st.lists(st.sampled_from("abc"), unique=True, max_size=3)):
        kind = draw(types(depth=depth))
        # A name may be defined once in a schema.
        if isinstance(kind, dict) and "name" in json.dumps(kind):
            if named:
                kind = "int"
            named = True
        entry: dict[str, Any] = {"name": name, "type": kind}
        if isinstance(kind, str) and kind in DEFAULTS and draw(st.booleans()):
            entry["default"] = DEFAULTS[kind]
        found.append(entry)
    return found


def value_of(schema: Any) -> Any:
    """A value of the type; of a union, the last branch."""
    if isinstance(schema, list):
        return value_of(schema[-1])
    if isinstance(schema, str):
        more = {"bytes": b"b", "string": "s"}
        return more.get(schema, DEFAULTS.get(schema))
    kind = schema["type"]
    if kind == "array":
        return [value_of(schema["items"])]
    if kind == "map":
        return {"k": value_of(schema["values"])}
    if kind == "enum":
        return schema["symbols"][-1]
    if kind == "fixed":
        return b"f" * schema["size"]
    return {entry["name"]: value_of(entry["type"]) for entry in schema["fields"]}


BOUNDED = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@BOUNDED
@given(types(), types())
def test_data_of_compatible_schemas_can_be_read(old: Any, new: Any) -> None:
    if incompatibilities("BACKWARD", avro_schema(new), [avro_schema(old)]):
        return
    writer = fastavro.parse_schema(json.loads(json.dumps(old)))
    reader = fastavro.parse_schema(json.loads(json.dumps(new)))
    data = io.BytesIO()
    fastavro.schemaless_writer(data, writer, value_of(old))
    data.seek(0)
    fastavro.schemaless_reader(data, writer, reader)


@BOUNDED
@given(types(), types())
def test_the_verdict_is_that_of_apaches_checker(old: Any, new: Any) -> None:
    checker = avro.compatibility.ReaderWriterCompatibilityChecker()
    theirs = checker.get_compatibility(
        avro.schema.parse(json.dumps(new)), avro.schema.parse(json.dumps(old))
    )
    ours = incompatibilities("BACKWARD", avro_schema(new), [avro_schema(old)])
    compatible = theirs.compatibility is avro.compatibility.SchemaCompatibilityType.compatible
    assert compatible is not bool(ours), (theirs.messages, ours)
