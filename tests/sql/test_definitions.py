"""CREATE STREAM and CREATE TABLE: validation, and the resulting definitions."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from ottla.rows.errors import SqlError
from ottla.rows.schema import Role, WindowInfo, WindowKind
from ottla.rows.types import BIGINT, BYTES, INTEGER, STRING, TIMESTAMP, array, map_of
from ottla.sql.catalog import schema_text
from ottla.sql.definitions import HEADERS_TYPE, SourceDefinition, define, duration_ms
from ottla.sql.syntax.statements import CreateSource, Element, Properties, SourceKind

K = Element("K", STRING, Role.KEY)
P = Element("K", STRING, Role.KEY, primary=True)
V = Element("V", INTEGER)
STREAM, TABLE = SourceKind.STREAM, SourceKind.TABLE
TOPICS = {"there": 3}


def made(
    kind: SourceKind,
    *elements: Element,
    defaults: Mapping[str, str] | None = None,
    read_only: bool = False,
    **properties: str | int | bool,
) -> SourceDefinition:
    wishes: Properties = {"KAFKA_TOPIC": "there", "VALUE_FORMAT": "JSON", **properties}
    wishes = {name: value for name, value in wishes.items() if value != ""}
    statement = CreateSource(kind, "S", elements, wishes, read_only=read_only)
    return define(statement, TOPICS.get, defaults or {})


def test_a_stream_is_defined_over_an_existing_topic() -> None:
    definition = made(STREAM, K, V)
    source = definition.source
    assert definition.topic is None
    assert (source.topic, source.partitions) == ("there", 3)
    assert schema_text(source.schema) == "`K` STRING KEY, `V` INTEGER"
    assert source.layout.key_format.name == "KAFKA"
    assert source.layout.value_format.name == "JSON"
    assert not source.layout.key_format.wrapped
    assert source.layout.value_format.wrapped


def test_a_topic_is_created_if_partitions_are_given() -> None:
    stream = made(STREAM, V, KAFKA_TOPIC="new", PARTITIONS=2, REPLICAS=1, RETENTION_MS=5000).topic
    assert stream is not None
    assert (stream.name, stream.partitions, stream.replicas) == ("new", 2, 1)
    assert stream.configs == {"cleanup.policy": "delete", "retention.ms": "5000"}
    table = made(TABLE, P, V, KAFKA_TOPIC="new", PARTITIONS=1).topic
    assert table is not None
    assert table.configs == {"cleanup.policy": "compact"}


def test_formats_come_from_the_statement_or_the_settings() -> None:
    both = made(STREAM, K, V, VALUE_FORMAT="", FORMAT="delimited", VALUE_DELIMITER="TAB").source
    assert both.layout.key_format.name == "DELIMITED"
    assert both.layout.value_format.properties == {"DELIMITER": "\t"}
    defaults = {
        "ksql.persistence.default.format.value": "delimited",
        "ksql.persistence.default.format.key": "json",
    }
    other = made(STREAM, K, V, VALUE_FORMAT="", defaults=defaults).source
    assert (other.layout.key_format.name, other.layout.value_format.name) == ("JSON", "DELIMITED")
    assert not made(STREAM, V, WRAP_SINGLE_VALUE=False).source.layout.value_format.wrapped


def test_windows_of_a_source() -> None:
    source = made(STREAM, K, V, WINDOW_TYPE="hopping", WINDOW_SIZE="10 seconds").source
    assert source.layout.windowed == WindowInfo(WindowKind.HOPPING, 10_000)
    assert made(TABLE, P, WINDOW_TYPE="session").source.layout.windowed == WindowInfo(
        WindowKind.SESSION
    )
    assert duration_ms("1 DAY") == 86_400_000


def test_a_row_has_its_time() -> None:
    stamp = Element("T", TIMESTAMP)
    assert made(STREAM, stamp, TIMESTAMP="t").source.layout.timestamp == "T"
    text = Element("T", STRING)
    layout = made(STREAM, text, TIMESTAMP="T", TIMESTAMP_FORMAT="yyyy").source.layout
    assert (layout.timestamp, layout.timestamp_format) == ("T", "yyyy")


REFUSED = [
    ("The statement does not define any columns.", STREAM, [], {}),
    ('Missing required property "KAFKA_TOPIC"', STREAM, [V], {"KAFKA_TOPIC": ""}),
    ("Statement is missing the 'VALUE_FORMAT' property", STREAM, [V], {"VALUE_FORMAT": ""}),
    ("Unknown format: FOO", STREAM, [V], {"VALUE_FORMAT": "foo"}),
    (
        "JSON does not support the following configs: [fullSchemaName]",
        STREAM,
        [V],
        {"VALUE_SCHEMA_FULL_NAME": "a.B"},
    ),
    (
        "VALUE_FORMAT should support schema inference when VALUE_SCHEMA_ID is provided.",
        STREAM,
        [V],
        {"VALUE_SCHEMA_ID": 1},
    ),
    (
        "Format 'PROTOBUF' does not support 'WRAP_SINGLE_VALUE' set to 'false'",
        STREAM,
        [V],
        {"VALUE_FORMAT": "protobuf", "WRAP_SINGLE_VALUE": False},
    ),
    ("Invalid config variable(s) in the WITH clause: FOO", STREAM, [V], {"FOO": 1}),
    ("Cannot supply both 'VALUE_FORMAT' and 'FORMAT'", STREAM, [V], {"FORMAT": "JSON"}),
    ("Topic 'new' does not exist. If you want to create", STREAM, [V], {"KAFKA_TOPIC": "new"}),
    ("already exists, with different partition", STREAM, [V], {"PARTITIONS": 7}),
    ("Not a positive number", STREAM, [V], {"PARTITIONS": 0}),
    ("Tables require a PRIMARY KEY.", TABLE, [V], {}),
    ("Column `K` is a 'KEY' column: please use 'PRIMARY KEY' for tables.", TABLE, [K, V], {}),
    ("Column `K` is a 'PRIMARY KEY' column: please use 'KEY'", STREAM, [P, V], {}),
    ("'ROWTIME' is a reserved column name", STREAM, [Element("ROWTIME", BIGINT)], {}),
    ("Duplicate column names: `V`", STREAM, [V, V], {}),
    (
        "The 'KAFKA' format only supports a single field. Got: [`K` STRING KEY, `L` STRING KEY]",
        STREAM,
        [K, Element("L", STRING, Role.KEY), V],
        {},
    ),
    ("The 'NONE' format can only be used when no columns", STREAM, [K], {"KEY_FORMAT": "NONE"}),
    (
        "The 'DELIMITED' format does not support type 'ARRAY', column: `A`",
        STREAM,
        [Element("A", array(STRING))],
        {"VALUE_FORMAT": "DELIMITED"},
    ),
    (
        "Map keys, including types that contain maps",
        STREAM,
        [Element("M", map_of(STRING, STRING), Role.KEY)],
        {"KEY_FORMAT": "JSON"},
    ),
    ("Timestamp column, `V`, should be LONG(INT64)", STREAM, [V], {"TIMESTAMP": "V"}),
    ("does not exist in the schema: 'X'", STREAM, [V], {"TIMESTAMP": "x"}),
    (
        "can only be used when the timestamp column is of type STRING",
        STREAM,
        [Element("T", BIGINT)],
        {"TIMESTAMP": "T", "TIMESTAMP_FORMAT": "yyyy"},
    ),
    (
        "without also specifying the timestamp_format",
        STREAM,
        [Element("T", STRING)],
        {"TIMESTAMP": "T"},
    ),
    ("windows require 'WINDOW_SIZE'", STREAM, [K], {"WINDOW_TYPE": "TUMBLING"}),
    ("Windowed sources require a key column.", STREAM, [V], {"WINDOW_TYPE": "SESSION"}),
    (
        "'WINDOW_SIZE' should not be set for SESSION windows.",
        STREAM,
        [K],
        {"WINDOW_TYPE": "SESSION", "WINDOW_SIZE": "1 DAY"},
    ),
    ("Invalid value FOO for property WINDOW_TYPE", STREAM, [K], {"WINDOW_TYPE": "FOO"}),
    ("only valid for single-field value schemas", STREAM, [K], {"WRAP_SINGLE_VALUE": True}),
    (
        "does not support 'WRAP_SINGLE_VALUE' set to 'true'",
        STREAM,
        [V],
        {"VALUE_FORMAT": "KAFKA", "WRAP_SINGLE_VALUE": True},
    ),
    ("VALUE_DELIMITER is supported only with", STREAM, [V], {"VALUE_DELIMITER": ";"}),
    (
        "Invalid delimiter value: 'ab'",
        STREAM,
        [V],
        {"VALUE_FORMAT": "DELIMITED", "VALUE_DELIMITER": "ab"},
    ),
    (
        "Non-windowed tables do not support retention.",
        TABLE,
        [P],
        {"KAFKA_TOPIC": "new", "PARTITIONS": 1, "RETENTION_MS": 1},
    ),
    ("Invalid type for HEADERS column", STREAM, [Element("H", BYTES, Role.HEADERS)], {}),
    ("Invalid type for HEADER('a')", STREAM, [Element("H", STRING, Role.HEADER, False, "a")], {}),
    (
        "Schema already contains a HEADERS column.",
        STREAM,
        [Element("H", HEADERS_TYPE, Role.HEADERS), Element("I", HEADERS_TYPE, Role.HEADERS)],
        {},
    ),
]


@pytest.mark.parametrize(("words", "kind", "elements", "properties"), REFUSED)
def test_a_definition_is_refused(
    words: str, kind: SourceKind, elements: list[Element], properties: dict[str, str | int | bool]
) -> None:
    with pytest.raises(SqlError) as error:
        made(kind, *elements, **properties)
    assert words in error.value.message
    assert error.value.remedy
