"""Reads the payloads of one writer's schema: chooses the readers that fill the columns.

Columns match by name regardless of case; an exact match wins. A column that the writer lacks is
null. As in ksqlDB, numbers may widen (int to BIGINT or DOUBLE, float to DOUBLE) or become STRING;
all other types must be equal.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Final

import pyarrow as pa

from ottla.rows.formats import scalars
from ottla.rows.formats.arrow import arrow_type
from ottla.rows.formats.avro import arrays
from ottla.rows.formats.avro.arrays import ArrayBuilder
from ottla.rows.formats.avro.readers import (
    AvroReader,
    AvroRecordReader,
    BooleanReader,
    BytesReader,
    DecimalReader,
    DoubleReader,
    EnumReader,
    ListReader,
    LongReader,
    NullReader,
    OptionalReader,
    UnionReader,
    read_rows,
)
from ottla.rows.formats.avro.skips import (
    SkipBytes,
    SkipFixedBytes,
    SkipList,
    SkipLong,
    SkipRecord,
    SkipUnion,
)
from ottla.rows.formats.codec import Problems
from ottla.rows.types import DECIMAL_DIGITS_MAX, SqlBaseType, SqlField, SqlType
from ottla.schemas.avro.bytes_root import is_bytes_root, with_size
from ottla.schemas.avro.empty_items import takes_no_bytes
from ottla.schemas.avro.node import AvroField, AvroNode

PairOf = tuple[AvroReader, ArrayBuilder]

INT: Final = (-scalars.INTEGER_MAX - 1, scalars.INTEGER_MAX)
LONG: Final = (-scalars.BIGINT_MAX - 1, scalars.BIGINT_MAX)
FIXED_BYTES: Final = {"boolean": 1, "float": 4, "double": 8}
US_IN_MS: Final = 1000
NS_IN_MS: Final = 1_000_000
NS_IN_US: Final = 1000
MAP_ENTRY: Final = ("key", "value")


class TypeMismatchError(ValueError):
    """The writer's schema has a type that can't be converted to the column's."""


class PayloadReader:
    """Payloads of one schema -> columns. One thread at a time."""

    def __init__(self, root: AvroNode, fields: Sequence[SqlField], *, wrapped: bool) -> None:
        self._wrapped = wrapped
        type_ = SqlType(SqlBaseType.STRUCT, fields=tuple(fields)) if wrapped else fields[0].type
        self._sizeless = not wrapped and is_bytes_root(root)
        self._raw = self._sizeless and type_.kind is SqlBaseType.BYTES
        self._reader, self._finish = _readers(root, type_, "")

    def read(self, data: bytes, places: bytes, count: int) -> tuple[list[pa.Array], Problems]:
        """`places` has two i32 per payload, its start and end, in ascending order."""
        if self._raw:
            return [arrays.cut(data, places, None)], {}
        if self._sizeless:
            data, places = _with_sizes(data, places)
        problems: Problems = {}
        row = 0
        try:
            while row < count:
                row, trouble = read_rows(data, places, count, row, self._reader)
                if row < count:
                    problems[row] = trouble
                    self._reader.null()
                    row += 1
            found = self._finish(data, problems)
        finally:
            self._reader.truncate(0)
        return (found.flatten() if self._wrapped else [found]), problems


def _with_sizes(data: bytes, places: bytes) -> tuple[bytes, bytes]:
    """The payloads with their sizes in front, which BytesReader needs."""
    sized = [with_size(payload) for payload in arrays.cut(data, places, None).to_pylist()]
    ends = list(accumulate(map(len, sized)))
    pairs = zip([0, *ends], ends, strict=False)
    return b"".join(sized), array("i", (place for pair in pairs for place in pair)).tobytes()


def _readers(node: AvroNode, type_: SqlType, path: str) -> PairOf:
    if node.kind == "union":
        return _union(node, type_, path)
    make = MAKERS.get(type_.kind)
    assert make is not None
    found = make(node, type_, path)
    if found is None:
        raise TypeMismatchError(
            f"{path or 'the value'} is {_name(node)} in its schema, and can't be {type_}"
        )
    return found


def _name(node: AvroNode) -> str:
    logical = node.properties.get("logicalType")
    return f"{node.name or node.kind} ({logical})" if logical else node.name or node.kind


# Scalars


def _boolean(node: AvroNode, type_: SqlType, path: str) -> PairOf | None:
    if node.kind != "boolean":
        return None
    reader = BooleanReader()
    return reader, arrays.booleans_of(reader)


def _number(
    bounds: dict[str, tuple[int, int]],
) -> Callable[[AvroNode, SqlType, str], PairOf | None]:
    def make(node: AvroNode, type_: SqlType, path: str) -> PairOf | None:
        if node.kind not in bounds:
            return None
        reader = LongReader(*bounds[node.kind])
        return reader, arrays.longs_of(reader, arrow_type(type_))

    return make


