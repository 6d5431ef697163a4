"""Each converter by itself. tests/compat/test_connect_values.py compares them with Kafka's."""

from __future__ import annotations

import datetime
import json
from decimal import Decimal
from typing import Any

import pytest

from ottla.connect.converters.converter import Converter
from ottla.connect.converters.header import SimpleHeaderConverter
from ottla.connect.converters.json import JsonConverter
from ottla.connect.data import (
    BYTES_SCHEMA,
    FLOAT32_SCHEMA,
    FLOAT64_SCHEMA,
    INT8_SCHEMA,
    INT32_SCHEMA,
    INT64_SCHEMA,
    OPTIONAL_STRING_SCHEMA,
    STRING_SCHEMA,
    Schema,
    Struct,
    Type,
    array_schema,
    date_schema,
    decimal_schema,
    map_schema,
    struct_schema,
    time_schema,
    timestamp_schema,
)
from ottla.connect.errors import ConfigException, DataException
from ottla.connect.plugins import Plugins, PluginType
from ottla.connect.struct import Struct as StructClass

UTC = datetime.UTC
WHOLE = struct_schema(
    {
        "i": INT8_SCHEMA,
        "f": FLOAT32_SCHEMA,
        "d": FLOAT64_SCHEMA,
        "s": STRING_SCHEMA,
        "b": BYTES_SCHEMA,
        "maybe": OPTIONAL_STRING_SCHEMA,
        "seven": Schema(Type.INT32, optional=True, default=7),
        "list": array_schema(INT32_SCHEMA),
        "map": map_schema(STRING_SCHEMA, INT64_SCHEMA),
        "pairs": map_schema(INT32_SCHEMA, STRING_SCHEMA),
        "money": decimal_schema(2),
        "day": date_schema(),
        "hour": time_schema(),
        "at": timestamp_schema(),
        "inner": struct_schema({"x": INT32_SCHEMA}, optional=True),
    },
    name="whole",
    version=3,
    doc="all",
)
VALUES: dict[str, Any] = {
    "i": -128,
    "f": 0.1,
    "d": 1e300,
    "s": 'ä"\\',
    "b": b"\x00\xff",
    "maybe": None,
    "seven": 8,
    "list": [1, 2],
    "map": {"a": 1},
    "pairs": {1: "one"},
    "money": Decimal("-12.34"),
    "day": datetime.date(2021, 2, 3),
    "hour": datetime.time(1, 2, 3, 4000),
    "at": datetime.datetime(2021, 2, 3, 4, 5, 6, 789000, tzinfo=UTC),
    "inner": Struct(struct_schema({"x": INT32_SCHEMA}, optional=True), {"x": 1}),
}
TOLD = {
    "i": -128,
    "f": 0.1,
    "d": 1e300,
    "s": 'ä"\\',
    "b": "AP8=",
    "maybe": None,
    "seven": 8,
    "list": [1, 2],
    "map": {"a": 1},
    "pairs": [[1, "one"]],
    "money": "+y4=",
    "day": 18661,
    "hour": 3723004,
    "at": 1612325106789,
    "inner": {"x": 1},
}


def converter(**settings: str) -> JsonConverter:
    made = JsonConverter()
    named = {name.replace("__", "."): value for name, value in settings.items()}
    made.configure({**named, "converter.type": "value"})
    return made


def written(schema: Schema | None, value: Any, **settings: str) -> Any:
    data = converter(**settings).from_connect("t", schema, value)
    return None if data is None else json.loads(data)


def test_every_type_goes_to_json_and_back() -> None:
    json_converter = converter()
    data = json_converter.from_connect("t", WHOLE, Struct(WHOLE, VALUES))
    assert data is not None
    envelope = json.loads(data)
    assert envelope["payload"] == TOLD
    schema, value = json_converter.to_connect("t", data)
    assert schema == WHOLE
    assert isinstance(value, StructClass)
    assert dict(value) == VALUES
    # Again: by now both ways are planned, and the start of the message is known.
    assert json_converter.from_connect("t", WHOLE, Struct(WHOLE, VALUES)) == data
    assert json_converter.to_connect("t", data) == (schema, value)


