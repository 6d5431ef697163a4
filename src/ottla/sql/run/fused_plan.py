"""FusedPlan: several aggregates over one topic, computed by one Spark aggregation.

Spark keeps aggregation state by group, in columns that can't change once there is a checkpoint. So
aggregates can share a Spark query only if they start together, and the plan is stored with the
checkpoint: it stays the same when members leave.

A grouping set is one way to group rows: group columns, a condition, and a starting position. Its
members share the groups and have their own columns. With several grouping sets a row is duplicated
for each set whose condition it meets, and the number of the set is part of the group.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from ottla.rows.schema import DELETED, ROWTIME
from ottla.rows.types import spark_name
from ottla.spark.checkpoints import Position, earliest_of
from ottla.sql.comparable import has_map
from ottla.sql.plan.stages import QueryStage, StageInput, StreamAggregateNode
from ottla.sql.run.frames import member_text, since_the_epoch, timed, window_bounds, window_text
from ottla.sql.syntax.statements import Emit, WindowExpression

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

GROUPING: Final = "__lane"
WINDOW: Final = "__window"
GROUPING_SETS_MAX: Final = 16
LIGHT: Final = frozenset({"COUNT", "SUM", "AVG", "MIN", "MAX"})
"""With several grouping sets Spark computes the calls of each set for the groups of all sets, so
that only cheap functions are allowed then."""
MAY_FAIL: Final = ("regexp", "rlike", "ottla_")
"""A row that ends one query must not end its neighbours."""


@dataclass(frozen=True, slots=True)
class GroupingSet:
    """`groups` are name, text and type of each; `begins` are first offsets by partition."""

    groups: tuple[tuple[str, str, str], ...]
    where: str
    begins: Mapping[str, int] = field(default_factory=dict)

    def condition(self) -> str:
        """The condition of its rows; never null."""
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
    """One aggregate: its calls (name and text), and the text of its output row."""

    id: str
    grouping: int
    calls: tuple[tuple[str, str], ...]
    topic: str
    layout: str
    text: str


@dataclass(frozen=True, slots=True)
class FusedPlan:
    """The plan of a checkpoint. Members that have left are still computed, but not written."""

    grouping_sets: tuple[GroupingSet, ...]
    members: tuple[FusedMember, ...]
    start: Position

    def to_json(self) -> dict[str, Any]:
        sets = [
            [list(grouping_set.groups), grouping_set.where, dict(grouping_set.begins)]
            for grouping_set in self.grouping_sets
        ]
        members = [
            [
                member.id,
                member.grouping,
                list(member.calls),
                member.topic,
                member.layout,
                member.text,
            ]
            for member in self.members
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
    """An aggregate that is about to start, at position `start`."""

    id: str
    stage: QueryStage
    topic: str
    start: Position

    @property
    def operator(self) -> StreamAggregateNode:
        assert isinstance(self.stage.operator, StreamAggregateNode)
        return self.stage.operator


def can_fuse(stage: QueryStage) -> bool:
    """True if the aggregate can share a Spark query."""
    operator, output = stage.operator, stage.output
    if not isinstance(operator, StreamAggregateNode) or operator.emit is not Emit.CHANGES:
        return False
    if operator.input.internal or output.internal or output.exploded:
        return False
    if any(has_map(call.type) for call in operator.calls):
        return False  # `_all_used` can't hash maps
    texts = [text for _, text in output.columns] + [group.text for group in operator.groups]
    texts += [text for text in (operator.input.where, output.where) if text is not None]
    sparks = [*(text.spark for text in texts), *(call.spark for call in operator.calls)]
    return not any(word in spark.lower() for spark in sparks for word in MAY_FAIL)


def fusion_key(stage: QueryStage) -> str:
    """Aggregates with the same key can share a Spark query.

    With a window they must be in the same grouping set, because all rows of the Spark query
    advance the watermark, which decides which rows are late.
    """
    operator = stage.operator
    assert isinstance(operator, StreamAggregateNode)
    source = operator.input
    parts = [source.topic, source.kind, source.layout.to_json()]
    light = all(call.function.upper() in LIGHT for call in operator.calls)
    if operator.window is not None or not light:
        parts += [repr(operator.window), str(operator.grace_ms), repr(_grouping_set(operator, {}))]
    return "\n".join(parts)


def fused(candidates: Sequence[Candidate]) -> list[FusedPlan]:
    """Plans for all candidates: one if possible.

    There are several if windowed ones start at different positions, or with too many grouping sets.
    """
    found: list[FusedPlan] = []
    for some in _groups(candidates):
        start = earliest_of([candidate.start for candidate in some])
        sets: list[GroupingSet] = []
        members = []
        for candidate in some:
            grouping = _grouping_set(candidate.operator, _begins(candidate, start))
            if grouping not in sets:
                sets.append(grouping)
            members.append(_member(candidate, sets.index(grouping)))
        found.append(FusedPlan(tuple(sets), tuple(members), start))
    return found


def _groups(candidates: Sequence[Candidate]) -> Iterable[list[Candidate]]:
    """Keep candidates with one start together; windows and expensive calls need a single
    grouping."""
    by_start: dict[str, list[Candidate]] = {}
    for candidate in candidates:
        by_start.setdefault(repr(candidate.start), []).append(candidate)
    first = candidates[0].operator
    light = all(e.function.upper() in LIGHT for c in candidates for e in c.operator.calls)
    if first.window is not None or not light:
        return by_start.values()
    groups: list[list[Candidate]] = []
    sets: set[str] = set()
    for start, some in by_start.items():
        for candidate in some:
            grouping = start + repr(_grouping_set(candidate.operator, {}))
            if not groups or (grouping not in sets and len(sets) >= GROUPING_SETS_MAX):
                groups.append([])
                sets = set()
            sets.add(grouping)
            groups[-1].append(candidate)
    return groups


def _begins(candidate: Candidate, start: Position) -> dict[str, int]:
    topic = candidate.operator.input.topic
    own = candidate.start.get(topic, {})
    return {p: o for p, o in own.items() if o > start.get(topic, {}).get(p, 0)}


def _grouping_set(operator: StreamAggregateNode, begins: Mapping[str, int]) -> GroupingSet:
    groups = tuple((group.name, group.text.spark, group.type.spark) for group in operator.groups)
    where = operator.input.where
    return GroupingSet(groups, where.spark if where else "", dict(begins))


def _member(candidate: Candidate, grouping: int) -> FusedMember:
    output = candidate.stage.output
    calls = tuple((call.name, call.spark) for call in candidate.operator.calls)
    return FusedMember(
        candidate.id, grouping, calls, candidate.topic, output.layout.to_json(), member_text(output)
    )


# -- as a DataFrame


def fused_input(operator: StreamAggregateNode) -> StageInput:
    """The topic without conditions, which are in the grouping sets."""
    return replace(operator.input, where=None)


def fused_frame(
    frame: DataFrame, plan: FusedPlan, outputs: Sequence[str], operator: StreamAggregateNode
) -> DataFrame:
    """A struct column for each member of `outputs`, null if the row belongs to another one."""
    done = _aggregated(frame, plan, operator.window, operator.grace_ms).where(_all_used(plan))
    names = done.columns
    made: list[str] = []
    for number, member in enumerate(plan.members):
        if member.id not in outputs:
            continue
        kept = [*map(spark_name, names), *made]
        named = done.selectExpr(*kept, *_aliases(plan, number))
        text = (
            member.text
            if len(plan.grouping_sets) == 1
            else f"IF({GROUPING} = {member.grouping}, {member.text}, NULL)"
        )
        done = named.selectExpr(*kept, f"{text} AS m{number}")
        made.append(f"m{number}")
    return done.selectExpr(*made).where(" OR ".join(f"{column} IS NOT NULL" for column in made))


def fused_layouts(plan: FusedPlan, outputs: Sequence[str]) -> list[dict[str, str]]:
    """The layouts by which the sink writes these columns."""
    return [
        {"column": f"m{number}", "topic": member.topic, "layout": member.layout}
        for number, member in enumerate(plan.members)
        if member.id in outputs
    ]


def _aliases(plan: FusedPlan, number: int) -> list[str]:
    """The columns of a member, under the names that its text uses."""
    member = plan.members[number]
    groups = [name for name, _, _ in plan.grouping_sets[member.grouping].groups]
    aliases = [f"{_group(member.grouping, group)} AS {spark_name(group)}" for group in groups]
    return [*aliases, *(f"{_call(number, n)} AS {spark_name(n)}" for n, _ in member.calls)]


def _all_used(plan: FusedPlan) -> str:
    """A condition that is always true, but not for Spark's optimizer. It would remove the unused
    calls of members that have left, and the state's columns would not match the checkpoint."""
    calls = [_call(n, name) for n, member in enumerate(plan.members) for name, _ in member.calls]
    return f"pmod(xxhash64({', '.join([*calls, ROWTIME])}), 2L) < 2L"


