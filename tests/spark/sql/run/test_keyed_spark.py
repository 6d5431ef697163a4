"""The keyed operators where they live: in Spark, over several batches, with their state."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from sqlglot import exp

from ottla.spark.sql.expressions import Scope, resolve_call
from ottla.spark.sql.plan.stages import (
    AggregateCall,
    ForeignKeyJoin,
    GroupColumn,
    Input,
    Keyed,
    SessionAggregate,
    Side,
    StreamTableJoin,
    TableAggregate,
    TableChanges,
    TableJoin,
)
from ottla.spark.sql.schema import Format, Layout, Schema
from ottla.spark.sql.syntax.statements import JoinKind, SourceKind
from ottla.spark.sql.types import BIGINT, INTEGER, STRING, SqlType

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

NOTHING = Layout(Schema(()), Format("KAFKA"), Format("JSON"))
SIDE = Side(Input("T", "t", NOTHING, SourceKind.TABLE), "key", ())
PLACE = "ROWTIME bigint, ROWPARTITION int, ROWOFFSET bigint, __DELETED boolean"

Rows = list[dict[str, Any]]


class Stage:
    """An operator that runs over files: `feed` is a batch, and gives what came of it."""

    def __init__(self, spark: SparkSession, folder: Path, operator: Keyed, *schemas: str) -> None:
        from ottla.spark.sql.run.keyed.operators import apply

        self._folder = folder
        self._count = 0
        self._results: list[Any] = []
        frames = [self._frame(spark, index, schema) for index, schema in enumerate(schemas)]
        result = apply(operator, frames)
        self._query = (
            result.writeStream.outputMode("append")
            .option("checkpointLocation", str(folder / "checkpoint"))
            .foreachBatch(lambda rows, _: self._results.extend(rows.collect()))
            .start()
        )

    def feed(self, *inputs: Rows) -> list[dict[str, Any]]:
        self._results.clear()
        for index, rows in enumerate(inputs):
            whole = [
                {"ROWTIME": 1, "ROWPARTITION": 0, "ROWOFFSET": self._count, "__DELETED": False}
                | row
                for row in rows
            ]
            self._count += 1
            text = "\n".join(map(json.dumps, whole))
            hidden = self._folder / f".{self._count}"
            hidden.write_text(text, encoding="utf-8")
            hidden.rename(self._folder / f"input-{index}" / f"{self._count}.json")
        self._query.processAllAvailable()
        return [row.asDict(recursive=True) for row in self._results]

    def stop(self) -> None:
        self._query.stop()

    def _frame(self, spark: SparkSession, index: int, schema: str) -> DataFrame:
        folder = self._folder / f"input-{index}"
        folder.mkdir()
        return spark.readStream.schema(f"{schema}, {PLACE}").json(str(folder))


@pytest.fixture
def stages(spark: SparkSession, tmp_path: Path) -> Iterator[Any]:
    made: list[Stage] = []

    def make(operator: Keyed, *schemas: str) -> Stage:
        made.append(Stage(spark, tmp_path, operator, *schemas))
        return made[-1]

    yield make
    for each in made:
        each.stop()


def told(rows: list[dict[str, Any]], *names: str) -> list[tuple[Any, ...]]:
    return sorted((tuple(row[name] for name in names) for row in rows), key=repr)


def test_a_stream_meets_what_the_table_had_in_an_earlier_batch(stages: Any) -> None:
    stage = stages(
        StreamTableJoin(SIDE, SIDE, JoinKind.LEFT),
        "key string, row struct<A:string, T:array<int>>",
        "key string, row struct<N:struct<B:int>, M:map<string,int>>",
    )
    table_row = {"N": {"B": 7}, "M": {"x": 1}}
    stage.feed([], [{"key": "k", "row": table_row}])
    joined = stage.feed([{"key": "k", "row": {"A": "a", "T": [1, 2]}, "ROWTIME": 5}])
    assert joined == [
        {
            "key": "k",
            "left": {"A": "a", "T": [1, 2]},
            "right": table_row,
            "ROWTIME": 5,
            "__DELETED": False,
        }
    ]
    gone = {"key": "k", "row": None, "__DELETED": True, "ROWTIME": 6}
    assert stage.feed([], [gone]) == []
    alone = stage.feed([{"key": "k", "row": {"A": "b", "T": None}, "ROWTIME": 7}])
    assert told(alone, "key", "right", "ROWTIME") == [("k", None, 7)]


def test_a_join_of_tables_is_a_table(stages: Any) -> None:
    stage = stages(
        TableJoin(SIDE, SIDE, JoinKind.INNER),
        "key struct<A:int,B:string>, row struct<L:int>",
        "key struct<A:int,B:string>, row struct<R:int>",
    )
    key, others = {"A": 1, "B": "x"}, [{"A": number, "B": "x"} for number in range(2, 6)]
    lefts = [{"key": each, "row": {"L": each["A"]}} for each in (key, *others)]
    assert stage.feed(lefts) == []
    both = stage.feed([], [{"key": key, "row": {"R": 2}}])
    assert told(both, "key", "left", "right", "__DELETED") == [(key, {"L": 1}, {"R": 2}, False)]
    gone = stage.feed([{"key": key, "row": None, "__DELETED": True}])
    assert told(gone, "key", "left", "__DELETED") == [(key, None, True)]


def test_a_foreign_key_join_follows_both_tables(stages: Any) -> None:
    stage = stages(
        ForeignKeyJoin(SIDE, SIDE, JoinKind.INNER),
        "key int, row struct<V:int>, `foreign` string",
        "key string, row struct<N:string>",
    )
    stage.feed([], [{"key": "a", "row": {"N": "Ann"}}, {"key": "b", "row": {"N": "Bob"}}])
    orders = [
        {"key": 1, "row": {"V": 10}, "foreign": "a"},
        {"key": 2, "row": {"V": 20}, "foreign": "a"},
        {"key": 3, "row": {"V": 30}, "foreign": None},
    ]
    assert told(stage.feed(orders), "key", "left", "right") == [
        (1, {"V": 10}, {"N": "Ann"}),
        (2, {"V": 20}, {"N": "Ann"}),
    ]
    renamed = stage.feed([{"key": 1, "row": {"V": 10}, "foreign": "b"}], [])
    assert told(renamed, "key", "right") == [(1, {"N": "Bob"})]
    assert told(stage.feed([], [{"key": "a", "row": {"N": "Anna"}}]), "key", "right") == [
        (2, {"N": "Anna"})
    ]
    gone = stage.feed([{"key": 2, "row": None, "foreign": None, "__DELETED": True}])
    assert told(gone, "key", "__DELETED") == [(2, True)]


def test_changes_of_a_table_undo_what_was_there(stages: Any) -> None:
    stage = stages(TableChanges(SIDE), "key int, row struct<G:string, V:int>")
    assert told(stage.feed([{"key": 1, "row": {"G": "x", "V": 3}}]), "row", "__UNDO") == [
        ({"G": "x", "V": 3}, False)
    ]
    assert told(stage.feed([{"key": 1, "row": {"G": "y", "V": 4}}]), "row", "__UNDO") == [
        ({"G": "x", "V": 3}, True),
        ({"G": "y", "V": 4}, False),
    ]


SCOPE = Scope({("", "V"): (INTEGER, "V")}, aggregates=True)


def called(name: str, function: str, result: SqlType) -> AggregateCall:
    node = exp.Anonymous(this=function, expressions=[exp.column("V")])
    found = resolve_call(node, SCOPE)
    python = found.aggregation
    return AggregateCall(name, function, ("V",), (INTEGER,), (), result, aggregation=python)


COUNT = called("C", "COUNT", BIGINT)
TOTAL = called("S", "SUM", INTEGER)
GROUPS = (GroupColumn("G", "G", STRING),)
INPUTS = "key struct<G:string>, row struct<C_0:int, S_0:int"


def given(group: str, value: int, **more: Any) -> dict[str, Any]:
    undo = {"__UNDO": more.pop("undo")} if "undo" in more else {}
    return {"key": {"G": group}, "row": {"C_0": value, "S_0": value} | undo} | more


def test_an_aggregate_over_a_table_takes_back_what_is_undone(stages: Any) -> None:
    stage = stages(TableAggregate(SIDE, GROUPS, (COUNT, TOTAL)), INPUTS + ", __UNDO:boolean>")
    first = stage.feed([given("x", 3, undo=False), given("x", 4, undo=False, ROWTIME=9)])
    assert told(first, "key", "row", "ROWTIME") == [({"G": "x"}, {"C": 2, "S": 7}, 9)]
    second = stage.feed([given("x", 3, undo=True), given("y", 3, undo=False)])
    assert told(second, "key", "row", "ROWTIME") == [
        ({"G": "x"}, {"C": 1, "S": 4}, 9),
        ({"G": "y"}, {"C": 1, "S": 3}, 1),
    ]
    # More groups than Spark has partitions here: each has a state of its own.
    for times in (1, 2):
        many = stage.feed([given(group, 1, undo=False) for group in "abcde"])
        totals = {row["key"]["G"]: row["row"] for row in many}
        assert totals == {each: {"C": times, "S": times} for each in "abcde"}


@pytest.mark.parametrize(
    ("kind", "texts"),
    [
        ("time(3)", ["00:00:00", "00:00:00.001", "12:00:00", "23:59:59.999", None]),
        ("array<struct<X:string>>", ["[]", '[{"X":"a"}]', '[{"X":null}]', "[null]", None]),
        (
            "struct<G:struct<X:decimal(9,2)>,H:date>",
            ['{"G":{"X":1.5}}', '{"G":{"X":1.25}}', '{"G":{}}', "{}", '{"H":"2026-01-02"}'],
        ),
    ],
    ids=["a time", "an array", "structs and nulls"],
)
def test_keys_of_all_kinds_have_a_state_each(
    stages: Any, monkeypatch: pytest.MonkeyPatch, kind: str, texts: list[str | None]
) -> None:
    plain = Stage._frame

    def read(self: Stage, spark: SparkSession, index: int, schema: str) -> DataFrame:
        made = f"CAST(text AS {kind})" if kind == "time(3)" else f"from_json(text, '{kind}')"
        return plain(self, spark, index, schema).selectExpr(f"{made} AS key", "* EXCEPT (text)")

    monkeypatch.setattr(Stage, "_frame", read)
    inputs = "text string, row struct<C_0:int, S_0:int, __UNDO:boolean>"
    stage = stages(TableAggregate(SIDE, GROUPS, (COUNT, TOTAL)), inputs)
    rows = [
        {"text": text, "row": {"C_0": 1, "S_0": number, "__UNDO": False}}
        for number, text in enumerate(texts)
    ]
    for times in (1, 2):
        found = sorted((row["row"]["C"], row["row"]["S"]) for row in stage.feed(rows))
        assert found == [(times, times * number) for number in range(len(texts))]


def test_sessions_grow_merge_and_close(stages: Any) -> None:
    operator = SessionAggregate(SIDE, GROUPS, (COUNT, TOTAL), gap_ms=100, grace_ms=0)
    stage = stages(operator, INPUTS + ">")
    names = ("WINDOWSTART", "WINDOWEND", "row", "__DELETED")
    assert told(stage.feed([given("x", 1, ROWTIME=1000)]), *names) == [
        (1000, 1000, {"C": 1, "S": 1}, False)
    ]
    assert told(stage.feed([given("x", 2, ROWTIME=1080)]), *names) == [
        (1000, 1000, None, True),
        (1000, 1080, {"C": 2, "S": 3}, False),
    ]
    many = stage.feed([given(group, 1, ROWTIME=1050) for group in "abcde"])
    found = {row["key"]["G"]: (row["WINDOWSTART"], row["row"]) for row in many}
    assert found == {each: (1050, {"C": 1, "S": 1}) for each in "abcde"}
    stage.feed([given("y", 5, ROWTIME=9000)])
    assert stage.feed([given("x", 9, ROWTIME=1090)]) == []
    # The oldest that is not too late, and one that is.
    late = stage.feed([given("x", 9, ROWTIME=8900), given("z", 9, ROWTIME=8899)])
    assert told(late, *names) == [(8900, 8900, {"C": 1, "S": 9}, False)]


def test_a_session_may_begin_at_time_0(stages: Any) -> None:
    operator = SessionAggregate(SIDE, GROUPS, (COUNT, TOTAL), gap_ms=100, grace_ms=0)
    stage = stages(operator, INPUTS + ">")
    first = stage.feed([given("x", 1, ROWTIME=0)])
    assert told(first, "WINDOWSTART", "WINDOWEND", "row") == [(0, 0, {"C": 1, "S": 1})]
