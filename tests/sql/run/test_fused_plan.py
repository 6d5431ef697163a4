"""Which aggregates are fused, and their plans."""

from __future__ import annotations

import pytest

from ottla.sql.catalog import Catalog
from ottla.sql.definitions import define
from ottla.sql.plan import SinkSpec, plan_query
from ottla.sql.run.fused_plan import (
    GROUPING_SETS_MAX,
    Candidate,
    FusedPlan,
    can_fuse,
    fused,
    fusion_key,
)
from ottla.sql.syntax import parse
from ottla.sql.syntax.statements import CreateAsSelect, CreateSource

ORDERS = """CREATE STREAM orders (id STRING KEY, item STRING, amount INT)
    WITH (KAFKA_TOPIC='orders', VALUE_FORMAT='JSON');"""
START = {"orders": {"0": 0, "1": 0}}
WINDOW = "WINDOW TUMBLING (SIZE 1 MINUTE)"


def candidate(select: str, id_: str = "Q/Aggregate", start: int = 0) -> Candidate:
    source, statement = parse(f"{ORDERS} CREATE TABLE t AS SELECT {select};")
    assert isinstance(source, CreateSource)
    assert isinstance(statement, CreateAsSelect)
    catalog = Catalog().with_source(define(source, {"orders": 2}.get, {}).source)
    spec = SinkSpec(statement.name, statement.kind, {})
    (stage,) = plan_query(statement.query, catalog, {}, sink=spec).stages
    return Candidate(id_, stage, stage.output.topic, {"orders": {"0": start, "1": 0}})


BY_ITEM = "item, COUNT(*) AS n FROM orders GROUP BY item"
SUM_BY_ITEM = "item, SUM(amount) AS s FROM orders GROUP BY item"
BY_ID = "id, COUNT(*) AS n FROM orders GROUP BY id"
LISTED = "item, COLLECT_LIST(amount) AS a FROM orders GROUP BY item"


@pytest.mark.parametrize(
    ("select", "can"),
    [
        (BY_ITEM, True),
        (f"item, COUNT(*) AS n FROM orders {WINDOW} GROUP BY item", True),
        (f"item, COUNT(*) AS n FROM orders {WINDOW} GROUP BY item EMIT FINAL", False),
        ("item, COUNT(*) AS n FROM orders WINDOW SESSION (1 MINUTE) GROUP BY item", False),
        ("item, HISTOGRAM(id) AS h FROM orders GROUP BY item", False),
        ("item, COUNT(*) AS n FROM orders WHERE REGEXP_EXTRACT(id, item) = 'a' GROUP BY item",
         False),
    ],
)  # fmt: skip
def test_compatible_aggregates_are_fused(select: str, can: bool) -> None:
    assert can_fuse(candidate(select).stage) is can


def test_light_aggregates_of_a_topic_fuse_with_any_groups() -> None:
    assert fusion_key(candidate(BY_ITEM).stage) == fusion_key(candidate(BY_ID).stage)
    assert fusion_key(candidate(LISTED).stage) != fusion_key(candidate(BY_ITEM).stage)
    windowed = [
        candidate(f"{group}, COUNT(*) AS n FROM orders {WINDOW} GROUP BY {group}").stage
        for group in ("item", "id", "item")
    ]
    assert fusion_key(windowed[0]) != fusion_key(windowed[1])
    assert fusion_key(windowed[0]) == fusion_key(windowed[2])


def test_one_grouping_set_for_the_same_groups_condition_and_start() -> None:
    (plan,) = fused(
        [
            candidate(BY_ITEM, "A/x"),
            candidate(SUM_BY_ITEM, "B/x"),
            candidate(BY_ID, "C/x"),
            candidate(BY_ITEM, "D/x", start=7),
        ]
    )
    assert [member.grouping for member in plan.members] == [0, 0, 1, 2]
    assert plan.start == START
    assert [dict(grouping_set.begins) for grouping_set in plan.grouping_sets] == [{}, {}, {"0": 7}]
    assert "WHEN 0 THEN ROWOFFSET >= 7" in plan.grouping_sets[2].condition()
    assert FusedPlan.from_json(plan.to_json()) == plan


def test_windows_with_different_starts_are_not_fused() -> None:
    select = f"item, COUNT(*) AS n FROM orders {WINDOW} GROUP BY item"
    plans = fused(
        [candidate(select, "A/x"), candidate(select, "B/x", start=7), candidate(select, "C/x")]
    )
    assert [[member.id for member in plan.members] for plan in plans] == [["A/x", "C/x"], ["B/x"]]


def test_grouping_sets_are_counted() -> None:
    selects = [
        f"amount % {n} AS k, COUNT(*) AS n FROM orders GROUP BY amount % {n}"
        for n in range(2, 2 + GROUPING_SETS_MAX + 1)
    ]
    plans = fused([candidate(select, f"{n}/x") for n, select in enumerate(selects)])
    assert [len(plan.grouping_sets) for plan in plans] == [GROUPING_SETS_MAX, 1]
