"""Queries become plans: schema, topic, stages."""

from __future__ import annotations

import pytest
from planned_shop import planned, shop, with_source

from ottla.rows.errors import SqlError
from ottla.rows.schema import WindowInfo, WindowKind
from ottla.sql.catalog import Catalog, schema_text
from ottla.sql.evaluation import compiled
from ottla.sql.plan.stages import (
    ForeignKeyJoinNode,
    ProjectNode,
    SessionAggregateNode,
    StreamAggregateNode,
    StreamStreamJoinNode,
    StreamTableJoinNode,
    TableAggregateNode,
    TableGroupByNode,
    TableTableJoinNode,
)
from ottla.sql.syntax.statements import Emit, JoinKind, SourceKind
from ottla.sql.text import column

# Statements and the schemas of their results.
SCHEMAS = [
    ("CREATE STREAM x AS SELECT * FROM payments",
     "`ID` STRING KEY, `ORDER_ID` STRING, `AMOUNT` INTEGER"),
    ("CREATE STREAM x AS SELECT amount * 2 AS twice, id, amount + 1 FROM payments",
     "`ID` STRING KEY, `TWICE` INTEGER, `KSQL_COL_0` INTEGER"),
    ("CREATE STREAM x AS SELECT id AS k, AS_VALUE(id) AS copy FROM payments",
     "`K` STRING KEY, `COPY` STRING"),
    ("CREATE STREAM x AS SELECT id, place->city FROM orders",
     "`ID` STRING KEY, `CITY` STRING"),
    ("CREATE STREAM x AS SELECT id, place->* FROM orders",
     "`ID` STRING KEY, `CITY` STRING, `ZIP` INTEGER"),
    ("CREATE STREAM x AS SELECT order_id, id FROM payments PARTITION BY order_id",
     "`ORDER_ID` STRING KEY, `ID` STRING"),
    ("CREATE STREAM x AS SELECT UCASE(order_id) AS k, id FROM payments"
     " PARTITION BY UCASE(order_id)",
     "`K` STRING KEY, `ID` STRING"),
    ("CREATE STREAM x AS SELECT order_id, id FROM payments PARTITION BY NULL",
     "`ORDER_ID` STRING, `ID` STRING"),
    ("CREATE STREAM x AS SELECT * FROM payments PARTITION BY order_id",
     "`ORDER_ID` STRING KEY, `AMOUNT` INTEGER, `ID` STRING"),
    ("CREATE STREAM x AS SELECT * FROM payments PARTITION BY (ABS(amount))",
     "`KSQL_COL_0` INTEGER KEY, `ORDER_ID` STRING, `AMOUNT` INTEGER, `ID` STRING"),
    ("CREATE STREAM x AS SELECT *, ABS(amount) AS a FROM payments PARTITION BY ABS(amount)",
     "`A` INTEGER KEY, `ORDER_ID` STRING, `AMOUNT` INTEGER, `ID` STRING"),
    ("CREATE STREAM x AS SELECT id, amount, place->zip, orders.place->zip FROM orders",
     "`ID` STRING KEY, `AMOUNT` INTEGER, `ZIP` INTEGER, `ZIP_1` INTEGER"),
    ("CREATE STREAM x AS SELECT page FROM clicks", "`PAGE` STRING"),
    ("CREATE STREAM x AS SELECT id, EXPLODE(tags) AS tag FROM orders",
     "`ID` STRING KEY, `TAG` STRING"),
    ("CREATE STREAM x AS SELECT id, ROWTIME AS t, ROWPARTITION AS p, ROWOFFSET AS o FROM payments",
     "`ID` STRING KEY, `T` BIGINT, `P` INTEGER, `O` BIGINT"),
    ("CREATE TABLE x AS SELECT id, name FROM customers WHERE zip > 3",
     "`ID` BIGINT KEY, `NAME` STRING"),
    ("CREATE TABLE x AS SELECT item, COUNT(*) AS n, SUM(amount) FROM orders GROUP BY item",
     "`ITEM` STRING KEY, `N` BIGINT, `KSQL_COL_0` INTEGER"),
    ("CREATE TABLE x WITH (KEY_FORMAT='JSON') AS SELECT item AS what, customer, COUNT(*) AS n"
     " FROM orders GROUP BY item, customer",
     "`WHAT` STRING KEY, `CUSTOMER` BIGINT KEY, `N` BIGINT"),
    ("CREATE TABLE x AS SELECT UCASE(item) AS u, MAX(amount) - MIN(amount) AS span FROM orders"
     " GROUP BY UCASE(item)",
     "`U` STRING KEY, `SPAN` INTEGER"),
    ("CREATE TABLE x AS SELECT (amount + 1) AS k, COUNT(*) AS n FROM orders GROUP BY amount + 1",
     "`K` INTEGER KEY, `N` BIGINT"),
    ("CREATE TABLE x AS SELECT item, AS_VALUE(item) AS v, COUNT(*) AS n FROM orders GROUP BY item",
     "`ITEM` STRING KEY, `V` STRING, `N` BIGINT"),
    ("CREATE TABLE x AS SELECT item, WINDOWSTART AS s, COUNT(*) AS n FROM orders"
     " WINDOW TUMBLING (SIZE 1 MINUTE) GROUP BY item",
     "`ITEM` STRING KEY, `S` BIGINT, `N` BIGINT"),
    ("CREATE STREAM x AS SELECT * FROM orders o JOIN payments p WITHIN 1 HOUR ON o.id = p.order_id",
     "`O_ID` STRING KEY, `O_CUSTOMER` BIGINT, `O_ITEM` STRING, `O_AMOUNT` INTEGER,"
     " `O_PRICE` DOUBLE, `O_TAGS` ARRAY<STRING>, `O_PLACE` STRUCT<CITY STRING, ZIP INTEGER>,"
     " `P_ID` STRING, `P_ORDER_ID` STRING, `P_AMOUNT` INTEGER"),
    ("CREATE STREAM x AS SELECT o.id, p.id, item, p.order_id FROM orders o"
     " JOIN payments p WITHIN 1 HOUR ON o.id = p.order_id",
     "`O_ID` STRING KEY, `P_ID` STRING, `ITEM` STRING, `ORDER_ID` STRING"),
    ("CREATE STREAM x AS SELECT p.order_id, item FROM orders o"
     " JOIN payments p WITHIN 1 HOUR ON o.id = p.order_id",
     "`ORDER_ID` STRING KEY, `ITEM` STRING"),
    ("CREATE STREAM x AS SELECT o.id, p.order_id, item FROM orders o"
     " RIGHT JOIN payments p WITHIN 1 HOUR ON o.id = p.order_id",
     "`O_ID` STRING KEY, `ORDER_ID` STRING, `ITEM` STRING"),
    ("CREATE STREAM x AS SELECT p.order_id, item, carrier FROM orders o"
     " LEFT JOIN payments p WITHIN 1 HOUR ON UCASE(o.id) = p.order_id"
     " LEFT JOIN shipments s WITHIN 1 HOUR ON UCASE(o.id) = s.order_id",
     "`P_ORDER_ID` STRING KEY, `ITEM` STRING, `CARRIER` STRING"),
    ("CREATE STREAM x AS SELECT ROWKEY AS k, item FROM orders o"
     " FULL OUTER JOIN payments p WITHIN 1 HOUR ON o.id = p.order_id",
     "`K` STRING KEY, `ITEM` STRING"),
    ("CREATE STREAM x AS SELECT customer, name, o.id FROM orders o"
     " LEFT JOIN customers c ON o.customer = c.id",
     "`CUSTOMER` BIGINT KEY, `NAME` STRING, `O_ID` STRING"),
    ("CREATE STREAM x AS SELECT * FROM payments PARTITION BY ROWTIME",
     "`ROWTIME` BIGINT KEY, `ORDER_ID` STRING, `AMOUNT` INTEGER, `ID` STRING"),
    ("CREATE STREAM x AS SELECT * FROM payments p JOIN shipments s WITHIN 1 HOUR"
     " ON p.id = s.id PARTITION BY p.order_id",
     "`P_ORDER_ID` STRING KEY, `P_AMOUNT` INTEGER, `S_ORDER_ID` STRING, `S_CARRIER` STRING,"
     " `P_ROWTIME` BIGINT, `P_ROWPARTITION` INTEGER, `P_ROWOFFSET` BIGINT, `S_ROWTIME` BIGINT,"
     " `S_ROWPARTITION` INTEGER, `S_ROWOFFSET` BIGINT, `P_ID` STRING, `S_ID` STRING"),
    ("CREATE TABLE x AS SELECT c.id, name, score FROM customers c JOIN scores s ON c.id = s.id",
     "`C_ID` BIGINT KEY, `NAME` STRING, `SCORE` INTEGER"),
    ("CREATE TABLE x AS SELECT c.id, name, manager FROM customers c"
     " JOIN regions r ON c.region = r.region",
     "`ID` BIGINT KEY, `NAME` STRING, `MANAGER` STRING"),
]  # fmt: skip


