"""Statements with a schema registry; without Spark."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from sql_servers import ksql, ksql_error, pulled, running

from ottla.client import Admin, Producer
from ottla.client.schema_registry import SchemaRegistry, SchemaRegistryError
from ottla.client.topics import NewTopic
from ottla.rows.formats.avro import avro_format
from ottla.rows.formats.json_sr import json_schema_format
from ottla.rows.formats.protobuf import protobuf_format
from ottla.schemas import framing
from ottla.sql.topic_printer import RecordFormatter
from ottla.testing import LocalCluster

# Imported here, because Python 3.11 can't parse in two threads at once what pytest rewrites.
HALVES = (avro_format, json_schema_format, protobuf_format)

ORDER: dict[str, Any] = {
    "type": "record",
    "name": "com.acme.Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "Name", "type": ["null", "string"]},
        {"name": "when", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "nothing", "type": "null"},
        {
            "name": "inner",
            "type": {
                "type": "record",
                "name": "In",
                "fields": [{"name": "a", "type": {"type": "map", "values": "float"}}],
            },
        },
    ],
}
PROTO = 'syntax = "proto3"; message A { int32 x = 1; } message B { uint32 id = 1; string n = 2; }'


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(registry=True) as started:
        yield started


@pytest.fixture(scope="module")
def registry(cluster: LocalCluster) -> Iterator[SchemaRegistry]:
    made = SchemaRegistry(cluster.registry_url)
    yield made
    made.close()


@pytest.fixture(scope="module")
def client(cluster: LocalCluster) -> Iterator[httpx.Client]:
    more = {"ksql.schema.registry.url": cluster.registry_url}
    with (
        running(cluster, "schemas_", more=more) as url,
        httpx.Client(base_url=url, http1=False, http2=True, timeout=60) as made,
    ):
        yield made


@pytest.fixture(scope="module", autouse=True)
def _topics(cluster: LocalCluster, registry: SchemaRegistry) -> None:
    with Admin(cluster.bootstrap_servers) as admin:
        names = ("orders", "protos", "jsons", "looped", "keyed", "bare")
        admin.topics.create_all([NewTopic(name, 1, 1) for name in names])
    registry.register("orders-value", "AVRO", json.dumps(ORDER))
    registry.register("keyed-key", "AVRO", '"long"')
    registry.register("keyed-value", "AVRO", json.dumps(ORDER))
    registry.register("protos-value", "PROTOBUF", PROTO)
    loop = {"type": "record", "name": "L", "fields": [{"name": "n", "type": ["null", "L"]}]}
    registry.register("looped-value", "AVRO", json.dumps(loop))
    properties = {"id": {"type": "integer"}, "Tags": {"type": "array", "items": {"type": "string"}}}
    schema = {"type": "object", "properties": {**properties, "any": {}}}
    registry.register("jsons-value", "JSON", json.dumps(schema))


def columns(client: httpx.Client, name: str) -> list[str]:
    (answer,) = ksql(client, f"DESCRIBE {name};")
    found = []
    for field in answer["sourceDescription"]["fields"]:
        role = field.get("type", "")
        found.append(f"{field['name']} {field['schema']['type']} {role}".strip())
    return found


def test_columns_are_those_of_the_latest_schema(client: httpx.Client) -> None:
    ksql(client, "CREATE STREAM orders WITH (KAFKA_TOPIC='orders', VALUE_FORMAT='AVRO');")
    assert columns(client, "orders") == [
        "ID BIGINT",
        "NAME STRING",
        "WHEN TIMESTAMP",
        "INNER STRUCT",
    ]
    (answer,) = ksql(client, "DESCRIBE orders EXTENDED;")
    # What a server reads again at its next start has the columns in it.
    assert "`WHEN` TIMESTAMP" in answer["sourceDescription"]["statement"]


def test_some_columns_are_given_and_others_inferred(client: httpx.Client) -> None:
    ksql(
        client,
        "CREATE STREAM partly (k STRING KEY, h BYTES HEADER('h'))"
        " WITH (KAFKA_TOPIC='orders', VALUE_FORMAT='AVRO');"
        "CREATE STREAM keys (v INT) WITH (KAFKA_TOPIC='keyed', KEY_FORMAT='AVRO',"
        " VALUE_FORMAT='JSON');"
        "CREATE TABLE both WITH (KAFKA_TOPIC='keyed', FORMAT='AVRO');",
    )
    assert columns(client, "partly")[:2] == ["K STRING KEY", "ID BIGINT"]
    assert columns(client, "keys") == ["ROWKEY BIGINT KEY", "V INTEGER"]
    assert columns(client, "both")[0] == "ROWKEY BIGINT KEY"


def test_protobuf_and_json_schemas_give_columns_too(client: httpx.Client) -> None:
    ksql(
        client,
        "CREATE STREAM a WITH (KAFKA_TOPIC='protos', VALUE_FORMAT='PROTOBUF');"
        "CREATE STREAM b WITH (KAFKA_TOPIC='protos', VALUE_FORMAT='PROTOBUF',"
        " VALUE_SCHEMA_FULL_NAME='B');"
        "CREATE STREAM j WITH (KAFKA_TOPIC='jsons', VALUE_FORMAT='JSON_SR');",
    )
    assert columns(client, "a") == ["X INTEGER"]
    assert columns(client, "b") == ["ID BIGINT", "N STRING"]
    assert columns(client, "j") == ["ID BIGINT", "TAGS ARRAY"]


def test_a_schema_by_its_id_keeps_its_names(client: httpx.Client, registry: Any) -> None:
    id_ = registry.version("orders-value").id
    ksql(
        client,
        "CREATE STREAM by_id WITH (KAFKA_TOPIC='bare', VALUE_FORMAT='AVRO',"
        f" VALUE_SCHEMA_ID={id_});"
        "CREATE STREAM alone WITH (KAFKA_TOPIC='bare', VALUE_FORMAT='AVRO',"
        f" VALUE_SCHEMA_ID={id_}, WRAP_SINGLE_VALUE=FALSE);",
    )
    assert columns(client, "by_id")[:2] == ["id BIGINT", "Name STRING"]
    assert columns(client, "alone") == ["ROWVAL STRUCT"]


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        (
            "CREATE STREAM x WITH (KAFKA_TOPIC='bare', VALUE_FORMAT='AVRO');",
            "Schema for message values on topic 'bare' does not exist in the Schema Registry.",
        ),
        (
            "CREATE STREAM x (v INT) WITH (KAFKA_TOPIC='bare', FORMAT='AVRO');",
            "Schema for message keys on topic 'bare' does not exist",
        ),
        (
            "CREATE STREAM x WITH (KAFKA_TOPIC='looped', VALUE_FORMAT='AVRO');",
            "Recursive schemas are not supported",
        ),
        (
            "CREATE STREAM x WITH (KAFKA_TOPIC='protos', VALUE_FORMAT='AVRO');",
            "You may want to set VALUE_FORMAT to 'PROTOBUF'.",
        ),
        (
            "CREATE STREAM x (v INT) WITH (KAFKA_TOPIC='bare', VALUE_FORMAT='AVRO',"
            " VALUE_SCHEMA_ID=1);",
            "Table elements and VALUE_SCHEMA_ID cannot both exist for create statement.",
        ),
        (
            "CREATE STREAM x (v MAP<INT, INT>) WITH (KAFKA_TOPIC='bare', VALUE_FORMAT='AVRO');",
            "Avro only supports MAPs with STRING keys",
        ),
        (
            "CREATE STREAM x WITH (KAFKA_TOPIC='protos', VALUE_FORMAT='PROTOBUF',"
            " VALUE_SCHEMA_FULL_NAME='C');",
            "the schema has no message C",
        ),
    ],
)
def test_a_schema_without_columns_gives_the_reason(
    client: httpx.Client, statement: str, message: str
) -> None:
    assert message in ksql_error(client, statement)["message"]


def test_schemas_of_new_topics_are_registered(client: httpx.Client, registry: Any) -> None:
    ksql(
        client,
        "CREATE STREAM new_ones (a INT KEY, b INT KEY, v DECIMAL(4, 2), m MAP<STRING, INT>)"
        " WITH (KAFKA_TOPIC='new', PARTITIONS=1, FORMAT='AVRO', VALUE_SCHEMA_FULL_NAME='x.Y');"
        "CREATE STREAM over_orders (other INT) WITH (KAFKA_TOPIC='orders', VALUE_FORMAT='AVRO');",
    )
    key = json.loads(registry.version("new-key").text)
    value = json.loads(registry.version("new-value").text)
    assert (key["namespace"], key["name"]) == ("io.confluent.ksql.avro_schemas", "NewOnesKey")
    assert (value["namespace"], value["name"]) == ("x", "Y")
    decimal = value["fields"][0]["type"][1]
    assert (decimal["precision"], decimal["scale"]) == (4, 2)
    assert decimal["connect.parameters"] == {"scale": "2", "connect.decimal.precision": "4"}
    assert value["fields"][1]["type"][1]["items"]["connect.internal.type"] == "MapEntry"
    assert registry.versions("orders-value") == [1]
    # A query's result is written by its own schema, which must suit those before it.
    error = ksql_error(
        client, "CREATE STREAM clash WITH (KAFKA_TOPIC='orders') AS SELECT other FROM over_orders;"
    )
    assert "Could not register schema for topic" in error["message"]
    assert "CLASH" not in json.dumps(ksql(client, "SHOW STREAMS;"))
    error = ksql_error(client, "INSERT INTO over_orders VALUES (1);")
    assert "Failed to insert values into 'OVER_ORDERS'. Schema being registered" in error["message"]


def test_an_added_column_reaches_the_registry_with_the_first_row(
    client: httpx.Client, registry: Any
) -> None:
    """As in ksqlDB: ALTER does not use the registry; the row's schema is its next version."""
    made = "(id INT PRIMARY KEY, a INT) WITH (KAFKA_TOPIC='{0}', PARTITIONS=1, VALUE_FORMAT='{1}');"
    for topic, format_ in (("grown", "AVRO"), ("grown_json", "JSON_SR")):
        ksql(client, f"CREATE TABLE {topic} " + made.format(topic, format_))
        ksql(client, f"ALTER TABLE {topic} ADD COLUMN b STRING;")
        assert registry.versions(f"{topic}-value") == [1]
    ksql(client, "INSERT INTO grown VALUES (1, 2, 'x');")
    assert registry.versions("grown-value") == [1, 2]
    assert pulled(client, "SELECT * FROM grown WHERE id = 1;") == [[1, 2, "x"]]
    # Another property is not a compatible change of an open JSON Schema.
    error = ksql_error(client, "INSERT INTO grown_json VALUES (1, 2, 'x');")
    assert "Schema being registered is incompatible" in error["message"]
    assert registry.versions("grown_json-value") == [1]


