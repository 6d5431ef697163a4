"""Starting the Spark query of a shared scan or a stage."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ottla.queries.launcher import AGGREGATE_REST_MS, REST_MS, TriggerPolicy
from ottla.rows.schema import FormatInfo, Layout, LogicalSchema
from ottla.spark.options import read_options
from ottla.sql.plan.stages import (
    PlanNode,
    QueryStage,
    StageInput,
    StageOutput,
    StreamAggregateNode,
)
from ottla.sql.run import frames
from ottla.sql.run.fused_plan import FusedPlan
from ottla.sql.run.query_runtime import (
    FEW_RECORDS,
    QueryRuntime,
    member_column,
    wants_earliest,
)
from ottla.sql.run.query_topics import QueryTopics
from ottla.sql.syntax.statements import SourceKind

LAYOUT = Layout(LogicalSchema(()), FormatInfo("KAFKA"), FormatInfo("JSON"))
STREAM = StageInput("S", "s", LAYOUT, SourceKind.STREAM)
COUNT = StreamAggregateNode(STREAM, (), ())


class AllReadError(Exception):
    """There is no Spark here that would continue."""


class Unread:
    def __getattr__(self, name: str) -> Any:
        raise AllReadError(name)


class Bare(QueryRuntime):
    spark = cast(Any, SimpleNamespace(conf=SimpleNamespace(set=lambda *_: None)))


@pytest.fixture
def runtime() -> QueryRuntime:
    return Bare(cast(Any, None), QueryTopics("localhost:1", {}), "", TriggerPolicy())


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[Mapping[str, str]]:
    """The options that topics were read with, in order."""
    found: list[Mapping[str, str]] = []

    def read(_: object, __: StageInput, options: Mapping[str, str]) -> Unread:
        read_options({"kafka.bootstrap.servers": "localhost:1", **options}, streaming=True)
        found.append(options)
        return Unread()

    monkeypatch.setattr(frames, "read", read)
    return found


def begin(
    runtime: QueryRuntime, operator: PlanNode, properties: Mapping[str, str], **how: bool
) -> None:
    stage = QueryStage("Step", operator, StageOutput("out", LAYOUT, ()))
    starts = [None] * len(stage.inputs)
    with pytest.raises(AllReadError):
        runtime.begin_stage(stage, "q", starts, Path("none"), properties, **how)


def rest_ms(options: Mapping[str, str]) -> int | None:
    """How long a few records wait for more."""
    delay = options.get("maxTriggerDelay")
    assert options.get("minOffsetsPerTrigger") == (None if delay is None else str(FEW_RECORDS))
    return None if delay is None else int(delay.removesuffix("ms"))


def test_a_query_starts_at_the_end_by_default() -> None:
    assert not wants_earliest({})
    assert wants_earliest({"auto.offset.reset": "earliest"})
    assert wants_earliest({"ksql.streams.auto.offset.reset": "EARLIEST"})


def test_a_member_skips_rows_that_it_has_seen() -> None:
    text = member_column({"text": "struct(1)", "from": {"0": 5, "1": 7}})
    assert text == (
        "IF(CASE ROWPARTITION WHEN 0 THEN ROWOFFSET >= 5 WHEN 1 THEN ROWOFFSET >= 7"
        " ELSE true END, struct(1), NULL)"
    )
    assert member_column({"text": "struct(1)", "from": {}}) == "struct(1)"


def test_a_query_pauses_between_batches_unless_configured_or_push(
    runtime: QueryRuntime, reads: list[Mapping[str, str]]
) -> None:
    begin(runtime, COUNT, {})
    begin(runtime, COUNT, {}, watched=True)
    begin(runtime, COUNT, {"commit.interval.ms": "100"})
    begin(runtime, COUNT, {"ksql.streams.commit.interval.ms": "100"})
    assert [rest_ms(read) for read in reads] == [AGGREGATE_REST_MS, None, None, None]


def test_shared_queries_pause_between_batches(
    runtime: QueryRuntime, reads: list[Mapping[str, str]]
) -> None:
    for properties in ({}, {"commit.interval.ms": "100"}):
        how: dict[str, Any] = {"name": "n", "properties": properties}
        with pytest.raises(AllReadError):
            runtime.begin_members(STREAM, [], None, Path("none"), available_now=False, **how)
        with pytest.raises(AllReadError):
            runtime.begin_fused(COUNT, FusedPlan((), (), {}), [], Path("none"), **how)
    assert [rest_ms(read) for read in reads] == [REST_MS, AGGREGATE_REST_MS, None, None]