@pytest.mark.parametrize(("statement", "schema"), SCHEMAS)
def test_the_schema_of_a_result(statement: str, schema: str) -> None:
    assert schema_text(planned(statement).schema) == schema


def test_a_filter_is_one_stage_without_state() -> None:
    plan = planned("CREATE STREAM big AS SELECT id, amount FROM payments WHERE amount > 10")
    (stage,) = plan.stages
    assert isinstance(stage.operator, ProjectNode)
    assert stage.operator.input.topic == "payments"
    assert plan.sources == ("PAYMENTS",)
    assert plan.kind is SourceKind.STREAM
    assert stage.stateless
    assert [name for name, _ in stage.output.columns] == ["ID", "AMOUNT"]
    assert "`AMOUNT`" in stage.output.where.spark
    assert plan.topic is not None
    assert (plan.topic.name, plan.topic.partitions) == ("BIG", None)


def test_the_sink_follows_the_with_clause() -> None:
    plan = planned(
        "CREATE STREAM x WITH (KAFKA_TOPIC='t', PARTITIONS=4, REPLICAS=1, FORMAT='DELIMITED',"
        " VALUE_DELIMITER='|', RETENTION_MS=1000) AS SELECT id, amount FROM payments"
    )
    assert plan.topic is not None
    assert (plan.topic.name, plan.topic.partitions, plan.topic.replicas) == ("t", 4, 1)
    assert plan.topic.config["retention.ms"] == "1000"
    assert plan.layout.key_format.name == plan.layout.value_format.name == "DELIMITED"
    assert plan.layout.value_format.properties == {"DELIMITER": "|"}


