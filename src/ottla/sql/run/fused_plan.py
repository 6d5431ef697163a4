"""FusedPlan: several aggregates of one topic as one, and what their Spark query computes.

Spark's aggregation keeps its state by group, in columns that a checkpoint fixes once and for all.
So aggregates can share a Spark query if they begin together, and what is decided here is written
down with the checkpoint: it stays when members leave.

A grouping set is a way to group rows: groups, condition, and the position it begins at. Members of
one share its groups and have columns of their own. Of several, a row is taken once for each that
wants it, and its group has the number of the grouping set in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from ottla.rows.schema import DELETED, ROWTIME
from ottla.rows.types import spark_name
from ottla.spark.checkpoints import Position, earliest_of
from ottla.sql.comparing import has_map
from ottla.sql.plan.stages import Aggregate, Input, Stage
from ottla.sql.run.frames import (
    member_text,
    since_the_epoch,
    timed,
    window_bounds,
    window_text,
)
from ottla.sql.syntax.statements import Emit, Window

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

GROUPING: Final = "__lane"
WINDOW: Final = "__window"
GROUPING_SETS_MAX: Final = 16
LIGHT: Final = frozenset({"COUNT", "SUM", "AVG", "MIN", "MAX"})
"""The calls of each grouping set are computed for the groups of all: only what costs next to
nothing may be in one of several."""
MAY_FAIL: Final = ("regexp", "rlike", "ottla_")
"""A row that ends one query must not end its neighbours."""


@dataclass(frozen=True, slots=True)
class GroupingSet:
    """`groups` are name, text and type of each; `begins` leaves out earlier rows of partitions."""

    groups: tuple[tuple[str, str, str], ...]
    where: str
    begins: Mapping[str, int] = field(default_factory=dict)

    def condition(self) -> str:
        """Which rows it takes; never null."""
        parts = [f"NOT {DELETED}"]
        if self.begins:
            cases = (f"WHEN {int(p)} THEN ROWOFFSET >= {int(o)}" for p, o in self.begins.items())
            parts.append(f"CASE ROWPARTITION {' '.join(cases)} ELSE true END")
        if self.where:
            parts.append(f"({self.where})")
        parts += [f"({text}) IS NOT NULL" for _, text, _ in self.groups]
        return f"coalesce({' AND '.join(parts)}, false)"


@dataclass(frozen=True, slots=True)
class FusedMember:
    """A member's part: its calls (name and text), and the row that it makes of them."""

    id: str
    grouping: int
    calls: tuple[tuple[str, str], ...]
    topic: str
    layout: str
    text: str


@dataclass(frozen=True, slots=True)
class FusedPlan:
    """What a checkpoint was begun with. Members that have left are computed on, unwritten."""

    grouping_sets: tuple[GroupingSet, ...]
    members: tuple[FusedMember, ...]
    start: Position

    def to_json(self) -> dict[str, Any]:
        sets = [[list(each.groups), each.where, dict(each.begins)] for each in self.grouping_sets]
        members = [
            [each.id, each.grouping, list(each.calls), each.topic, each.layout, each.text]
            for each in self.members
        ]
        return {"lanes": sets, "sharers": members, "start": self.start}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> FusedPlan:
        sets = tuple(
            GroupingSet(tuple((n, t, k) for n, t, k in groups), where, begins)
            for groups, where, begins in data["lanes"]
        )
        members = tuple(
            FusedMember(id_, grouping, tuple((n, t) for n, t in calls), topic, layout, text)
            for id_, grouping, calls, topic, layout, text in data["sharers"]
        )
        return FusedPlan(sets, members, data["start"])


@dataclass(frozen=True, slots=True)
class Candidate:
    """An aggregate that is about to begin. `start` is where."""

    id: str
    stage: Stage
    topic: str
    start: Position

    @property
    def operator(self) -> Aggregate:
        assert isinstance(self.stage.operator, Aggregate)
        return self.stage.operator


