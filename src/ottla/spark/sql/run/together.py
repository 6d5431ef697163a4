"""Several aggregates of one topic as one: which of them fit, and what their Spark query computes.

Spark's aggregation keeps its state by group, in columns that a checkpoint fixes once and for all.
So aggregates can share a Spark query if they begin together, and what is decided here is written
down with the checkpoint: it stays when members leave.

A lane is a way to group rows: groups, condition, and the position it begins at. Members of one
lane share its groups and have columns of their own. Several lanes: a row is taken once for each
lane that wants it, and its group has the lane's number in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from ottla.spark.running.checkpoints import Position, earliest_of
from ottla.spark.sql.comparing import has_map
from ottla.spark.sql.plan.stages import Aggregate, Input, Stage
from ottla.spark.sql.run.frames import (
    member_text,
    since_the_epoch,
    timed,
    window_bounds,
    window_text,
)
from ottla.spark.sql.schema import DELETED, ROWTIME
from ottla.spark.sql.syntax.statements import Emit, Window
from ottla.spark.sql.types import spark_name

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

LANE: Final = "__lane"
WINDOW: Final = "__window"
LANES_MAX: Final = 16
LIGHT: Final = frozenset({"COUNT", "SUM", "AVG", "MIN", "MAX"})
"""Every lane's calls are computed for the groups of all lanes: only what costs next to nothing may
be in one of several."""
MAY_FAIL: Final = ("regexp", "rlike", "ottla_")
"""A row that ends one query must not end its neighbours."""


@dataclass(frozen=True, slots=True)
class Lane:
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
class Sharer:
    """A member's part: its calls (name and text), and the row that it makes of them."""

    id: str
    lane: int
    calls: tuple[tuple[str, str], ...]
    topic: str
    layout: str
    text: str


@dataclass(frozen=True, slots=True)
class Together:
    """What a checkpoint was begun with. Members that have left are computed on, unwritten."""

    lanes: tuple[Lane, ...]
    sharers: tuple[Sharer, ...]
    start: Position

    def to_json(self) -> dict[str, Any]:
        lanes = [[list(each.groups), each.where, dict(each.begins)] for each in self.lanes]
        sharers = [
            [each.id, each.lane, list(each.calls), each.topic, each.layout, each.text]
            for each in self.sharers
        ]
        return {"lanes": lanes, "sharers": sharers, "start": self.start}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Together:
        lanes = tuple(
            Lane(tuple((n, t, k) for n, t, k in groups), where, begins)
            for groups, where, begins in data["lanes"]
        )
        sharers = tuple(
            Sharer(id_, lane, tuple((n, t) for n, t in calls), topic, layout, text)
            for id_, lane, calls, topic, layout, text in data["sharers"]
        )
        return Together(lanes, sharers, data["start"])


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


def can_share(stage: Stage) -> bool:
    """Whether it may be computed with others at all."""
    operator, output = stage.operator, stage.output
    if not isinstance(operator, Aggregate) or operator.emit is not Emit.CHANGES:
        return False
    if operator.input.internal or output.internal or output.exploded:
        return False
    if any(has_map(each.type) for each in operator.calls):
        return False  # which `_all_used` could not hash
    texts = [operator.input.where, output.where, *(text for _, text in output.columns)]
    texts += [*(each.spark for each in operator.groups), *(e.spark for e in operator.calls)]
    return not any(word in text.lower() for text in texts for word in MAY_FAIL)


def company(stage: Stage) -> str:
    """Those with the same text can be computed together.

    With a window only those of one lane: which rows are late is by the rows that were taken.
    """
    operator = stage.operator
    assert isinstance(operator, Aggregate)
    source = operator.input
    parts = [source.topic, source.kind, source.layout.to_json()]
    light = all(each.function.upper() in LIGHT for each in operator.calls)
    if operator.window is not None or not light:
        parts += [repr(operator.window), str(operator.grace_ms), repr(_lane(operator, {}))]
    return "\n".join(parts)


def together(candidates: Sequence[Candidate]) -> list[Together]:
    """Plans for all of them: one, if they can all be computed together.

    Several, where they begin at different places and have windows, or where there are many lanes.
    """
    found: list[Together] = []
    for some in _companies(candidates):
        start = earliest_of([each.start for each in some])
        lanes: list[Lane] = []
        sharers = []
        for each in some:
            lane = _lane(each.operator, _begins(each, start))
            if lane not in lanes:
                lanes.append(lane)
            sharers.append(_sharer(each, lanes.index(lane)))
        found.append(Together(tuple(lanes), tuple(sharers), start))
    return found


def _companies(candidates: Sequence[Candidate]) -> Iterable[list[Candidate]]:
    """Those of one start are not parted; what has a window, or is not light, has one lane."""
    by_start: dict[str, list[Candidate]] = {}
    for each in candidates:
        by_start.setdefault(repr(each.start), []).append(each)
    first = candidates[0].operator
    light = all(e.function.upper() in LIGHT for c in candidates for e in c.operator.calls)
    if first.window is not None or not light:
        return by_start.values()
    companies: list[list[Candidate]] = []
    lanes: set[str] = set()
    for start, some in by_start.items():
        for each in some:
            lane = start + repr(_lane(each.operator, {}))
            if not companies or (lane not in lanes and len(lanes) >= LANES_MAX):
                companies.append([])
                lanes = set()
            lanes.add(lane)
            companies[-1].append(each)
    return companies