def test_formats_and_keys_come_from_the_first_source() -> None:
    assert planned("CREATE STREAM x AS SELECT * FROM clicks").layout.value_format.name == (
        "DELIMITED"
    )
    keyed = planned("CREATE STREAM x AS SELECT page, seen FROM clicks PARTITION BY page").layout
    assert keyed.key_format.name == "KAFKA"
    assert planned("CREATE STREAM x AS SELECT * FROM clicks").layout.key_format.name == "NONE"


def test_the_time_of_records_can_come_from_a_column() -> None:
    plan = planned("CREATE STREAM x WITH (TIMESTAMP='seen') AS SELECT * FROM clicks")
    assert plan.layout.timestamp == "SEEN"
    assert "`SEEN`" in plan.stages[0].output.rowtime.spark


def test_a_record_without_a_value_has_no_new_key_made_of_its_value() -> None:
    text = "CREATE STREAM x WITH (KEY_FORMAT='JSON') AS SELECT * FROM orders PARTITION BY {}"
    made = planned(text.format("(amount IS NULL)"))
    kept = planned(text.format("UCASE(id)"))
    (first, *_), (second, *_) = (plan.stages[0].output.columns for plan in (made, kept))

    assert compiled([first[1].python])({"__DELETED": True, "AMOUNT": None}) == (None,)
    assert compiled([first[1].python])({"__DELETED": False, "AMOUNT": None}) == (True,)
    assert "__DELETED" in first[1].spark
    assert compiled([second[1].python])({"__DELETED": True, "ID": "a"}) == ("A",)


