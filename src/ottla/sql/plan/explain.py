"""A plan as people read it: what EXPLAIN shows."""

from __future__ import annotations

from ottla.sql.catalog import schema_text
from ottla.sql.plan.stages import (
    Aggregate,
    ForeignKeyJoin,
    Input,
    Operator,
    Plan,
    Project,
    SessionAggregate,
    Stage,
    StreamJoin,
    StreamTableJoin,
    TableAggregate,
    TableChanges,
    TableJoin,
)
from ottla.sql.syntax.statements import Window

_JOINS = {
    StreamJoin: "stream-stream",
    StreamTableJoin: "stream-table",
    TableJoin: "table-table",
    ForeignKeyJoin: "foreign-key table-table",
}


def describe(plan: Plan) -> str:
    """From the sources to the sink, one stage after another."""
    lines = [f"{plan.kind} of {schema_text(plan.schema)}"]
    for number, stage in enumerate(plan.stages, 1):
        lines += [f"stage {number}: {stage.step}", *(f"  {each}" for each in _stage(stage))]
    return "\n".join(lines)


def _stage(stage: Stage) -> list[str]:
    lines = [_read(each) for each in stage.inputs]
    lines += _operator(stage.operator)
    output = stage.output
    if output.where:
        lines.append(f"where {output.where.spark}")
    for name, text in output.exploded:
        lines.append(f"a row for each {name} in {text.spark}")
    lines += [f"{name} = {text.spark}" for name, text in output.columns]
    if not output.topic:
        return [*lines, "to whoever asked"]
    kind = "internal topic" if output.internal else "topic"
    formats = f"{output.layout.key_format.name}, {output.layout.value_format.name}"
    return [*lines, f"to {kind} {output.topic} ({formats})"]


def _read(source: Input) -> str:
    kind = "internal topic" if source.internal else f"{source.kind.lower()} {source.name}, topic"
    where = f", where {source.where.spark}" if source.where else ""
    return f"read {kind} {source.topic}{where}"


def _operator(operator: Operator) -> list[str]:
    if isinstance(operator, Project):
        return ["row by row; shares a Spark query with others on the same input"]
    if isinstance(operator, TableChanges):
        return ["changes: the old row undone, the new one added"]
    if isinstance(operator, Aggregate | TableAggregate | SessionAggregate):
        return _aggregate(operator)
    text = f"{_JOINS[type(operator)]} join, {operator.kind}"
    left = operator.left.foreign or operator.left.key
    text += f": {left.spark} = {operator.right.key.spark}"
    if isinstance(operator, StreamJoin):
        text += f", within {operator.before_ms} ms before and {operator.after_ms} ms after"
        text += f", grace {operator.grace_ms} ms"
    return [text]


def _aggregate(operator: Aggregate | TableAggregate | SessionAggregate) -> list[str]:
    lines = [f"group {each.name} = {each.text.spark}" for each in operator.groups]
    for call in operator.calls:
        arguments = ", ".join(each.spark for each in call.arguments)
        lines.append(f"{call.name} = {call.function}({arguments})")
    if isinstance(operator, SessionAggregate):
        lines.append(f"sessions, gap {operator.gap_ms} ms, grace {operator.grace_ms} ms")
    if isinstance(operator, Aggregate) and operator.window is not None:
        lines.append(_window(operator.window, operator.grace_ms))
        lines.append(f"emit {operator.emit.lower()}")
    return lines


def _window(window: Window, grace_ms: int) -> str:
    sizes = {"size": window.size_ms, "advance": window.advance_ms, "gap": window.gap_ms}
    known = ", ".join(f"{name} {value} ms" for name, value in sizes.items() if value)
    return f"{window.kind.lower()} window, {known}, grace {grace_ms} ms"