def test_rows_are_written_by_the_schema_that_the_columns_are_from(
    client: httpx.Client, cluster: LocalCluster, registry: Any
) -> None:
    """The schema of the columns alone would be incompatible with it."""
    with Admin(cluster.bootstrap_servers) as admin:
        admin.topics.create_all([NewTopic(name, 1, 1) for name in ("two_messages", "defaults")])
    registry.register("two_messages-value", "PROTOBUF", PROTO)
    fields = [{"name": "n", "type": "long", "default": 10}, {"name": "s", "type": "string"}]
    registry.register(
        "defaults-value", "AVRO", json.dumps({"type": "record", "name": "D", "fields": fields})
    )
    ksql(
        client,
        "CREATE TABLE messages_b (k INT PRIMARY KEY) WITH (KAFKA_TOPIC='two_messages',"
        " VALUE_FORMAT='PROTOBUF', VALUE_SCHEMA_FULL_NAME='B');"
        "CREATE TABLE defaults (k INT PRIMARY KEY) WITH (KAFKA_TOPIC='defaults',"
        " VALUE_FORMAT='AVRO');"
        "INSERT INTO messages_b VALUES (1, 7, 'b'); INSERT INTO defaults (k, s) VALUES (1, 'd');",
    )
    assert pulled(client, "SELECT * FROM messages_b WHERE k = 1;") == [[1, 7, "b"]]
    assert pulled(client, "SELECT * FROM defaults WHERE k = 1;") == [[1, 10, "d"]]
    assert registry.versions("two_messages-value") == [1]
    assert registry.versions("defaults-value") == [1]
    error = ksql_error(client, "INSERT INTO defaults (k, n) VALUES (1, 2);")
    assert "s is null, which the schema does not allow" in error["message"]