def can_fuse(stage: Stage) -> bool:
    """Whether it may be computed with others at all."""
    operator, output = stage.operator, stage.output
    if not isinstance(operator, Aggregate) or operator.emit is not Emit.CHANGES:
        return False
    if operator.input.internal or output.internal or output.exploded:
        return False
    if any(has_map(each.type) for each in operator.calls):
        return False  # which `_all_used` could not hash
    texts = [text for _, text in output.columns] + [each.text for each in operator.groups]
    texts += [text for text in (operator.input.where, output.where) if text is not None]
    sparks = [*(each.spark for each in texts), *(each.spark for each in operator.calls)]
    return not any(word in spark.lower() for spark in sparks for word in MAY_FAIL)


def fusion_key(stage: Stage) -> str:
    """Those with the same text can be computed together.

    With a window only those of one grouping set: the rows that were taken decide which are late.
    """
    operator = stage.operator
    assert isinstance(operator, Aggregate)
    source = operator.input
    parts = [source.topic, source.kind, source.layout.to_json()]
    light = all(each.function.upper() in LIGHT for each in operator.calls)
    if operator.window is not None or not light:
        parts += [repr(operator.window), str(operator.grace_ms), repr(_grouping_set(operator, {}))]
    return "\n".join(parts)


def fused(candidates: Sequence[Candidate]) -> list[FusedPlan]:
    """Plans for all of them: one, if they can all be computed together.

    Several, where they begin at different places and have windows, or where there are many
    grouping sets.
    """
    found: list[FusedPlan] = []
    for some in _groups(candidates):
        start = earliest_of([each.start for each in some])
        sets: list[GroupingSet] = []
        members = []
        for each in some:
            grouping = _grouping_set(each.operator, _begins(each, start))
            if grouping not in sets:
                sets.append(grouping)
            members.append(_member(each, sets.index(grouping)))
        found.append(FusedPlan(tuple(sets), tuple(members), start))
    return found


def _groups(candidates: Sequence[Candidate]) -> Iterable[list[Candidate]]:
    """Those of one start stay together; what has a window, or is not light, has one grouping."""
    by_start: dict[str, list[Candidate]] = {}
    for each in candidates:
        by_start.setdefault(repr(each.start), []).append(each)
    first = candidates[0].operator
    light = all(e.function.upper() in LIGHT for c in candidates for e in c.operator.calls)
    if first.window is not None or not light:
        return by_start.values()
    groups: list[list[Candidate]] = []
    sets: set[str] = set()
    for start, some in by_start.items():
        for each in some:
            grouping = start + repr(_grouping_set(each.operator, {}))
            if not groups or (grouping not in sets and len(sets) >= GROUPING_SETS_MAX):
                groups.append([])
                sets = set()
            sets.add(grouping)
            groups[-1].append(each)
    return groups


def _begins(candidate: Candidate, start: Position) -> dict[str, int]:
    topic = candidate.operator.input.topic
    own = candidate.start.get(topic, {})
    return {p: o for p, o in own.items() if o > start.get(topic, {}).get(p, 0)}


def _grouping_set(operator: Aggregate, begins: Mapping[str, int]) -> GroupingSet:
    groups = tuple((each.name, each.text.spark, each.type.spark) for each in operator.groups)
    where = operator.input.where
    return GroupingSet(groups, where.spark if where else "", dict(begins))


def _member(candidate: Candidate, grouping: int) -> FusedMember:
    output = candidate.stage.output
    calls = tuple((each.name, each.spark) for each in candidate.operator.calls)
    return FusedMember(
        candidate.id, grouping, calls, candidate.topic, output.layout.to_json(), member_text(output)
    )


# -- as a DataFrame


def fused_input(operator: Aggregate) -> Input:
    """The topic as it is: conditions are the grouping sets'."""
    return replace(operator.input, where=None)


