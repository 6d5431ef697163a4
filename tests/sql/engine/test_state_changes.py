"""State changes of statements, and replayed commands."""

from __future__ import annotations

import json

import pytest

from ottla.rows.errors import SqlError
from ottla.sql.catalog import schema_text
from ottla.sql.engine.command_runner import CommandStatus, CommandStatusCode, carry_out
from ottla.sql.engine.command_topic import Command, QueuedCommand
from ottla.sql.engine.state_changes import (
    EngineState,
    PlanningContext,
    StateChange,
    command_id,
    plan_change,
)
from ottla.sql.syntax import parse

TOPICS = {"orders": 3, "users": 1}
ORDERS = (
    "CREATE STREAM orders (id STRING KEY, v INT) WITH (KAFKA_TOPIC='orders', VALUE_FORMAT='JSON');"
)
USERS = (
    "CREATE TABLE users (id STRING PRIMARY KEY, name STRING)"
    " WITH (KAFKA_TOPIC='users', VALUE_FORMAT='JSON');"
)


def done(state: EngineState, *texts: str, number: int = 5) -> StateChange:
    changed = StateChange(state, "")
    for text in texts:
        (statement,) = parse(text, types=changed.state.catalog.types)
        changed = plan_change(statement, changed.state, PlanningContext(number, {}, TOPICS.get))
    return changed


def refused(state: EngineState, text: str) -> str:
    with pytest.raises(SqlError) as error:
        done(state, text)
    assert error.value.remedy
    return error.value.message


def test_sources_are_created_and_dropped() -> None:
    made = done(EngineState(), ORDERS, USERS)
    assert list(made.state.catalog.sources) == ["ORDERS", "USERS"]
    assert made.message == "Table created"
    assert made.state.catalog.sources["ORDERS"].partitions == 3
    assert refused(made.state, "DROP STREAM users;") == (
        "Incompatible data source type is TABLE, but statement was DROP STREAM"
    )
    dropped = done(made.state, "DROP TABLE users DELETE TOPIC;")
    assert dropped.topic_to_delete == "users"
    assert dropped.message == "Source `USERS` (topic: users) was dropped."
    assert refused(dropped.state, "DROP TABLE users;") == "Source USERS does not exist."
    assert done(dropped.state, "DROP TABLE IF EXISTS users;").idle


def test_a_missing_topic_is_requested() -> None:
    text = "CREATE STREAM n (v INT) WITH (KAFKA_TOPIC='n', PARTITIONS=4, VALUE_FORMAT='JSON');"
    (spec,) = done(EngineState(), text).topics
    assert (spec.name, spec.partitions) == ("n", 4)


def test_if_not_exists_and_or_replace() -> None:
    state = done(EngineState(), ORDERS).state
    assert "already exists" in refused(state, ORDERS)
    idle = done(state, ORDERS.replace("STREAM", "STREAM IF NOT EXISTS"))
    assert idle.idle
    assert idle.message == (
        "Cannot add stream `ORDERS`: A stream with the same name already exists."
    )
    more = ORDERS.replace("CREATE", "CREATE OR REPLACE").replace("v INT", "v INT, w STRING")
    replaced = done(state, more).state.catalog.sources["ORDERS"]
    assert schema_text(replaced.schema) == "`ID` STRING KEY, `V` INTEGER, `W` STRING"
    less = ORDERS.replace("CREATE", "CREATE OR REPLACE").replace("v INT", "w INT")
    assert "changed, missing or reordered" in refused(state, less)


def test_a_source_that_is_only_read_is_not_replaced() -> None:
    text = ORDERS.replace("CREATE", "CREATE OR REPLACE SOURCE")
    assert "CREATE OR REPLACE is not supported on source streams" in refused(EngineState(), text)


def test_alter_adds_columns() -> None:
    made = done(EngineState(), ORDERS, "ALTER STREAM orders ADD COLUMN w DOUBLE;")
    assert made.message == "Stream ORDERS altered"
    assert schema_text(made.state.catalog.sources["ORDERS"].schema).endswith("`W` DOUBLE")


