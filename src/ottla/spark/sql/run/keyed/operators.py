"""Keyed operators of a plan, as Spark carries them out. `plan/stages.py` has the contract."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql import DataFrame, Row

from ottla.spark.sql.plan.stages import (
    ForeignKeyJoin,
    Keyed,
    SessionAggregate,
    StreamTableJoin,
    TableAggregate,
    TableChanges,
    TableJoin,
)
from ottla.spark.sql.run.keyed import joins
from ottla.spark.sql.run.keyed.aggregate_steps import (
    session_aggregate,
    table_aggregate,
    table_changes,
)
from ottla.spark.sql.run.keyed.foreign_steps import foreign_key_join
from ottla.spark.sql.run.keyed.frames import both, event_of, joined_schema, keyed
from ottla.spark.sql.run.keyed.joins import RIGHT, Pairs
from ottla.spark.sql.run.keyed.order import Event, in_order
from ottla.spark.sql.run.keyed.states import OneValue, Results, Rows


def apply(operator: Keyed, frames: Sequence[DataFrame]) -> DataFrame:
    """What an operator makes of its inputs; one frame for each of them."""
    match operator:
        case StreamTableJoin():
            return _join(joins.StreamTableJoin(operator.kind), *frames)
        case TableJoin():
            return _join(joins.TableTableJoin(operator.kind), *frames)
        case ForeignKeyJoin():
            return foreign_key_join(operator.kind, *frames)
        case TableChanges():
            return table_changes(*frames)
        case TableAggregate():
            return table_aggregate(operator, *frames)
        case SessionAggregate():
            return session_aggregate(operator, *frames)


def _join(
    machine: joins.StreamTableJoin | joins.TableTableJoin, left: DataFrame, right: DataFrame
) -> DataFrame:
    def work(state: Pairs, key: Any, rows: Rows) -> Results:
        for event in in_order(map(_event, rows)):
            for each in machine.apply(state, event):
                yield key, each.left, each.right, each.time_ms, each.deleted

    output = joined_schema(left, right)
    return keyed(both(left, right), OneValue(dict, work, output.names), output)


def _event(row: Row) -> Event:
    side = row["side"]
    return event_of(row, side=side, column="right" if side == RIGHT else "left")