def test_topics_of_tables_are_compacted() -> None:
    table = planned("CREATE TABLE x AS SELECT item, COUNT(*) AS n FROM orders GROUP BY item")
    windowed = planned(
        "CREATE TABLE x AS SELECT item, COUNT(*) AS n FROM orders"
        " WINDOW TUMBLING (SIZE 1 MINUTE, RETENTION 1 DAY) GROUP BY item"
    )
    assert table.topic is not None
    assert windowed.topic is not None
    assert table.topic.config == {"cleanup.policy": "compact"}
    assert windowed.topic.config == {
        "cleanup.policy": "compact,delete",
        "retention.ms": "86400000",
    }
    assert windowed.layout.windowed == WindowInfo(WindowKind.TUMBLING, 60_000)
    assert windowed.layout.is_table


# -- aggregates


def test_an_aggregate_has_groups_and_calls() -> None:
    plan = planned(
        "CREATE TABLE x AS SELECT item, COUNT(*) AS n, SUM(amount) + COUNT(*) AS m FROM orders"
        " WHERE amount > 0 GROUP BY item HAVING COUNT(*) > 2"
    )
    (stage,) = plan.stages
    aggregate = stage.operator
    assert isinstance(aggregate, StreamAggregateNode)
    assert [call.function for call in aggregate.calls] == ["COUNT", "SUM"]
    assert [group.name for group in aggregate.groups] == ["G0"]
    assert "`AMOUNT`" in aggregate.input.where.spark
    assert "`A0`" in stage.output.where.spark
    assert "`A1`" in dict(stage.output.columns)["M"].spark


@pytest.mark.parametrize(
    ("window", "grace_ms"),
    [
        ("TUMBLING (SIZE 1 HOUR)", 23 * 3_600_000),
        ("TUMBLING (SIZE 1 HOUR, GRACE PERIOD 10 MINUTES)", 600_000),
        ("HOPPING (SIZE 2 DAYS, ADVANCE BY 1 DAY)", 0),
    ],
)
def test_late_rows_have_a_grace_period(window: str, grace_ms: int) -> None:
    plan = planned(f"SELECT item, COUNT(*) FROM orders WINDOW {window} GROUP BY item EMIT CHANGES")
    aggregate = plan.stages[0].operator
    assert isinstance(aggregate, StreamAggregateNode)
    assert aggregate.grace_ms == grace_ms


def test_sessions_are_kept_by_key_unless_only_their_end_counts() -> None:
    text = "SELECT item, COUNT(*) FROM orders WINDOW SESSION (5 SECONDS) GROUP BY item EMIT {}"
    changes = planned(text.format("CHANGES")).stages[0].operator
    final = planned(text.format("FINAL")).stages[0].operator
    assert isinstance(changes, SessionAggregateNode)
    assert changes.gap_ms == 5000
    assert isinstance(final, StreamAggregateNode)
    assert final.emit is Emit.FINAL


def test_an_aggregate_over_a_table_is_two_stages() -> None:
    plan = planned(
        "CREATE TABLE x AS SELECT region, COUNT(*) AS n, SUM(zip) AS z FROM customers"
        " WHERE zip > 1 GROUP BY region"
    )
    first, second = plan.stages
    assert isinstance(first.operator, TableGroupByNode)
    assert [name for name, _ in first.operator.side.row] == ["G0", "A1_0"]
    assert first.operator.side.input.where
    assert isinstance(second.operator, TableAggregateNode)
    assert second.inputs[0].internal
    assert [name for name, _ in second.operator.side.row] == ["A1_0", "__UNDO"]
    assert second.operator.calls[1].aggregation is not None
    (between,) = plan.internal_topics
    assert between.internal
    assert schema_text(first.output.layout.schema) == (
        "`G0` STRING KEY, `A1_0` INTEGER, `__UNDO` BOOLEAN"
    )


