"""Avro's JSON encoding: converts between binary data and JSON by the schema.

    union      null, or an object with one entry: the name of the branch and the value in it
    bytes      a string with one character for each byte (ISO-8859-1); fixed likewise
    others     the obvious JSON; logical types have no form of their own

fastavro reads a union as a bare value and guesses its branch when it writes. This code never
guesses, so that the output of the console tools can be their input.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Callable
from typing import Any, Final

from ottla.schemas import json_text
from ottla.schemas.avro.node import AvroNode

VALUE_DEPTH_MAX: Final = 200
ITEMS_MAX: Final = 10_000_000  # items of type null have no bytes, so a writer can claim any number
_RANGES: Final = {"int": range(-(2**31), 2**31), "long": range(-(2**63), 2**63)}
_WORDS: Final = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_FLOAT: Final = struct.Struct("<f")
_DOUBLE: Final = struct.Struct("<d")


class AvroDataError(ValueError):
    """Data that does not fit its schema; the message says where."""


def json_text_of(node: AvroNode, data: bytes, position: int = 0) -> str:
    """The value that begins at `position`, as Jackson writes it."""
    return json_text.write_json(_Decoder(data, position).value(node, 0))


def binary_of(node: AvroNode, text: str) -> bytes:
    """JSON as binary data."""
    try:
        value = json.loads(text)
    except ValueError as error:
        raise AvroDataError(f"not JSON: {error}") from None
    encoder = _Encoder()
    encoder.value(node, value, "", 0)
    return bytes(encoder.out)


class _Decoder:
    def __init__(self, data: bytes, position: int) -> None:
        self.data = data
        self.position = position
        self.items = 0

    def value(self, node: AvroNode, depth: int) -> Any:
        if depth > VALUE_DEPTH_MAX:
            raise AvroDataError(f"values are nested more than {VALUE_DEPTH_MAX} deep")
        kind = node.kind
        if kind in _READERS:
            return _READERS[kind](self)
        if kind in ("record", "error"):
            return {field.name: self.value(field.type, depth + 1) for field in node.fields}
        if kind == "enum":
            return self.choice(node.symbols, f"symbols of {node.name}")
        if kind == "fixed":
            return self.take(node.size).decode("iso-8859-1")
        if kind == "array":
            return [self.value(node.element, depth + 1) for _ in self.blocks()]
        if kind == "map":
            return {self.string(): self.value(node.element, depth + 1) for _ in self.blocks()}
        branch = self.choice(node.branches, "branches of a union")
        value = self.value(branch, depth + 1)
        return value if branch.kind == "null" else {branch.key: value}

    def blocks(self) -> Any:
        """Yields once for each item; a negative count is followed by its block's size in bytes."""
        while count := self.long():
            if count < 0:
                count = -count
                self.long()
            self.items += count
            if self.items > ITEMS_MAX:
                raise AvroDataError(f"more than {ITEMS_MAX} items")
            yield from range(count)

    def choice(self, of: list[Any], what: str) -> Any:
        number = self.long()
        if not 0 <= number < len(of):
            raise AvroDataError(f"number {number} of the {len(of)} {what}")
        return of[number]

    def take(self, size: int) -> bytes:
        end = self.position + size
        if size < 0 or end > len(self.data):
            raise AvroDataError(
                f"the data ends at byte {len(self.data)}, and a value goes on to byte {end}"
            )
        taken = bytes(self.data[self.position : end])
        self.position = end
        return taken

    def long(self) -> int:
        value = shift = 0
        while True:
            (byte,) = self.take(1)
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return (value >> 1) ^ -(value & 1)
            shift += 7
            if shift > 63:
                raise AvroDataError(f"a number at byte {self.position} does not end")

    def boolean(self) -> bool:
        return self.take(1) != b"\0"

    def float(self) -> Any:
        return _shown(_shortest(self.take(4)))

    def double(self) -> Any:
        return _shown(_DOUBLE.unpack(self.take(8))[0])

    def binary(self) -> str:
        return self.take(self.long()).decode("iso-8859-1")

    def string(self) -> str:
        return self.take(self.long()).decode(errors="replace")


_READERS: Final[dict[str, Callable[[_Decoder], Any]]] = {
    "null": lambda decoder: None,
    "boolean": _Decoder.boolean,
    "int": _Decoder.long,
    "long": _Decoder.long,
    "float": _Decoder.float,
    "double": _Decoder.double,
    "bytes": _Decoder.binary,
    "string": _Decoder.string,
}


