"""CAST, as ksqlDB does it: what can't be cast at run time is NULL.

Sessions run with ANSI mode off, so that a plain cast of numbers cuts and wraps as Java's does, and
one that must hold (text to a number) is a try_cast, which is strict whatever the mode.
"""

from __future__ import annotations

from ottla.rows.errors import SqlError
from ottla.rows.types import NUMBERS, Kind, SqlType, spark_name
from ottla.sql.spark_text import cast, null_of, string
from ottla.sql.text import Text

DATES = (Kind.DATE, Kind.TIMESTAMP)


def converted(text: Text, from_: SqlType, to: SqlType) -> Text:
    """CAST(text AS to), in both languages."""
    spark = cast_text(text.spark, from_, to)
    if from_ == to or (from_.kind is Kind.INTEGER and to.kind is Kind.BIGINT):
        return Text(spark, text.python)
    return Text(spark, f"converter({str(from_)!r}, {str(to)!r})({text.python})")


def cast_text(text: str, from_: SqlType, to: SqlType, depth: int = 0) -> str:
    """Spark SQL for CAST(text AS to)."""
    if from_ == to:
        return text
    if to.kind is Kind.STRING:
        return to_string(text, from_, depth)
    if from_.kind is Kind.STRING:
        return _from_string(text, to)
    if from_.kind in NUMBERS and to.kind in NUMBERS:
        return cast(text, to)
    if from_.kind is Kind.TIMESTAMP and to.kind in (Kind.DATE, Kind.TIME):
        return cast(text, to)
    if from_.kind is Kind.DATE and to.kind is Kind.TIMESTAMP:
        return cast(text, to)
    if from_.kind is to.kind and from_.kind in (Kind.ARRAY, Kind.MAP, Kind.STRUCT):
        return _nested(text, from_, to, depth)
    raise unsupported(from_, to)


def unsupported(from_: SqlType, to: SqlType) -> SqlError:
    return SqlError(
        f"Cast of {from_} to {to} is not supported",
        remedy="Text and all numbers can be cast to each other, TIMESTAMP to DATE and TIME, "
        "everything but BYTES to STRING; for BYTES there are TO_BYTES and FROM_BYTES.",
    )


def _from_string(text: str, to: SqlType) -> str:
    if to.kind is Kind.BOOLEAN:
        return f"(lower(trim({text})) = 'true')"
    if to.kind in NUMBERS or to.kind in DATES or to.kind is Kind.TIME:
        return f"try_cast({text} AS {to.spark})"
    raise unsupported(SqlType(Kind.STRING), to)


def _nested(text: str, from_: SqlType, to: SqlType, depth: int) -> str:
    if from_.kind is Kind.ARRAY:
        assert from_.element is not None
        assert to.element is not None
        element = cast_text(f"c{depth}", from_.element, to.element, depth + 1)
        return f"transform({text}, c{depth} -> {element})"
    if from_.kind is Kind.MAP:
        assert from_.key is not None
        assert to.key is not None
        assert from_.element is not None
        assert to.element is not None
        key = cast_text(f"c{depth}.key", from_.key, to.key, depth + 1)
        value = cast_text(f"c{depth}.value", from_.element, to.element, depth + 1)
        entries = f"transform(map_entries({text}), c{depth} -> struct({key}, {value}))"
        return f"map_from_entries({entries})"
    known = {each.name: each.type for each in from_.fields}
    fields = []
    for each in to.fields:
        field = f"{text}.{spark_name(each.name)}"
        source = known.get(each.name)
        value = cast_text(field, source, each.type, depth) if source else null_of(each.type)
        fields.append(f"{string(each.name)}, {value}")
    return f"IF({text} IS NULL, NULL, named_struct({', '.join(fields)}))"


def to_string(text: str, from_: SqlType, depth: int = 0) -> str:
    """A value as text: as Java shows it, for that is what ksqlDB gives out."""
    if from_.kind is Kind.STRING:
        return text
    if from_.kind is Kind.BYTES:
        raise unsupported(from_, SqlType(Kind.STRING))
    if from_.kind is Kind.TIMESTAMP:
        return f"date_format({text}, {string(TIMESTAMP_TEXT)})"
    if from_.kind is Kind.TIME:
        return time_to_string(text)
    if from_.kind is Kind.ARRAY:
        assert from_.element is not None
        inner = _shown(f"c{depth}", from_.element, depth + 1)
        return f"concat('[', array_join(transform({text}, c{depth} -> {inner}), ', '), ']')"
    if from_.kind is Kind.MAP:
        assert from_.key is not None
        assert from_.element is not None
        key = _shown(f"c{depth}.key", from_.key, depth + 1)
        value = _shown(f"c{depth}.value", from_.element, depth + 1)
        entry = f"c{depth} -> concat({key}, '=', {value})"
        return f"concat('{{', array_join(transform(map_entries({text}), {entry}), ', '), '}}')"
    if from_.kind is Kind.STRUCT:
        return _struct_to_string(text, from_, depth)
    return f"CAST({text} AS string)"


TIMESTAMP_TEXT = "yyyy-MM-dd'T'HH:mm:ss.SSS"


def time_to_string(text: str) -> str:
    """`10:30`, `10:30:05`, `10:30:05.010`: no more than there is to say."""
    millis = f"time_to_millis({text})"
    pattern = (
        f"CASE WHEN {millis} % 60000 = 0 THEN 'HH:mm' "
        f"WHEN {millis} % 1000 = 0 THEN 'HH:mm:ss' ELSE 'HH:mm:ss.SSS' END"
    )
    return f"date_format({text}, {pattern})"


def _shown(text: str, from_: SqlType, depth: int) -> str:
    return f"coalesce({to_string(text, from_, depth)}, 'null')"


def _struct_to_string(text: str, from_: SqlType, depth: int) -> str:
    fields = []
    for each in from_.fields:
        value = to_string(f"{text}.{spark_name(each.name)}", each.type, depth)
        fields.append(f"concat({string(each.name + '=')}, {value})")
    # concat is NULL for a field that is, and concat_ws leaves it out.
    shown = f"concat('Struct{{', concat_ws(',', {', '.join(fields)}), '}}')"
    return f"IF({text} IS NULL, NULL, {shown})"
