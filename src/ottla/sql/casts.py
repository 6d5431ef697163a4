"""CAST with the semantics of ksqlDB, in Spark SQL: a value that can't be cast gives NULL.

Sessions run with ANSI mode off, so that a plain cast of numbers truncates and wraps around as in
Java. A cast that must fail for bad input (text to a number) is a try_cast, which is strict in both
modes.
"""

from __future__ import annotations

from ottla.rows.errors import SqlError
from ottla.rows.types import NUMBERS, SqlBaseType, SqlType, spark_name
from ottla.sql.spark_strings import spark_cast, spark_null, spark_string
from ottla.sql.text import Text

DATES = (SqlBaseType.DATE, SqlBaseType.TIMESTAMP)


def converted(text: Text, from_: SqlType, to: SqlType) -> Text:
    """CAST(text AS to), in both languages."""
    spark = cast_text(text.spark, from_, to)
    if from_ == to or (from_.kind is SqlBaseType.INTEGER and to.kind is SqlBaseType.BIGINT):
        return Text(spark, text.python)
    return Text(spark, f"converter({str(from_)!r}, {str(to)!r})({text.python})")


def cast_text(text: str, from_: SqlType, to: SqlType, depth: int = 0) -> str:
    """Spark SQL for CAST(text AS to)."""
    if from_ == to:
        return text
    if to.kind is SqlBaseType.STRING:
        return to_string(text, from_, depth)
    if from_.kind is SqlBaseType.STRING:
        return _from_string(text, to)
    if from_.kind in NUMBERS and to.kind in NUMBERS:
        return spark_cast(text, to)
    if from_.kind is SqlBaseType.TIMESTAMP and to.kind in (SqlBaseType.DATE, SqlBaseType.TIME):
        return spark_cast(text, to)
    if from_.kind is SqlBaseType.DATE and to.kind is SqlBaseType.TIMESTAMP:
        return spark_cast(text, to)
    if from_.kind is to.kind and from_.kind in (
        SqlBaseType.ARRAY,
        SqlBaseType.MAP,
        SqlBaseType.STRUCT,
    ):
        return _nested(text, from_, to, depth)
    raise unsupported(from_, to)


def unsupported(from_: SqlType, to: SqlType) -> SqlError:
    return SqlError(
        f"Cast of {from_} to {to} is not supported",
        remedy="Text and all numbers can be cast to each other, TIMESTAMP to DATE and TIME, "
        "everything but BYTES to STRING; for BYTES there are TO_BYTES and FROM_BYTES.",
    )


def _from_string(text: str, to: SqlType) -> str:
    if to.kind is SqlBaseType.BOOLEAN:
        return f"(lower(trim({text})) = 'true')"
    if to.kind in NUMBERS or to.kind in DATES or to.kind is SqlBaseType.TIME:
        return f"try_cast({text} AS {to.spark})"
    raise unsupported(SqlType(SqlBaseType.STRING), to)


def _nested(text: str, from_: SqlType, to: SqlType, depth: int) -> str:
    if from_.kind is SqlBaseType.ARRAY:
        assert from_.element is not None
        assert to.element is not None
        element = cast_text(f"c{depth}", from_.element, to.element, depth + 1)
        return f"transform({text}, c{depth} -> {element})"
    if from_.kind is SqlBaseType.MAP:
        assert from_.key is not None
        assert to.key is not None
        assert from_.element is not None
        assert to.element is not None
        key = cast_text(f"c{depth}.key", from_.key, to.key, depth + 1)
        value = cast_text(f"c{depth}.value", from_.element, to.element, depth + 1)
        entries = f"transform(map_entries({text}), c{depth} -> struct({key}, {value}))"
        return f"map_from_entries({entries})"
    known = {field.name: field.type for field in from_.fields}
    fields = []
    for target in to.fields:
        field = f"{text}.{spark_name(target.name)}"
        source = known.get(target.name)
        value = cast_text(field, source, target.type, depth) if source else spark_null(target.type)
        fields.append(f"{spark_string(target.name)}, {value}")
    return f"IF({text} IS NULL, NULL, named_struct({', '.join(fields)}))"


def to_string(text: str, from_: SqlType, depth: int = 0) -> str:
    """A value as text, as Java's toString() writes it, because ksqlDB uses that."""
    if from_.kind is SqlBaseType.STRING:
        return text
    if from_.kind is SqlBaseType.BYTES:
        raise unsupported(from_, SqlType(SqlBaseType.STRING))
    if from_.kind is SqlBaseType.TIMESTAMP:
        return f"date_format({text}, {spark_string(TIMESTAMP_TEXT)})"
    if from_.kind is SqlBaseType.TIME:
        return time_to_string(text)
    if from_.kind is SqlBaseType.ARRAY:
        assert from_.element is not None
        inner = _shown(f"c{depth}", from_.element, depth + 1)
        return f"concat('[', array_join(transform({text}, c{depth} -> {inner}), ', '), ']')"
    if from_.kind is SqlBaseType.MAP:
        assert from_.key is not None
        assert from_.element is not None
        key = _shown(f"c{depth}.key", from_.key, depth + 1)
        value = _shown(f"c{depth}.value", from_.element, depth + 1)
        entry = f"c{depth} -> concat({key}, '=', {value})"
        return f"concat('{{', array_join(transform(map_entries({text}), {entry}), ', '), '}}')"
    if from_.kind is SqlBaseType.STRUCT:
        return _struct_to_string(text, from_, depth)
    return f"CAST({text} AS string)"


TIMESTAMP_TEXT = "yyyy-MM-dd'T'HH:mm:ss.SSS"


def time_to_string(text: str) -> str:
    """`10:30`, `10:30:05`, `10:30:05.010`: as short as possible, as in Java."""
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
    for field in from_.fields:
        value = to_string(f"{text}.{spark_name(field.name)}", field.type, depth)
        fields.append(f"concat({spark_string(field.name + '=')}, {value})")
    # concat is NULL if the field is NULL, and concat_ws then skips the field.
    shown = f"concat('Struct{{', concat_ws(',', {', '.join(fields)}), '}}')"
    return f"IF({text} IS NULL, NULL, {shown})"
