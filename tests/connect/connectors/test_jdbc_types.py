"""Types: from columns to fields, and from fields to columns."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import pytest
from databases import TargetDatabase, sqlite_place
from drives import Sink, Source, sink_record

from ottla.connect.connectors.jdbc.database import ColumnDefinition
from ottla.connect.connectors.jdbc.numeric_mapping import decimal_field
from ottla.connect.connectors.jdbc.sink import JdbcSinkConnector
from ottla.connect.connectors.jdbc.source import JdbcSourceConnector
from ottla.connect.data import (
    BOOLEAN_SCHEMA,
    BYTES_SCHEMA,
    DATE,
    DECIMAL,
    FLOAT32_SCHEMA,
    FLOAT64_SCHEMA,
    INT8_SCHEMA,
    INT16_SCHEMA,
    INT32_SCHEMA,
    INT64_SCHEMA,
    OPTIONAL_STRING_SCHEMA,
    STRING_SCHEMA,
    TIME,
    TIMESTAMP,
    SourceRecord,
    Type,
    array_schema,
    date_schema,
    decimal_schema,
    struct_schema,
    time_schema,
    timestamp_schema,
)
from ottla.connect.errors import ConnectException, DataException

UTC = datetime.UTC


def copied(place: TargetDatabase, **config: str) -> SourceRecord:
    named = {name.replace("_", "."): value for name, value in config.items()}
    props = {**place.config, "mode": "bulk", "topic.prefix": "t-", **named}
    with Source(JdbcSourceConnector(), props) as source:
        return source.take(1)[0]


def field(record: SourceRecord, name: str) -> tuple[Any, ...]:
    """Type, logical name, optional, value."""
    found = record.value_schema.field(name) if record.value_schema is not None else None
    assert found is not None
    schema = found.schema
    return schema.type, schema.name, schema.optional, record.value[name]


POSTGRES_ROWS: list[tuple[str, str, tuple[Any, ...]]] = [
    ("smallint NOT NULL", "-7", (Type.INT16, None, False, -7)),
    ("integer", "2147483647", (Type.INT32, None, True, 2147483647)),
    ("bigint", "-9223372036854775808", (Type.INT64, None, True, -(1 << 63))),
    ("real", "1.5", (Type.FLOAT32, None, True, 1.5)),
    ("double precision", "0.1", (Type.FLOAT64, None, True, 0.1)),
    ("boolean", "true", (Type.BOOLEAN, None, True, True)),
    ("text", "'ß€😀'", (Type.STRING, None, True, "ß€😀")),
    ("varchar(5)", "''", (Type.STRING, None, True, "")),
    ("char(3)", "'a'", (Type.STRING, None, True, "a  ")),
    ("bytea", r"'\x00ff'", (Type.BYTES, None, True, b"\x00\xff")),
    ("numeric(10, 2)", "1234.5", (Type.BYTES, DECIMAL, True, Decimal("1234.50"))),
    ("numeric", "1e-20", (Type.BYTES, DECIMAL, True, Decimal("1e-20"))),
    ("date", "'2024-02-29'", (Type.INT32, DATE, True, datetime.date(2024, 2, 29))),
    ("time", "'23:59:59.999'", (Type.INT32, TIME, True, datetime.time(23, 59, 59, 999000))),
    ("timetz", "'12:00+02'", (Type.INT32, TIME, True, datetime.time(10))),
    (
        "timestamp",
        "'1969-12-31 23:59:59.5'",
        (Type.INT64, TIMESTAMP, True, datetime.datetime(1969, 12, 31, 23, 59, 59, 500000, UTC)),
    ),
    (
        "timestamptz",
        "'2024-01-01 12:00:00+05:30'",
        (Type.INT64, TIMESTAMP, True, datetime.datetime(2024, 1, 1, 6, 30, tzinfo=UTC)),
    ),
    (
        "uuid",
        "'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'",
        (Type.STRING, None, True, "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"),
    ),
    ("json", "'{\"a\":  1}'", (Type.STRING, None, True, '{"a":  1}')),
    ("jsonb", "'{\"a\":  1}'", (Type.STRING, None, True, '{"a": 1}')),
    ("inet", "'10.0.0.1/8'", (Type.STRING, None, True, "10.0.0.1/8")),
    ("interval", "'1 day'", (Type.STRING, None, True, "1 day")),
    ("int4range", "'[1,5)'", (Type.STRING, None, True, "[1,5)")),
    ("mood", "'sad'", (Type.STRING, None, True, "sad")),
    ("integer[]", "'{1,NULL,3}'", (Type.ARRAY, None, True, [1, None, 3])),
    ("numeric(4, 1)[]", "'{1,2.5}'", (Type.ARRAY, None, True, [Decimal("1.0"), Decimal("2.5")])),
    ("uuid[]", "'{}'", (Type.ARRAY, None, True, [])),
    ("text", "NULL", (Type.STRING, None, True, None)),
    ("timestamp", "NULL", (Type.INT64, TIMESTAMP, True, None)),
]


@pytest.mark.postgres
def test_every_type_of_postgresql(postgres: TargetDatabase) -> None:
    postgres.run("CREATE TYPE mood AS ENUM ('sad', 'ok')")
    columns = ", ".join(f"c{n} {kind}" for n, (kind, _, _) in enumerate(POSTGRES_ROWS))
    postgres.run(f"CREATE TABLE things ({columns})")
    postgres.run(f"INSERT INTO things VALUES ({', '.join(text for _, text, _ in POSTGRES_ROWS)})")
    record = copied(postgres)
    found = [field(record, f"c{n}") for n in range(len(POSTGRES_ROWS))]
    assert found == [wanted for _, _, wanted in POSTGRES_ROWS]
    record.value.validate()
    by_query = copied(postgres, query="SELECT * FROM things")
    assert by_query.value.values_in_order == record.value.values_in_order
    assert field(by_query, "c0")[2], "whether a query's column may be NULL is not known"


@pytest.mark.postgres
@pytest.mark.parametrize(
    ("kind", "text", "message"),
    [
        ("integer[]", "'{{1,2},{3,4}}'", "several dimensions"),
        ("numeric", "'NaN'", "does not fit a scale of 38"),
        ("numeric", "1e-50", "does not fit a scale of 38"),
        ("timestamp", "'infinity'", "timestamp too large"),
    ],
)
def test_values_without_a_form_in_connect_name_their_column(
    postgres: TargetDatabase, kind: str, text: str, message: str
) -> None:
    postgres.run(f"CREATE TABLE things (odd {kind})")
    postgres.run(f"INSERT INTO things VALUES ({text})")
    with pytest.raises(ConnectException, match=message):
        copied(postgres)


@pytest.mark.postgres
def test_zones_and_granularity(postgres: TargetDatabase) -> None:
    postgres.run("CREATE TABLE t (plain timestamp, zoned timestamptz)")
    postgres.run("INSERT INTO t VALUES ('2024-07-01 12:00:00.123456', '2024-07-01 12:00:00Z')")
    moment = datetime.datetime(2024, 7, 1, 10, 0, 0, 123456, UTC)
    assert copied(postgres, db_timezone="Europe/Berlin").value["plain"] == moment
    wanted = {
        "micros_long": 1719828000123456,
        "nanos_long": 1719828000123456000,
        "nanos_string": "1719828000123456000",
        "micros_iso_datetime_string": "2024-07-01T10:00:00.123456Z",
        "nanos_iso_datetime_string": "2024-07-01T10:00:00.123456000Z",
    }
    for granularity, value in wanted.items():
        record = copied(postgres, db_timezone="Europe/Berlin", timestamp_granularity=granularity)
        assert record.value["plain"] == value


@pytest.mark.parametrize(
    ("precision", "scale", "wanted"),
    [
        (2, 0, [None, Type.INT8, Type.INT8, Type.INT8]),
        (4, 0, [None, Type.INT16, Type.INT16, Type.INT16]),
        (9, 0, [None, Type.INT32, Type.INT32, Type.INT32]),
        (18, 0, [None, Type.INT64, Type.INT64, Type.INT64]),
        (19, 0, [None, None, None, None]),
        (10, 2, [None, None, Type.FLOAT64, Type.FLOAT64]),
        (30, 2, [None, None, None, Type.FLOAT64]),
        (None, None, [None, None, Type.FLOAT64, Type.FLOAT64]),
    ],
)
def test_numeric_mapping(
    precision: int | None, scale: int | None, wanted: list[Type | None]
) -> None:
    """None: Connect's Decimal."""
    column = ColumnDefinition("n", "numeric", precision, scale)
    found = []
    for mapping in ("none", "precision_only", "best_fit", "best_fit_eager_double"):
        schema, convert = decimal_field(column, mapping)
        assert convert is not None
        convert(Decimal(12))
        found.append(None if schema.name == DECIMAL else schema.type)
    assert found == wanted


