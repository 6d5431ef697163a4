"""Formats statements as text, which `parse` reads as equal statements."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from ottla.rows.reserved_words import UNIT_MS
from ottla.rows.schema import Role, WindowKind
from ottla.rows.schema_properties import Properties
from ottla.rows.types import quoted
from ottla.sql.syntax import statements as st
from ottla.sql.syntax.beyond import format_beyond
from ottla.sql.syntax.expression_format import format_expression, string


def format_statement(statement: st.Statement) -> str:
    """The statement as text, with its semicolon."""
    return _body(statement) + ";"


def format_query(query: st.QueryBody) -> str:
    if query.beyond is not None:
        return format_beyond(query.beyond)
    assert query.source is not None
    parts = ["SELECT " + ", ".join(map(_item, query.select)), "FROM " + _relation(query.source)]
    parts += map(_join, query.joins)
    if query.window:
        parts.append("WINDOW " + _window(query.window))
    if query.where is not None:
        parts.append("WHERE " + format_expression(query.where))
    if query.group_by:
        parts.append("GROUP BY " + _keys(query.group_by))
    if query.partition_by:
        parts.append("PARTITION BY " + _keys(query.partition_by))
    if query.having is not None:
        parts.append("HAVING " + format_expression(query.having))
    if query.emit:
        parts.append(f"EMIT {query.emit}")
    if query.limit is not None:
        parts.append(f"LIMIT {query.limit}")
    return " ".join(parts)


def _body(statement: st.Statement) -> str:
    write = _WRITERS.get(type(statement))
    assert write is not None, f"cannot format {type(statement).__name__}"
    return write(statement)


# -- parts of a query


def _item(item: st.SelectItem) -> str:
    if item.expression is None:
        if isinstance(item.star_of, str):
            return f"{quoted(item.star_of)}.*" if item.star_of else "*"
        assert item.star_of is not None
        return f"{format_expression(item.star_of, tight=True)}->*"
    written = format_expression(item.expression)
    return f"{written} AS {quoted(item.alias)}" if item.alias else written


def _relation(relation: st.Relation) -> str:
    name = quoted(relation.name)
    return name if relation.alias == relation.name else f"{name} AS {quoted(relation.alias)}"


def _join(join: st.Join) -> str:
    kind = "FULL OUTER" if join.kind is st.JoinKind.OUTER else join.kind
    within = f" WITHIN {_within(join.within)}" if join.within else ""
    return f"{kind} JOIN {_relation(join.relation)}{within} ON {format_expression(join.on)}"


def _within(within: st.Within) -> str:
    before, after = duration(within.before_ms), duration(within.after_ms)
    size = before if before == after else f"({before}, {after})"
    grace = "" if within.grace_ms is None else f" GRACE PERIOD {duration(within.grace_ms)}"
    return size + grace


def _window(window: st.WindowExpression) -> str:
    if window.kind is WindowKind.SESSION:
        parts = [duration(window.gap_ms)]
    else:
        parts = [f"SIZE {duration(window.size_ms)}"]
    if window.kind is WindowKind.HOPPING:
        parts.append(f"ADVANCE BY {duration(window.advance_ms)}")
    if window.retention_ms is not None:
        parts.append(f"RETENTION {duration(window.retention_ms)}")
    if window.grace_ms is not None:
        parts.append(f"GRACE PERIOD {duration(window.grace_ms)}")
    return f"{window.kind} ({', '.join(parts)})"


def duration(ms: int) -> str:
    """A duration in the largest unit of which it is a multiple."""
    units = ("DAY", "HOUR", "MINUTE", "SECOND", "MILLISECOND")
    unit = next(unit for unit in units if ms % UNIT_MS[unit] == 0) if ms else "SECOND"
    return f"{ms // UNIT_MS[unit]} {unit}S"


def _keys(keys: tuple[st.Expression, ...]) -> str:
    written = [format_expression(key, tight=True) for key in keys]
    # Parentheses around a single key would be read as those around all keys.
    return f"({written[0]})" if len(written) == 1 and written[0][0] == "(" else ", ".join(written)


# -- definitions


def _create_source(statement: st.CreateSource) -> str:
    columns = f" ({', '.join(map(_element, statement.elements))})" if statement.elements else ""
    source = "SOURCE " if statement.read_only else ""
    head = _head(f"{source}{statement.kind}", statement.or_replace, statement.if_not_exists)
    return f"{head} {quoted(statement.name)}{columns}{_with(statement.properties)}"


def _head(what: str, or_replace: bool, if_not_exists: bool) -> str:
    replace = "OR REPLACE " if or_replace else ""
    return f"CREATE {replace}{what}{' IF NOT EXISTS' if if_not_exists else ''}"


def _element(element: st.Element) -> str:
    role = ""
    if element.role is Role.KEY:
        role = " PRIMARY KEY" if element.primary else " KEY"
    elif element.role is Role.HEADERS:
        role = " HEADERS"
    elif element.role is Role.HEADER:
        role = f" HEADER({string(element.header)})"
    return f"{quoted(element.name)} {element.type}{role}"


def _with(properties: Properties, *, named: Callable[[str], str] = quoted) -> str:
    if not properties:
        return ""
    pairs = [f"{named(name)}={_property(value)}" for name, value in properties.items()]
    return f" WITH ({', '.join(pairs)})"


def _property(value: st.Property) -> str:
    if isinstance(value, bool):
        return str(value).upper()
    return string(value) if isinstance(value, str) else _number(value)


def _number(value: int | float) -> str:
    return str(value) if isinstance(value, int) else f"{value:.17G}".replace("E+", "E")


def _create_as(statement: st.CreateAsSelect) -> str:
    head = _head(statement.kind, statement.or_replace, statement.if_not_exists)
    with_ = _with(statement.properties)
    return f"{head} {quoted(statement.name)}{with_} AS {format_query(statement.query)}"


def _insert_values(statement: st.InsertValues) -> str:
    values = ", ".join(map(format_expression, statement.values))
    return f"INSERT INTO {quoted(statement.target)}{_columns(statement.columns)} VALUES ({values})"


def _columns(names: tuple[str, ...]) -> str:
    return f" ({', '.join(map(quoted, names))})" if names else ""


def _alter(statement: st.AlterSource) -> str:
    added = ", ".join(f"ADD COLUMN {_element(column)}" for column in statement.columns)
    return f"ALTER {statement.kind} {quoted(statement.name)} {added}"


def _drop(kind: str, statement: Any) -> str:
    return f"DROP {kind} {'IF EXISTS ' if statement.if_exists else ''}{quoted(statement.name)}"


def _create_connector(statement: st.CreateConnector) -> str:
    head = _head(f"{statement.kind} CONNECTOR", False, statement.if_not_exists)
    return f"{head} {quoted(statement.name)}{_with(statement.properties, named=string)}"


# -- assertions


def _assert_topic(statement: st.AssertTopic) -> str:
    exists = "" if statement.exists else "NOT EXISTS "
    with_ = _with(statement.properties)
    timeout = _timeout(statement.timeout_ms)
    return f"ASSERT {exists}TOPIC {string(statement.topic)}{with_}{timeout}"


def _timeout(ms: int | None) -> str:
    return "" if ms is None else f" TIMEOUT {duration(ms)}"


def _assert_schema(statement: st.AssertSchema) -> str:
    exists = "" if statement.exists else "NOT EXISTS "
    subject = "" if statement.subject is None else f" SUBJECT {string(statement.subject)}"
    id_ = "" if statement.schema_id is None else f" ID {statement.schema_id}"
    return f"ASSERT {exists}SCHEMA{subject}{id_}{_timeout(statement.timeout_ms)}"


def _assert_values(statement: st.AssertValues) -> str:
    null, key = ("NULL ", "KEY") if statement.tombstone else ("", "VALUES")
    values = ", ".join(map(format_expression, statement.values))
    columns = _columns(statement.columns)
    return f"ASSERT {null}VALUES {quoted(statement.name)}{columns} {key} ({values})"


# -- everything else


def _extended(statement: Any) -> str:
    return " EXTENDED" if statement.extended else ""


def _id(query_id: str | None) -> str:
    return "ALL" if query_id is None else f"`{query_id}`"


def _explain(statement: st.Explain) -> str:
    inner = _body(statement.statement) if statement.statement else _id(statement.query_id)
    return f"EXPLAIN {inner}"


def _print(statement: st.Print) -> str:
    beginning = " FROM BEGINNING" if statement.from_beginning else ""
    interval = f" INTERVAL {statement.interval}" if statement.interval != 1 else ""
    limit = "" if statement.limit is None else f" LIMIT {statement.limit}"
    return f"PRINT {string(statement.topic)}{beginning}{interval}{limit}"


_WRITERS: Final[Mapping[type[st.Statement], Callable[[Any], str]]] = {
    st.Select: lambda it: format_query(it.query),
    st.CreateSource: _create_source,
    st.CreateAsSelect: _create_as,
    st.InsertSelect: lambda it: (
        f"INSERT INTO {quoted(it.target)}{_with(it.properties)} {format_query(it.query)}"
    ),
    st.InsertValues: _insert_values,
    st.AlterSource: _alter,
    st.DropSource: lambda it: _drop(it.kind, it) + (" DELETE TOPIC" if it.delete_topic else ""),
    st.CreateType: lambda it: (
        f"{_head('TYPE', False, it.if_not_exists)} {quoted(it.name)} AS {it.type}"
    ),
    st.DropType: lambda it: _drop("TYPE", it),
    st.CreateConnector: _create_connector,
    st.DropConnector: lambda it: _drop("CONNECTOR", it),
    st.Terminate: lambda it: f"TERMINATE {_id(it.query_id)}",
    st.Pause: lambda it: f"PAUSE {_id(it.query_id)}",
    st.Resume: lambda it: f"RESUME {_id(it.query_id)}",
    st.Show: lambda it: f"SHOW {it.subject}{_extended(it)}",
    st.Describe: lambda it: f"DESCRIBE {quoted(it.name)}{_extended(it)}",
    st.DescribeSources: lambda it: f"DESCRIBE {it.kind}S{_extended(it)}",
    st.DescribeFunction: lambda it: f"DESCRIBE FUNCTION {quoted(it.name)}",
    st.DescribeConnector: lambda it: f"DESCRIBE CONNECTOR {quoted(it.name)}",
    st.Explain: _explain,
    st.Print: _print,
    st.SetProperty: lambda it: f"SET {string(it.name)}={string(it.value)}",
    st.UnsetProperty: lambda it: f"UNSET {string(it.name)}",
    st.AlterSystem: lambda it: f"ALTER SYSTEM {string(it.name)}={string(it.value)}",
    st.Define: lambda it: f"DEFINE {it.name} = {string(it.value)}",
    st.Undefine: lambda it: f"UNDEFINE {it.name}",
    st.RunScript: lambda it: f"RUN SCRIPT {string(it.path)}",
    st.AssertTopic: _assert_topic,
    st.AssertSchema: _assert_schema,
    st.AssertValues: _assert_values,
    st.AssertSource: lambda it: "ASSERT" + _create_source(it.definition).removeprefix("CREATE"),
}
