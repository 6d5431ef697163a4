"""The JDBC source, by hand, on both databases."""

from __future__ import annotations

import datetime
import time
from typing import Any

import pytest
from databases import TargetDatabase
from drives import Context, Source, values

from ottla.connect.connectors.jdbc.source import JdbcSourceConnector
from ottla.connect.errors import ConfigException, ConnectException

QUICK = {"poll.interval.ms": "0", "topic.prefix": "db-"}


def source(
    place: TargetDatabase, offsets: dict[str, Any] | None = None, tasks: int = 1, **config: str
) -> Source:
    named = {name.replace("_", "."): value for name, value in config.items()}
    return Source(JdbcSourceConnector(), {**place.config, **QUICK, **named}, offsets, tasks)


def orders(place: TargetDatabase) -> None:
    place.run("CREATE TABLE orders (id {id}, item TEXT, changed {timestamp} NOT NULL)")


def test_bulk_copies_the_whole_table_again_and_again(place: TargetDatabase) -> None:
    orders(place)
    place.run("INSERT INTO orders VALUES (1, 'beer', '2024-01-01 00:00:00'), "
              "(2, NULL, '2024-01-01 00:00:00')")  # fmt: skip
    with source(place, mode="bulk") as reader:
        first, second = reader.take(2), reader.take(2)
    assert [row["item"] for row in values(first)] == ["beer", None]
    assert values(first) == values(second)
    assert {record.topic for record in first} == {"db-orders"}
    assert [record.source_offset.get("complete") for record in first] == [None, True]


def test_bulk_waits_for_its_interval_also_after_a_restart(place: TargetDatabase) -> None:
    orders(place)
    place.run("INSERT INTO orders VALUES (1, 'beer', '2024-01-01 00:00:00')")
    with source(place, mode="bulk", poll_interval_ms="3600000") as reader:
        assert len(reader.take(1)) == 1
        assert not reader.poll()
    with source(place, reader.stop(), mode="bulk", poll_interval_ms="3600000") as reader:
        assert not reader.poll()


def test_incrementing_mode_resumes_at_its_offset(place: TargetDatabase) -> None:
    orders(place)
    fill = "INSERT INTO orders (id, item, changed) VALUES (?, ?, '2024-01-01 00:00:00')"
    place.run(fill, [(n, f"item {n}") for n in range(1, 251)])
    config = {"mode": "incrementing", "incrementing_column_name": "id"}
    with source(place, **config) as reader:
        first = reader.take(250)
        assert len(reader.poll()) == 0
    place.run(fill, [(n, "more") for n in range(251, 254)])
    with source(place, reader.stop(), **config) as reader:
        rest = reader.take(3)
    assert [row["id"] for row in values(first)] == list(range(1, 251))
    assert [row["id"] for row in values(rest)] == [251, 252, 253]
    assert rest[-1].source_offset == {"incrementing": 253}
    assert rest[-1].source_partition["table"].endswith("orders")


def test_an_autoincrement_column_need_not_be_named(place: TargetDatabase) -> None:
    orders(place)
    place.run("INSERT INTO orders VALUES (7, 'x', '2024-01-01 00:00:00')")
    with source(place, mode="incrementing") as reader:
        assert reader.take(1)[0].source_offset == {"incrementing": 7}


def test_rows_are_exactly_once_wherever_a_batch_ends(place: TargetDatabase) -> None:
    """Ten rows with one timestamp, read in batches of three, by a new task for each batch."""
    orders(place)
    place.run(
        "INSERT INTO orders (id, item, changed) VALUES (?, 'x', '2024-01-01 00:00:00.123')",
        [(n,) for n in range(1, 11)],
    )
    for mode in ("timestamp", "timestamp+incrementing"):
        config = {"mode": mode, "timestamp_column_name": "changed", "batch_max_rows": "3"}
        offsets: dict[str, Any] = {}
        found: list[int] = []
        while len(found) < 10:
            with source(place, offsets, **config) as reader:
                found += [row["id"] for row in values(reader.take(1))]
        assert found == list(range(1, 11)), mode
        with source(place, offsets, **config) as reader:
            assert not reader.poll()
        place.run("INSERT INTO orders (id, item, changed) VALUES (?, 'y', ?)",
                  [(11 + len(mode), "2024-01-01 00:00:00.124")])  # fmt: skip
        with source(place, offsets, **config) as reader:
            assert [row["id"] for row in values(reader.take(1))] == [11 + len(mode)]
        place.run(f"DELETE FROM orders WHERE id = {11 + len(mode)}")


