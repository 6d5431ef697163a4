"""Random schemas and values survive a round trip through Avro and JSON Schema."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_json_round_trips import SIMPLE, TEXT, Typed, integers, maybe

from ottla.connect.converters.avro import AvroConverter
from ottla.connect.converters.json_schema_converter import JsonSchemaConverter
from ottla.connect.converters.registry_converter import RegistryConverter
from ottla.connect.data import Schema, Struct, Type, array_schema, map_schema, struct_schema

NAMES = st.from_regex(r"[a-z_][a-z0-9_]{0,5}", fullmatch=True)
numbers = itertools.count()


def structs(fields: dict[str, Typed]) -> Typed:
    schema = struct_schema({name: typed[0] for name, typed in fields.items()})
    values = st.fixed_dictionaries({name: typed[1] for name, typed in fields.items()})
    return schema, values.map(lambda chosen: Struct(schema, chosen))


def larger(inner: st.SearchStrategy[Typed]) -> st.SearchStrategy[Typed]:
    return st.one_of(
        inner.map(lambda t: (array_schema(t[0]), st.lists(t[1], max_size=3))),
        inner.map(
            lambda t: (
                map_schema(Schema(Type.STRING), t[0]),
                st.dictionaries(TEXT, t[1], max_size=3),
            )
        ),
        inner.map(
            lambda t: (
                map_schema(Schema(Type.INT16), t[0]),
                st.dictionaries(integers(Type.INT16), t[1], max_size=3),
            )
        ),
        st.dictionaries(NAMES, inner, min_size=1, max_size=4).map(structs),
    )


TYPED = st.recursive(SIMPLE | SIMPLE.map(maybe), larger, max_leaves=8)


@pytest.mark.parametrize("kind", [AvroConverter, JsonSchemaConverter])
def test_values_survive_a_round_trip(kind: type[RegistryConverter], registry_url: str) -> None:
    converter = kind()
    converter.configure({"schema.registry.url": registry_url, "converter.type": "value"})

    @settings(
        max_examples=30, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck)
    )
    @given(st.data(), st.dictionaries(NAMES, TYPED, min_size=1, max_size=4).map(structs))
    def check(data: st.DataObject, typed: Typed) -> None:
        schema, values = typed
        schema = schema.replace(version=1)  # which the registry's form lacks
        topic = f"any-{next(numbers)}"
        for _ in range(2):
            value: Any = Struct(schema, dict(data.draw(values)))
            read_schema, read = converter.to_connect(
                topic, converter.from_connect(topic, schema, value)
            )
            assert read_schema == schema
            assert read == value

    check()
    converter.close()