def test_rows_of_a_table_without_a_group_count_as_deleted() -> None:
    plan = planned(
        "CREATE TABLE x WITH (KEY_FORMAT='JSON') AS"
        " SELECT region, zip + 1 AS next, COUNT(*) AS n FROM customers"
        " GROUP BY region, zip + 1"
    )
    changes = plan.stages[0].operator
    assert isinstance(changes, TableGroupByNode)
    assert changes.side.input.where.spark == "(`REGION`) IS NOT NULL AND ((`ZIP` + 1)) IS NOT NULL"


@pytest.mark.parametrize(
    ("window", "emit", "grace_ms"),
    [
        ("TUMBLING (SIZE 1 HOUR)", "CHANGES", 23 * 3_600_000),
        ("TUMBLING (SIZE 1 HOUR)", "FINAL", 0),
        ("SESSION (1 HOUR)", "FINAL", 0),
        ("TUMBLING (SIZE 1 HOUR, GRACE PERIOD 5 SECONDS)", "FINAL", 5000),
    ],
)
def test_emit_final_has_no_default_grace(window: str, emit: str, grace_ms: int) -> None:
    plan = planned(
        f"CREATE TABLE x AS SELECT item, COUNT(*) AS n FROM orders WINDOW {window}"
        f" GROUP BY item EMIT {emit}"
    )
    operator = plan.stages[0].operator
    assert isinstance(operator, StreamAggregateNode)
    assert operator.grace_ms == grace_ms


def test_rows_of_a_windowed_table_differ_by_their_window() -> None:
    plan = planned("CREATE TABLE x AS SELECT n, COUNT(*) AS m FROM by_minute GROUP BY n")
    changes = plan.stages[0].operator
    assert isinstance(changes, TableGroupByNode)
    assert changes.side.key.spark == "struct(`ITEM`, `WINDOWSTART`, `WINDOWEND`)"


# -- joins


@pytest.mark.parametrize(
    ("join", "kind"),
    [
        ("JOIN", JoinKind.INNER),
        ("LEFT JOIN", JoinKind.LEFT),
        ("RIGHT JOIN", JoinKind.RIGHT),
        ("FULL OUTER JOIN", JoinKind.OUTER),
    ],
)
def test_two_streams_join_within_a_time(join: str, kind: JoinKind) -> None:
    plan = planned(
        f"SELECT o.id, p.id FROM orders o {join} payments p"
        " WITHIN (1 MINUTE, 2 MINUTES) GRACE PERIOD 5 SECONDS ON o.id = p.order_id EMIT CHANGES"
    )
    operator = plan.stages[0].operator
    assert isinstance(operator, StreamStreamJoinNode)
    assert operator.kind is kind
    assert (operator.before_ms, operator.after_ms, operator.grace_ms) == (60_000, 120_000, 5000)
    assert (operator.left.key, operator.right.key) == (column("ID"), column("ORDER_ID"))
    # The state has only the columns that are used.
    assert dict(operator.left.row) == {"ID": column("ID")}
    outer = kind is JoinKind.OUTER  # whose key has its own name
    text = "`left`.`ID`" if outer else "`key`"
    assert dict(plan.stages[0].output.columns)["O_ID"].spark == f"CAST({text} AS string)"


def test_a_stream_joins_a_table() -> None:
    plan = planned(
        "CREATE STREAM x AS SELECT o.customer, c.name FROM orders o"
        " JOIN customers c ON o.customer = c.id WHERE c.zip > 3"
    )
    (stage,) = plan.stages
    assert isinstance(stage.operator, StreamTableJoinNode)
    assert plan.kind is SourceKind.STREAM
    assert "`right`.`ZIP`" in stage.output.where.spark