def test_without_a_key_equal_timestamps_come_again_and_are_never_lost(
    place: TargetDatabase,
) -> None:
    place.run("CREATE TABLE events (name TEXT, at {timestamp} NOT NULL)")
    place.run(
        "INSERT INTO events VALUES (?, ?)",
        [("a", "2024-01-01 00:00:00")]
        + [(f"b{n}", "2024-01-01 00:00:01") for n in range(4)]
        + [("c", "2024-01-01 00:00:02")],
    )
    config = {"mode": "timestamp", "timestamp_column_name": "at", "batch_max_rows": "3"}
    with source(place, **config) as reader:
        first = reader.poll()
    assert values(first)[0]["name"] == "a"
    with source(place, reader.stop(), **config) as reader:
        rest = reader.take(5)  # b0 to b3 once more, and c
        assert not reader.poll()
    names = {row["name"] for row in values(rest)}
    assert names == {"b0", "b1", "b2", "b3", "c"}
    offsets = [str(record.source_offset) for record in first + rest[:1]]
    assert len(set(offsets)) == len(offsets) - 1, "offsets distinguish the rows"
    with source(place, reader.stop(), **config) as reader:
        assert not reader.poll()


def test_an_updated_row_comes_again(place: TargetDatabase) -> None:
    orders(place)
    place.run("INSERT INTO orders VALUES (1, 'old', '2024-01-01 00:00:00')")
    config = {"mode": "timestamp+incrementing", "timestamp_column_name": "changed"}
    with source(place, **config) as reader:
        assert values(reader.take(1))[0]["item"] == "old"
        place.run("UPDATE orders SET item = 'new', changed = '2024-01-02 00:00:00.5'")
        (record,) = reader.take(1)
    assert record.value["item"] == "new"
    assert record.value["changed"] == datetime.datetime(2024, 1, 2, 0, 0, 0, 500000, datetime.UTC)
    assert record.source_offset == {
        "timestamp": 1704153600500,
        "timestamp_nanos": 500_000_000,
        "incrementing": 1,
    }


def test_late_rows_are_waited_for(place: TargetDatabase) -> None:
    """A row younger than the delay is not read, so that an older one may still come before it."""
    orders(place)
    now = datetime.datetime.now(datetime.UTC).replace(tzinfo=None)
    later, earlier = now + datetime.timedelta(seconds=2), now - datetime.timedelta(seconds=30)
    fill = "INSERT INTO orders (id, item, changed) VALUES (?, 'x', ?)"
    place.run(fill, [(1, str(later))])
    config = {"mode": "timestamp", "timestamp_column_name": "changed"}
    with source(place, timestamp_delay_interval_ms="3600000", **config) as reader:
        assert not reader.poll()
        place.run(fill, [(2, str(earlier))])
        assert not reader.poll()
    with source(place, reader.stop(), **config) as reader:
        found = reader.take(2)
    assert [row["id"] for row in values(found)] == [2, 1]
    assert time.time() >= later.replace(tzinfo=datetime.UTC).timestamp()


def test_timestamp_initial_and_several_columns(place: TargetDatabase) -> None:
    place.run("CREATE TABLE notes (id {id}, made {timestamp}, changed {timestamp})")
    place.run(
        "INSERT INTO notes (id, made, changed) VALUES (?, ?, ?)",
        [
            (1, "2024-01-01 00:00:00", None),
            (2, "2024-01-01 00:00:00", "2024-01-03 00:00:00"),
            (3, "2024-01-02 00:00:00", None),
        ],
    )
    config = {
        "mode": "timestamp",
        "timestamp_column_name": "changed, made",
        "validate_non_null": "false",
        "timestamp_initial": "1704070800000",  # 2024-01-01 01:00
    }
    with source(place, **config) as reader:
        assert [row["id"] for row in values(reader.take(2))] == [3, 2]
    with source(place, **{**config, "timestamp_initial": "-1"}) as reader:
        assert not reader.poll()


