"""EXPLAIN: a plan that can be read."""

from __future__ import annotations

from planned_shop import planned

from ottla.sql.plan import explain_plan


def test_a_plan_can_be_read_from_source_to_sink() -> None:
    text = explain_plan(
        planned(
            "CREATE TABLE x AS SELECT c.region, COUNT(*) AS n FROM orders o"
            " JOIN customers c ON o.customer = c.id"
            " WINDOW TUMBLING (SIZE 1 MINUTE, GRACE PERIOD 1 SECOND)"
            " GROUP BY c.region HAVING COUNT(*) > 1"
        )
    )
    for line in (
        "TABLE of `REGION` STRING KEY, `N` BIGINT",
        "  read stream ORDERS, topic orders",
        "  read table CUSTOMERS, topic customers",
        "  stream-table join, INNER: `CUSTOMER` = `ID`",
        "  to internal topic Join (JSON, JSON)",
        "  read internal topic Join",
        "  group G0 = `C_REGION`",
        "  tumbling window, size 60000 ms, grace 1000 ms",
        "  to topic X (KAFKA, JSON)",
    ):
        assert line in text.splitlines()


def test_rows_and_tables_functions_are_named() -> None:
    text = explain_plan(planned("SELECT EXPLODE(tags) AS t FROM orders EMIT CHANGES"))
    assert "  a row for each E0 in `TAGS`" in text.splitlines()
    assert text.endswith("to the client")