def _group(grouping: int, name: str) -> str:
    return spark_name(f"__{grouping}_{name}")


def _call(member: int, name: str) -> str:
    return spark_name(f"__m{member}_{name}")


def _aggregated(
    frame: DataFrame, plan: FusedPlan, window: WindowExpression | None, grace_ms: int
) -> DataFrame:
    from pyspark.sql.functions import expr

    rows = _in_grouping_sets(frame, plan.grouping_sets)
    groups = [
        _group(n, name)
        for n, grouping in enumerate(plan.grouping_sets)
        for name, _, _ in grouping.groups
    ]
    groups = [GROUPING, *groups] if len(plan.grouping_sets) > 1 else groups
    by = [expr(group) for group in groups]
    if window is not None:
        rows = timed(rows, grace_ms)
        by.append(expr(window_text(window)).alias(WINDOW))
    calls = [
        (_call(number, name), text)
        for number, member in enumerate(plan.members)
        for name, text in member.calls
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
    wanted = ", ".join(
        f"IF({grouping_set.condition()}, {n}, NULL)" for n, grouping_set in enumerate(sets)
    )
    rows = frame.selectExpr(
        "*", f"explode(filter(array({wanted}), __x -> __x IS NOT NULL)) AS {GROUPING}"
    )
    groups = [
        f"IF({GROUPING} = {n}, {text}, CAST(NULL AS {kind})) AS {_group(n, name)}"
        for n, grouping in enumerate(sets)
        for name, text, kind in grouping.groups
    ]
    return rows.selectExpr("*", *groups)
