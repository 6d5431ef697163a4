"""What we call compatible can be read: write with the old schema, read with the new one.

The new schema is the old one after a few edits, as people change theirs: two schemas drawn alone
are seldom compatible, and then nothing is written. fastavro, jsonschema and protobuf read.
"""

from __future__ import annotations

import copy
import io
import json
import random
from typing import Any

import fastavro
import jsonschema
import pytest
from google.protobuf import descriptor_pool, message_factory
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ottla.schemas.compatibility.incompatibilities import incompatibilities
from ottla.schemas.protobuf.descriptor_writer import descriptor_of
from ottla.schemas.schema_types import parse

BOUNDED = settings(
    max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
)
SEEDS = st.integers(0, 2**32)
EDITS_MAX = 3
VALUES = 3
SHARE_MIN = 0.2  # of the pairs must be compatible, or the tests prove little


def is_compatible(kind: str, old: str, new: str) -> bool:
    return not incompatibilities("BACKWARD", parse(kind, new, {}), [parse(kind, old, {})])


# Avro

AVRO_TYPES: list[Any] = [
    *("boolean", "int", "long", "float", "double", "bytes", "string"),
    ["null", "int"],
    ["string", "long", "null"],
    {"type": "array", "items": "int"},
    {"type": "map", "values": "float"},
    {"type": "array", "items": ["null", "string"]},
]
PROMOTED: dict[str, list[str]] = {
    "int": ["long", "float", "double"],
    "long": ["float", "double"],
    "float": ["double"],
    "string": ["bytes"],
    "bytes": ["string"],
}


class AvroRecords:
    kind = "AVRO"

    def make(self, rng: random.Random) -> dict[str, Any]:
        fields: list[dict[str, Any]] = [
            {"name": f"f{number}", "type": rng.choice(AVRO_TYPES)}
            for number in range(rng.randint(1, 4))
        ]
        symbols = rng.sample("ABCD", rng.randint(1, 3))
        enum = {"type": "enum", "name": "E", "symbols": symbols, "default": symbols[0]}
        inner = {"type": "record", "name": "In", "fields": [{"name": "x", "type": "int"}]}
        fields += [{"name": "e", "type": enum}, {"name": "in", "type": ["null", inner]}]
        return {"type": "record", "name": "R", "fields": fields}

    def edit(self, rng: random.Random, schema: dict[str, Any]) -> None:
        fields: list[dict[str, Any]] = schema["fields"]
        field = rng.choice(fields)
        edit = rng.randrange(6)
        if edit == 0:
            fields.remove(field)
        elif edit == 1:
            fields.insert(0, {"name": f"n{rng.randint(0, 9)}{len(fields)}", "type": "int"} | (
                {"default": 1} if rng.random() < 0.8 else {}
            ))  # fmt: skip
        elif edit == 2 and isinstance(field["type"], str):
            field["type"] = rng.choice(PROMOTED.get(field["type"], ["int"]))
        elif edit == 3 and isinstance(field["type"], str):
            field["type"] = ["null", field["type"]]
        elif edit == 4:
            named = [entry["type"] for entry in fields if entry["name"] == "e"]
            for enum in named:
                symbol = rng.choice("ABCD")
                kept = [entry for entry in enum["symbols"] if entry != symbol]
                enum["symbols"] = kept if symbol in enum["symbols"] and kept else [*kept, symbol]
                enum["default"] = enum["symbols"][0]
        elif edit == 5:
            field["aliases"], field["name"] = [field["name"]], f"r{rng.randint(0, 9)}{len(fields)}"

    def text(self, schema: dict[str, Any]) -> str:
        return json.dumps(schema)

    def check(self, rng: random.Random, old: dict[str, Any], new: dict[str, Any]) -> None:
        writer, reader = (fastavro.parse_schema(copy.deepcopy(entry)) for entry in (old, new))
        data = io.BytesIO()
        fastavro.schemaless_writer(data, writer, self.value(rng, old))
        data.seek(0)
        read = fastavro.schemaless_reader(data, writer, reader)
        assert set(read) == {field["name"] for field in new["fields"]}

    def value(self, rng: random.Random, schema: Any) -> Any:
        if isinstance(schema, list):
            return self.value(rng, rng.choice(schema))
        plain = {"null": None, "boolean": True, "int": 3, "long": 2**40, "float": 1.5,
                 "double": 2.5, "bytes": b"b", "string": "s"}  # fmt: skip
        if isinstance(schema, str):
            return plain[schema]
        if schema["type"] == "array":
            return [self.value(rng, schema["items"]) for _ in range(rng.randint(0, 2))]
        if schema["type"] == "map":
            return {"k": self.value(rng, schema["values"])}
        if schema["type"] == "enum":
            return rng.choice(schema["symbols"])
        return {field["name"]: self.value(rng, field["type"]) for field in schema["fields"]}


