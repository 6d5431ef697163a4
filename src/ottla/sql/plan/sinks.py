"""Where the rows of a persistent query go: the WITH clause, and what it leaves open."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from ottla.rows.errors import SqlError
from ottla.rows.schema import Format, Layout, Schema, Windowed
from ottla.rows.schema_properties import INHERITED, Owner, Properties
from ottla.rows.types import Kind, SqlType
from ottla.sql.catalog import Source, schema_text
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
from ottla.sql.plan.stages import Topic
from ottla.sql.syntax.statements import SourceKind, Window
from ottla.sql.widening import can_widen


@dataclass(frozen=True, slots=True)
class SinkWish:
    """What CREATE ... AS SELECT or INSERT INTO wants made of a query.

    `target` is the source that INSERT INTO writes into: its layout and topic stay as they are.
    """

    name: str
    kind: SourceKind
    properties: Properties = field(default_factory=dict)
    target: Source | None = None


def check_kind(wish: SinkWish, kind: SourceKind) -> None:
    if wish.kind is kind:
        return
    if wish.target is not None:
        raise SqlError(
            "Incompatible data sink and query result. Data sink"
            f" ({wish.name}) type is {wish.kind} but select query result is {kind}.",
            remedy="INSERT INTO writes into streams, from queries that give a stream.",
        )
    raise SqlError(
        f"Invalid result type. Your SELECT query produces a {kind}. Please use CREATE {kind} AS"
        " SELECT statement instead.",
        remedy=f"CREATE {kind} {wish.name} AS SELECT ...",
    )


def layout_of(
    wish: SinkWish,
    schema: Schema,
    *,
    first: Layout,
    windowed: Windowed | None,
    session: Mapping[str, str],
) -> Layout:
    """How the result lies in its topic: as WITH says, else as in the first source."""
    if wish.target is not None:
        check_fits(wish.target, schema)
        return wish.target.layout
    with_ = wish.properties
    check_properties(with_, CREATE_AS_PROPERTIES)
    for each in schema.key:
        refuse_maps(each)
    owner = Owner(_topic_name(wish, session), wish.name)
    return Layout(
        schema,
        _key_format(with_, schema, first.key_format, session, owner),
        _value_format(with_, schema, first.value_format, session, owner),
        is_table=wish.kind is SourceKind.TABLE,
        windowed=windowed,
        timestamp=timestamp_column(with_, schema.columns),
        timestamp_format=str(with_.get("TIMESTAMP_FORMAT", "")),
    )


def _topic_name(wish: SinkWish, session: Mapping[str, str]) -> str:
    return text(wish.properties, "KAFKA_TOPIC") or f"{session.get(TOPIC_PREFIX, '')}{wish.name}"


def _key_format(
    with_: Properties, schema: Schema, first: Format, session: Mapping[str, str], owner: Owner
) -> Format:
    if not schema.key:
        if text(with_, "KEY_FORMAT") not in (None, "NONE"):
            raise SqlError(
                "Key format specified for stream without key columns.",
                remedy="Leave KEY_FORMAT away: the records have no key.",
            )
        return Format("NONE")
    inherited = {} if first.name == "NONE" else {DEFAULT_KEY_FORMAT: first.name}
    found = key_format(with_, schema.columns, {**session, **inherited}, owner)
    return _with_inherited(found, first)


def _value_format(
    with_: Properties, schema: Schema, first: Format, session: Mapping[str, str], owner: Owner
) -> Format:
    """WRAP_SINGLE_VALUE is of one topic, and not of what is made from it."""
    defaults = {**session, DEFAULT_VALUE_FORMAT: first.name}
    return _with_inherited(value_format(with_, schema.columns, defaults, owner), first)


def _with_inherited(found: Format, first: Format) -> Format:
    """The delimiter and what null is like; names and ids of schemas are of one topic."""
    if found.name != first.name:
        return found
    kept = {name: first.properties[name] for name in INHERITED if name in first.properties}
    return replace(found, properties={**kept, **found.properties})


def topic_of(
    wish: SinkWish, window: Window | None, *, windowed: bool, session: Mapping[str, str]
) -> Topic:
    """The topic, with the settings that a table's topic needs."""
    with_ = wish.properties
    if wish.target is not None:
        return Topic(wish.target.topic)
    if window is not None and window.retention_ms is not None:
        with_ = {"RETENTION_MS": window.retention_ms, **with_}
    return Topic(
        _topic_name(wish, session),
        whole_number(with_, "PARTITIONS"),
        whole_number(with_, "REPLICAS"),
        topic_configs(with_, wish.kind, windowed=windowed),
    )


# -- INSERT INTO


def _fits(from_: SqlType, to: SqlType) -> bool:
    """A whole number goes into any DECIMAL; one that is too large for it becomes NULL."""
    whole = from_.kind in (Kind.INTEGER, Kind.BIGINT)
    return can_widen(from_, to) or (whole and to.kind is Kind.DECIMAL)


def check_fits(target: Source, schema: Schema) -> None:
    """The columns of the result are those of the sink, by name and order; numbers may grow."""
    if target.schema.headers:
        raise SqlError(
            f"Cannot insert into {target.name} because it has header columns",
            remedy="Headers can only be read: define another stream over the topic without them.",
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
            f"Sink schema is {schema_text(Schema(wanted))}",
            remedy="Give the columns the names, the order and the types of the sink's.",
        )
    if target.read_only:
        raise SqlError(
            f"Cannot insert into read-only {target.kind.lower()}: {target.name}",
            remedy=f"CREATE {target.kind} without SOURCE makes one that can be written.",
        )
