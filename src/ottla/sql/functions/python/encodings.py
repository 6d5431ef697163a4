"""Encodings of bytes as text and numbers."""

from __future__ import annotations

import base64
import re
import struct
from typing import Final

HEX_ENCODING: Final = re.compile(
    r"0[xX](?P<behind>[0-9A-Fa-f]*)|[xX]'(?P<quoted>(?:[0-9A-Fa-f]{2})*)'"
    r"|(?P<bare>(?:[0-9A-Fa-f]{2})*)"
)
"""Pairs of hex digits, bare or as X'...'; after 0x the number of digits may be odd."""
BYTE_ORDERS: Final = {"BIG_ENDIAN": ">", "LITTLE_ENDIAN": "<"}


def to_bytes(text: str, encoding: str) -> bytes | None:
    match encoding.lower():
        case "hex":
            found = HEX_ENCODING.fullmatch(text)
            digits = "".join(group for group in found.groups() if group) if found else None
            return None if digits is None else bytes.fromhex(digits.zfill(len(digits) + 1 & ~1))
        case "base64":
            padding = "" if "=" in text else "=" * (-len(text) % 4)
            return base64.b64decode(text + padding, validate=True)
        case "ascii":
            return text.encode("ascii", "replace")
        case "utf8":
            return text.encode()
    return None


def from_bytes(value: bytes, encoding: str) -> str | None:
    match encoding.lower():
        case "hex":
            return value.hex().upper()
        case "base64":
            return base64.b64encode(value).decode()
        case "ascii":
            return value.decode("ascii", "replace")
        case "utf8":
            return value.decode("utf-8", "replace")
    return None


def encode(text: str, from_: str, to: str) -> str | None:
    value = to_bytes(text, from_)
    found = None if value is None else from_bytes(value, to)
    return found.lower() if found is not None and to.lower() == "hex" else found


def int_from_bytes(value: bytes, order: str = "BIG_ENDIAN") -> int:
    return int(struct.unpack(f"{BYTE_ORDERS[order]}i", value)[0])


def bigint_from_bytes(value: bytes, order: str = "BIG_ENDIAN") -> int:
    return int(struct.unpack(f"{BYTE_ORDERS[order]}q", value)[0])


def double_from_bytes(value: bytes, order: str = "BIG_ENDIAN") -> float:
    return float(struct.unpack(f"{BYTE_ORDERS[order]}d", value)[0])