# JSON Schema

JSON_TYPES: list[dict[str, Any]] = [
    {"type": "string", "maxLength": 2},
    {"type": "integer", "minimum": 0},
    {"type": "number"},
    {"type": ["string", "null"]},
    {"type": "string", "enum": ["a", "b"]},
    {"type": "array", "items": {"type": "integer"}, "maxItems": 2},
    {"oneOf": [{"type": "boolean"}, {"type": "string"}]},
]
JSON_VALUES: list[Any] = ["", "a", "b", "ab", "abc", 0, 1, -1, 1.5, None, True, [], [1], [1, 2, 3]]


class JsonObjects:
    kind = "JSON"

    def make(self, rng: random.Random) -> dict[str, Any]:
        properties = {name: copy.deepcopy(rng.choice(JSON_TYPES)) for name in rng.sample("abcd", 3)}
        return {
            "type": "object",
            "properties": properties,
            "required": rng.sample(sorted(properties), rng.randint(0, 2)),
            "additionalProperties": rng.random() < 0.5,
        }

    def edit(self, rng: random.Random, schema: dict[str, Any]) -> None:
        properties: dict[str, dict[str, Any]] = schema["properties"]
        name = rng.choice(sorted(properties) or ["a"])
        edit = rng.randrange(7)
        if edit == 0:
            properties.pop(name, None)
        elif edit == 1:
            properties[rng.choice("abcdef")] = copy.deepcopy(rng.choice(JSON_TYPES))
        elif edit == 2:
            schema["required"] = rng.sample(sorted(properties), min(len(properties), 1))
        elif edit == 3:
            schema["additionalProperties"] = rng.choice([True, False, {"type": "string"}])
        elif edit == 4 and name in properties:
            for limit, step in (("maxLength", 1), ("maxItems", 1), ("minimum", -1)):
                if limit in properties[name]:
                    properties[name][limit] += rng.choice([step, step, -step])
        elif edit == 5 and name in properties:
            properties[name] = {"anyOf": [properties[name], rng.choice(JSON_TYPES)]}
        elif edit == 6 and "enum" in properties.get(name, {}):
            properties[name]["enum"] = rng.choice([["a"], ["a", "b", "abc"]])

    def text(self, schema: dict[str, Any]) -> str:
        return json.dumps(schema)

    def check(self, rng: random.Random, old: dict[str, Any], new: dict[str, Any]) -> None:
        writer, reader = jsonschema.Draft7Validator(old), jsonschema.Draft7Validator(new)
        fitting = {name: self._fitting(old["properties"].get(name, True)) for name in "abcdef"}
        for _ in range(10):
            names = {*rng.sample("abcdef", rng.randint(0, 4)), *old["required"]}
            value = {name: rng.choice(fitting[name]) for name in sorted(names)}
            if writer.is_valid(value):
                assert reader.is_valid(value), value

    def _fitting(self, schema: Any) -> list[Any]:
        validator = jsonschema.Draft7Validator(schema)
        return [entry for entry in JSON_VALUES if validator.is_valid(entry)]


# Protobuf

PROTO_TYPES: dict[str, Any] = {
    "int32": 1,
    "int64": 2**40,
    "uint32": 7,
    "bool": True,
    "sint32": -3,
    "sint64": -4,
    "string": "s",
    "bytes": b"b",
    "fixed32": 7,
    "sfixed64": 8,
    "double": 1.5,
    "float": 0.5,
    "E": 1,
    "Inner": None,
    "map<string, int32>": {"k": 1},
}
ALIKE = ["int32", "int64", "uint32", "bool", "E"]
ProtoField = dict[str, Any]