def test_the_schema_has_kafkas_form() -> None:
    schema = struct_schema({"a": Schema(Type.INT8, default=1, doc="d")}, name="n", version=2)
    assert written(schema, Struct(schema))["schema"] == {
        "type": "struct",
        "fields": [
            {"type": "int8", "optional": False, "doc": "d", "default": 1, "field": "a"},
        ],
        "optional": False,
        "name": "n",
        "version": 2,
    }
    assert written(decimal_schema(2), Decimal("0.01"))["schema"] == {
        "type": "bytes",
        "optional": False,
        "name": "org.apache.kafka.connect.data.Decimal",
        "version": 1,
        "parameters": {"scale": "2"},
    }


def test_tombstones_and_nulls() -> None:
    assert converter().from_connect("t", None, None) is None
    assert converter().to_connect("t", None) == (None, None)
    assert written(OPTIONAL_STRING_SCHEMA, None)["payload"] is None
    assert (
        converter(schemas__enable="false").from_connect("t", OPTIONAL_STRING_SCHEMA, None)
        == b"null"
    )
    with pytest.raises(DataException, match="null value for field that is required"):
        written(STRING_SCHEMA, None)


def test_defaults_replace_nulls_unless_disabled() -> None:
    schema = struct_schema({"a": Schema(Type.INT32, optional=True, default=7)})
    assert written(schema, Struct(schema))["payload"] == {"a": 7}
    kept = written(schema, Struct(schema), replace__null__with__default="false")
    assert kept["payload"] == {"a": None}
    data = json.dumps(kept).encode()
    assert converter().to_connect("t", data)[1]["a"] == 7
    _, value = converter(replace__null__with__default="false").to_connect("t", data)
    assert value.get_without_default("a") is None


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"a": [1, 2.5, None, True]}, '{"a":[1,2.5,null,true]}'),
        ({"a": b"\x00"}, '{"a":"AA=="}'),
        ({1: "a"}, '[[1,"a"]]'),
        (float("nan"), '"NaN"'),
        ({"a": [float("-inf")], "b": None}, '{"a":["-Infinity"],"b":null}'),
        ((1, 2), "[1,2]"),
    ],
)
def test_values_without_a_schema(value: Any, message: str) -> None:
    assert converter(schemas__enable="false").from_connect("t", None, value) == message.encode()
    assert converter().from_connect("t", None, value) == b'{"schema":null,"payload":%b}' % (
        message.encode()
    )


@pytest.mark.parametrize("value", [Decimal(1), datetime.date(2021, 1, 1), object()])
def test_values_without_a_schema_type_are_rejected(value: Any) -> None:
    with pytest.raises(DataException, match="does not have corresponding schema type"):
        written(None, [value])


def test_a_struct_without_its_schema_is_refused() -> None:
    schema = struct_schema({"a": INT8_SCHEMA})
    with pytest.raises(DataException, match="Mismatching schema"):
        written(None, {"a": Struct(schema, {"a": 1})})
    with pytest.raises(DataException, match="Mismatching schema"):
        written(WHOLE, Struct(schema, {"a": 1}))


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (STRING_SCHEMA, 1),
        (INT32_SCHEMA, "1"),
        (INT32_SCHEMA, True),
        (FLOAT64_SCHEMA, "1"),
        (BYTES_SCHEMA, "1"),
        (array_schema(INT32_SCHEMA), "1"),
        (map_schema(STRING_SCHEMA, INT32_SCHEMA), [1]),
        (timestamp_schema(), 1),
        (decimal_schema(1), 1.5),
        (struct_schema({"a": INT32_SCHEMA}), {"a": 1}),
    ],
)
def test_a_value_of_another_type_is_refused(schema: Schema, value: Any) -> None:
    with pytest.raises(DataException, match="Invalid type for"):
        written(schema, value)


def test_decimals_as_numbers_keep_all_their_digits() -> None:
    schema = struct_schema({"d": decimal_schema(22)})
    exact = Decimal("12345678901234567890.1234567890123456789012")
    numeric = converter(decimal__format="numeric")
    data = numeric.from_connect("t", schema, Struct(schema, {"d": exact}))
    assert data is not None
    assert b'"d":12345678901234567890.1234567890123456789012}' in data
    assert numeric.to_connect("t", data)[1]["d"] == exact
    with pytest.raises(DataException, match="Schema has scale 22, value has scale 1"):
        written(schema, Struct(schema, {"d": Decimal("1.5")}))