def _double(node: AvroNode, type_: SqlType, path: str) -> PairOf | None:
    if node.kind in ("float", "double"):
        reader = DoubleReader(node.kind == "float")
        return reader, arrays.doubles_of(reader)
    found = _bigint(node, SqlType(SqlBaseType.BIGINT), path)
    if found is None:
        return None
    inner = found[1]
    return found[0], lambda data, problems: inner(data, problems).cast(pa.float64(), safe=False)


def _string(node: AvroNode, type_: SqlType, path: str) -> PairOf | None:
    if node.kind == "string":
        texts = BytesReader()
        return texts, arrays.texts_of(texts)
    if node.kind == "enum":
        symbols = EnumReader(len(node.symbols))
        return symbols, arrays.symbols_of(symbols, node.symbols)
    found = _double(node, type_, path) if node.kind in ("float", "double") else None
    found = found or _bigint(node, SqlType(SqlBaseType.BIGINT), path) or _boolean(node, type_, path)
    return None if found is None else (found[0], arrays.as_text(found[1]))


def _bytes(node: AvroNode, type_: SqlType, path: str) -> PairOf | None:
    if node.kind not in ("bytes", "fixed") or node.properties.get("logicalType") == "decimal":
        return None
    reader = BytesReader(node.size if node.kind == "fixed" else -1)
    return reader, arrays.bytes_of(reader)


def _decimal(node: AvroNode, type_: SqlType, path: str) -> PairOf | None:
    if node.kind not in ("bytes", "fixed") or node.properties.get("logicalType") != "decimal":
        return None
    scale = int(node.properties.get("scale", 0))
    if not 0 <= scale <= DECIMAL_DIGITS_MAX:
        return None
    reader = DecimalReader(node.size if node.kind == "fixed" else -1)
    return reader, arrays.decimals_of(reader, scale, arrow_type(type_))


def _moment(
    units: dict[tuple[str, str], tuple[tuple[int, int], int]],
) -> Callable[[AvroNode, SqlType, str], PairOf | None]:
    """By type and logicalType: the column's range, and the factor to its unit."""

    def make(node: AvroNode, type_: SqlType, path: str) -> PairOf | None:
        found = units.get((node.kind, str(node.properties.get("logicalType"))))
        if found is None:
            return None
        bounds, factor = found
        reader = LongReader(*bounds)
        return reader, arrays.longs_of(reader, arrow_type(type_), factor)

    return make


# Nested


def _union(node: AvroNode, type_: SqlType, path: str) -> PairOf:
    others = [branch for branch in node.branches if branch.kind != "null"]
    if len(others) == 1 and len(node.branches) == 2:
        reader, finish = _readers(others[0], type_, path)
        return OptionalReader(reader, node.branches.index(others[0])), finish
    if len(others) > 1 and _is_union_struct(others, type_):
        return _union_struct(node, type_, path)
    readers: list[AvroReader | None] = [None] * len(node.branches)
    kept = [branch.kind == "null" for branch in node.branches]
    chosen: ArrayBuilder | None = None
    causes = []
    for index, branch in enumerate(node.branches):
        if branch.kind != "null" and chosen is None:
            try:
                readers[index], chosen = _readers(branch, type_, path)
                kept[index] = True
            except TypeMismatchError as error:
                causes.append(str(error))
    if chosen is None and others:
        raise TypeMismatchError("; ".join(causes))
    union = UnionReader(readers, kept)
    if chosen is None:
        kind = arrow_type(type_)
        return union, lambda data, problems: pa.nulls(len(union.valid), kind)
    return union, chosen


def union_field(branch: AvroNode) -> str:
    """Connect's name for the field of a union's branch."""
    return branch.simple_name or branch.kind


def _is_union_struct(others: Sequence[AvroNode], type_: SqlType) -> bool:
    names = {union_field(branch).upper() for branch in others}
    return (
        type_.kind is SqlBaseType.STRUCT and {field.name.upper() for field in type_.fields} <= names
    )


def _union_struct(node: AvroNode, type_: SqlType, path: str) -> PairOf:
    """As in Connect, a union of several types is a STRUCT with one non-null field."""
    readers: list[AvroReader | None] = [None] * len(node.branches)
    kept = [branch.kind == "null" for branch in node.branches]
    finishes: list[ArrayBuilder] = []
    for field in type_.fields:
        index = next(
            index
            for index, branch in enumerate(node.branches)
            if branch.kind != "null" and union_field(branch).upper() == field.name.upper()
        )
        readers[index], finish = _readers(node.branches[index], field.type, f"{path}.{field.name}")
        kept[index] = True
        finishes.append(finish)
    reader = UnionReader(readers, kept)
    return reader, arrays.structs_of(reader, arrow_type(type_), finishes)


def _struct(node: AvroNode, type_: SqlType, path: str) -> PairOf | None:
    if node.kind not in ("record", "error"):
        return None
    matched = match_fields(node.fields, type_.fields)
    finishes: dict[str, ArrayBuilder] = {}
    steps: list[AvroReader] = []
    skips: dict[int, SkipRecord] = {}
    for field in node.fields:
        column = matched.get(field.name)
        if column is None:
            steps.append(_skip(field.type, skips))
            continue
        inner = f"{path}.{column.name}" if path else column.name
        reader, finishes[column.name] = _readers(field.type, column.type, inner)
        steps.append(reader)
    missing: list[AvroReader] = []
    for column in type_.fields:
        if column.name not in finishes:
            nothing = NullReader()
            missing.append(nothing)
            finishes[column.name] = arrays.nulls_of(nothing, arrow_type(column.type))
    record = AvroRecordReader(steps, missing)
    children = [finishes[column.name] for column in type_.fields]
    return record, arrays.structs_of(record, arrow_type(type_), children)