def test_a_query_writes_by_a_schema_that_has_all_its_columns(
    client: httpx.Client, registry: Any
) -> None:
    narrow = {**ORDER, "name": "com.acme.Narrow", "fields": ORDER["fields"][:2]}
    id_ = registry.register("narrow", "AVRO", json.dumps(narrow)).id
    ksql(
        client,
        "CREATE STREAM wide (id BIGINT, name STRING, more INT)"
        " WITH (KAFKA_TOPIC='bare', VALUE_FORMAT='JSON');",
    )
    into = f"WITH (VALUE_FORMAT='AVRO', VALUE_SCHEMA_ID={id_}, PARTITIONS=1)"
    error = ksql_error(client, f"CREATE STREAM s1 {into} AS SELECT name, id FROM wide;")
    assert "columns are changed, missing or reordered" in error["message"]
    ksql(client, f"CREATE STREAM s1 {into} AS SELECT id AS `id`, name AS `Name` FROM wide;")
    with pytest.raises(SchemaRegistryError):
        registry.version("S1-value")


@pytest.mark.parametrize("format_", ["AVRO", "JSON_SR", "PROTOBUF", "PROTOBUF_NOSR"])
def test_rows_of_a_table_are_written_read_and_printed(
    client: httpx.Client, cluster: LocalCluster, registry: Any, format_: str
) -> None:
    name = f"t_{format_}"
    ksql(
        client,
        f"CREATE TABLE {name} (id INT PRIMARY KEY, who STRING, moment TIMESTAMP,"
        f" tags ARRAY<STRING>) WITH (KAFKA_TOPIC='{name}', PARTITIONS=1, FORMAT='{format_}');"
        f"INSERT INTO {name} VALUES (1, 'ann', '2026-01-02T03:04:05', ARRAY['x', 'y']);"
        f"INSERT INTO {name} (id, who) VALUES (2, 'bob');",
    )
    rows = pulled(client, f"SELECT id, who, moment FROM {name} WHERE id IN (1, 2);")
    assert sorted(rows) == [[1, "ann", "2026-01-02T03:04:05.000"], [2, "bob", None]]
    (text,) = pulled_lines(client, f"PRINT '{name}' FROM BEGINNING LIMIT 1;")
    if format_ != "PROTOBUF_NOSR":
        assert f"Value format: {format_}" in text
        assert '"ann"' in text
        assert registry.versions(f"{name}-value") == [1]