def test_numbers_are_cut_to_their_field_as_kafka_cuts_them() -> None:
    schema = {"type": "struct", "fields": [{"type": "int8", "field": "a"}]}
    json_converter = converter()
    for payload, value in ((300, 44), (1.9, 1), ("text", 0), (-129, 127), (5, 5)):
        data = json.dumps({"schema": schema, "payload": {"a": payload}}).encode()
        assert json_converter.to_connect("t", data)[1]["a"] == value


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"{", "Converting byte[] to Kafka Connect data failed due to serialization error"),
        (b"", 'requires "schema" and "payload" fields'),
        (b"{}", 'requires "schema" and "payload" fields'),
        (b'{"schema":{},"payload":1}', "Schema must contain 'type' field"),
        (b'{"schema":{"type":"x"},"payload":1}', "Unknown schema type: x"),
        (b'{"schema":{"type":"array"},"payload":1}', "did not specify the element type"),
        (b'{"schema":{"type":"map"},"payload":1}', "did not specify the key type"),
        (b'{"schema":{"type":"struct"},"payload":1}', '"fields" argument is not an array'),
        (b'{"schema":{"type":"int8"},"payload":null}', "null value for required INT8 field"),
        (b'{"schema":{"type":"int8","parameters":{"a":1}},"payload":1}', "must have string values"),
    ],
)
def test_anything_but_an_envelope_is_rejected(data: bytes, message: str) -> None:
    with pytest.raises(DataException) as caught:
        converter().to_connect("t", data)
    assert message in str(caught.value)


def test_messages_with_a_known_start_are_still_checked() -> None:
    """The last message's schema is recognised by its bytes, but one payload must follow."""
    json_converter = converter()
    start = b'{"schema":{"type":"int32","optional":false},"payload":'
    assert json_converter.to_connect("t", start + b"1}")[1] == 1
    assert json_converter.to_connect("t", start + b"22}")[1] == 22
    for bad in (b"22", b"2}}", b'2,"more":3}', b"}", b"2,", b"null}"):
        with pytest.raises(DataException):
            json_converter.to_connect("t", start + bad)
    assert json_converter.to_connect("t", start + b"3} ")[1] == 3
    other = start.replace(b"int32", b"string")
    assert json_converter.to_connect("t", other + b'"x"}')[1] == "x"
    tricky = {"schema": {"type": "string", "doc": ',"payload":'}, "payload": "y"}
    assert json_converter.to_connect("t", json.dumps(tricky).encode())[1] == "y"
    assert json_converter.to_connect("t", b'{"payload":4,"schema":{"type":"int8"}}')[1] == 4


def test_a_schema_from_the_config_needs_no_envelope() -> None:
    message = '{"type":"struct","fields":[{"field":"a","type":"int8"}]}'
    schema, value = converter(schema__content=message).to_connect("t", b'{"a":1,"b":2}')
    assert schema == struct_schema({"a": INT8_SCHEMA})
    assert dict(value) == {"a": 1}
    with pytest.raises(DataException, match="Failed to parse schema in converter config"):
        converter(schema__content="{")


def test_more_schemas_than_the_cache_holds_work() -> None:
    json_converter = converter(schemas__cache__size="2")
    for round in range(3):
        for number in range(5):
            schema = struct_schema({f"f{number}": INT32_SCHEMA})
            data = json_converter.from_connect("t", schema, Struct(schema, {f"f{number}": round}))
            assert json_converter.to_connect("t", data) == (
                schema,
                Struct(schema, {f"f{number}": round}),
            )


def test_settings_are_checked() -> None:
    with pytest.raises(ConfigException, match="case insensitive"):
        converter(decimal__format="roman")


# The others.


def primitive(name: str, **settings: str) -> Converter:
    made: Converter = Plugins().new(name, PluginType.CONVERTER)
    named = {key.replace("__", "."): value for key, value in settings.items()}
    made.configure({**named, "converter.type": "key"})
    return made


