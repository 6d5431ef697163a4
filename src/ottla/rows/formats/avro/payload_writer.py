"""Writes rows as payloads of one schema: chooses the writer of each column.

Fields match columns by name regardless of case; an exact match wins. A field without a column is
written as its default or null; a null in a non-nullable field as the field's default. A column
without a field is rejected.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ottla.rows.formats.arrow import arrow_array
from ottla.rows.formats.avro.payload_reader import (
    TypeMismatchError,
    is_map_of_entries,
    match_fields,
)
from ottla.rows.formats.avro.types import AvroTypeInference
from ottla.rows.formats.avro.writers import (
    AvroRecordWriter,
    AvroWriter,
    BooleanWriter,
    BranchWriter,
    BytesWriterOf,
    ConstantWriter,
    DecimalWriter,
    DefaultWriter,
    DoubleWriter,
    ListWriter,
    LongWriter,
    OptionalWriter,
    RequiredWriter,
    write_rows,
)
from ottla.rows.formats.type_inference import RecursiveSchemaError, UnsupportedTypeError
from ottla.rows.types import SqlBaseType, SqlField, SqlType
from ottla.schemas.avro.bytes_root import is_bytes_root, without_size
from ottla.schemas.avro.node import AvroField, AvroNode

US_IN_MS: Final = 1000
NS_IN_MS: Final = 1_000_000
NS_IN_US: Final = 1000

Make = Callable[[AvroNode, SqlType, pa.Array, str], AvroWriter | None]


class PayloadWriter:
    """Columns -> payloads of one schema, each after `prefix`."""

    def __init__(
        self, root: AvroNode, fields: Sequence[SqlField], *, wrapped: bool, prefix: bytes
    ) -> None:
        self._root = root
        self._prefix = prefix
        self._wrapped = wrapped
        self._type = (
            SqlType(SqlBaseType.STRUCT, fields=tuple(fields)) if wrapped else fields[0].type
        )
        self._sizeless = not wrapped and is_bytes_root(root)
        self._raw = self._sizeless and self._type.kind is SqlBaseType.BYTES
        # Raises now for columns that the schema does not support.
        self.write([arrow_array([], field.type) for field in fields], 0)

    def write(self, columns: Sequence[pa.Array], count: int) -> pa.Array:
        """An unwrapped null has no payload."""
        if self._raw:
            return pc.binary_join_element_wise(pa.scalar(self._prefix), columns[0], b"")
        skipped = b""
        if self._wrapped:
            writer: AvroWriter = _record(self._root, self._type.fields, columns, count, "")
        else:
            writer = _writer(self._root, self._type, columns[0], "")
            if columns[0].null_count:
                skipped = columns[0].is_null().cast(pa.uint8()).to_numpy().tobytes()
        prefix = b"" if self._sizeless else self._prefix
        data, offsets = write_rows(writer, count, prefix, skipped)
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
        made = pa.Array.from_buffers(pa.binary(), count, buffers)
        if self._sizeless:
            bare = [
                self._prefix + without_size(payload) if payload else b""
                for payload in made.to_pylist()
            ]
            made = pa.array(bare, pa.binary())
        return pc.if_else(columns[0].is_valid(), made, None) if skipped else made


def _writer(node: AvroNode, type_: SqlType, array: pa.Array, path: str) -> AvroWriter:
    valid = _valid(array)
    if node.kind == "union":
        return _branch(node, type_, array, valid, path)
    inner = _inner(node, type_, array, path)
    return RequiredWriter(inner, valid, path or "the value") if valid else inner


def _inner(node: AvroNode, type_: SqlType, array: pa.Array, path: str) -> AvroWriter:
    found = MAKERS[type_.kind](node, type_, array, path)
    if found is None:
        logical = node.properties.get("logicalType", "")
        raise TypeMismatchError(
            f"{path or 'the value'} is {type_}, which can't be written as"
            f" {node.name or node.kind}{f' ({logical})' if logical else ''}"
        )
    return found


def _branch(node: AvroNode, type_: SqlType, array: pa.Array, valid: bytes, path: str) -> AvroWriter:
    """The first branch that can hold the column."""
    null = next((n for n, branch in enumerate(node.branches) if branch.kind == "null"), -1)
    causes = []
    for number, branch in enumerate(node.branches):
        if branch.kind == "null":
            continue
        try:
            inner = _inner(branch, type_, array, path)
        except TypeMismatchError as error:
            causes.append(str(error))
            continue
        if len(node.branches) == 2 and null >= 0:
            return OptionalWriter(inner, valid, number)
        return BranchWriter(inner, valid, number, null)
    raise TypeMismatchError(
        "; ".join(causes) or f"{path or 'the value'} can only be null in its schema"
    )


def _record(
    root: AvroNode, fields: Sequence[SqlField], columns: Sequence[pa.Array], count: int, path: str
) -> AvroWriter:
    """A record of these columns; the root may be a union with a record."""
    if root.kind == "union":
        for number, branch in enumerate(root.branches):
            if branch.kind == "record":
                return BranchWriter(_record(branch, fields, columns, count, path), b"", number, -1)
    if root.kind not in ("record", "error"):
        raise TypeMismatchError(f"{path or 'the value'} is {root.kind} in its schema, not a record")
    by_name = dict(zip([column.name for column in fields], columns, strict=True))
    matched = match_fields(root.fields, fields)
    lost = [column.name for column in fields if column not in matched.values()]
    if lost:
        raise TypeMismatchError(f"{root.name} has no field {', '.join(lost)}")
    writers: list[AvroWriter] = []
    for field in root.fields:
        column = matched.get(field.name)
        inner = f"{path}.{field.name}" if path else field.name
        if column is None:
            writers.append(_constant(field, inner))
        else:
            writers.append(_field(field, column.type, by_name[column.name], inner))
    return AvroRecordWriter(writers)


def _field(field: AvroField, type_: SqlType, array: pa.Array, path: str) -> AvroWriter:
    valid = _valid(array)
    if not valid or field.type.kind == "union" or not field.has_default:
        return _writer(field.type, type_, array, path)
    inner = _inner(field.type, type_, array, path)
    return DefaultWriter(inner, valid, _constant(field, path).data)


def _constant(field: AvroField, path: str) -> ConstantWriter:
    """Null for a nullable field, else the field's default."""
    node = field.type
    if not field.has_default:
        null = [n for n, branch in enumerate(node.branches) if branch.kind == "null"]
        if not null:
            raise TypeMismatchError(f"there is no column {path}, and its field has no default")
        return ConstantWriter(bytes((null[0] * 2,)))
    prefix = b""
    if node.kind == "union":  # the default has the type of the first branch
        node, prefix = node.branches[0], b"\0"
    if node.kind == "null":
        return ConstantWriter(prefix)
    try:
        type_ = AvroTypeInference().type(node)
    except (UnsupportedTypeError, RecursiveSchemaError) as error:
        raise TypeMismatchError(f"the default of {path} can't be written: {error}") from None
    value: Any = field.default
    if node.kind in ("bytes", "fixed"):
        value = str(value).encode("latin-1")
    array = arrow_array([value], type_)
    data, _ = write_rows(_writer(node, type_, array, path), 1, prefix, b"")
    return ConstantWriter(data)