def test_types_are_registered_and_used() -> None:
    made = done(EngineState(), "CREATE TYPE address AS STRUCT<street STRING, no INT>;")
    assert made.message == (
        "Registered custom type with name 'ADDRESS' and SQL type STRUCT<STREET STRING, NO INTEGER>"
    )
    text = "CREATE STREAM a (b address) WITH (KAFKA_TOPIC='orders', VALUE_FORMAT='JSON');"
    assert "STRUCT<" in schema_text(done(made.state, text).state.catalog.sources["A"].schema)
    assert "already registered" in refused(made.state, "CREATE TYPE address AS STRING;")
    dropped = done(made.state, "DROP TYPE address;")
    assert dropped.message == "Dropped type 'ADDRESS'"
    assert refused(dropped.state, "DROP TYPE address;") == "Type ADDRESS does not exist."


# -- queries


def test_a_query_gets_its_number_and_its_topic() -> None:
    made = done(EngineState(), ORDERS, "CREATE STREAM big AS SELECT id, v FROM orders WHERE v > 1;")
    assert made.message == "Created query with ID CSAS_BIG_5"
    assert made.query_id == "CSAS_BIG_5"
    (spec,) = made.topics
    assert (spec.name, spec.partitions) == ("BIG", 3), "as many as the topic it is made from"
    catalog = made.state.catalog
    assert catalog.sources["BIG"].reads == ("ORDERS",)
    assert catalog.readers("ORDERS") == ["CSAS_BIG_5"]
    assert catalog.writers("BIG") == ["CSAS_BIG_5"]
    assert list(made.state.plans) == ["CSAS_BIG_5"]


def test_a_table_as_select() -> None:
    made = done(
        EngineState(), ORDERS, "CREATE TABLE n AS SELECT id, COUNT(*) AS c FROM orders GROUP BY id;"
    )
    assert made.query_id == "CTAS_N_5"
    assert schema_text(made.state.catalog.sources["N"].schema) == "`ID` STRING KEY, `C` BIGINT"
    (spec,) = made.topics
    assert spec.configs["cleanup.policy"] == "compact"


def test_a_source_is_dropped_when_nothing_is_built_on_it() -> None:
    state = done(EngineState(), ORDERS, "CREATE STREAM big AS SELECT * FROM orders;").state
    assert "The following streams and/or tables read from this source: [BIG]." in refused(
        state, "DROP STREAM orders;"
    )
    left = done(state, "DROP STREAM big;", "DROP STREAM orders;").state
    assert (left.catalog.sources, left.catalog.queries, left.plans) == ({}, {}, {})


def test_insert_into_is_a_separate_query() -> None:
    state = done(EngineState(), ORDERS, "CREATE STREAM copy AS SELECT * FROM orders;").state
    more = done(state, "INSERT INTO copy SELECT * FROM orders;", number=9)
    assert more.query_id == "INSERTQUERY_9"
    assert "write into this source: [INSERTQUERY_9]" in refused(more.state, "DROP STREAM copy;")
    ended = done(more.state, "TERMINATE insertquery_9;")
    assert list(ended.state.plans) == ["CSAS_COPY_5"]
    done(ended.state, "DROP STREAM copy;")
    assert "NOTHING does not exist." in refused(state, "INSERT INTO nothing SELECT * FROM orders;")


def test_a_query_is_replaced_under_its_id() -> None:
    state = done(
        EngineState(), ORDERS, "CREATE STREAM big AS SELECT id, v FROM orders WHERE v > 1;"
    ).state
    text = "CREATE OR REPLACE STREAM big AS SELECT id, v, v * 2 AS w FROM orders WHERE v > 2;"
    replaced = done(state, text, number=8)
    assert replaced.query_id == "CSAS_BIG_5"
    assert replaced.state.plans["CSAS_BIG_5"] != state.plans["CSAS_BIG_5"]
    counted = done(
        EngineState(), ORDERS, "CREATE TABLE n AS SELECT id, COUNT(*) AS c FROM orders GROUP BY id;"
    ).state
    assert "Cannot upgrade query CTAS_N_5" in refused(
        counted,
        "CREATE OR REPLACE TABLE n AS"
        " SELECT id, COUNT(*) AS c, SUM(v) AS s FROM orders GROUP BY id;",
    )


def test_queries_are_paused_and_resumed() -> None:
    state = done(EngineState(), ORDERS, "CREATE STREAM big AS SELECT * FROM orders;").state
    paused = done(state, "PAUSE csas_big_5;")
    assert paused.state.catalog.queries["CSAS_BIG_5"].paused
    resumed = done(paused.state, "RESUME ALL;")
    assert not resumed.state.catalog.queries["CSAS_BIG_5"].paused
    assert refused(state, "TERMINATE nothing_1;") == "Unknown queryId: nothing_1"


