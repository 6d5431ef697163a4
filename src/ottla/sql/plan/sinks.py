"""Sinks of persistent queries: the WITH clause, and defaults for what it leaves out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from ottla.rows.errors import SqlError
from ottla.rows.schema import FormatInfo, Layout, LogicalSchema, WindowInfo
from ottla.rows.schema_properties import INHERITED, Owner, Properties
from ottla.rows.types import SqlBaseType, SqlType
from ottla.sql.catalog import DataSource, schema_text
from ottla.sql.definitions import (
    CREATE_AS_PROPERTIES,
    DEFAULT_KEY_FORMAT,
    DEFAULT_VALUE_FORMAT,
    TOPIC_PREFIX,
    check_properties,
    key_format,
    refuse_maps,
    text,
    timestamp_column,
    topic_configs,
    value_format,
    whole_number,
)
from ottla.sql.plan.stages import QueryTopicSpec
from ottla.sql.syntax.statements import SourceKind, WindowExpression
from ottla.sql.widening import can_widen


@dataclass(frozen=True, slots=True)
class SinkSpec:
    """The sink that CREATE ... AS SELECT or INSERT INTO asks for.

    `target` is the source of INSERT INTO, whose layout and topic don't change.
    """

    name: str
    kind: SourceKind
    properties: Properties = field(default_factory=dict)
    target: DataSource | None = None


def check_kind(spec: SinkSpec, kind: SourceKind) -> None:
    if spec.kind is kind:
        return
    if spec.target is not None:
        raise SqlError(
            "Incompatible data sink and query result. Data sink"
            f" ({spec.name}) type is {spec.kind} but select query result is {kind}.",
            remedy="INSERT INTO needs a stream as target, and a query whose result is a stream.",
        )
    raise SqlError(
        f"Invalid result type. Your SELECT query produces a {kind}. Please use CREATE {kind} AS"
        " SELECT statement instead.",
        remedy=f"CREATE {kind} {spec.name} AS SELECT ...",
    )


def layout_of(
    spec: SinkSpec,
    schema: LogicalSchema,
    *,
    first: Layout,
    windowed: WindowInfo | None,
    session: Mapping[str, str],
) -> Layout:
    """The layout of the sink: as in the WITH clause, else as in the first source."""
    if spec.target is not None:
        check_fits(spec.target, schema)
        return spec.target.layout
    with_ = spec.properties
    check_properties(with_, CREATE_AS_PROPERTIES)
    for column in schema.key:
        refuse_maps(column)
    owner = Owner(_topic_name(spec, session), spec.name)
    return Layout(
        schema,
        _key_format(with_, schema, first.key_format, session, owner),
        _value_format(with_, schema, first.value_format, session, owner),
        is_table=spec.kind is SourceKind.TABLE,
        windowed=windowed,
        timestamp=timestamp_column(with_, schema.columns),
        timestamp_format=str(with_.get("TIMESTAMP_FORMAT", "")),
    )


def _topic_name(spec: SinkSpec, session: Mapping[str, str]) -> str:
    return text(spec.properties, "KAFKA_TOPIC") or f"{session.get(TOPIC_PREFIX, '')}{spec.name}"


def _key_format(
    with_: Properties,
    schema: LogicalSchema,
    first: FormatInfo,
    session: Mapping[str, str],
    owner: Owner,
) -> FormatInfo:
    if not schema.key:
        if text(with_, "KEY_FORMAT") not in (None, "NONE"):
            raise SqlError(
                "Key format specified for stream without key columns.",
                remedy="Leave out KEY_FORMAT: the records have no key.",
            )
        return FormatInfo("NONE")
    inherited = {} if first.name == "NONE" else {DEFAULT_KEY_FORMAT: first.name}
    found = key_format(with_, schema.columns, {**session, **inherited}, owner)
    return _with_inherited(found, first)


def _value_format(
    with_: Properties,
    schema: LogicalSchema,
    first: FormatInfo,
    session: Mapping[str, str],
    owner: Owner,
) -> FormatInfo:
    """The value format of the sink; WRAP_SINGLE_VALUE is not inherited from the source."""
    defaults = {**session, DEFAULT_VALUE_FORMAT: first.name}
    return _with_inherited(value_format(with_, schema.columns, defaults, owner), first)


def _with_inherited(found: FormatInfo, first: FormatInfo) -> FormatInfo:
    """Inherit properties of the source's format, but not names and ids of schemas."""
    if found.name != first.name:
        return found
    kept = {name: first.properties[name] for name in INHERITED if name in first.properties}
    return replace(found, properties={**kept, **found.properties})


def topic_of(
    spec: SinkSpec, window: WindowExpression | None, *, windowed: bool, session: Mapping[str, str]
) -> QueryTopicSpec:
    """The topic of the sink, with the configs that a table's topic needs."""
    with_ = spec.properties
    if spec.target is not None:
        return QueryTopicSpec(spec.target.topic)
    if window is not None and window.retention_ms is not None:
        with_ = {"RETENTION_MS": window.retention_ms, **with_}
    return QueryTopicSpec(
        _topic_name(spec, session),
        whole_number(with_, "PARTITIONS"),
        whole_number(with_, "REPLICAS"),
        topic_configs(with_, spec.kind, windowed=windowed),
    )


# -- INSERT INTO


def _fits(from_: SqlType, to: SqlType) -> bool:
    """True if the type can be inserted. An integer fits any DECIMAL, and is NULL if it is too
    large."""
    whole = from_.kind in (SqlBaseType.INTEGER, SqlBaseType.BIGINT)
    return can_widen(from_, to) or (whole and to.kind is SqlBaseType.DECIMAL)


def check_fits(target: DataSource, schema: LogicalSchema) -> None:
    """The result must have the columns of the sink, in order; numbers may be widened."""
    if target.schema.headers:
        raise SqlError(
            f"Cannot insert into {target.name} because it has header columns",
            remedy="Headers are read-only: create another stream over the topic without them.",
        )
    wanted = (*target.schema.key, *target.schema.value)
    found = (*schema.key, *schema.value)
    fits = len(wanted) == len(found) and all(
        there.name == here.name and there.role is here.role and _fits(here.type, there.type)
        for there, here in zip(wanted, found, strict=True)
    )
    if not fits:
        raise SqlError(
            "Incompatible schema between results and sink.\n"
            f"Result schema is {schema_text(schema)}\n"
            f"Sink schema is {schema_text(LogicalSchema(wanted))}",
            remedy="Select columns with the names, the order and the types of the sink.",
        )
    if target.read_only:
        raise SqlError(
            f"Cannot insert into read-only {target.kind.lower()}: {target.name}",
            remedy=f"CREATE {target.kind} without SOURCE makes one that can be written.",
        )