# By type


def _boolean(node: AvroNode, type_: SqlType, array: pa.Array, path: str) -> AvroWriter | None:
    if node.kind != "boolean":
        return None
    return BooleanWriter(pc.fill_null(array, False).cast(pa.uint8()).to_numpy().tobytes())


def _longs(array: pa.Array, factor: int = 1) -> AvroWriter:
    kind = pa.int32() if array.type.bit_width == 32 else pa.int64()
    numbers = pc.fill_null(array.cast(kind), 0).to_numpy().astype(np.int64)
    return LongWriter(numbers.tobytes(), factor)


def _whole(kinds: tuple[str, ...]) -> Make:
    def make(node: AvroNode, type_: SqlType, array: pa.Array, path: str) -> AvroWriter | None:
        return _longs(array) if node.kind in kinds else None

    return make


def _double(node: AvroNode, type_: SqlType, array: pa.Array, path: str) -> AvroWriter | None:
    if node.kind not in ("float", "double"):
        return None
    values = pc.fill_null(array, 0.0).to_numpy().astype(np.float64)
    return DoubleWriter(values.tobytes(), node.kind == "float")


def _string(node: AvroNode, type_: SqlType, array: pa.Array, path: str) -> AvroWriter | None:
    if node.kind == "string":
        return BytesWriterOf(_offsets(array), _data(array))
    if node.kind != "enum":
        return None
    numbers = pc.index_in(array, pa.array(node.symbols, pa.string()))
    if numbers.null_count > array.null_count:
        known = pc.or_(numbers.is_valid(), array.is_null())
        other = array.filter(pc.invert(known))[0].as_py()
        raise TypeMismatchError(f"{path}: the enum {node.name} has no symbol {other}")
    return _longs(numbers)


