"""Encodings of bytes as text and numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from ottla.rows.errors import SqlError
from ottla.sql.functions.function_registry import Call, Signature
from ottla.sql.functions.python import encodings as python
from ottla.sql.functions.python.strings import md5
from ottla.sql.functions.scalar import scalar, signature

FAMILY: Final = "Bytes"
ENCODINGS: Final = ("hex", "utf8", "ascii", "base64")
_ASCII: Final = r"regexp_replace({0}, '[^\\x00-\\x7F]', '?')"
_NOT_ASCII: Final = r"'[\\x{80}-\\x{FF}]', '\uFFFD'"
_HEX: Final = (
    (r"^0[xX]([0-9A-Fa-f]*)$", 1),
    (r"^[xX]\'(([0-9A-Fa-f]{2})*)\'$", 1),
    (r"^([0-9A-Fa-f]{2})*$", 0),
)
"""Pairs of hex digits, bare or as X'...'; after 0x the number of digits may be odd."""


def _bytes_of(text: str, encoding: str) -> str:
    match encoding:
        case "hex":
            cases = " ".join(
                f"WHEN {text} RLIKE '{pattern}'"
                f" THEN unhex(regexp_extract({text}, '{pattern}', {group}))"
                for pattern, group in _HEX
            )
            return f"CASE {cases} END"
        case "base64":
            return f"try_to_binary({text}, 'base64')"
        case "ascii":
            return f"encode({_ASCII.format(text)}, 'UTF-8')"
        case _:
            return f"encode({text}, 'UTF-8')"


def _text_of(bytes_: str, encoding: str) -> str:
    match encoding:
        case "hex":
            return f"hex({bytes_})"
        case "base64":
            return f"base64({bytes_})"
        case "ascii":
            return f"regexp_replace(decode({bytes_}, 'ISO-8859-1'), {_NOT_ASCII})"
        case _:
            return f"make_valid_utf8(CAST({bytes_} AS string))"


def _by_encoding(call: Call, index: int, of: Callable[[str, str], str], value: str = "") -> str:
    """The text for the encoding in an argument; for a column, a CASE over all encodings."""
    value = value or call.texts[0]
    named = call.constants[index]
    if isinstance(named, str):
        if named.lower() not in ENCODINGS:
            raise SqlError(
                f"Unknown encoding type '{named}'",
                remedy=f"There are {', '.join(ENCODINGS)}.",
            )
        return of(value, named.lower())
    cases = " ".join(f"WHEN '{encoding}' THEN {of(value, encoding)}" for encoding in ENCODINGS)
    return f"CASE lower({call.texts[index]}) {cases} END"


def _encode(call: Call) -> str:
    """ENCODE; NULL for an unknown encoding, as in ksqlDB."""
    if not all(_is_known(constant) for constant in call.constants[1:]):
        return "CAST(NULL AS string)"
    bytes_ = _by_encoding(call, 1, _bytes_of)
    return _by_encoding(call, 2, _text_or_small_hex, bytes_)


def _is_known(encoding: Any) -> bool:
    return not isinstance(encoding, str) or encoding.lower() in ENCODINGS


def _text_or_small_hex(bytes_: str, encoding: str) -> str:
    text = _text_of(bytes_, encoding)
    return f"lower({text})" if encoding == "hex" else text


def _number(size: int, spark: str, type_: str, compute: Callable[..., Any]) -> list[Signature]:
    """`spark` converts hex digits in big-endian order to a number."""

    def of(bytes_: str) -> str:
        return f"CASE WHEN length({{0}}) = {size} THEN {spark.format(bytes_)} END"

    turned = "reverse(transform(sequence(1, length({0})), __i -> hex(substring({0}, __i, 1))))"
    big, small = of("hex({0})"), of(f"array_join({turned}, '')")
    either = f"CASE {{1}} WHEN 'BIG_ENDIAN' THEN {big} WHEN 'LITTLE_ENDIAN' THEN {small} END"
    return [
        signature(f"BYTES bytes -> {type_}", big, python=compute),
        signature(f"BYTES bytes, STRING order -> {type_}", either, python=compute),
    ]


_LONG: Final = "CAST(conv({}, 16, -10) AS bigint)"
_INT: Final = "CAST(shiftright(shiftleft(CAST(conv({}, 16, -10) AS bigint), 32), 32) AS int)"
_DOUBLE: Final = (
    "transform(array(CAST(conv({}, 16, -10) AS bigint)), b -> "
    "IF(b < 0, -1.0D, 1.0D) * CASE shiftright(b, 52) & 2047L "
    "WHEN 0L THEN (b & 4503599627370495L) * pow(2.0D, -1074) "
    "WHEN 2047L THEN IF((b & 4503599627370495L) = 0, CAST('Infinity' AS double), "
    "CAST('NaN' AS double)) "
    "ELSE ((b & 4503599627370495L) | 4503599627370496L) * "
    "pow(2.0D, CAST((shiftright(b, 52) & 2047L) - 1075 AS double)) END)[0]"
)

_ORDERS: Final = (
    "NULL for another number of bytes. The order is BIG_ENDIAN (default) or LITTLE_ENDIAN."
)

BYTES: Final = (
    scalar(
        "BIGINT_FROM_BYTES",
        FAMILY,
        f"8 bytes as a BIGINT. {_ORDERS}",
        *_number(8, _LONG, "BIGINT", python.bigint_from_bytes),
    ),
    scalar(
        "DOUBLE_FROM_BYTES",
        FAMILY,
        f"8 bytes as a DOUBLE. {_ORDERS}",
        *_number(8, _DOUBLE, "DOUBLE", python.double_from_bytes),
    ),
    scalar(
        "ENCODE",
        FAMILY,
        "Converts text from one encoding to another: `hex`, `utf8`, `ascii`, `base64`.",
        signature("STRING value, STRING from, STRING to -> STRING", _encode, python=python.encode),
    ),
    scalar(
        "FROM_BYTES",
        FAMILY,
        "Bytes as text: `hex`, `utf8`, `ascii` or `base64`.",
        signature(
            "BYTES bytes, STRING encoding -> STRING",
            lambda call: _by_encoding(call, 1, _text_of),
            python=python.from_bytes,
        ),
    ),
    scalar(
        "INT_FROM_BYTES",
        FAMILY,
        f"4 bytes as an INTEGER. {_ORDERS}",
        *_number(4, _INT, "INTEGER", python.int_from_bytes),
    ),
    scalar(
        "MD5",
        FAMILY,
        "The MD5 sum of a text, in hex.",
        signature("STRING value -> STRING", "md5({0})", python=md5),
    ),
    scalar(
        "TO_BYTES",
        FAMILY,
        "The bytes of a text in an encoding: `hex`, `utf8`, `ascii` or `base64`.",
        signature(
            "STRING value, STRING encoding -> BYTES",
            lambda call: _by_encoding(call, 1, _bytes_of),
            python=python.to_bytes,
        ),
    ),
)
