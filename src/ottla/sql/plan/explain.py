"""A plan as text, for EXPLAIN."""

from __future__ import annotations

from ottla.sql.catalog import schema_text
from ottla.sql.plan.stages import (
    ForeignKeyJoinNode,
    PlanNode,
    ProjectNode,
    QueryPlan,
    QueryStage,
    SessionAggregateNode,
    StageInput,
    StreamAggregateNode,
    StreamStreamJoinNode,
    StreamTableJoinNode,
    TableAggregateNode,
    TableGroupByNode,
    TableTableJoinNode,
)
from ottla.sql.syntax.statements import WindowExpression

_JOINS = {
    StreamStreamJoinNode: "stream-stream",
    StreamTableJoinNode: "stream-table",
    TableTableJoinNode: "table-table",
    ForeignKeyJoinNode: "foreign-key table-table",
}


def explain_plan(plan: QueryPlan) -> str:
    """The stages in order, from the sources to the sink."""
    lines = [f"{plan.kind} of {schema_text(plan.schema)}"]
    for number, stage in enumerate(plan.stages, 1):
        lines += [f"stage {number}: {stage.step}", *(f"  {line}" for line in _stage(stage))]
    return "\n".join(lines)


def _stage(stage: QueryStage) -> list[str]:
    lines = [_read(stage_input) for stage_input in stage.inputs]
    lines += _operator(stage.operator)
    output = stage.output
    if output.where:
        lines.append(f"where {output.where.spark}")
    for name, text in output.exploded:
        lines.append(f"a row for each {name} in {text.spark}")
    lines += [f"{name} = {text.spark}" for name, text in output.columns]
    if not output.topic:
        return [*lines, "to the client"]
    kind = "internal topic" if output.internal else "topic"
    formats = f"{output.layout.key_format.name}, {output.layout.value_format.name}"
    return [*lines, f"to {kind} {output.topic} ({formats})"]


def _read(source: StageInput) -> str:
    kind = "internal topic" if source.internal else f"{source.kind.lower()} {source.name}, topic"
    where = f", where {source.where.spark}" if source.where else ""
    return f"read {kind} {source.topic}{where}"


def _operator(operator: PlanNode) -> list[str]:
    if isinstance(operator, ProjectNode):
        return ["row by row; shares a Spark query with others on the same input"]
    if isinstance(operator, TableGroupByNode):
        return ["changes: undo the old row, add the new one"]
    if isinstance(operator, StreamAggregateNode | TableAggregateNode | SessionAggregateNode):
        return _aggregate(operator)
    text = f"{_JOINS[type(operator)]} join, {operator.kind}"
    left = operator.left.foreign or operator.left.key
    text += f": {left.spark} = {operator.right.key.spark}"
    if isinstance(operator, StreamStreamJoinNode):
        text += f", within {operator.before_ms} ms before and {operator.after_ms} ms after"
        text += f", grace {operator.grace_ms} ms"
    return [text]


def _aggregate(
    operator: StreamAggregateNode | TableAggregateNode | SessionAggregateNode,
) -> list[str]:
    lines = [f"group {group.name} = {group.text.spark}" for group in operator.groups]
    for call in operator.calls:
        arguments = ", ".join(argument.spark for argument in call.arguments)
        lines.append(f"{call.name} = {call.function}({arguments})")
    if isinstance(operator, SessionAggregateNode):
        lines.append(f"sessions, gap {operator.gap_ms} ms, grace {operator.grace_ms} ms")
    if isinstance(operator, StreamAggregateNode) and operator.window is not None:
        lines.append(_window(operator.window, operator.grace_ms))
        lines.append(f"emit {operator.emit.lower()}")
    return lines


def _window(window: WindowExpression, grace_ms: int) -> str:
    sizes = {"size": window.size_ms, "advance": window.advance_ms, "gap": window.gap_ms}
    known = ", ".join(f"{name} {value} ms" for name, value in sizes.items() if value)
    return f"{window.kind.lower()} window, {known}, grace {grace_ms} ms"