def test_tables_join_by_key_or_by_foreign_key() -> None:
    by_key = planned("SELECT * FROM customers c JOIN scores s ON s.id = c.id EMIT CHANGES")
    foreign = planned("SELECT * FROM customers c LEFT JOIN regions r ON c.region = r.region"
                      " EMIT CHANGES")  # fmt: skip
    assert isinstance(by_key.stages[0].operator, TableTableJoinNode)
    assert by_key.kind is SourceKind.TABLE
    operator = foreign.stages[0].operator
    assert isinstance(operator, ForeignKeyJoinNode)
    assert (operator.left.key, operator.left.foreign) == (column("ID"), column("REGION"))


TWO_KEYS = (
    "CREATE TABLE seats (hall STRING PRIMARY KEY, no INT PRIMARY KEY, region STRING)"
    " WITH (KAFKA_TOPIC='seats', FORMAT='JSON');"
)


def test_a_foreign_key_join_keeps_all_columns_of_the_primary_key() -> None:
    catalog = with_source(shop(), TWO_KEYS)
    joined = "FROM seats s JOIN regions r ON s.region = r.region"
    plan = planned(f"CREATE TABLE x AS SELECT s.no, s.hall, manager {joined}", catalog)
    assert schema_text(plan.schema) == "`HALL` STRING KEY, `NO` INTEGER KEY, `MANAGER` STRING"
    operator = plan.stages[0].operator
    assert isinstance(operator, ForeignKeyJoinNode)
    assert operator.left.key.spark == "named_struct('HALL', `HALL`, 'NO', `NO`)"
    assert dict(plan.stages[0].output.columns)["HALL"].spark == "CAST(`key`.`HALL` AS string)"
    pushed = planned(f"SELECT s.no, manager, s.hall {joined} EMIT CHANGES", catalog)
    assert dict(pushed.stages[0].output.columns)["HALL"].spark == "CAST(`key`.`HALL` AS string)"
    with pytest.raises(SqlError, match="must include the primary key column NO"):
        planned(f"CREATE TABLE x AS SELECT s.hall, manager {joined}", catalog)


def test_streams_with_windows_join_by_them_as_well() -> None:
    catalog = shop()
    for name in "a", "b":
        catalog = with_source(
            catalog,
            f"CREATE STREAM {name} (id INT KEY, v INT) WITH (KAFKA_TOPIC='{name}',"
            " VALUE_FORMAT='JSON', WINDOW_TYPE='HOPPING', WINDOW_SIZE='10 SECONDS');",
        )
    plan = planned(
        "CREATE STREAM x AS SELECT a.id, a.v, b.v FROM a JOIN b WITHIN 1 HOUR ON a.id = b.id",
        catalog,
    )
    operator = plan.stages[0].operator
    assert isinstance(operator, StreamStreamJoinNode)
    assert operator.windowed
    assert plan.layout.windowed == WindowInfo(WindowKind.HOPPING, 10_000)
    starred = planned(
        "CREATE STREAM x AS SELECT * FROM a JOIN b WITHIN 1 HOUR ON a.id = b.id", catalog
    )
    assert schema_text(starred.schema) == (
        "`A_ID` INTEGER KEY, `A_WINDOWSTART` BIGINT, `A_WINDOWEND` BIGINT, `A_V` INTEGER,"
        " `B_ID` INTEGER, `B_WINDOWSTART` BIGINT, `B_WINDOWEND` BIGINT, `B_V` INTEGER"
    )


@pytest.mark.parametrize(("by", "always"), [("item, amount", True), ("item", False)])
def test_a_key_of_several_columns_is_written_though_they_be_null(by: str, always: bool) -> None:
    plan = planned(f"CREATE STREAM x AS SELECT * FROM orders PARTITION BY {by}", shop_of_json())
    assert plan.sink_stage.output.layout.always_keyed is always
    assert plan.layout.always_keyed is False


def shop_of_json() -> Catalog:
    """KAFKA has no keys of several columns."""
    return with_source(
        Catalog(),
        "CREATE STREAM orders (id STRING KEY, item STRING, amount INT) WITH (KAFKA_TOPIC='orders',"
        " FORMAT='JSON');",
    )


