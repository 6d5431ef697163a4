"""How the Spark query of a shared scan or a stage begins."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ottla.queries.launcher import REST_MS, TriggerPolicy
from ottla.rows.schema import Format, Layout, Schema
from ottla.spark.options import read_options
from ottla.sql.plan.stages import (
    Aggregate,
    Input,
    Operator,
    Output,
    Stage,
)
from ottla.sql.run import frames
from ottla.sql.run.cluster import Cluster
from ottla.sql.run.fused_plan import FusedPlan
from ottla.sql.run.query_runtime import (
    FEW_RECORDS,
    QueryRuntime,
    member_column,
    wants_earliest,
)
from ottla.sql.syntax.statements import SourceKind

LAYOUT = Layout(Schema(()), Format("KAFKA"), Format("JSON"))
STREAM = Input("S", "s", LAYOUT, SourceKind.STREAM)
COUNT = Aggregate(STREAM, (), ())


class AllReadError(Exception):
    """There is no Spark here that would go on."""


class Unread:
    def __getattr__(self, name: str) -> Any:
        raise AllReadError(name)


class Bare(QueryRuntime):
    spark = cast(Any, SimpleNamespace(conf=SimpleNamespace(set=lambda *_: None)))


@pytest.fixture
def runtime() -> QueryRuntime:
    return Bare(cast(Any, None), Cluster("localhost:1", {}), "", TriggerPolicy())


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[Mapping[str, str]]:
    """The options that topics were read with, in order."""
    found: list[Mapping[str, str]] = []

    def read(_: object, __: Input, options: Mapping[str, str]) -> Unread:
        read_options({"kafka.bootstrap.servers": "localhost:1", **options}, streaming=True)
        found.append(options)
        return Unread()

    monkeypatch.setattr(frames, "read", read)
    return found


def begin(
    runtime: QueryRuntime, operator: Operator, properties: Mapping[str, str], **how: bool
) -> None:
    stage = Stage("Step", operator, Output("out", LAYOUT, ()))
    starts = [None] * len(stage.inputs)
    with pytest.raises(AllReadError):
        runtime.begin_stage(stage, "q", starts, Path("none"), properties, **how)


def rests(options: Mapping[str, str]) -> bool:
    given = options.get("minOffsetsPerTrigger"), options.get("maxTriggerDelay")
    assert given in ((None, None), (str(FEW_RECORDS), f"{REST_MS}ms"))
    return given != (None, None)


def test_a_query_begins_at_the_end_unless_it_is_told() -> None:
    assert not wants_earliest({})
    assert wants_earliest({"auto.offset.reset": "earliest"})
    assert wants_earliest({"ksql.streams.auto.offset.reset": "EARLIEST"})


def test_a_member_leaves_out_what_it_has_had() -> None:
    text = member_column({"text": "struct(1)", "from": {"0": 5, "1": 7}})
    assert text == (
        "IF(CASE ROWPARTITION WHEN 0 THEN ROWOFFSET >= 5 WHEN 1 THEN ROWOFFSET >= 7"
        " ELSE true END, struct(1), NULL)"
    )
    assert member_column({"text": "struct(1)", "from": {}}) == "struct(1)"


def test_a_query_rests_unless_somebody_watches_or_says_how_often(
    runtime: QueryRuntime, reads: list[Mapping[str, str]]
) -> None:
    begin(runtime, COUNT, {})
    begin(runtime, COUNT, {}, watched=True)
    begin(runtime, COUNT, {"commit.interval.ms": "100"})
    begin(runtime, COUNT, {"ksql.streams.commit.interval.ms": "100"})
    assert [rests(each) for each in reads] == [True, False, False, False]


def test_queries_that_share_rest(runtime: QueryRuntime, reads: list[Mapping[str, str]]) -> None:
    for properties in ({}, {"commit.interval.ms": "100"}):
        how: dict[str, Any] = {"name": "n", "properties": properties}
        with pytest.raises(AllReadError):
            runtime.begin_members(STREAM, [], None, Path("none"), available_now=False, **how)
        with pytest.raises(AllReadError):
            runtime.begin_fused(COUNT, FusedPlan((), (), {}), [], Path("none"), **how)
    assert [rests(each) for each in reads] == [True, True, False, False]