def test_sqlite_types_are_those_declared(tmp_path: Any) -> None:
    place = sqlite_place(tmp_path / "t.db")
    place.words = {}
    place.run(
        "CREATE TABLE t (a TINYINT, b INTEGER, c REAL, d BOOLEAN, e VARCHAR(9), f BLOB,"
        " g DECIMAL(8, 2), h DATE, i TIMESTAMP, j DATETIME, k GEOMETRY, l TIME)"
    )
    place.run(
        "INSERT INTO t VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [(1, 1 << 40, 1, 1, "x", b"y", 1.5, "2024-01-02", "2024-01-02T03:04:05Z",
          1704164645000, "?", "01:02:03")],
    )  # fmt: skip
    record = copied(place)
    moment = datetime.datetime(2024, 1, 2, 3, 4, 5, tzinfo=UTC)
    assert dict(record.value) == {
        "a": 1, "b": 1 << 40, "c": 1.0, "d": True, "e": "x", "f": b"y", "g": Decimal("1.50"),
        "h": datetime.date(2024, 1, 2), "i": moment, "j": moment, "l": datetime.time(1, 2, 3),
    }  # fmt: skip
    assert "k" not in record.value, "a column of an unknown type is left out and logged"
    place.run("UPDATE t SET b = 'many'")
    with pytest.raises(DataException, match="column b is declared integer, and holds 'many'"):
        copied(place)