def test_a_push_query_can_aggregate_all_rows() -> None:
    plan = planned("SELECT COUNT(*) AS n, SUM(amount) FROM orders EMIT CHANGES")
    assert schema_text(plan.schema) == "`N` BIGINT, `KSQL_COL_0` INTEGER"
    assert isinstance(plan.stages[0].operator, StreamAggregateNode)


COUNTED = "CREATE TABLE x AS SELECT item, COUNT(*) AS n FROM orders GROUP BY item"


@pytest.mark.parametrize(
    ("properties", "tasks"),
    [
        ({}, False),
        ({"cache.max.bytes.buffering": "10000000"}, False),
        ({"cache.max.bytes.buffering": "0"}, True),
        ({"statestore.cache.max.bytes": "0"}, True),
        ({"statestore.cache.max.bytes": "0 "}, True),
        ({"cache.max.bytes.buffering": "00"}, True),
        ({"cache.max.bytes.buffering": "0", "statestore.cache.max.bytes": "10000000"}, False),
    ],
)
def test_without_a_cache_each_update_is_given(properties: dict[str, str], tasks: bool) -> None:
    """Spark merges the updates of a batch, tasks of the engine do not."""
    assert planned(COUNTED, **properties).needs_tasks is tasks
    assert planned(COUNTED, **properties).merges_updates is not tasks
    assert not planned("CREATE STREAM x AS SELECT * FROM orders", **properties).needs_tasks


def test_tasks_run_what_spark_has_no_aggregate_for() -> None:
    """Spark's collect_set forgets in which order values came."""
    collected = COUNTED.replace("AS n", "AS n, COLLECT_SET(amount) AS amounts")
    assert planned(collected).needs_tasks
    assert planned(collected).merges_updates
    assert not planned(collected.replace("_SET", "_LIST")).needs_tasks


def test_lists_can_be_limited() -> None:
    text = "CREATE TABLE x AS SELECT item, COLLECT_LIST(amount) AS all_ FROM orders GROUP BY item"
    (call,) = planned(text, **{"ksql.functions.collect_list.limit": "7"}).stages[0].operator.calls
    (free,) = planned(text).stages[0].operator.calls
    assert "7" in call.spark
    assert call.spark != free.spark


def test_wrapping_and_names_of_topics() -> None:
    text = "CREATE STREAM bare (v INT) WITH (KAFKA_TOPIC='b', VALUE_FORMAT='JSON',"
    catalog = with_source(shop(), f"{text} WRAP_SINGLE_VALUE=false);")
    prefix = {"ksql.output.topic.name.prefix": "made-"}
    plan = planned("CREATE STREAM x AS SELECT * FROM bare", catalog, **prefix)
    assert plan.layout.value_format.wrapped
    assert plan.topic is not None
    assert plan.topic.name == "made-X"
    statement = "CREATE STREAM x WITH (KAFKA_TOPIC='y') AS SELECT * FROM bare"
    named = planned(statement, catalog, **prefix).topic
    assert named is not None
    assert named.name == "y"


def test_three_sources_are_two_stages_with_a_topic_between() -> None:
    plan = planned(
        "CREATE STREAM x AS SELECT o.id, p.amount AS paid, s.carrier FROM orders o"
        " JOIN payments p WITHIN 1 HOUR ON o.id = p.order_id"
        " LEFT JOIN shipments s WITHIN 1 HOUR ON p.order_id = s.order_id"
    )
    first, second = plan.stages
    assert first.output.internal
    assert [name for name, _ in first.output.columns] == [
        "ROWKEY",
        "O_ID",
        "P_AMOUNT",
        "P_ORDER_ID",
    ]
    assert second.inputs[0].topic == first.step
    assert second.inputs[0].internal
    assert dict(second.output.columns)["PAID"].spark == "CAST(`left`.`P_AMOUNT` AS int)"
    assert [internal_topic.name for internal_topic in plan.internal_topics] == ["Join-1"]
    assert schema_text(plan.schema) == "`O_ID` STRING KEY, `PAID` INTEGER, `CARRIER` STRING"