def test_a_query_may_have_its_own_condition(place: TargetDatabase) -> None:
    orders(place)
    place.run("INSERT INTO orders (id, item, changed) VALUES (?, ?, '2024-01-01 00:00:00')",
              [(n, "even" if n % 2 == 0 else "odd") for n in range(1, 7)])  # fmt: skip
    query = "SELECT id, upper(item) AS item FROM orders WHERE item = 'even'"
    config = {"mode": "incrementing", "incrementing_column_name": "id", "topic_prefix": "even"}
    with source(place, query=query, **config) as reader:
        (first, *_) = reader.take(3)
    assert first.topic == "even"
    assert dict(first.value) == {"id": 2, "item": "EVEN"}
    assert reader.context.committed == {'{"query": "query"}': {"incrementing": 6}}
    with source(place, mode="bulk", query=query, query_suffix="LIMIT 1") as reader:
        assert values(reader.take(1)) == [{"id": 2, "item": "EVEN"}]


def test_tables_are_chosen_and_shared_by_tasks(place: TargetDatabase) -> None:
    for name in ("a", "b", "c", "d"):
        place.run(f"CREATE TABLE {name} (id {{id}})")
        place.run(f"INSERT INTO {name} (id) VALUES (1)")
    with source(place, tasks=2, mode="bulk", table_blacklist="d") as reader:
        assert len(reader.tasks) == 2
        found = reader.until(lambda them: len({row.topic for row in them}) == 3)
    assert {item.topic for item in found} == {"db-a", "db-b", "db-c"}
    with source(place, tasks=9, mode="bulk", table_whitelist="c, d") as reader:
        assert len(reader.tasks) == 2
    if place.schema is not None:
        with source(place, mode="bulk", table_include_list=f"{place.schema}.a") as reader:
            assert len(reader.tasks) == 1


def test_new_tables_are_found(place: TargetDatabase) -> None:
    place.run("CREATE TABLE first (id {id})")
    with source(place, mode="bulk", table_poll_interval_ms="20") as reader:
        place.run("CREATE TABLE second (id {id})")
        deadline = time.monotonic() + 240
        while not reader.context.reconfigurations:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        tables = [config["tables"] for config in reader.connector.task_configs(5)]
    assert len(tables) == 2


def test_errors_are_reported(place: TargetDatabase) -> None:
    orders(place)
    place.run("CREATE TABLE loose (id {bigint}, changed {timestamp})")
    cases: list[tuple[dict[str, str], str]] = [
        ({"table_whitelist": "loose", "mode": "incrementing"}, "incrementing.column.name"),
        (
            {"table_whitelist": "loose", "mode": "timestamp", "timestamp_column_name": "changed"},
            "may be NULL",
        ),
        (
            {"table_whitelist": "orders", "mode": "timestamp", "timestamp_column_name": "nope"},
            "has no column nope; it has id, item, changed",
        ),
    ]
    for config, text in cases:
        with source(place, **config) as reader, pytest.raises(ConnectException, match=text):
            reader.poll()


@pytest.mark.parametrize(
    ("config", "text"),
    [
        ({"mode": "timestamp"}, "timestamp.column.name"),
        ({"mode": "sometimes"}, "Invalid value sometimes for configuration mode"),
        ({"mode": "bulk", "table.whitelist": "a", "table.blacklist": "b"}, "exclusive"),
        ({"mode": "bulk", "table.whitelist": "a", "query": "SELECT 1"}, "query may not be set"),
        ({"mode": "incrementing", "query": "SELECT 1"}, "incrementing.column.name"),
        ({"mode": "bulk", "db.timezone": "Mars/Olympus"}, "no such time zone"),
        ({"mode": "bulk", "numeric.mapping": "round"}, "numeric.mapping"),
        ({"mode": "bulk", "connection.url": "jdbc:mysql://x/y"}, "PostgreSQL .* and SQLite"),
        ({"mode": "bulk", "batch.max.rows": "0"}, "at least 1"),
    ],
)
def test_configs_that_can_not_work_are_refused(config: dict[str, str], text: str) -> None:
    props = {"connection.url": "jdbc:sqlite:/nowhere", "topic.prefix": "x", **config}
    connector = JdbcSourceConnector()
    errors = [error for value in connector.validate(props) for error in value.errors]
    assert len(errors) == 1
    with pytest.raises((ConfigException, ConnectException), match=text):
        connector.start(props)


def test_an_absent_database_is_reported_after_all_attempts() -> None:
    props = {
        "connection.url": "jdbc:postgresql://127.0.0.1:1/x?user=y",
        "connection.attempts": "2",
        "connection.backoff.ms": "1",
        "mode": "bulk",
        "topic.prefix": "x",
    }
    with pytest.raises(
        ConnectException, match="Unable to connect to the database after 2 attempts"
    ):
        JdbcSourceConnector().start(props)
    assert Context(props).offset({}) is None