FIELDS = {
    "a": (INT8_SCHEMA, -1),
    "b": (INT16_SCHEMA, 300),
    "c": (INT32_SCHEMA, 70000),
    "d": (INT64_SCHEMA, 1 << 40),
    "e": (FLOAT32_SCHEMA, 0.5),
    "f": (FLOAT64_SCHEMA, 0.1),
    "g": (BOOLEAN_SCHEMA, True),
    "h": (STRING_SCHEMA, "tab\tnew\nline \\ 'quote' \"双\""),
    "i": (BYTES_SCHEMA, b"\x00\xff\\"),
    "j": (decimal_schema(2), Decimal("12345678901234.50")),
    "k": (date_schema(), datetime.date(2024, 2, 29)),
    "l": (time_schema(), datetime.time(1, 2, 3)),
    "m": (timestamp_schema(), datetime.datetime(2024, 1, 2, 3, 4, 5, 678000, UTC)),
    "n": (OPTIONAL_STRING_SCHEMA, None),
}


def test_the_source_reads_what_the_sink_wrote(place: TargetDatabase) -> None:
    """A table made by auto.create, with every type, and back."""
    schema = struct_schema({name: item for name, (item, _) in FIELDS.items()})
    value = {name: item for name, (_, item) in FIELDS.items()}
    config = {**place.config, "auto.create": "true"}
    with Sink(JdbcSinkConnector(), config) as sink:
        sink.put(sink_record(schema, value))
    record = copied(place)
    found = {name: item for name, item in record.value.items() if name != "j"}
    assert found == {name: item for name, item in value.items() if name != "j"}
    assert record.value["j"] == value["j"]


@pytest.mark.postgres
def test_text_goes_into_columns_of_other_types(postgres: TargetDatabase) -> None:
    """A table created by hand: uuid, jsonb, timestamptz, arrays; in every insert mode."""
    postgres.run(
        "CREATE TABLE orders (id int PRIMARY KEY, u uuid, j jsonb, t timestamptz, a int[])"
    )
    schema = struct_schema(
        {
            "id": INT32_SCHEMA,
            "u": STRING_SCHEMA,
            "j": STRING_SCHEMA,
            "t": timestamp_schema(),
            "a": array_schema(INT32_SCHEMA),
        }
    )
    moment = datetime.datetime(2024, 1, 1, tzinfo=UTC)
    text = "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"
    for mode in ("insert", "upsert", "update"):
        config = {
            **postgres.config,
            "insert.mode": mode,
            "pk.mode": "record_value",
            "pk.fields": "id",
        }
        with Sink(JdbcSinkConnector(), config) as sink:
            sink.put(
                sink_record(schema, {"id": 1, "u": text, "j": '{"x": 1}', "t": moment, "a": [1]})
            )
        ((number, uuid, json, time, array),) = postgres.rows("SELECT * FROM orders")
        assert (number, str(uuid), json, time, array) == (1, text, {"x": 1}, moment, [1])


def test_nested_fields_are_refused_with_a_remedy(place: TargetDatabase) -> None:
    schema = struct_schema({"inner": struct_schema({"x": INT32_SCHEMA})})
    record = sink_record(schema, {})
    with (
        Sink(JdbcSinkConnector(), {**place.config, "auto.create": "true"}) as sink,
        pytest.raises(ConnectException, match="flatten it"),
    ):
        sink.put(record)


@pytest.mark.postgres
def test_nul_characters_are_reported(postgres: TargetDatabase) -> None:
    schema = struct_schema({"x": STRING_SCHEMA})
    with (
        Sink(JdbcSinkConnector(), {**postgres.config, "auto.create": "true"}) as sink,
        pytest.raises(ConnectException, match="NUL"),
    ):
        sink.put(sink_record(schema, {"x": "a\0b"}))