class _Encoder:
    def __init__(self) -> None:
        self.out = bytearray()

    def value(self, node: AvroNode, value: Any, path: str, depth: int) -> None:
        if depth > VALUE_DEPTH_MAX:
            raise AvroDataError(f"values are nested more than {VALUE_DEPTH_MAX} deep")
        kind = node.kind
        if kind in ("record", "error"):
            self.record(node, value, path, depth)
        elif kind == "union":
            self.union(node, value, path, depth)
        elif kind == "array":
            _check(isinstance(value, list), path, "an array", value)
            for number, item in self.items(value):
                self.value(node.element, item, f"{path}[{number}]", depth + 1)
            self.long(0)
        elif kind == "map":
            _check(isinstance(value, dict), path, "an object", value)
            for _, (key, item) in self.items(value.items()):
                self.bytes(key.encode())
                self.value(node.element, item, _inner(path, key), depth + 1)
            self.long(0)
        else:
            self.simple(node, value, path)

    def record(self, node: AvroNode, value: Any, path: str, depth: int) -> None:
        _check(isinstance(value, dict), path, f"an object with the fields of {node.name}", value)
        known = {field.name for field in node.fields}
        unknown = [name for name in value if name not in known]
        if unknown:
            raise AvroDataError(
                f"{path or 'the value'}: {node.name} has no field {', '.join(unknown)};"
                f" it has {', '.join(known_field.name for known_field in node.fields)}"
            )
        for field in node.fields:
            if field.name not in value:
                raise AvroDataError(
                    f"{_inner(path, field.name)} is missing: every field is given, also one with"
                    " a default"
                )
            self.value(field.type, value[field.name], _inner(path, field.name), depth + 1)

    def union(self, node: AvroNode, value: Any, path: str, depth: int) -> None:
        keys = [branch.key for branch in node.branches]
        branch = "null" if value is None else None
        if isinstance(value, dict) and len(value) == 1:
            ((branch, value),) = value.items()
        if branch not in keys:
            forms = ", ".join("null" if key == "null" else json.dumps({key: "..."}) for key in keys)
            raise AvroDataError(
                f"{path or 'the value'}: {json.dumps(value)} is not in the union: write one of"
                f" {forms}"
            )
        number = keys.index(branch)
        self.long(number)
        self.value(node.branches[number], value, path, depth + 1)

    def simple(self, node: AvroNode, value: Any, path: str) -> None:
        kind = node.kind
        if kind == "null":
            _check(value is None, path, "null", value)
        elif kind == "boolean":
            _check(isinstance(value, bool), path, "true or false", value)
            self.out.append(value)
        elif kind in _RANGES:
            number = int(value) if isinstance(value, float) and value.is_integer() else value
            fits = isinstance(number, int) and not isinstance(number, bool)
            _check(fits and number in _RANGES[kind], path, f"a number of type {kind}", value)
            self.long(number)
        elif kind in ("float", "double"):
            number = _WORDS.get(value, value) if isinstance(value, str) else value
            fits = isinstance(number, int | float) and not isinstance(number, bool)
            _check(fits, path, "a number", value)
            self.real(_FLOAT if kind == "float" else _DOUBLE, number, path)
        elif kind == "string":
            _check(isinstance(value, str), path, "a string", value)
            self.bytes(value.encode(errors="surrogatepass"))
        elif kind == "enum":
            fits = isinstance(value, str) and value in node.symbols
            _check(fits, path, f"one of {', '.join(node.symbols)}", value)
            self.long(node.symbols.index(value))
        else:
            self.binary(node, value, path)

    def binary(self, node: AvroNode, value: Any, path: str) -> None:
        fits = isinstance(value, str) and all(ord(char) < 256 for char in value)
        _check(fits, path, "a string with one character from \\u0000 to \\u00ff a byte", value)
        data = value.encode("iso-8859-1")
        if node.kind == "bytes":
            self.bytes(data)
            return
        _check(len(data) == node.size, path, f"{node.size} bytes of {node.name}", value)
        self.out += data

    def items(self, values: Any) -> Any:
        """One block with all items; without items there is no block."""
        if values:
            self.long(len(values))
        return enumerate(values)

    def real(self, form: struct.Struct, number: float, path: str) -> None:
        try:
            self.out += form.pack(number)
        except OverflowError:
            _check(False, path, "a number that fits", number)

    def bytes(self, data: bytes) -> None:
        self.long(len(data))
        self.out += data

    def long(self, number: int) -> None:
        zigzag = number << 1 if number >= 0 else (-number << 1) - 1
        while zigzag > 0x7F:
            self.out.append(zigzag & 0x7F | 0x80)
            zigzag >>= 7
        self.out.append(zigzag)


def _check(fits: bool, path: str, wanted: str, value: Any) -> None:
    if not fits:
        raise AvroDataError(f"{path or 'the value'}: {json.dumps(value)} is not {wanted}")


def _inner(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _shortest(packed: bytes) -> float:
    """The shortest number that reads as this float: 0.1, not 0.10000000149011612."""
    number: float = _FLOAT.unpack(packed)[0]
    for digits in (6, 7, 8):
        shorter = float(f"{number:.{digits}g}")
        if math.isfinite(number) and _FLOAT.pack(shorter) == packed:
            return shorter
    return float(f"{number:.9g}")


def _shown(number: float) -> float | str:
    """JSON has no such numbers: they are strings, as in Java's encoder."""
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "Infinity" if number > 0 else "-Infinity"
    return number