def _bytes(node: AvroNode, type_: SqlType, array: pa.Array, path: str) -> AvroWriter | None:
    if node.kind not in ("bytes", "fixed") or "logicalType" in node.properties:
        return None
    size = node.size if node.kind == "fixed" else -1
    return BytesWriterOf(_offsets(array), _data(array), size)


def _decimal(node: AvroNode, type_: SqlType, array: pa.Array, path: str) -> AvroWriter | None:
    if node.kind not in ("bytes", "fixed") or node.properties.get("logicalType") != "decimal":
        return None
    if int(node.properties.get("scale", 0)) != type_.scale:
        return None
    data = array.buffers()[1]
    start = array.offset * 16
    values = data.to_pybytes()[start : start + len(array) * 16] if data is not None else b""
    return DecimalWriter(values, node.size if node.kind == "fixed" else -1)


def _moment(units: dict[tuple[str, str], int]) -> Make:
    """By type and logicalType: the number of the column's units in one of the writer's."""

    def make(node: AvroNode, type_: SqlType, array: pa.Array, path: str) -> AvroWriter | None:
        factor = units.get((node.kind, str(node.properties.get("logicalType"))))
        return None if factor is None else _longs(array, factor)

    return make


def _array(node: AvroNode, type_: SqlType, array: pa.Array, path: str) -> AvroWriter | None:
    if node.kind != "array":
        return None
    assert type_.element is not None
    items = _writer(node.element, type_.element, array.values, f"{path}[]")
    return ListWriter(_offsets(array), items)


def _map(node: AvroNode, type_: SqlType, array: pa.Array, path: str) -> AvroWriter | None:
    assert type_.element is not None
    assert type_.key is not None
    if node.kind == "map":
        items = _writer(node.element, type_.element, array.items, f"{path}{{}}")
        keys = BytesWriterOf(_offsets(array.keys), _data(array.keys))
        return ListWriter(_offsets(array), items, keys)
    if not is_map_of_entries(node):
        return None
    fields = (SqlField("key", type_.key), SqlField("value", type_.element))
    entries = [array.keys, array.items]
    record = _record(node.element, fields, entries, len(array.keys), f"{path}{{}}")
    return ListWriter(_offsets(array), record)


def _struct(node: AvroNode, type_: SqlType, array: pa.Array, path: str) -> AvroWriter | None:
    if node.kind not in ("record", "error"):
        return None
    return _record(node, type_.fields, array.flatten(), len(array), path)


# Arrow's buffers


def _valid(array: pa.Array) -> bytes:
    if not array.null_count:
        return b""
    found: bytes = array.is_valid().cast(pa.uint8()).to_numpy().tobytes()
    return found


def _offsets(array: pa.Array) -> bytes:
    buffer = array.buffers()[1]
    if buffer is None or not len(array):
        return bytes(4)
    return np.frombuffer(buffer, np.int32, len(array) + 1, array.offset * 4).tobytes()


def _data(array: pa.Array) -> bytes:
    buffer = array.buffers()[2]
    if buffer is None:
        return b""
    found: bytes = buffer.to_pybytes()
    return found


MAKERS: Final[dict[SqlBaseType, Make]] = {
    SqlBaseType.BOOLEAN: _boolean,
    SqlBaseType.INTEGER: _whole(("int", "long")),
    SqlBaseType.BIGINT: _whole(("long",)),
    SqlBaseType.DOUBLE: _double,
    SqlBaseType.STRING: _string,
    SqlBaseType.BYTES: _bytes,
    SqlBaseType.DECIMAL: _decimal,
    SqlBaseType.DATE: _moment({("int", "date"): 1}),
    SqlBaseType.TIME: _moment(
        {("int", "time-millis"): NS_IN_MS, ("long", "time-micros"): NS_IN_US}
    ),
    SqlBaseType.TIMESTAMP: _moment(
        {("long", "timestamp-millis"): US_IN_MS, ("long", "timestamp-micros"): 1}
    ),
    SqlBaseType.ARRAY: _array,
    SqlBaseType.MAP: _map,
    SqlBaseType.STRUCT: _struct,
}
