"""How the Spark query of a feed or a stage begins."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ottla.spark.options import read_options
from ottla.spark.running.begin import REST_MS, Pace
from ottla.spark.sql.plan.stages import (
    Aggregate,
    Input,
    Operator,
    Output,
    Side,
    Stage,
    StreamJoin,
    StreamTableJoin,
)
from ottla.spark.sql.run import frames
from ottla.spark.sql.run.cluster import Cluster
from ottla.spark.sql.run.spells import (
    BATCH_RECORDS_MAX,
    FEW_RECORDS,
    Ground,
    member_column,
    wants_earliest,
)
from ottla.spark.sql.run.together import Together
from ottla.spark.sql.schema import Format, Layout, Schema
from ottla.spark.sql.syntax.statements import JoinKind, SourceKind

LAYOUT = Layout(Schema(()), Format("KAFKA"), Format("JSON"))
STREAM = Input("S", "s", LAYOUT, SourceKind.STREAM)
TABLE = Input("T", "t", LAYOUT, SourceKind.TABLE)
SIDE = Side(STREAM, "ID", ())
COUNT = Aggregate(STREAM, (), ())
WITH_TABLE = StreamTableJoin(SIDE, Side(TABLE, "ID", ()), JoinKind.INNER)
OF_STREAMS = StreamJoin(SIDE, SIDE, JoinKind.INNER, before_ms=1, after_ms=1, grace_ms=0)


class AllReadError(Exception):
    """There is no Spark here that would go on."""


class Unread:
    def __getattr__(self, name: str) -> Any:
        raise AllReadError(name)


class Bare(Ground):
    spark = cast(Any, SimpleNamespace(conf=SimpleNamespace(set=lambda *_: None)))


@pytest.fixture
def ground() -> Ground:
    return Bare(cast(Any, None), Cluster("localhost:1", {}), "", Pace())


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


def begin(ground: Ground, operator: Operator, properties: Mapping[str, str], **how: bool) -> None:
    stage = Stage("Step", operator, Output("out", LAYOUT, ()))
    starts = [None] * len(stage.inputs)
    with pytest.raises(AllReadError):
        ground.begin_stage(stage, "q", starts, Path("none"), properties, **how)


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
    ground: Ground, reads: list[Mapping[str, str]]
) -> None:
    begin(ground, COUNT, {})
    begin(ground, COUNT, {}, watched=True)
    begin(ground, COUNT, {"commit.interval.ms": "100"})
    begin(ground, COUNT, {"ksql.streams.commit.interval.ms": "100"})
    assert [rests(each) for each in reads] == [True, False, False, False]


def test_queries_that_share_rest(ground: Ground, reads: list[Mapping[str, str]]) -> None:
    for properties in ({}, {"commit.interval.ms": "100"}):
        how: dict[str, Any] = {"name": "n", "properties": properties}
        with pytest.raises(AllReadError):
            ground.begin_members(STREAM, [], None, Path("none"), available_now=False, **how)
        with pytest.raises(AllReadError):
            ground.begin_together(COUNT, Together((), (), {}), [], Path("none"), **how)
    assert [rests(each) for each in reads] == [True, True, False, False]


@pytest.mark.parametrize(
    ("operator", "in_parts"), [(WITH_TABLE, [True, False]), (OF_STREAMS, [False, False])]
)
def test_of_two_inputs_none_rests(
    ground: Ground, reads: list[Mapping[str, str]], operator: Operator, in_parts: list[bool]
) -> None:
    """Nor is one that the other must not be ahead of read in parts."""
    begin(ground, operator, {})
    assert [rests(each) for each in reads] == [False, False]
    most = [each.get("maxOffsetsPerTrigger") for each in reads]
    assert most == [str(BATCH_RECORDS_MAX) if each else None for each in in_parts]