def test_rows_of_a_table_may_have_the_ids_of_their_schemas_in_headers(
    client: httpx.Client, cluster: LocalCluster, registry: Any
) -> None:
    ksql(
        client,
        "CREATE TABLE headed (id INT PRIMARY KEY, who STRING)"
        " WITH (KAFKA_TOPIC='headed', PARTITIONS=1, FORMAT='AVRO');",
    )
    headers = [
        (name, framing.with_guid(registry.version(subject).guid, b""))
        for name, subject in (
            (framing.KEY_HEADER, "headed-key"),
            (framing.VALUE_HEADER, "headed-value"),
        )
    ]
    with Producer[bytes, bytes](cluster.bootstrap_servers) as producer:
        producer.send("headed", b"\2\6ann", key=b"\x0e", headers=headers).result(60)
    assert pulled(client, "SELECT * FROM headed WHERE id = 7;") == [[7, "ann"]]
    (text,) = pulled_lines(client, "PRINT 'headed' FROM BEGINNING LIMIT 1;")
    assert "Key format: AVRO" in text
    assert 'key: 7, value: {"WHO": "ann"}' in text


def pulled_lines(client: httpx.Client, text: str) -> list[str]:
    answer = client.post("/query", json={"ksql": text, "streamsProperties": {}})
    assert answer.status_code == 200, answer.text
    return [answer.text]


