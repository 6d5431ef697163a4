"""The three steps of a foreign-key join in Spark; `foreign.py` has what they do."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as sf
from pyspark.sql.types import BooleanType, IntegerType, LongType, StructField, StructType

from ottla.spark.sql.run.keyed.foreign import (
    Answer,
    Answered,
    Answers,
    Group,
    Matches,
    Subscribed,
    Subscription,
    Subscriptions,
)
from ottla.spark.sql.run.keyed.frames import (
    PLACE,
    event_of,
    joined_schema,
    keyed,
    null,
    type_of,
)
from ottla.spark.sql.run.keyed.joins import LEFT, RIGHT
from ottla.spark.sql.run.keyed.order import in_order
from ottla.spark.sql.run.keyed.states import OneValue, Results, Rows, ValueAndMap
from ottla.spark.sql.schema import DELETED, ROWOFFSET, ROWPARTITION, ROWTIME
from ottla.spark.sql.syntax.statements import JoinKind


def foreign_key_join(kind: JoinKind, left: DataFrame, right: DataFrame) -> DataFrame:
    answers = _answers(kind, _subscriptions(left), right)

    def work(state: Answered, key: Any, rows: Rows) -> Results:
        found = [_answer_of(key, row) for row in rows]
        for each in Answers().apply(state, found):
            yield key, each.left, each.right, each.time_ms, each.deleted

    output = joined_schema(left, right)
    return keyed(answers, OneValue(Answered, work, output.names), output)


def _answer_of(key: Any, row: Row) -> Answer:
    return Answer(
        key,
        row["version"],
        row["number"],
        row["left"],
        row["right"],
        row[ROWTIME],
        bool(row[DELETED]),
    )


def _subscriptions(left: DataFrame) -> DataFrame:
    """Its `key` is the foreign key: what the next step goes by."""

    def work(state: Subscribed, key: Any, rows: Rows) -> Results:
        events = (event_of(row, side=LEFT, column="row", extra="foreign") for row in rows)
        for event in in_order(events):
            for wish in Subscriptions().apply(state, event):
                yield wish.foreign, key, wish.version, wish.row, wish.time_ms

    output = StructType(
        [
            StructField("key", type_of(left, "foreign")),
            StructField("primary", type_of(left, "key")),
            StructField("version", LongType()),
            StructField("left", type_of(left, "row")),
            StructField(ROWTIME, LongType()),
        ]
    )
    return keyed(left, OneValue(Subscribed, work, output.names), output)


def _answers(kind: JoinKind, wishes: DataFrame, right: DataFrame) -> DataFrame:
    machine = Matches(kind)

    def work(held: Any, key: Any, rows: Rows) -> Results:
        group, subscribers = held
        asked: list[Row] = []
        told: list[Row] = []
        for row in rows:
            (told if row["version"] is None else asked).append(row)
        found: list[Answer] = []
        for event in in_order(event_of(row, side=RIGHT, column="right") for row in told):
            found += machine.right(group, subscribers, event)
        for row in sorted(asked, key=_version):
            wish = Subscription(key, row["version"], row["left"], row[ROWTIME])
            found += machine.subscribe(group, subscribers, row["primary"], wish)
        for each in found:
            place = (each.time_ms, each.deleted)
            yield each.primary, each.version, each.number, each.left, each.right, *place

    output = StructType(
        [
            StructField("key", type_of(wishes, "primary")),
            StructField("version", LongType()),
            StructField("number", LongType()),
            StructField("left", type_of(wishes, "left")),
            StructField("right", type_of(right, "row")),
            StructField(ROWTIME, LongType()),
            StructField(DELETED, BooleanType()),
        ]
    )
    rows = _wishes_and_rows(wishes, right)
    return keyed(rows, ValueAndMap(Group, work, output.names), output)


def _version(row: Row) -> int:
    version = row["version"]
    assert isinstance(version, int)
    return version


def _wishes_and_rows(wishes: DataFrame, right: DataFrame) -> DataFrame:
    """Subscriptions and the right table's rows in one: a row of the table has no version."""
    asked = wishes.select(
        "key",
        "primary",
        "version",
        "left",
        null(type_of(right, "row"), "right"),
        ROWTIME,
        null(IntegerType(), ROWPARTITION),
        null(LongType(), ROWOFFSET),
        sf.lit(False).alias(DELETED),
    )
    told = right.select(
        "key",
        null(type_of(wishes, "primary"), "primary"),
        null(LongType(), "version"),
        null(type_of(wishes, "left"), "left"),
        sf.col("row").alias("right"),
        *map(sf.col, PLACE),
    )
    return asked.union(told)
