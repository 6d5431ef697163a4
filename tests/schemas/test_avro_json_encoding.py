"""Avro's JSON encoding, beside what fastavro reads and writes."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.schemas.avro.json_encoding import AvroDataError, binary_of, json_text_of
from ottla.schemas.avro.node import AvroNode
from ottla.schemas.avro.schema import AvroSchema

TREE: dict[str, Any] = {
    "type": "record",
    "name": "Tree",
    "namespace": "a.b",
    "fields": [
        {"name": "int", "type": "int"},
        {"name": "long", "type": "long"},
        {"name": "double", "type": "double"},
        {"name": "text", "type": ["null", "string", "bytes"]},
        {"name": "color", "type": {"type": "enum", "name": "Color", "symbols": ["RED", "BLUE"]}},
        {"name": "key", "type": {"type": "fixed", "name": "Key", "size": 2}},
        {"name": "parts", "type": {"type": "array", "items": ["null", "Tree"]}},
        {"name": "counts", "type": {"type": "map", "values": "boolean"}},
    ],
}
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)


def node_of(schema: Any) -> AvroNode:
    return AvroSchema(json.dumps(schema), {}).root


def trees() -> st.SearchStrategy[dict[str, Any]]:
    def tree(parts: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
        return st.fixed_dictionaries(
            {
                "int": st.integers(-(2**31), 2**31 - 1),
                "long": st.integers(-(2**63), 2**63 - 1),
                "double": st.floats(allow_nan=False, allow_infinity=False),
                "text": st.none() | TEXT | st.binary(max_size=4),
                "color": st.sampled_from(["RED", "BLUE"]),
                "key": st.binary(min_size=2, max_size=2),
                "parts": st.lists(st.none() | parts, max_size=2),
                "counts": st.dictionaries(TEXT, st.booleans(), max_size=2),
            }
        )

    return st.recursive(tree(st.nothing()), tree, max_leaves=4)


@settings(max_examples=25, deadline=None)
@given(trees())
def test_json_survives_a_round_trip(value: dict[str, Any]) -> None:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(TREE), value)
    node = node_of(TREE)
    text = json_text_of(node, out.getvalue())
    data = binary_of(node, text)
    assert fastavro.schemaless_reader(io.BytesIO(data), TREE, None) == value
    assert json_text_of(node, data) == text


def test_json_encoding_has_avros_form() -> None:
    schema = ["null", "float", {"type": "record", "name": "n.R", "fields": []}, "bytes"]
    node = node_of(schema)
    for text in ("null", '{"float":0.1}', '{"float":"NaN"}', '{"n.R":{}}', '{"bytes":"ÿ"}'):
        assert json_text_of(node, binary_of(node, text)) == text
    assert json_text_of(node_of("double"), binary_of(node_of("double"), "1e10")) == "1.0E10"


@pytest.mark.parametrize(
    ("schema", "text", "sentence"),
    [
        ("int", "2147483648", "2147483648 is not a number of type int"),
        ("int", "true", "true is not a number of type int"),
        ("int", "{", "not JSON"),
        (["null", "string"], '"x"', 'write one of null, {"string": "..."}'),
        ({"type": "array", "items": "int"}, "[1, null]", "[1]: null is not a number"),
        (TREE, '{"nope": 1}', "a.b.Tree has no field nope; it has int, long"),
        (TREE, '{"int": 1}', "long is missing"),
        ({"type": "fixed", "name": "F", "size": 2}, '"a"', '"a" is not 2 bytes of F'),
        ("bytes", '"€"', "is not a string with one character"),
        ("float", "1e300", "is not a number that fits"),
    ],
)
def test_values_that_do_not_fit_are_refused(schema: Any, text: str, sentence: str) -> None:
    with pytest.raises(AvroDataError) as raised:
        binary_of(node_of(schema), text)
    assert sentence in str(raised.value)


@pytest.mark.parametrize(
    ("schema", "data"),
    [
        ("long", b"\xff" * 11),
        ("string", b"\x08ab"),
        ("string", b"\x01"),
        (["null", "int"], b"\x06"),
        ({"type": "array", "items": "null"}, b"\xfe\xff\xff\xff\xff\x0f\x00"),
        ({"type": "record", "name": "R", "fields": [{"name": "r", "type": "R"}]}, b"\0" * 400),
    ],
)
def test_malformed_bytes_are_refused(schema: Any, data: bytes) -> None:
    with pytest.raises(AvroDataError):
        json_text_of(node_of(schema), data)