class ProtoMessages:
    """Fields by number: kind, label, whether it is in the oneof."""

    kind = "PROTOBUF"

    def make(self, rng: random.Random) -> dict[int, ProtoField]:
        return {number: self._field(rng) for number in rng.sample(range(1, 8), rng.randint(1, 5))}

    def edit(self, rng: random.Random, schema: dict[int, ProtoField]) -> None:
        number = rng.choice(sorted(schema) or [1])
        edit = rng.randrange(5)
        if edit == 0:
            schema.pop(number, None)
        elif edit == 1:
            schema.setdefault(rng.randint(1, 9), self._field(rng))
        elif edit == 2 and schema.get(number, {}).get("kind") in ALIKE:
            schema[number]["kind"] = rng.choice(ALIKE)
        elif edit == 3 and number in schema:
            schema[number]["label"] = rng.choice(["", "repeated"])
        elif edit == 4 and number in schema:
            schema[number]["oneof"] = not schema[number]["oneof"]

    def _field(self, rng: random.Random) -> ProtoField:
        label = rng.choice(["", "", "repeated"])
        return {
            "kind": rng.choice(sorted(PROTO_TYPES)),
            "label": label,
            "oneof": rng.random() < 0.3,
        }

    def text(self, schema: dict[int, ProtoField]) -> str:
        def line(number: int, field: ProtoField) -> str:
            label = "" if field["kind"].startswith("map") or is_in_oneof(field) else field["label"]
            return f"{label} {field['kind']} f{number} = {number};"

        plain = "".join(line(*entry) for entry in schema.items() if not is_in_oneof(entry[1]))
        inside = "".join(line(*entry) for entry in schema.items() if is_in_oneof(entry[1]))
        oneof = f"oneof o {{ {inside} }}" if inside else ""
        inner = "message Inner { int32 x = 1; } enum E { A = 0; B = 1; }"
        return f'syntax = "proto3"; message M {{ {plain} {oneof} {inner} }}'

    def check(
        self, rng: random.Random, old: dict[int, ProtoField], new: dict[int, ProtoField]
    ) -> None:
        written = self._class(old)()
        values = dict(old)
        for number, field in old.items():
            self._set(written, f"f{number}", field)
            if is_in_oneof(field):  # the last one set counts
                values = {
                    other: value
                    for other, value in values.items()
                    if other == number or not is_in_oneof(value)
                }
        read = self._class(new).FromString(written.SerializeToString())
        arrived = {field.number for field, _ in read.ListFields()}
        in_oneof = [number for number in values if number in new and is_in_oneof(new[number])]
        for number in values.keys() & new.keys():
            # Two fields that have moved into one oneof: the last on the wire stays.
            assert number in arrived or len(in_oneof) > 1, (number, old, new)

    def _class(self, schema: dict[int, ProtoField]) -> Any:
        pool = descriptor_pool.DescriptorPool()
        pool.Add(descriptor_of(parse("PROTOBUF", self.text(schema), {}).body, "m.proto"))
        return message_factory.GetMessageClass(pool.FindMessageTypeByName("M"))

    def _set(self, message: Any, name: str, field: ProtoField) -> None:
        value = PROTO_TYPES[field["kind"]]
        if isinstance(value, dict):
            getattr(message, name).update(value)
        elif field["label"] == "repeated" and not is_in_oneof(field):
            if value is None:
                getattr(message, name).add().x = 9
            else:
                getattr(message, name).append(value)
        elif value is None:
            getattr(message, name).x = 9
        else:
            setattr(message, name, value)


def is_in_oneof(field: ProtoField) -> bool:
    return bool(field["oneof"]) and not field["kind"].startswith("map")


LANGUAGES = [AvroRecords(), JsonObjects(), ProtoMessages()]


def pair(language: Any, seed: int) -> tuple[random.Random, Any, Any, bool]:
    rng = random.Random(seed)
    old = language.make(rng)
    new = copy.deepcopy(old)
    for _ in range(rng.randint(1, EDITS_MAX)):
        language.edit(rng, new)
    fits = is_compatible(language.kind, language.text(old), language.text(new))
    return rng, old, new, fits


@pytest.mark.parametrize("language", LANGUAGES, ids=lambda it: it.kind)
def test_data_of_compatible_edits_can_be_read(language: Any) -> None:
    verdicts: list[bool] = []

    @BOUNDED
    @given(SEEDS)
    def check(seed: int) -> None:
        rng, old, new, fits = pair(language, seed)
        verdicts.append(fits)
        if fits:
            for _ in range(VALUES):
                language.check(rng, old, new)

    check()
    assert SHARE_MIN <= verdicts.count(True) / len(verdicts) < 1