@pytest.mark.parametrize(
    ("name", "value", "data", "type"),
    [
        ("String", "ä", "ä".encode(), Type.STRING),
        ("ByteArray", b"\x00", b"\x00", Type.BYTES),
        ("Boolean", True, b"\x01", Type.BOOLEAN),
        ("Boolean", False, b"\x00", Type.BOOLEAN),
        ("Short", -2, b"\xff\xfe", Type.INT16),
        ("Integer", 5, b"\x00\x00\x00\x05", Type.INT32),
        ("Long", -1, b"\xff" * 8, Type.INT64),
        ("Float", 0.1, b"=\xcc\xcc\xcd", Type.FLOAT32),
        ("Double", 1.5, b"?\xf8" + bytes(6), Type.FLOAT64),
        *((name, None, None, None) for name in ("String", "ByteArray", "Boolean", "Long", "Float")),
    ],
)
def test_one_type_each(name: str, value: Any, data: bytes | None, type: Type | None) -> None:
    made = primitive(f"{name}Converter")
    assert made.from_connect("t", None, value) == data
    schema, back = made.to_connect("t", data)
    assert back == value
    assert schema is not None
    assert schema.optional
    assert type is None or schema.type is type
    assert made.to_connect_header("t", "h", data) == (schema, value)
    assert made.from_connect_header("t", "h", None, value) == data


@pytest.mark.parametrize(
    ("name", "schema", "value", "message"),
    [
        ("Long", None, "x", "Failed to serialize to long"),
        ("Long", None, True, "Failed to serialize to long"),
        ("Long", INT32_SCHEMA, 1, "Failed to serialize to long"),
        ("Short", None, 40000, "Failed to serialize to short"),
        ("ByteArray", None, "x", "ByteArrayConverter is not compatible with objects"),
        ("ByteArray", STRING_SCHEMA, b"x", "Invalid schema type for ByteArrayConverter: STRING"),
        ("Boolean", None, 1, "BooleanConverter is not compatible with objects"),
        ("Boolean", STRING_SCHEMA, True, "Invalid schema type for BooleanConverter: STRING"),
    ],
)
def test_values_of_another_type_are_rejected(
    name: str, schema: Any, value: Any, message: str
) -> None:
    with pytest.raises(DataException, match=message):
        primitive(f"{name}Converter").from_connect("t", schema, value)


@pytest.mark.parametrize(
    ("name", "message"),
    [("Long", "long"), ("Float", "float"), ("Boolean", "boolean")],
)
def test_invalid_bytes_are_rejected(name: str, message: str) -> None:
    with pytest.raises(DataException, match=f"Failed to deserialize {message}"):
        primitive(f"{name}Converter").to_connect("t", b"\x02\x03\x04")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (True, "true"),
        (1e7, "1.0E7"),
        (0.001, "0.001"),
        (1.5e-7, "1.5E-7"),
        ([1, None, "x"], "[1, null, x]"),
        ({"a": False}, "{a=false}"),
        (Struct(struct_schema({"a": INT8_SCHEMA}), {"a": 1}), "Struct{a=1}"),
        (datetime.date(2021, 2, 3), "Wed Feb 03 00:00:00 UTC 2021"),
    ],
)
def test_strings_of_other_values_equal_javas(value: Any, text: str) -> None:
    assert primitive("StringConverter").from_connect("t", None, value) == text.encode()


def test_strings_in_other_encodings() -> None:
    latin = primitive("StringConverter", converter__encoding="ISO-8859-1")
    assert latin.from_connect("t", None, "ä") == b"\xe4"
    assert latin.to_connect("t", b"\xe4")[1] == "ä"
    with pytest.raises(DataException, match="no-such"):
        primitive("StringConverter", converter__encoding="no-such")


def test_headers_carry_their_type() -> None:
    simple = SimpleHeaderConverter()
    simple.configure({})
    for text, value, type in (
        (b"12", 12, Type.INT8),
        (b"text", "text", Type.STRING),
        (b"[1,2]", [1, 2], Type.ARRAY),
        (b"2021-02-03", datetime.date(2021, 2, 3), Type.INT32),
    ):
        schema, found = simple.to_connect_header("t", "h", text)
        assert (found, schema and schema.type) == (value, type)
        assert simple.from_connect_header("t", "h", schema, value) == text
    assert simple.to_connect_header("t", "h", None) == (None, None)
    assert simple.from_connect_header("t", "h", None, None) is None
