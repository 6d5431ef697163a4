"""Schemas, structs and records: Kafka Connect's rules and error texts."""

from __future__ import annotations

import datetime
import pickle
from decimal import Decimal

import pytest

from ottla.connect.data import (
    INT32_SCHEMA,
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
    timestamp_schema,
)
from ottla.connect.errors import DataException, SchemaBuilderException

PERSON = struct_schema(
    {
        "name": STRING_SCHEMA,
        "age": Schema(Type.INT8, default=7),
        "mail": OPTIONAL_STRING_SCHEMA,
    },
    name="person",
    version=2,
)


def test_a_struct_is_read_like_a_dict_and_gives_defaults() -> None:
    person = Struct(PERSON, {"name": "Ada"})
    assert dict(person) == {"name": "Ada", "age": 7, "mail": None}
    assert person.get_without_default("age") is None
    assert repr(person) == "Struct{name=Ada}"
    assert person.get("nothing", 1) == 1
    assert "age" in person
    assert "nothing" not in person


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("nothing", 1, "nothing is not a valid field name"),
        ("name", None, 'null used for required field: "name", schema type: STRING'),
        ("name", 3, 'for schema with type STRING: int for field: "name"'),
        ("age", 128, "128 is out of range of INT8"),
        ("age", True, "with type INT8: bool"),
    ],
)
def test_a_struct_refuses_what_does_not_fit(name: str, value: object, message: str) -> None:
    with pytest.raises(DataException, match=message):
        Struct(PERSON).put(name, value)


def test_a_struct_is_whole_only_with_its_required_fields() -> None:
    with pytest.raises(DataException, match='required field: "name"'):
        Struct(PERSON).validate()
    Struct(PERSON, {"name": "Ada"}).validate()


def test_schemas_are_equal_by_all_their_parts_and_may_be_pickled() -> None:
    again = pickle.loads(pickle.dumps(PERSON))
    assert again == PERSON
    assert hash(again) == hash(PERSON)
    assert PERSON.replace(version=3) != PERSON
    assert PERSON.as_optional().optional
    assert PERSON.replace(default=Struct(PERSON, {"name": "x"})) != PERSON
    message = struct_schema({"people": array_schema(PERSON)})
    assert pickle.loads(pickle.dumps(Struct(message, {"people": []}))) == Struct(
        message, {"people": []}
    )


def test_values_inside_arrays_and_maps_are_checked() -> None:
    with pytest.raises(DataException, match="element of array value"):
        array_schema(INT32_SCHEMA).validate([1, "2"])
    with pytest.raises(DataException, match="key of map value"):
        map_schema(STRING_SCHEMA, INT32_SCHEMA).validate({1: 1})
    with pytest.raises(DataException, match="value of map value"):
        map_schema(STRING_SCHEMA, INT32_SCHEMA).validate({"1": None})


def test_logical_types_accept_pythons_types() -> None:
    decimal_schema(2).validate(Decimal("1.23"))
    date_schema().validate(datetime.date(2026, 1, 1))
    timestamp_schema().validate(datetime.datetime.now(datetime.UTC))
    with pytest.raises(DataException, match="Date"):
        date_schema().validate(datetime.datetime.now(datetime.UTC))
    with pytest.raises(DataException, match="Decimal"):
        decimal_schema(2).validate(1)


def test_a_default_that_does_not_fit_is_refused() -> None:
    with pytest.raises(SchemaBuilderException, match="Invalid default value"):
        Schema(Type.INT8, default="x")


def test_elements_of_another_type_are_refused() -> None:
    with pytest.raises(DataException, match="Cannot list fields on non-struct type"):
        _ = STRING_SCHEMA.fields
    with pytest.raises(DataException, match="Cannot look up key schema on non-map type"):
        _ = STRING_SCHEMA.key_schema
    with pytest.raises(DataException, match="non-array and non-map"):
        _ = STRING_SCHEMA.value_schema


def test_a_changed_record_keeps_its_origin() -> None:
    source = SourceRecord({"file": "a"}, {"line": 1}, "t", value="x", headers=(Header("h", 1),))
    changed = source.replace(topic="u", value="y")
    assert (changed.topic, changed.value, changed.source_offset) == ("u", "y", {"line": 1})
    assert source.topic == "t"
    sink = SinkRecord("t", 3, None, None, None, "x", 17)
    routed = sink.replace(topic="u", partition=None).replace(value="z")
    assert (routed.topic, routed.partition, routed.value) == ("u", None, "z")
    assert (routed.original_topic, routed.original_partition, routed.offset) == ("t", 3, 17)