def _begins(candidate: Candidate, start: Position) -> dict[str, int]:
    topic = candidate.operator.input.topic
    own = candidate.start.get(topic, {})
    return {p: o for p, o in own.items() if o > start.get(topic, {}).get(p, 0)}


def _lane(operator: Aggregate, begins: Mapping[str, int]) -> Lane:
    groups = tuple((each.name, each.spark, each.type.spark) for each in operator.groups)
    return Lane(groups, operator.input.where, dict(begins))


def _sharer(candidate: Candidate, lane: int) -> Sharer:
    output = candidate.stage.output
    calls = tuple((each.name, each.spark) for each in candidate.operator.calls)
    return Sharer(
        candidate.id, lane, calls, candidate.topic, output.layout.to_json(), member_text(output)
    )


# -- as a DataFrame


def shared_input(operator: Aggregate) -> Input:
    """The topic as it is: conditions are the lanes'."""
    return replace(operator.input, where="")


def shared_frame(
    frame: DataFrame, plan: Together, outputs: Sequence[str], operator: Aggregate
) -> DataFrame:
    """A struct column for each member of `outputs`, null where the row is not its own."""
    done = _aggregated(frame, plan, operator.window, operator.grace_ms).where(_all_used(plan))
    names = done.columns
    made: list[str] = []
    for number, each in enumerate(plan.sharers):
        if each.id not in outputs:
            continue
        kept = [*map(spark_name, names), *made]
        named = done.selectExpr(*kept, *_aliases(plan, number))
        text = each.text if len(plan.lanes) == 1 else f"IF({LANE} = {each.lane}, {each.text}, NULL)"
        done = named.selectExpr(*kept, f"{text} AS m{number}")
        made.append(f"m{number}")
    return done.selectExpr(*made).where(" OR ".join(f"{each} IS NOT NULL" for each in made))


def shared_layouts(plan: Together, outputs: Sequence[str]) -> list[dict[str, str]]:
    """What the sink makes of these columns."""
    return [
        {"column": f"m{number}", "topic": each.topic, "layout": each.layout}
        for number, each in enumerate(plan.sharers)
        if each.id in outputs
    ]


def _aliases(plan: Together, number: int) -> list[str]:
    """The columns of a member by the names that its text has for them."""
    sharer = plan.sharers[number]
    groups = [name for name, _, _ in plan.lanes[sharer.lane].groups]
    aliases = [f"{_group(sharer.lane, each)} AS {spark_name(each)}" for each in groups]
    return [*aliases, *(f"{_call(number, n)} AS {spark_name(n)}" for n, _ in sharer.calls)]


def _all_used(plan: Together) -> str:
    """True, which Spark does not know: a call that nobody uses is not computed, and the columns of
    the state would be others than those in the checkpoint. Calls of who has left are such."""
    calls = [_call(n, name) for n, each in enumerate(plan.sharers) for name, _ in each.calls]
    return f"pmod(xxhash64({', '.join([*calls, ROWTIME])}), 2L) < 2L"


def _group(lane: int, name: str) -> str:
    return spark_name(f"__{lane}_{name}")


def _call(sharer: int, name: str) -> str:
    return spark_name(f"__m{sharer}_{name}")


def _aggregated(
    frame: DataFrame, plan: Together, window: Window | None, grace_ms: int
) -> DataFrame:
    from pyspark.sql.functions import expr

    rows = _in_lanes(frame, plan.lanes)
    groups = [_group(n, name) for n, lane in enumerate(plan.lanes) for name, _, _ in lane.groups]
    groups = [LANE, *groups] if len(plan.lanes) > 1 else groups
    by = [expr(each) for each in groups]
    if window is not None:
        rows = timed(rows, grace_ms)
        by.append(expr(window_text(window)).alias(WINDOW))
    calls = [
        (_call(number, name), text)
        for number, each in enumerate(plan.sharers)
        for name, text in each.calls
    ]
    results = [expr(f"{text} AS {name}") for name, text in calls]
    done = rows.groupBy(*by).agg(*results, expr(f"max({ROWTIME}) AS {ROWTIME}"))
    done = since_the_epoch(done, window)
    names = [*groups, *(name for name, _ in calls), ROWTIME, f"false AS {DELETED}"]
    return done.selectExpr(*names, *window_bounds(window))


def _in_lanes(frame: DataFrame, lanes: Sequence[Lane]) -> DataFrame:
    if len(lanes) == 1:
        groups = [f"{text} AS {_group(0, name)}" for name, text, _ in lanes[0].groups]
        return frame.where(lanes[0].condition()).selectExpr("*", *groups)
    wanted = ", ".join(f"IF({each.condition()}, {n}, NULL)" for n, each in enumerate(lanes))
    rows = frame.selectExpr(
        "*", f"explode(filter(array({wanted}), __x -> __x IS NOT NULL)) AS {LANE}"
    )
    groups = [
        f"IF({LANE} = {n}, {text}, CAST(NULL AS {kind})) AS {_group(n, name)}"
        for n, lane in enumerate(lanes)
        for name, text, kind in lane.groups
    ]
    return rows.selectExpr("*", *groups)