def test_unreadable_records_are_logged_with_their_schema_id(
    client: httpx.Client, cluster: LocalCluster, registry: Any, caplog: pytest.LogCaptureFixture
) -> None:
    ksql(
        client,
        "CREATE TABLE spoiled (id INT PRIMARY KEY, who STRING)"
        " WITH (KAFKA_TOPIC='spoiled', PARTITIONS=1, VALUE_FORMAT='AVRO');"
        "INSERT INTO spoiled VALUES (1, 'ann');",
    )
    id_ = registry.version("spoiled-value").id
    with Producer[bytes, bytes](cluster.bootstrap_servers) as producer:
        producer.send("spoiled", framing.with_id(id_, b"\x02\x10"), key=b"\0\0\0\2").result(60)
        producer.send("spoiled", framing.with_id(9999, b""), key=b"\0\0\0\3").result(60)
    ksql(client, "INSERT INTO spoiled VALUES (4, 'cy');")
    assert sorted(pulled(client, "SELECT * FROM spoiled;")) == [[1, "ann"], [4, "cy"]]
    output = [record.getMessage() for record in caplog.records if record.name == "ottla.processing"]
    assert any(
        f"offset 1: failed to deserialize the value: schema id {id_}: " in line for line in output
    )
    assert any(
        "offset 2: failed to deserialize the value: schema id 9999: " in line for line in output
    )


def test_assert_schema_waits_for_one(client: httpx.Client, registry: Any) -> None:
    id_ = registry.version("orders-value").id
    (answer,) = ksql(client, f"ASSERT SCHEMA SUBJECT 'orders-value' ID {id_} TIMEOUT 1 SECONDS;")
    assert {key: answer[key] for key in ("@type", "subject", "id", "exists")} == {
        "@type": "assert_schema",
        "subject": "orders-value",
        "id": id_,
        "exists": True,
    }
    ksql(client, f"ASSERT SCHEMA ID {id_}; ASSERT NOT EXISTS SCHEMA SUBJECT 'nobody';")
    for statement, message in (
        ("ASSERT SCHEMA SUBJECT 'nobody'", "Schema with subject name nobody does not exist"),
        (f"ASSERT NOT EXISTS SCHEMA ID {id_}", f"Schema with id {id_} exists"),
        (f"ASSERT SCHEMA SUBJECT 'x' ID {id_}", f"Schema with subject name x id {id_} does not"),
    ):
        assert message in ksql_error(client, f"{statement} TIMEOUT 0 SECONDS;")["message"]


def test_subjects_are_deleted_with_their_topic(client: httpx.Client, registry: Any) -> None:
    ksql(
        client,
        "CREATE STREAM short (k INT KEY, v INT)"
        " WITH (KAFKA_TOPIC='short', PARTITIONS=1, FORMAT='JSON_SR');",
    )
    assert registry.subjects("short") == ["short-key", "short-value"]
    ksql(client, "DROP STREAM short DELETE TOPIC;")
    assert registry.subjects("short") == []


def test_without_a_registry_statements_say_what_to_set(cluster: LocalCluster) -> None:
    with (
        running(cluster, "schemaless_") as url,
        httpx.Client(base_url=url, http1=False, http2=True, timeout=60) as client,
    ):
        error = ksql_error(
            client, "CREATE STREAM orders WITH (KAFKA_TOPIC='orders', VALUE_FORMAT='AVRO');"
        )
        assert "no schema registry is configured" in error["message"]
        ksql(
            client,
            "CREATE TABLE plain (id INT PRIMARY KEY, v INT)"
            " WITH (KAFKA_TOPIC='plain', PARTITIONS=1, VALUE_FORMAT='PROTOBUF_NOSR');",
        )


def test_print_knows_formats_only_with_a_registry() -> None:
    assert "AVRO" not in RecordFormatter()._value._formats