def match_fields(fields: Sequence[AvroField], columns: Sequence[SqlField]) -> dict[str, SqlField]:
    """The writer's field name -> the column that it fills."""
    found: dict[str, SqlField] = {}
    exact = {field.name for field in fields}
    for column in columns:
        if column.name in exact:
            found[column.name] = column
            continue
        for field in fields:
            if field.name.upper() == column.name.upper() and field.name not in found:
                found[field.name] = column
                break
    return found


def _array(node: AvroNode, type_: SqlType, path: str) -> PairOf | None:
    if node.kind != "array":
        return None
    assert type_.element is not None
    items, finish = _readers(node.element, type_.element, f"{path}[]")
    reader = ListReader(items, empty=takes_no_bytes(node.element))
    return reader, arrays.lists_of(reader, arrow_type(type_), finish)


def _map(node: AvroNode, type_: SqlType, path: str) -> PairOf | None:
    assert type_.element is not None
    kind = arrow_type(type_)
    if node.kind == "map":
        keys = BytesReader()
        items, finish = _readers(node.element, type_.element, f"{path}{{}}")
        reader = ListReader(items, keys)
        return reader, arrays.maps_of(reader, kind, arrays.texts_of(keys), finish)
    if not is_map_of_entries(node):
        return None
    assert type_.key is not None
    entry = SqlType(
        SqlBaseType.STRUCT, fields=(SqlField("key", type_.key), SqlField("value", type_.element))
    )
    items, finish = _readers(node.element, entry, f"{path}{{}}")
    reader = ListReader(items)
    return reader, arrays.maps_of_entries(reader, kind, finish)


def is_map_of_entries(node: AvroNode) -> bool:
    """Connect writes a map with keys other than Avro strings as an array of records."""
    if node.kind != "array" or node.element.kind != "record":
        return False
    return tuple(field.name for field in node.element.fields) == MAP_ENTRY


# Fields without a column


def _skip(node: AvroNode, records: dict[int, SkipRecord]) -> AvroReader:
    if takes_no_bytes(node):
        return SkipFixedBytes(0)
    if node.kind in FIXED_BYTES:
        return SkipFixedBytes(FIXED_BYTES[node.kind])
    if node.kind == "fixed":
        return SkipFixedBytes(node.size)
    if node.kind in ("int", "long", "enum"):
        return SkipLong()
    if node.kind in ("string", "bytes"):
        return SkipBytes()
    if node.kind in ("array", "map"):
        is_map = node.kind == "map"
        empty = not is_map and takes_no_bytes(node.element)
        return SkipList(_skip(node.element, records), is_map, empty)
    if node.kind == "union":
        return SkipUnion([_skip(branch, records) for branch in node.branches])
    found = records.get(id(node))
    if found is None:
        found = records[id(node)] = SkipRecord()
        found.fields = [_skip(field.type, records) for field in node.fields]
    return found


_integer: Final = _number({"int": INT})
_bigint: Final = _number({"int": INT, "long": LONG})
_DAY: Final = (0, scalars.DAY_MS - 1)
_TIMESTAMPS: Final = (scalars.TIMESTAMP_MIN_MS, scalars.TIMESTAMP_MAX_MS)

MAKERS: Final[dict[SqlBaseType, Callable[[AvroNode, SqlType, str], PairOf | None]]] = {
    SqlBaseType.BOOLEAN: _boolean,
    SqlBaseType.INTEGER: _integer,
    SqlBaseType.BIGINT: _bigint,
    SqlBaseType.DOUBLE: _double,
    SqlBaseType.STRING: _string,
    SqlBaseType.BYTES: _bytes,
    SqlBaseType.DECIMAL: _decimal,
    SqlBaseType.DATE: _moment({("int", "date"): ((scalars.DATE_MIN, scalars.DATE_MAX), 1)}),
    SqlBaseType.TIME: _moment(
        {
            ("int", "time-millis"): (_DAY, NS_IN_MS),
            ("long", "time-micros"): ((0, scalars.DAY_MS * US_IN_MS - 1), NS_IN_US),
        }
    ),
    SqlBaseType.TIMESTAMP: _moment(
        {
            ("long", "timestamp-millis"): (_TIMESTAMPS, US_IN_MS),
            ("long", "timestamp-micros"): (
                (scalars.TIMESTAMP_MIN_MS * US_IN_MS, scalars.TIMESTAMP_MAX_MS * US_IN_MS + 999),
                1,
            ),
        }
    ),
    SqlBaseType.ARRAY: _array,
    SqlBaseType.MAP: _map,
    SqlBaseType.STRUCT: _struct,
}