def test_a_join_with_an_aggregate_is_two_stages() -> None:
    plan = planned(
        "CREATE TABLE x AS SELECT c.region, COUNT(*) AS n FROM orders o"
        " JOIN customers c ON o.customer = c.id WHERE o.amount > 1 GROUP BY c.region"
    )
    first, second = plan.stages
    assert isinstance(first.operator, StreamTableJoinNode)
    assert "`left`.`AMOUNT`" in first.output.where.spark
    assert isinstance(second.operator, StreamAggregateNode)
    assert second.operator.groups[0].text.spark == "`C_REGION`"
    assert schema_text(plan.schema) == "`REGION` STRING KEY, `N` BIGINT"


# -- push queries, and INSERT INTO


def test_a_push_query_keeps_its_order_and_needs_no_key() -> None:
    plan = planned("SELECT amount, ROWTIME, id FROM payments EMIT CHANGES LIMIT 3")
    assert [column.name for column in plan.schema.columns] == ["AMOUNT", "ROWTIME", "ID"]
    assert plan.topic is None
    assert plan.limit == 3


def test_a_push_query_shows_the_windows_of_its_source() -> None:
    plan = planned("SELECT * FROM by_minute EMIT CHANGES")
    assert [column.name for column in plan.schema.columns] == [
        "ITEM",
        "WINDOWSTART",
        "WINDOWEND",
        "N",
    ]


def test_insert_into_writes_as_the_sink_is() -> None:
    catalog = shop()
    plan = planned("INSERT INTO payments SELECT id, item AS order_id, amount FROM orders", catalog)
    assert plan.layout == catalog.find("PAYMENTS").layout
    assert plan.topic is not None
    assert plan.topic.name == "payments"


def test_a_lambda_has_its_own_names() -> None:
    plan = planned("SELECT TRANSFORM(tags, id => UCASE(id)) AS t FROM orders EMIT CHANGES")
    assert schema_text(plan.schema) == "`T` ARRAY<STRING>"


@pytest.mark.parametrize(
    ("group", "first"),
    [("id", "`ROWOFFSET`"), ("id, item", "`ROWOFFSET`"), ("item", "`ROWTIME`")],
)
def test_offsets_of_several_partitions_are_not_compared(group: str, first: str) -> None:
    """Rows of one key lie in one partition; those of another group may come from many."""
    plan = planned(
        f"CREATE TABLE x WITH (KEY_FORMAT='JSON') AS"
        f" SELECT {group}, LATEST_BY_OFFSET(amount) AS last FROM orders"
        f" GROUP BY {group} EMIT CHANGES"
    )
    operator = plan.stages[-1].operator
    assert isinstance(operator, StreamAggregateNode)
    assert f"struct({first}" in operator.calls[0].spark


@pytest.mark.parametrize(
    "joined",
    [
        "customers c JOIN scores s ON c.id = s.id",
        "customers c LEFT JOIN regions r ON c.region = r.region",
    ],
)
def test_the_key_of_a_joined_table_does_not_come_from_a_row_that_may_be_deleted(
    joined: str,
) -> None:
    plan = planned(f"CREATE TABLE t AS SELECT c.id AS id, name FROM {joined}")
    assert dict(plan.stages[-1].output.columns)["ID"].spark == "CAST(`key` AS bigint)"


@pytest.mark.parametrize("last", ["scores x ON c.id = x.id", "regions x ON c.region = x.region"])
def test_between_two_joins_of_tables_a_deleted_row_has_its_key(last: str) -> None:
    plan = planned(
        "CREATE TABLE t AS SELECT c.id AS id, name, s.score FROM customers c"
        f" JOIN scores s ON c.id = s.id LEFT JOIN {last}"
    )
    operator = plan.stages[-1].operator
    assert isinstance(operator, (TableTableJoinNode, ForeignKeyJoinNode))
    assert operator.left.key.spark == "`ROWKEY`"
    assert dict(plan.stages[-1].output.columns)["ID"].spark == "CAST(`key` AS bigint)"