def fused_frame(
    frame: DataFrame, plan: FusedPlan, outputs: Sequence[str], operator: Aggregate
) -> DataFrame:
    """A struct column for each member of `outputs`, null where the row is not its own."""
    done = _aggregated(frame, plan, operator.window, operator.grace_ms).where(_all_used(plan))
    names = done.columns
    made: list[str] = []
    for number, each in enumerate(plan.members):
        if each.id not in outputs:
            continue
        kept = [*map(spark_name, names), *made]
        named = done.selectExpr(*kept, *_aliases(plan, number))
        text = (
            each.text
            if len(plan.grouping_sets) == 1
            else f"IF({GROUPING} = {each.grouping}, {each.text}, NULL)"
        )
        done = named.selectExpr(*kept, f"{text} AS m{number}")
        made.append(f"m{number}")
    return done.selectExpr(*made).where(" OR ".join(f"{each} IS NOT NULL" for each in made))


def fused_layouts(plan: FusedPlan, outputs: Sequence[str]) -> list[dict[str, str]]:
    """What the sink makes of these columns."""
    return [
        {"column": f"m{number}", "topic": each.topic, "layout": each.layout}
        for number, each in enumerate(plan.members)
        if each.id in outputs
    ]


def _aliases(plan: FusedPlan, number: int) -> list[str]:
    """The columns of a member by the names that its text has for them."""
    member = plan.members[number]
    groups = [name for name, _, _ in plan.grouping_sets[member.grouping].groups]
    aliases = [f"{_group(member.grouping, each)} AS {spark_name(each)}" for each in groups]
    return [*aliases, *(f"{_call(number, n)} AS {spark_name(n)}" for n, _ in member.calls)]


def _all_used(plan: FusedPlan) -> str:
    """True, which Spark does not know: a call that nobody uses is not computed, and the columns of
    the state would be others than those in the checkpoint. Calls of who has left are such."""
    calls = [_call(n, name) for n, each in enumerate(plan.members) for name, _ in each.calls]
    return f"pmod(xxhash64({', '.join([*calls, ROWTIME])}), 2L) < 2L"


def _group(grouping: int, name: str) -> str:
    return spark_name(f"__{grouping}_{name}")


def _call(member: int, name: str) -> str:
    return spark_name(f"__m{member}_{name}")


def _aggregated(
    frame: DataFrame, plan: FusedPlan, window: Window | None, grace_ms: int
) -> DataFrame:
    from pyspark.sql.functions import expr

    rows = _in_grouping_sets(frame, plan.grouping_sets)
    groups = [
        _group(n, name)
        for n, grouping in enumerate(plan.grouping_sets)
        for name, _, _ in grouping.groups
    ]
    groups = [GROUPING, *groups] if len(plan.grouping_sets) > 1 else groups
    by = [expr(each) for each in groups]
    if window is not None:
        rows = timed(rows, grace_ms)
        by.append(expr(window_text(window)).alias(WINDOW))
    calls = [
        (_call(number, name), text)
        for number, each in enumerate(plan.members)
        for name, text in each.calls
    ]
    results = [expr(f"{text} AS {name}") for name, text in calls]
    done = rows.groupBy(*by).agg(*results, expr(f"max({ROWTIME}) AS {ROWTIME}"))
    done = since_the_epoch(done, window)
    names = [*groups, *(name for name, _ in calls), ROWTIME, f"false AS {DELETED}"]
    return done.selectExpr(*names, *window_bounds(window))


def _in_grouping_sets(frame: DataFrame, sets: Sequence[GroupingSet]) -> DataFrame:
    if len(sets) == 1:
        groups = [f"{text} AS {_group(0, name)}" for name, text, _ in sets[0].groups]
        return frame.where(sets[0].condition()).selectExpr("*", *groups)
    wanted = ", ".join(f"IF({each.condition()}, {n}, NULL)" for n, each in enumerate(sets))
    rows = frame.selectExpr(
        "*", f"explode(filter(array({wanted}), __x -> __x IS NOT NULL)) AS {GROUPING}"
    )
    groups = [
        f"IF({GROUPING} = {n}, {text}, CAST(NULL AS {kind})) AS {_group(n, name)}"
        for n, grouping in enumerate(sets)
        for name, text, kind in grouping.groups
    ]
    return rows.selectExpr("*", *groups)
