"""Statements as plain data: the result of `parse`.

Names are upper case unless they were quoted. Expressions are sqlglot's trees with the nodes of
`nodes.py`. The properties of a WITH clause are a dict with upper-case names.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

from sqlglot import exp

from ottla.rows.schema import Role, WindowKind
from ottla.rows.schema_properties import Properties
from ottla.rows.types import SqlType

Expression = exp.Expression
Property = str | int | float | bool


class SourceKind(StrEnum):
    STREAM = "STREAM"
    TABLE = "TABLE"


class Emit(StrEnum):
    CHANGES = "CHANGES"
    FINAL = "FINAL"


class JoinKind(StrEnum):
    INNER = "INNER"
    LEFT = "LEFT"
    RIGHT = "RIGHT"
    OUTER = "OUTER"


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """`text` is the statement with its semicolon, after variable substitution; `line` and `column`
    are its start. Equality ignores these: statements with the same meaning are equal."""

    text: str = field(default="", compare=False)
    line: int = field(default=0, compare=False)
    column: int = field(default=0, compare=False)


# -- queries


@dataclass(frozen=True, slots=True)
class SelectItem:
    """An item of the select list. For stars `star_of` is set: "" for `*`, else an alias or
    column."""

    expression: Expression | None
    alias: str = ""
    star_of: Expression | str | None = None


@dataclass(frozen=True, slots=True)
class Relation:
    name: str
    alias: str
    line: int = field(default=0, compare=False)
    column: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Within:
    before_ms: int
    after_ms: int
    grace_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Join:
    relation: Relation
    kind: JoinKind
    on: Expression
    within: Within | None = None


@dataclass(frozen=True, slots=True)
class WindowExpression:
    kind: WindowKind
    size_ms: int = 0
    advance_ms: int = 0
    gap_ms: int = 0
    retention_ms: int | None = None
    grace_ms: int | None = None


@dataclass(frozen=True, slots=True)
class QueryBody:
    """One SELECT. `emit` is None for a pull query only: CREATE ... AS and INSERT INTO ... SELECT
    imply CHANGES.

    `beyond` is set for a pull query that only Spark can answer (subqueries, ORDER BY, GROUP BY,
    joins, window functions, set operations); all other fields but `limit` are empty then. It is a
    tree of the dialect in `beyond.py`; its names are quoted, so that `beyond.sql("spark")` is the
    query for Spark."""

    select: tuple[SelectItem, ...] = ()
    source: Relation | None = None
    joins: tuple[Join, ...] = ()
    window: WindowExpression | None = None
    where: Expression | None = None
    group_by: tuple[Expression, ...] = ()
    partition_by: tuple[Expression, ...] = ()
    having: Expression | None = None
    emit: Emit | None = None
    limit: int | None = None
    beyond: Expression | None = None


@dataclass(frozen=True, slots=True)
class Select(Statement):
    query: QueryBody


# -- definitions


@dataclass(frozen=True, slots=True)
class Element:
    """A column of a CREATE. `primary`: PRIMARY KEY, which tables have, instead of KEY."""

    name: str
    type: SqlType
    role: Role = Role.VALUE
    primary: bool = False
    header: str = ""


@dataclass(frozen=True, slots=True)
class CreateSource(Statement):
    """`read_only`: CREATE SOURCE, which forbids inserts, and materializes a table."""

    kind: SourceKind
    name: str
    elements: tuple[Element, ...] = ()
    properties: Properties = field(default_factory=dict)
    or_replace: bool = False
    if_not_exists: bool = False
    read_only: bool = False


@dataclass(frozen=True, slots=True)
class CreateAsSelect(Statement):
    kind: SourceKind
    name: str
    query: QueryBody
    properties: Properties = field(default_factory=dict)
    or_replace: bool = False
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True)
class InsertSelect(Statement):
    target: str
    query: QueryBody
    properties: Properties = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class InsertValues(Statement):
    target: str
    values: tuple[Expression, ...]
    columns: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AlterSource(Statement):
    kind: SourceKind
    name: str
    columns: tuple[Element, ...]


@dataclass(frozen=True, slots=True)
class DropSource(Statement):
    kind: SourceKind
    name: str
    if_exists: bool = False
    delete_topic: bool = False


@dataclass(frozen=True, slots=True)
class CreateType(Statement):
    name: str
    type: SqlType
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True)
class DropType(Statement):
    name: str
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class CreateConnector(Statement):
    name: str
    kind: Literal["SOURCE", "SINK"]
    properties: Properties
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True)
class DropConnector(Statement):
    name: str
    if_exists: bool = False


# -- queries that run


@dataclass(frozen=True, slots=True)
class Terminate(Statement):
    """`query_id` is None for ALL, else as written; the case of query ids does not matter. The same
    applies to Pause and Resume."""

    query_id: str | None


@dataclass(frozen=True, slots=True)
class Pause(Statement):
    query_id: str | None


@dataclass(frozen=True, slots=True)
class Resume(Statement):
    query_id: str | None


# -- SHOW, DESCRIBE, EXPLAIN, PRINT


class Subject(StrEnum):
    """What SHOW and LIST can list."""

    STREAMS = "STREAMS"
    TABLES = "TABLES"
    TOPICS = "TOPICS"
    ALL_TOPICS = "ALL TOPICS"
    QUERIES = "QUERIES"
    FUNCTIONS = "FUNCTIONS"
    TYPES = "TYPES"
    PROPERTIES = "PROPERTIES"
    VARIABLES = "VARIABLES"
    CONNECTORS = "CONNECTORS"
    SOURCE_CONNECTORS = "SOURCE CONNECTORS"
    SINK_CONNECTORS = "SINK CONNECTORS"
    CONNECTOR_PLUGINS = "CONNECTOR PLUGINS"


@dataclass(frozen=True, slots=True)
class Show(Statement):
    subject: Subject
    extended: bool = False


@dataclass(frozen=True, slots=True)
class Describe(Statement):
    name: str
    extended: bool = False


@dataclass(frozen=True, slots=True)
class DescribeSources(Statement):
    """DESCRIBE STREAMS, DESCRIBE TABLES."""

    kind: SourceKind
    extended: bool = False


@dataclass(frozen=True, slots=True)
class DescribeFunction(Statement):
    name: str


@dataclass(frozen=True, slots=True)
class DescribeConnector(Statement):
    name: str


@dataclass(frozen=True, slots=True)
class Explain(Statement):
    """A running query by its id, or a statement, which is not executed."""

    query_id: str = ""
    statement: Statement | None = None


@dataclass(frozen=True, slots=True)
class Print(Statement):
    topic: str
    from_beginning: bool = False
    interval: int = 1
    limit: int | None = None


# -- the session


@dataclass(frozen=True, slots=True)
class SetProperty(Statement):
    name: str
    value: str


@dataclass(frozen=True, slots=True)
class UnsetProperty(Statement):
    name: str


@dataclass(frozen=True, slots=True)
class AlterSystem(Statement):
    name: str
    value: str


@dataclass(frozen=True, slots=True)
class Define(Statement):
    name: str
    value: str


@dataclass(frozen=True, slots=True)
class Undefine(Statement):
    name: str


@dataclass(frozen=True, slots=True)
class RunScript(Statement):
    path: str


# -- assertions


@dataclass(frozen=True, slots=True)
class AssertTopic(Statement):
    topic: str
    properties: Properties = field(default_factory=dict)
    exists: bool = True
    timeout_ms: int | None = None


@dataclass(frozen=True, slots=True)
class AssertSchema(Statement):
    subject: str | None
    schema_id: int | None
    exists: bool = True
    timeout_ms: int | None = None


@dataclass(frozen=True, slots=True)
class AssertValues(Statement):
    """In SQL tests: the next row of a source; without values a tombstone with this key."""

    name: str
    columns: tuple[str, ...]
    values: tuple[Expression, ...]
    tombstone: bool = False


@dataclass(frozen=True, slots=True)
class AssertSource(Statement):
    """In SQL tests: the expected definition of a stream or table."""

    definition: CreateSource