def test_a_read_only_source_takes_no_inserts() -> None:
    source = ORDERS.replace("CREATE STREAM", "CREATE SOURCE STREAM")
    state = done(EngineState(), source, USERS).state
    assert refused(state, "INSERT INTO orders SELECT * FROM orders;") == (
        "Cannot insert into read-only stream: ORDERS"
    )
    assert "is a table" in refused(state, "INSERT INTO users SELECT * FROM users;")
    assert "Cannot delete topic" in refused(state, "DROP STREAM orders DELETE TOPIC;")


def test_commands_have_ksqldbs_names() -> None:
    ids = [
        command_id(statement)
        for statement in parse(
            ORDERS
            + USERS
            + "DROP STREAM orders; DROP TYPE t; TERMINATE ALL;"
            + "PAUSE csas_x_1; CREATE TYPE t AS INT;"
        )
    ]
    assert ids == [
        "stream/`ORDERS`/create",
        "table/`USERS`/create",
        "stream/`ORDERS`/drop",
        "type/T/drop",
        "terminate/ALL/execute",
        "pause/csas_x_1/execute",
        "type/T/create",
    ]


# -- the topic, read again


def replay(*commands: Command | bytes) -> tuple[EngineState, list[CommandStatus]]:
    state, statuses = EngineState(), []
    for offset, command in enumerate(commands):
        found = (
            QueuedCommand(offset, command)
            if isinstance(command, Command)
            else QueuedCommand(offset, None, command.decode())
        )
        state, status = carry_out(found, state, TOPICS.get)
        statuses.append(status)
    return state, statuses


def test_a_replay_gives_the_same_state() -> None:
    state, statuses = replay(
        Command("a", ORDERS),
        Command("b", USERS, basis=0),
        Command("c", "DROP TABLE users;", basis=1),
    )
    assert [status.outcome for status in statuses] == [CommandStatusCode.SUCCESS] * 3
    assert list(state.catalog.sources) == ["ORDERS"]
    assert state.position == 2


def test_an_overtaken_command_is_void() -> None:
    """It is ignored, and does not void commands beside it."""
    state, statuses = replay(
        Command("a", ORDERS),
        Command("b", USERS),
        Command("c", "CREATE TYPE t AS INT;", basis=0),
        Command("b", USERS, basis=0),
        Command("b", USERS, basis=2),
    )
    success, void = CommandStatusCode.SUCCESS, CommandStatusCode.VOID
    assert [status.outcome for status in statuses] == [success, void, success, void, success]
    assert list(state.catalog.sources) == ["ORDERS", "USERS"]
    assert (state.position, state.basis) == (4, 4)


def test_an_inapplicable_command_does_not_stop_the_replay() -> None:
    state, statuses = replay(
        b"not a command",
        Command("a", "CREATE NONSENSE;", basis=0),
        Command("b", "CREATE STREAM o AS SELECT * FROM gone;", basis=1),
        Command("c", ORDERS, basis=2),
    )
    outcomes = [status.outcome for status in statuses]
    assert outcomes == [
        CommandStatusCode.ERROR,
        CommandStatusCode.ERROR,
        CommandStatusCode.ERROR,
        CommandStatusCode.SUCCESS,
    ]
    assert list(state.catalog.sources) == ["ORDERS"]
    failure = state.failures["CSAS_O_2"]
    assert failure.query.sink == "O"
    assert "GONE does not exist" in failure.cause
    cleared = done(state, "DROP STREAM o;").state
    assert not cleared.failures
    assert not done(state, "TERMINATE csas_o_2;").state.failures


def test_a_deleted_topic_does_not_stop_the_replay() -> None:
    text = ORDERS.replace("'orders'", "'gone', PARTITIONS=2")
    state, (status,) = replay(Command("a", text))
    assert status.outcome is CommandStatusCode.SUCCESS
    assert state.catalog.sources["ORDERS"].topic == "gone"


def test_a_command_keeps_the_settings_it_was_written_with() -> None:
    text = ORDERS.replace(", VALUE_FORMAT='JSON'", "")
    format_ = "ksql.persistence.default.format.value"
    state, _ = replay(
        Command("a", text, properties={format_: "DELIMITED"}, settings={format_: "JSON"})
    )
    assert state.catalog.sources["ORDERS"].layout.value_format.name == "DELIMITED"
    assert json.loads(Command("a", "b").to_json())["version"] == 1
