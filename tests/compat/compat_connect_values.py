"""Questions to Kafka Connect's own classes (tools/clients/connect) and to ours: same answers."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping
from typing import Any

from ottla.connect.config import ConfigDef
from ottla.connect.connector_config import connector_config, sink_config, source_config
from ottla.connect.converters.json import JsonConverter
from ottla.connect.data import (
    STRING_SCHEMA,
    Header,
    Schema,
    SinkRecord,
    SourceRecord,
    Type,
)
from ottla.connect.plugins import Plugins, PluginType
from ottla.connect.values import parse_string, text_of

PLUGINS = Plugins()
TRANSFORMS = "org.apache.kafka.connect.transforms"
CONVERTERS = "org.apache.kafka.connect.converters"


def ours(question: Mapping[str, Any]) -> dict[str, Any]:
    try:
        return dict(ANSWERS[question["ask"]](question))
    except Exception as error:
        return {"error": type(error).__name__, "message": str(error)}


def json_converter(props: Mapping[str, str] | None = None) -> JsonConverter:
    converter = JsonConverter()
    converter.configure({**(props or {}), "converter.type": "value"})
    return converter


def _json(question: Mapping[str, Any]) -> dict[str, Any]:
    reading, writing = json_converter(question["read"]), json_converter(question["write"])
    data = question["data"].encode()
    return {"data": _text(writing.from_connect("t", *reading.to_connect("t", data)))}


def _converter(question: Mapping[str, Any]) -> Any:
    converter = PLUGINS.new(question["class"], PluginType.CONVERTER)
    converter.configure({**question.get("props", {}), "converter.type": "value"})
    return converter


def _write(question: Mapping[str, Any]) -> dict[str, Any]:
    value = json_converter().to_connect("t", question["data"].encode())
    written = _converter(question).from_connect("t", *value)
    return {"data": None if written is None else base64.b64encode(written).decode()}


def _read(question: Mapping[str, Any]) -> dict[str, Any]:
    data = question["data"]
    value = _converter(question).to_connect("t", None if data is None else base64.b64decode(data))
    return {"data": _text(json_converter().from_connect("t", *value))}


def _header(question: Mapping[str, Any]) -> dict[str, Any]:
    schema, value = parse_string(question["text"])
    return {"schema": schema_text(schema), "text": text_of(value)}


def schema_text(schema: Schema | None) -> str | None:
    if schema is None:
        return None
    if schema.type is Type.ARRAY:
        return f"ARRAY({schema_text(schema.value_schema)})"
    if schema.type is Type.MAP:
        return f"MAP({schema_text(schema.key_schema)},{schema_text(schema.value_schema)})"
    return f"{schema.type}:{schema.name}" if schema.name else str(schema.type)


def _transform(question: Mapping[str, Any]) -> dict[str, Any]:
    record = _record(question["record"])
    transform = PLUGINS.new(question["class"], PluginType.TRANSFORM)
    transform.configure(question["props"])
    changed = transform.apply(record)
    if changed is None:
        return {"record": None}
    converter = json_converter()
    headers: list[Any] = []
    for header in changed.headers:
        headers += [header.key, text_of(header.value), schema_text(header.schema)]
    return {
        "record": {
            "topic": changed.topic,
            "key": _text(converter.from_connect("t", changed.key_schema, changed.key)),
            "value": _text(converter.from_connect("t", changed.value_schema, changed.value)),
            "headers": headers,
        }
    }


def _predicate(question: Mapping[str, Any]) -> dict[str, Any]:
    predicate = PLUGINS.new(question["class"], PluginType.PREDICATE)
    predicate.configure(question["props"])
    return {"holds": predicate.test(_record(question["record"]))}


def _record(fields: Mapping[str, Any]) -> Any:
    converter = json_converter()
    key = converter.to_connect("t", fields["key"] and fields["key"].encode())
    value = converter.to_connect("t", fields["value"] and fields["value"].encode())
    headers = tuple(Header(name, "x", STRING_SCHEMA) for name in fields["headers"])
    topic, timestamp = fields["topic"], fields["timestamp"]
    if fields["sink"]:
        return SinkRecord(topic, 3, *key, *value, 17, timestamp, headers=headers)
    return SourceRecord({}, {}, topic, 3, *key, *value, timestamp, headers)


def _config(question: Mapping[str, Any]) -> dict[str, Any]:
    name = question["class"]
    config: ConfigDef
    if name in ("sink", "source"):
        config = (sink_config if name == "sink" else source_config)(connector_config())
    else:
        config = PLUGINS.new(name).config_def()
    return {key.name: _key(key.info()) for key in config.keys.values()}


def _key(info: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "type": info["type"],
        "required": info["required"],
        "default": info["default_value"],
        "importance": info["importance"],
        "group": info["group"],
        "order": info["order_in_group"],
        "width": info["width"],
        "display": info["display_name"],
    }


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode()


ANSWERS = {
    "json": _json,
    "write": _write,
    "read": _read,
    "header": _header,
    "transform": _transform,
    "predicate": _predicate,
    "config": _config,
}


# Questions.


def questions() -> Iterator[dict[str, Any]]:
    yield from _config_questions()
    yield from _header_questions()
    yield from _json_questions()
    yield from _converter_questions()
    yield from _transform_questions()
    yield from _predicate_questions()


def _config_questions() -> Iterator[dict[str, Any]]:
    yield {"ask": "config", "class": "sink"}
    yield {"ask": "config", "class": "source"}
    for kind in (PluginType.CONVERTER, PluginType.TRANSFORM, PluginType.PREDICATE):
        for plugin in PLUGINS.all(kind):
            if not plugin.name.startswith("io.confluent."):  # Kafka does not bring these
                yield {"ask": "config", "class": plugin.name}


HEADERS = [
    "", " ", "text", " padded ", "true", "false", "True", "true}", "null", "0", "1", "-1", "127",
    "128", "-129", "32768", "2147483648", "9223372036854775807", "9223372036854775808",
    "100000000000000000000", "1.5", "0.1", "-0.25", "1e3", "1e20", "1e40", "1e400",
    "3.14159265358979",
    "+7", "007", "1.0", "1.", ".5", "12abc", "1 2", "1:2", "1,2", "-", "+", "2021-01-02",
    "2021-13-02", "12:34:56.789Z", "2021-01-02T12:34:56.789Z", "2021-01-02T12:34:56Z", "1999-1-1",
    "[]", "[1]", "[1,2]", "[1, 300]", "[1, 2.5]", '["a","b"]', '["a", 1]', "[1,null]", "[null]",
    "[1,", "[1,,2]", "[1 2]", "[a]", "[[1],[2]]", "[true,false]", "[1]x", '["2021-01-02"]',
    "{}", '{"a":1}', '{"a":1,"b":2}', '{"a":1,"b":2.5}', '{"a":"b"}', "{1:2}", '{"a":null}',
    '{"a"}',
    '{"a":1', '{"a":[1,2]}', '{"a":{"b":1}}', "{a:1}", '{"a":1,"b":"c"}', '"quoted"', 'a"b',
    "a\\,b",
    '["a\\"b"]', '["a, b"]', "a=b&c=d", "application/json", "äöü", "2021-01-02 12:34", "0x10",
    "1_0",
    "NaN", "-Infinity", "1d", "12:34", "10:20:30", "[12:34:56.789Z]", '{"t":12:34:56.789Z}',
]  # fmt: skip


def _header_questions() -> Iterator[dict[str, Any]]:
    for text in HEADERS:
        yield {"ask": "header", "text": text}


def enveloped(schema: Any, payload: Any) -> str:
    return json.dumps({"schema": schema, "payload": payload}, separators=(",", ":"))


def field(called: str, kind: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "optional": more.pop("optional", False), "field": called, **more}


def logical(name: str, kind: str, field_name: str, **more: Any) -> dict[str, Any]:
    full = f"org.apache.kafka.connect.data.{name}"
    return field(field_name, kind, name=full, version=1, **more)


ALL_TYPES = {
    "type": "struct",
    "name": "all",
    "version": 4,
    "doc": "every type",
    "optional": True,
    "fields": [
        field("i8", "int8"),
        field("i16", "int16"),
        field("i32", "int32"),
        field("i64", "int64"),
        field("f32", "float"),
        field("f64", "double"),
        field("bool", "boolean"),
        field("text", "string", doc="some text"),
        field("bytes", "bytes"),
        field("maybe", "string", optional=True),
        field("seven", "int32", optional=True, default=7),
        field("list", "array", items={"type": "int32", "optional": True}),
        field("map", "map", keys={"type": "string"}, values={"type": "int64", "optional": True}),
        field("pairs", "map", keys={"type": "int32"}, values={"type": "string"}),
        logical("Decimal", "bytes", "decimal", parameters={"scale": "2"}),
        logical("Date", "int32", "date"),
        logical("Time", "int32", "time"),
        logical("Timestamp", "int64", "timestamp"),
        field("inner", "struct", optional=True, fields=[field("x", "int32"), field("y", "string")]),
    ],
}
ALL_VALUES = {
    "i8": -128, "i16": 32767, "i32": -2147483648, "i64": 9007199254740993, "f32": 0.1, "f64": 1e300,
    "bool": True, "text": "ä\"\\\n", "bytes": "AAEC/w==", "maybe": None, "seven": None,
    "list": [1, None, 3], "map": {"a": 1, "b": None}, "pairs": [[1, "one"], [2, "two"]],
    "decimal": "AN8=", "date": 18000, "time": 3661001, "timestamp": 1600000000123,
    "inner": {"x": 1, "y": "z"},
}  # fmt: skip
ONE: list[tuple[Any, Any]] = [
    ({"type": "int8"}, [1, 300, -129, 1.9, -1.9, "5", True, None]),
    ({"type": "int32"}, [2147483648, 1e10]),
    ({"type": "int64"}, [9223372036854775807, 1e3]),
    ({"type": "float"}, [1, 1.5, 3.4e38, 1e39, 16777217, "x"]),
    ({"type": "double"}, [1, 0.1, "x"]),
    ({"type": "boolean"}, [True, 1, "true"]),
    ({"type": "string"}, ["x", 1, {}]),
    ({"type": "string", "optional": True}, [1, None]),
    ({"type": "bytes"}, ["AA==", "not base64!", 1]),
    ({"type": "array", "items": {"type": "int8"}}, [[], [1, 2], [None], 3, {"a": 1}]),
    ({"type": "map", "keys": {"type": "string"}, "values": {"type": "int8"}}, [{}, {"a": 1}, [1]]),
    ({"type": "map", "keys": {"type": "int8"}, "values": {"type": "int8"}}, [[[1, 2]], [[1]], [1],
    {}]),
    ({"type": "struct", "fields": [field("a", "int8")]}, [{"a": 1}, {}, {"a": 1, "b": 2}, 1, [1]]),
    ({"type": "struct", "fields": [field("a", "string")]}, [{"a": 1}]),
    ({"type": "int32", "default": 5, "optional": True}, [None, 1]),
    ({"type": "int32", "default": 5}, [None]),
    ({"type": "bytes", "name": "org.apache.kafka.connect.data.Decimal", "version": 1,
      "parameters": {"scale": "3"}}, ["AN8=", 1.25, 1.250, 7, "", {}, "/w=="]),
    ({"type": "int32", "name": "org.apache.kafka.connect.data.Date", "version": 1}, [0, -1, "x",
    1.5]),
    ({"type": "int32", "name": "org.apache.kafka.connect.data.Time", "version": 1},
     [0, 86399999, -1, "x"]),
    ({"type": "int64", "name": "org.apache.kafka.connect.data.Timestamp", "version": 1},
     [0, -1, 253402300799999, "x"]),
]  # fmt: skip
BROKEN = [
    "", "{", "1 2", "{}", "[]", "1", "null", '{"schema":null}', '{"schema":null,"payload":1}',
    '{"schema":null,"payload":{"a":[1,2.5,"x",null,true]}}', '{"schema":{},"payload":1}',
    '{"schema":{"type":"nothing"},"payload":1}', '{"schema":{"type":"array"},"payload":[]}',
    '{"schema":{"type":"map"},"payload":{}}', '{"schema":{"type":"struct"},"payload":{}}',
    '{"schema":{"type":"struct","fields":[{"type":"int8"}]},"payload":{}}',
    '{"schema":{"type":"int8","parameters":{"a":1}},"payload":1}',
    '{"schema":{"type":"int8"},"payload":1,"more":2}', '{"payload":1,"schema":{"type":"int8"}}',
]  # fmt: skip
PLAIN_JSON = [
    "1", "-1", "1.5", "1e400", "true", "null", '"x"', "[]", "{}", '{"a":{"b":[1,2,{"c":null}]}}',
    "",
    "12345678901234567890", "1.0", "0.1",
]  # fmt: skip


def _json_questions() -> Iterator[dict[str, Any]]:
    with_schema: dict[str, str] = {}
    without = {"schemas.enable": "false"}
    data = [enveloped(ALL_TYPES, ALL_VALUES), enveloped(ALL_TYPES, None), *BROKEN]
    for schema, payloads in ONE:
        data += [enveloped({"optional": False, **schema}, payload) for payload in payloads]
    for item in data:
        yield {"ask": "json", "read": with_schema, "write": with_schema, "data": item}
    for item in data[:2]:
        yield {"ask": "json", "read": with_schema, "write": without, "data": item}
    for entry in PLAIN_JSON:
        yield {"ask": "json", "read": without, "write": with_schema, "data": entry}
        yield {"ask": "json", "read": without, "write": without, "data": entry}
    numeric = {"decimal.format": "numeric"}
    decimal = logical("Decimal", "bytes", "d", parameters={"scale": "3"})
    for payload in ("AN8=", "1e5=", "CQ=="):
        whole = enveloped(
            {"type": "struct", "optional": False, "fields": [decimal]}, {"d": payload}
        )
        yield {"ask": "json", "read": with_schema, "write": numeric, "data": whole}
    keep = {"replace.null.with.default": "false"}
    for read, write in ((keep, keep), (with_schema, keep), (keep, with_schema)):
        yield {"ask": "json", "read": read, "write": write, "data": data[0]}
    fixed = {"schema.content": json.dumps({"type": "struct", "fields": [field("a", "int8")]})}
    for entry in ('{"a":1}', '{"a":1,"b":2}', "1", '{"schema":1}'):
        yield {"ask": "json", "read": fixed, "write": with_schema, "data": entry}


def _converter_questions() -> Iterator[dict[str, Any]]:
    texts = [
        enveloped({"type": kind, "optional": True}, payload)
        for kind, payload in (
            ("int16", 5), ("int32", 5), ("int64", -5), ("float", 1.5), ("double", 1.5), ("double",
            1e7),
            ("double", 0.001), ("double", 1e-4), ("double", 123456789.125), ("boolean", True),
            ("string", "ä"), ("bytes", "AAE="), ("string", None),
        )
    ]  # fmt: skip
    texts.append('{"schema":null,"payload":{"a":[1,"x",null,true,1.5]}}')
    struct = {
        "type": "struct",
        "fields": [field("a", "int32"), field("b", "string", optional=True)],
    }
    texts += [enveloped(struct, {"a": 1, "b": "x"}), enveloped(struct, {"a": 1})]
    string = "org.apache.kafka.connect.storage.StringConverter"
    names = ["ByteArray", "Boolean", "Double", "Float", "Integer", "Long", "Short"]
    for name in (string, *(f"{CONVERTERS}.{entry}Converter" for entry in names)):
        for text in texts:
            if name != string or '"bytes"' not in text:  # an array's address is all that Java tells
                yield {"ask": "write", "class": name, "props": {}, "data": text}
        for data in (b"", b"\x00", b"\x01", b"\x02", b"\x00\x05", b"\x80\x00\x00\x01",
        b"=\xcc\xcc\xcd",
                     b"?\xf8" + bytes(6), b"\xff" * 8):  # fmt: skip
            encoded = base64.b64encode(data).decode()
            yield {"ask": "read", "class": name, "props": {}, "data": encoded}
        yield {"ask": "read", "class": name, "props": {}, "data": None}
    latin = {"converter.encoding": "ISO-8859-1"}
    yield {"ask": "write", "class": string, "props": latin, "data": texts[10]}
    yield {
        "ask": "read",
        "class": string,
        "props": latin,
        "data": base64.b64encode(b"\xe4").decode(),
    }


ROW = enveloped(
    {
        "type": "struct",
        "name": "row",
        "version": 1,
        "optional": False,
        "fields": [
            field("id", "int32"),
            field("name", "string"),
            field("price", "double", optional=True),
            field("on", "boolean"),
            field("count", "int64", optional=True, default=42),
            field("raw", "bytes", optional=True),
            field("when", "string", optional=True),
            logical("Timestamp", "int64", "at", optional=True),
            logical("Date", "int32", "day", optional=True),
            logical("Time", "int32", "hour", optional=True),
            logical("Decimal", "bytes", "money", optional=True, parameters={"scale": "2"}),
            field("tags", "array", optional=True, items={"type": "string"}),
            field(
                "inner", "struct", optional=True,
                fields=[field("x", "int32", optional=True, default=9), field("a.b", "string"),
                        field("deep", "struct", optional=True, fields=[field("z", "int8")])],
            ),
        ],
    },
    {
        "id": 1, "name": "Ada", "price": 2.75, "on": True, "count": None, "raw": "AAE=",
        "when": "2021-03-04 05:06:07", "at": 1600000000123, "day": 18000, "hour": 3661001,
        "money": "AN8=", "tags": ["a", "b"], "inner": {"x": None, "a.b": "c", "deep": {"z": 5}},
    },
)  # fmt: skip
EMPTY_ROW = enveloped(
    json.loads(ROW)["schema"], {"id": 2, "name": "", "on": False}
)  # every optional field missing
MAP = enveloped(
    None,
    {"id": 1, "name": "Ada", "price": 2.75, "on": True, "none": None, "tags": [1],
     "inner": {"x": 1, "deep": {"z": 5}}, "when": "2021-03-04 05:06:07", "at": 1600000000123},
)  # fmt: skip
INT = enveloped({"type": "int32", "optional": False}, 300)
INT64 = enveloped({"type": "int64", "optional": True}, 1600000000123)
MAPPED = enveloped(
    {"type": "struct", "optional": False,
     "fields": [field("m", "map", keys={"type": "string"}, values={"type": "int8"})]},
     {"m": {"a": 1}},
)  # fmt: skip

TRANSFORM_CASES: list[tuple[str, dict[str, str]]] = [
    *(
        ("Cast", {"spec": spec})
        for spec in (
            "id:int8", "id:string,price:int32", "price:string", "name:int32", "on:int8",
            "on:string",
            "price:float32", "count:string", "count:int8", "raw:string", "raw:int8", "at:string",
            "at:int64",
            "day:string", "day:int32", "hour:string", "hour:int64", "money:float64", "money:string",
            "tags:string", "inner:string", "nothing:int8", "string", "int8", "int64", "boolean",
            "float64",
            "bytes", "a:b:c", "id:nope", "int8,id:int8", "", "when:boolean", "none:string",
        )
    ),
    ("Cast", {"spec": "count:string", "replace.null.with.default": "false"}),
    ("Cast", {}),
    *(("ExtractField", {"field": name}) for name in ("id", "name", "inner", "count", "nothing",
    "a.b")),
    ("ExtractField", {"field": "count", "replace.null.with.default": "false"}),
    *(
        ("ExtractField", {"field": path, "field.syntax.version": "V2"})
        for path in ("inner.x", "inner.deep.z", "inner.`a.b`", "inner.nothing", "nothing.x", "id.x",
                     "inner.", "`inner`.x", "`inner.x", "inner.`a.b")
    ),
    ("Flatten", {}),
    ("Flatten", {"delimiter": "_"}),
    ("HoistField", {"field": "whole"}),
    ("HoistField", {}),
    *(
        ("InsertField", props)
        for props in (
            {"topic.field": "t"}, {"topic.field": "t!", "partition.field": "p?"},
            {"timestamp.field": "ts"},
            {"offset.field": "o"}, {"offset.field": "o!"}, {"static.field": "s",
            "static.value": "v"},
            {"static.field": "s"}, {}, {"topic.field": "id"},
            {"timestamp.field": "ts!", "replace.null.with.default": "false"},
        )
    ),
    ("MaskField", {"fields": "id,name,price,on,count,at,day,hour,tags"}),
    ("MaskField", {"fields": "id,price", "replacement": "77"}),
    ("MaskField", {"fields": "price", "replacement": "1.5"}),
    ("MaskField", {"fields": "name", "replacement": "***"}),
    ("MaskField", {"fields": "id", "replacement": "***"}),
    ("MaskField", {"fields": "on", "replacement": "1"}),
    ("MaskField", {"fields": "raw"}),
    ("MaskField", {"fields": "inner"}),
    ("MaskField", {"fields": ""}),
    ("MaskField", {"fields": "id", "replacement": ""}),
    ("ReplaceField", {"exclude": "id,price"}),
    ("ReplaceField", {"include": "id,price"}),
    ("ReplaceField", {"include": "id,price", "exclude": "id"}),
    ("ReplaceField", {"renames": "id:number,name:called"}),
    ("ReplaceField", {"renames": "id:name"}),
    ("ReplaceField", {"renames": "id"}),
    ("ReplaceField", {"renames": "id:a:b"}),
    ("ReplaceField", {"include": "count", "replace.null.with.default": "false"}),
    ("ReplaceField", {}),
    ("SetSchemaMetadata", {"schema.name": "new"}),
    ("SetSchemaMetadata", {"schema.version": "9"}),
    ("SetSchemaMetadata", {"schema.name": "new", "schema.version": "9",
                           "replace.null.with.default": "false"}),
    ("SetSchemaMetadata", {}),
    ("SetSchemaMetadata", {"schema.version": "x"}),
    ("HeaderFrom", {"fields": "id,name", "headers": "h1,h2", "operation": "copy"}),
    ("HeaderFrom", {"fields": "id,at", "headers": "h1,h2", "operation": "move"}),
    ("HeaderFrom", {"fields": "count", "headers": "h", "operation": "move"}),
    ("HeaderFrom", {"fields": "count", "headers": "h", "operation": "copy",
                    "replace.null.with.default": "false"}),
    ("HeaderFrom", {"fields": "id,name", "headers": "h1", "operation": "copy"}),
    ("HeaderFrom", {"fields": "id", "headers": "h1", "operation": "steal"}),
    ("HeaderFrom", {"fields": "", "headers": "h1", "operation": "copy"}),
    *(
        ("TimestampConverter", {"field": name, "target.type": target,
        "format": "yyyy-MM-dd HH:mm:ss"})
        for name in ("when", "at", "day", "hour", "nothing", "id", "count")
        for target in ("string", "unix", "Date", "Time", "Timestamp")
    ),
    ("TimestampConverter", {"field": "when", "target.type": "unix"}),
    ("TimestampConverter", {"field": "when", "target.type": "unix", "format": "yyyy/MM"}),
    ("TimestampConverter", {"target.type": "string", "format": "yyyy-MM-dd'T'HH:mm:ss.SSSXXX"}),
    ("TimestampConverter", {"target.type": "string", "format": "EEE, d MMM yyyy hh:mm a z Z"}),
    ("TimestampConverter", {"target.type": "string", "format": "G yy MMMM DDD k K u F E EEEE W"}),
    ("TimestampConverter", {"target.type": "string"}),
    ("TimestampConverter", {"target.type": "string", "format": "bad"}),
    ("TimestampConverter", {"target.type": "nope"}),
    ("TimestampConverter", {"target.type": "Timestamp", "unix.precision": "seconds"}),
    ("TimestampConverter", {"target.type": "unix", "unix.precision": "nanoseconds"}),
    ("TimestampConverter", {"field": "at", "target.type": "unix",
    "unix.precision": "microseconds"}),
    ("TimestampConverter", {"field": "at", "target.type": "unix", "unix.precision": "seconds"}),
]  # fmt: skip
WHOLE_CASES: list[tuple[str, dict[str, str]]] = [
    ("DropHeaders", {"headers": "h"}),
    ("DropHeaders", {"headers": "x,y"}),
    ("DropHeaders", {"headers": ""}),
    ("DropHeaders", {}),
    ("Filter", {}),
    *(
        ("InsertHeader", {"header": "new", "value.literal": literal})
        for literal in ("text", "12", "1.5", "[1,2]", '{"a":1}', "true", "2021-01-02", "")
    ),
    ("InsertHeader", {"header": "new"}),
    ("RegexRouter", {"regex": "(.*)-(.*)", "replacement": "$2_$1"}),
    ("RegexRouter", {"regex": "(?<a>[a-z]+)-(?<b>.*)", "replacement": "${b}.${a}\\$"}),
    ("RegexRouter", {"regex": "orders", "replacement": "x"}),
    ("RegexRouter", {"regex": "o|orders-eu", "replacement": "x"}),
    ("RegexRouter", {"regex": "\\Qorders-\\E(\\p{Alpha}+)", "replacement": "$1$10"}),
    ("RegexRouter", {"regex": ".*", "replacement": "$3"}),
    ("RegexRouter", {"regex": ".*", "replacement": "a$"}),
    ("RegexRouter", {"regex": "(", "replacement": "x"}),
    ("TimestampRouter", {}),
    (
        "TimestampRouter",
        {"topic.format": "${timestamp}.${topic}", "timestamp.format": "yyyy-MM-dd'T'HH"},
    ),
    ("TimestampRouter", {"timestamp.format": "YYYY-ww"}),
    ("TimestampRouter", {"timestamp.format": "nope"}),
    ("ValueToKey", {"fields": "id"}),
    ("ValueToKey", {"fields": "id,count"}),
    ("ValueToKey", {"fields": "count", "replace.null.with.default": "false"}),
    ("ValueToKey", {"fields": "nothing"}),
    ("ValueToKey", {"fields": ""}),
]


def record(value: str | None, **changes: Any) -> dict[str, Any]:
    fields = {"topic": "orders-eu", "key": None, "value": value, "timestamp": 1600000000123}
    return {**fields, "headers": ["h", "i", "h"], "sink": True, **changes}


def _transform_questions() -> Iterator[dict[str, Any]]:
    for name, props in TRANSFORM_CASES:
        for value in (ROW, EMPTY_ROW, MAP, INT, INT64, None):
            yield _asked(f"{name}$Value", props, record(value))
        yield _asked(f"{name}$Key", props, record(None, key=ROW))
        yield _asked(f"{name}$Value", props, record(ROW, sink=False))
    for name, props in WHOLE_CASES:
        for fields in (record(ROW), record(MAP), record(INT), record(None, timestamp=None)):
            yield _asked(name, props, fields)
    for name in ("Flatten", "HoistField"):
        yield _asked(f"{name}$Value", {"field": "m"}, record(MAPPED))


def _asked(name: str, props: dict[str, str], fields: dict[str, Any]) -> dict[str, Any]:
    return {"ask": "transform", "class": f"{TRANSFORMS}.{name}", "props": props, "record": fields}


def _predicate_questions() -> Iterator[dict[str, Any]]:
    cases: list[tuple[str, dict[str, str]]] = [
        ("HasHeaderKey", {"name": "h"}),
        ("HasHeaderKey", {"name": "x"}),
        ("HasHeaderKey", {"name": ""}),
        ("RecordIsTombstone", {}),
        ("TopicNameMatches", {"pattern": "orders-.."}),
        ("TopicNameMatches", {"pattern": "orders"}),
        ("TopicNameMatches", {"pattern": "("}),
        ("TopicNameMatches", {"pattern": ""}),
    ]
    for name, props in cases:
        for value in (MAP, None):
            fields = record(value)
            full = f"{TRANSFORMS}.predicates.{name}"
            yield {"ask": "predicate", "class": full, "props": props, "record": fields}
