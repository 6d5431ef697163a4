"""Transforms and predicates, one at a time, with schemas and without."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import pytest

from ottla.connect.data import (
    BOOLEAN_SCHEMA,
    BYTES_SCHEMA,
    INT32_SCHEMA,
    INT64_SCHEMA,
    OPTIONAL_FLOAT64_SCHEMA,
    OPTIONAL_STRING_SCHEMA,
    STRING_SCHEMA,
    Header,
    Schema,
    SinkRecord,
    SourceRecord,
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
from ottla.connect.errors import ConfigException, ConnectException, DataException
from ottla.connect.plugins import Plugins, PluginType

UTC = datetime.UTC
AT = datetime.datetime(2020, 9, 13, 12, 26, 40, 123000, tzinfo=UTC)
AT_MS = 1_600_000_000_123
DEEP = struct_schema({"z": INT32_SCHEMA}, optional=True)
INNER = struct_schema({"x": INT32_SCHEMA, "a.b": STRING_SCHEMA, "deep": DEEP}, optional=True)
ROW = struct_schema(
    {
        "id": INT32_SCHEMA,
        "name": STRING_SCHEMA,
        "price": OPTIONAL_FLOAT64_SCHEMA,
        "on": BOOLEAN_SCHEMA,
        "seven": Schema(Type.INT64, optional=True, default=7),
        "raw": BYTES_SCHEMA,
        "at": timestamp_schema(optional=True),
        "day": date_schema(),
        "hour": time_schema(),
        "money": decimal_schema(2),
        "tags": array_schema(STRING_SCHEMA),
        "inner": INNER,
    },
    name="row",
    version=1,
)
VALUES: dict[str, Any] = {
    "id": 300,
    "name": "Ada",
    "price": 2.75,
    "on": True,
    "raw": b"\x00\x01",
    "at": AT,
    "day": datetime.date(2021, 2, 3),
    "hour": datetime.time(1, 2, 3),
    "money": Decimal("1.25"),
    "tags": ["a"],
    "inner": Struct(INNER, {"x": 1, "a.b": "c", "deep": Struct(DEEP, {"z": 5})}),
}
MAP: dict[str, Any] = {"id": 300, "name": "Ada", "none": None, "inner": {"x": 1, "deep": {"z": 5}}}


def row(**changes: Any) -> Struct:
    return Struct(ROW, VALUES | changes)


def sink(schema: Schema | None, value: Any, **changes: Any) -> SinkRecord:
    made = SinkRecord("orders-eu", 3, STRING_SCHEMA, "k", schema, value, 17, AT_MS)
    return made.replace(**changes)


def transform(name: str, **settings: str) -> Any:
    made = Plugins().new(name, PluginType.TRANSFORM)
    made.configure({key.replace("__", "."): value for key, value in settings.items()})
    return made


def of_row(name: str, **settings: str) -> Any:
    changed = transform(f"{name}$Value", **settings).apply(sink(ROW, row()))
    assert changed.value_schema == changed.value.schema
    changed.value.validate()
    return changed.value


def of_map(name: str, **settings: str) -> Any:
    changed = transform(f"{name}$Value", **settings).apply(sink(None, dict(MAP)))
    assert changed.value_schema is None
    return changed.value


@pytest.mark.parametrize(
    ("spec", "value"),
    [
        ("id:int8", 44),
        ("id:string", "300"),
        ("id:boolean", True),
        ("price:int32", 2),
        ("price:string", "2.75"),
        ("on:int16", 1),
        ("on:string", "true"),
        ("name:boolean", False),
        ("raw:string", "AAE="),
        ("at:string", "2020-09-13T12:26:40.123Z"),
        ("at:int64", AT_MS),
        ("day:int32", 18661),
        ("day:string", "2021-02-03"),
        ("hour:string", "01:02:03.000Z"),
        ("money:float64", 1.25),
        ("money:string", "1.25"),
        ("seven:string", "7"),
    ],
)
def test_cast_of_a_field(spec: str, value: Any) -> None:
    field, type = spec.split(":")
    made = of_row("Cast", spec=spec)
    assert made[field] == value
    assert made.schema.field(field).schema.type is Type[type.upper()]
    assert made.schema.name == "row"


def test_cast_without_a_schema_and_of_the_whole_value() -> None:
    assert of_map("Cast", spec="id:string,none:int8")["id"] == "300"
    whole = transform("Cast$Key", spec="int32").apply(sink(None, 1, key_schema=None, key="12"))
    assert (whole.key_schema, whole.key) == (None, 12)
    typed = transform("Cast$Value", spec="int8").apply(sink(INT64_SCHEMA, 300))
    assert (typed.value_schema.type, typed.value) == (Type.INT8, 44)
    tombstone = sink(None, None)
    assert transform("Cast$Value", spec="int8").apply(tombstone) is tombstone


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("", "Must specify at least one field to cast."),
        ("nope", "Invalid type found in casting spec: nope"),
        ("a:bytes", "Cast transformation does not support casting to BYTES"),
        ("int8,a:int8", "may only specify a single cast"),
        ("a:b:c", "Invalid rename mapping: a:b:c"),
    ],
)
def test_cast_refuses_specs(spec: str, message: str) -> None:
    with pytest.raises(ConfigException, match=message):
        transform("Cast$Value", spec=spec)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("name:int8", "out of range for requested data type"),
        ("tags:string", "does not support casting from ARRAY"),
        ("raw:int8", "Unexpected type in Cast transformation"),
    ],
)
def test_cast_refuses_values(spec: str, message: str) -> None:
    with pytest.raises(DataException, match=message):
        of_row("Cast", spec=spec)


@pytest.mark.parametrize(
    ("path", "version", "value"),
    [
        ("id", "V1", 300),
        ("seven", "V1", 7),
        ("inner.x", "V2", 1),
        ("inner.deep.z", "V2", 5),
        ("inner.`a.b`", "v2", "c"),
    ],
)
def test_extract_field_of_a_struct(path: str, version: str, value: Any) -> None:
    extract = transform("ExtractField$Value", field=path, field__syntax__version=version)
    changed = extract.apply(sink(ROW, row()))
    assert changed.value == value
    assert changed.value_schema is not None
    assert extract.apply(sink(ROW, None)).value is None


def test_extract_field_of_a_map() -> None:
    assert of_map("ExtractField", field="id") == 300
    assert of_map("ExtractField", field="nothing") is None
    assert of_map("ExtractField", field="inner.deep.z", field__syntax__version="V2") == 5
    assert of_map("ExtractField", field="none.x", field__syntax__version="V2") is None
    with pytest.raises(ConnectException, match="Unknown field: nothing"):
        transform("ExtractField$Value", field="nothing").apply(sink(ROW, row()))
    with pytest.raises(ConfigException, match="Incomplete backtick pair in path"):
        transform("ExtractField$Value", field="`a", field__syntax__version="V2")


def test_hoist_field() -> None:
    changed = transform("HoistField$Value", field="all").apply(sink(INT32_SCHEMA, 5))
    assert dict(changed.value) == {"all": 5}
    assert of_map("HoistField", field="all") == {"all": MAP}
    with pytest.raises(DataException, match='required field: "all"'):
        transform("HoistField$Value", field="all").apply(sink(INT32_SCHEMA, None))


def test_flatten() -> None:
    made = of_row("Flatten", delimiter="_")
    assert made["inner_x"] == 1
    assert made["inner_deep_z"] == 5
    assert made["seven"] == 7
    assert made.schema.field("inner_deep_z").schema.optional
    assert of_map("Flatten") == {
        "id": 300, "name": "Ada", "none": None, "inner.x": 1, "inner.deep.z": 5,
    }  # fmt: skip
    without = transform("Flatten$Value").apply(sink(ROW, row(inner=None)))
    assert without.value["inner.deep.z"] is None
    mapped = struct_schema({"m": map_schema(STRING_SCHEMA, INT32_SCHEMA)})
    with pytest.raises(DataException, match="does not support MAP for record with schemas"):
        transform("Flatten$Value").apply(sink(mapped, Struct(mapped, {"m": {}})))


def test_insert_field() -> None:
    settings = {
        "topic.field": "t!",
        "partition.field": "p",
        "offset.field": "o?",
        "timestamp.field": "ts",
        "static.field": "s",
        "static.value": "fixed",
    }
    insert = transform("InsertField$Value", **settings)
    made = insert.apply(sink(ROW, row())).value
    assert [made[name] for name in ("t", "p", "o", "ts", "s")] == ["orders-eu", 3, 17, AT, "fixed"]
    assert not made.schema.field("t").schema.optional
    assert made.schema.field("p").schema.optional
    plain = insert.apply(sink(None, {"a": 1})).value
    assert plain == {"a": 1, "t": "orders-eu", "p": 3, "o": 17, "ts": AT_MS, "s": "fixed"}
    source = SourceRecord({}, {}, "t", value={})
    with pytest.raises(DataException, match="Only SinkRecord supported for"):
        insert.apply(source)
    without_offset = transform("InsertField$Value", partition__field="p", timestamp__field="ts")
    assert without_offset.apply(source).value == {}


def test_insert_field_refuses_configs() -> None:
    with pytest.raises(ConfigException, match="No field insertion configured"):
        transform("InsertField$Value")
    with pytest.raises(ConfigException, match="No value specified for static field: s"):
        transform("InsertField$Value", static__field="s")
    with pytest.raises(DataException, match="field name duplication id"):
        of_row("InsertField", topic__field="id")


def test_mask_field() -> None:
    made = of_row("MaskField", fields="id,name,price,on,at,day,hour,money,tags,seven")
    assert [made[name] for name in ("id", "name", "price", "on", "tags", "seven")] == [
        0, "", 0.0, False, [], 0,
    ]  # fmt: skip
    assert made["at"] == datetime.datetime(1970, 1, 1, tzinfo=UTC)
    assert made["day"] == datetime.date(1970, 1, 1)
    assert made["hour"] == datetime.time(0)
    assert str(made["money"]) == "0.00"
    replaced = of_row("MaskField", fields="id,price,seven", replacement="77")
    assert [replaced[name] for name in ("id", "price", "seven")] == [77, 77.0, 77]
    assert of_map("MaskField", fields="name,none", replacement="***")["name"] == "***"
    for field, message in (("raw", "Cannot mask value of type: bytes"), ("inner", "type: Struct")):
        with pytest.raises(DataException, match=message):
            of_row("MaskField", fields=field)
    with pytest.raises(DataException, match="bool with custom replacement"):
        of_row("MaskField", fields="on", replacement="1")
    with pytest.raises(DataException, match="Unable to convert x"):
        of_row("MaskField", fields="id", replacement="x")
    with pytest.raises(ConfigException, match="must not be empty"):
        transform("MaskField$Value", fields="")


def test_replace_field() -> None:
    made = of_row("ReplaceField", include="id,seven,name", exclude="id", renames="seven:eight")
    assert dict(made) == {"name": "Ada", "eight": 7}
    assert of_map("ReplaceField", exclude="inner,none", renames="id:number") == {
        "number": 300, "name": "Ada",
    }  # fmt: skip
    kept = transform("ReplaceField$Value", include="seven", replace__null__with__default="false")
    assert kept.apply(sink(ROW, row())).value.get_without_default("seven") is None
    with pytest.raises(ConfigException, match="Invalid rename mapping: id"):
        transform("ReplaceField$Value", renames="id")


def test_set_schema_metadata() -> None:
    made = of_row("SetSchemaMetadata", schema__name="new", schema__version="9")
    assert (made.schema.name, made.schema.version) == ("new", 9)
    whole = transform("SetSchemaMetadata$Key", schema__name="k").apply(sink(None, None))
    assert (whole.key_schema.name, whole.key) == ("k", "k")
    with pytest.raises(DataException, match="Schema required for"):
        of_map("SetSchemaMetadata", schema__name="new")
    with pytest.raises(ConfigException, match="Neither schema name nor version configured"):
        transform("SetSchemaMetadata$Value")


def test_headers() -> None:
    record = sink(ROW, row(), headers=(Header("a", 1), Header("b", 2), Header("a", 3)))
    assert transform("DropHeaders", headers="a").apply(record).headers == (Header("b", 2),)
    inserted = transform("InsertHeader", header="n", value__literal="1.5").apply(record)
    assert inserted.headers[-1][:2] == ("n", 1.5)
    move = transform("HeaderFrom$Value", fields="id,seven", headers="h,s", operation="move")
    moved = move.apply(record)
    assert [(h.key, h.value) for h in moved.headers[3:]] == [("h", 300), ("s", 7)]
    assert "id" not in moved.value
    assert moved.value["name"] == "Ada"
    copied = transform("HeaderFrom$Value", fields="id", headers="h", operation="copy").apply(
        sink(None, dict(MAP))
    )
    assert (copied.headers, copied.value) == ((Header("h", 300),), MAP)
    gone = transform("HeaderFrom$Value", fields="id", headers="h", operation="move").apply(
        sink(None, dict(MAP))
    )
    assert "id" not in gone.value
    with pytest.raises(ConfigException, match="same number of elements"):
        transform("HeaderFrom$Value", fields="a,b", headers="h", operation="copy")


def test_routing_by_names_and_time() -> None:
    record = sink(None, {})
    for regex, replacement, topic in (
        ("(.*)-(.*)", "$2_$1", "eu_orders"),
        ("(?<one>.*)-.*", "${one}\\$", "orders$"),
        ("orders", "x", "orders-eu"),
        ("\\Qorders-\\E(\\p{Lower}+)", "$1$11", "eueu1"),
    ):
        routed = transform("RegexRouter", regex=regex, replacement=replacement).apply(record)
        assert routed.topic == topic
    with pytest.raises(ConnectException, match="No group 3"):
        transform("RegexRouter", regex=".*", replacement="$3").apply(record)
    assert transform("TimestampRouter").apply(record).topic == "orders-eu-20200913"
    other = transform("TimestampRouter", topic__format="${timestamp}.x", timestamp__format="yyyy")
    assert other.apply(record).topic == "2020.x"
    with pytest.raises(DataException, match="Timestamp missing on record"):
        other.apply(record.replace(timestamp=None))


def test_value_to_key() -> None:
    keyed = transform("ValueToKey", fields="id,seven").apply(sink(ROW, row()))
    assert dict(keyed.key) == {"id": 300, "seven": 7}
    assert transform("ValueToKey", fields="id").apply(sink(None, dict(MAP))).key == {"id": 300}
    with pytest.raises(DataException, match="Field does not exist: nothing"):
        transform("ValueToKey", fields="nothing").apply(sink(ROW, row()))


@pytest.mark.parametrize(
    ("target", "value"),
    [
        ("string", "2020-09-13 12:26"),
        ("unix", AT_MS),
        ("Date", AT.date()),
        ("Time", AT.time()),
        ("Timestamp", AT),
    ],
)
def test_timestamp_converter_makes_every_kind(target: str, value: Any) -> None:
    settings = {"target.type": target, "format": "yyyy-MM-dd HH:mm"}
    made = of_row("TimestampConverter", field="at", **settings)
    assert made["at"] == value
    of_nothing = transform("TimestampConverter$Value", field="at", **settings)
    assert of_nothing.apply(sink(ROW, row(at=None))).value["at"] is None
    plain = transform("TimestampConverter$Value", field="at", **settings)
    assert plain.apply(sink(None, {"at": AT_MS})).value == {"at": value}
    whole = transform("TimestampConverter$Value", **settings).apply(sink(timestamp_schema(), AT))
    assert whole.value == value


def test_timestamp_converter_reads_every_kind() -> None:
    to_time = transform("TimestampConverter$Value", target__type="Timestamp", format="dd.MM.yyyy")
    assert to_time.apply(sink(STRING_SCHEMA, "03.02.2021")).value == datetime.datetime(
        2021, 2, 3, tzinfo=UTC
    )
    assert to_time.apply(sink(date_schema(), AT.date())).value.date() == AT.date()
    assert to_time.apply(sink(time_schema(), AT.time())).value.time() == AT.time()
    for precision, value in (("seconds", 1_600_000_000), ("microseconds", AT_MS * 1000)):
        unix = transform("TimestampConverter$Value", target__type="Date", unix__precision=precision)
        assert unix.apply(sink(INT64_SCHEMA, value)).value == AT.date()
    to_unix = transform("TimestampConverter$Value", target__type="unix", unix__precision="seconds")
    assert to_unix.apply(sink(timestamp_schema(), AT)).value == 1_600_000_000
    with pytest.raises(DataException, match="Could not parse timestamp: value \\(x\\)"):
        to_time.apply(sink(STRING_SCHEMA, "x"))
    with pytest.raises(ConnectException, match="does not correspond to a known timestamp type"):
        to_time.apply(sink(BOOLEAN_SCHEMA, True))
    with pytest.raises(ConfigException, match="requires format option to be specified"):
        transform("TimestampConverter$Value", target__type="string")
    with pytest.raises(ConfigException, match="SimpleDateFormat-compatible pattern"):
        transform("TimestampConverter$Value", target__type="string", format="bad")


def test_transforms_that_need_another_shape_say_so() -> None:
    for name, settings in (
        ("Flatten", {}),
        ("MaskField", {"fields": "a"}),
        ("ReplaceField", {"exclude": "a"}),
        ("InsertField", {"topic.field": "a"}),
    ):
        with pytest.raises(DataException, match="Only Struct objects supported for"):
            transform(f"{name}$Value", **settings).apply(sink(INT32_SCHEMA, 1))
        with pytest.raises(DataException, match="Only Map objects supported in absence of schema"):
            transform(f"{name}$Value", **settings).apply(sink(None, 1))


def test_keys_have_their_own_transforms() -> None:
    schema = struct_schema({"id": INT32_SCHEMA, "x": OPTIONAL_STRING_SCHEMA})
    record = sink(None, "untouched", key_schema=schema, key=Struct(schema, {"id": 1}))
    changed = transform("ExtractField$Key", field="id").apply(record)
    assert (changed.key, changed.value) == (1, "untouched")
    assert record.key["id"] == 1


def test_predicates() -> None:
    record = sink(None, None, headers=(Header("h", 1),))
    for name, settings, holds in (
        ("HasHeaderKey", {"name": "h"}, True),
        ("HasHeaderKey", {"name": "x"}, False),
        ("RecordIsTombstone", {}, True),
        ("TopicNameMatches", {"pattern": "orders-.."}, True),
        ("TopicNameMatches", {"pattern": "orders"}, False),
    ):
        predicate = Plugins().new(name, PluginType.PREDICATE)
        predicate.configure(settings)
        assert predicate.test(record) is holds
    with pytest.raises(ConfigException, match="Invalid regex"):
        Plugins().new("TopicNameMatches", PluginType.PREDICATE).configure({"pattern": "("})
