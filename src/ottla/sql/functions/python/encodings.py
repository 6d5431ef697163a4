"""Bytes as text and numbers."""

from __future__ import annotations

import base64
import re
import struct
from typing import Final

HEX: Final = re.compile(
    r"0[xX](?P<behind>[0-9A-Fa-f]*)|[xX]'(?P<quoted>(?:[0-9A-Fa-f]{2})*)'"
    r"|(?P<bare>(?:[0-9A-Fa-f]{2})*)"
)
"""Digits two by two, bare or as X'...'; behind 0x there may be one too few."""
ORDERS: Final = {"BIG_ENDIAN": ">", "LITTLE_ENDIAN": "<"}


def to_bytes(text: str, encoding: str) -> bytes | None:
    match encoding.lower():
        case "hex":
            found = HEX.fullmatch(text)
            digits = "".join(each for each in found.groups() if each) if found else None
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


def encoded(text: str, from_: str, to: str) -> str | None:
    value = to_bytes(text, from_)
    found = None if value is None else from_bytes(value, to)
    return found.lower() if found is not None and to.lower() == "hex" else found


def integer(value: bytes, order: str = "BIG_ENDIAN") -> int:
    return int(struct.unpack(f"{ORDERS[order]}i", value)[0])


def bigint(value: bytes, order: str = "BIG_ENDIAN") -> int:
    return int(struct.unpack(f"{ORDERS[order]}q", value)[0])


def double(value: bytes, order: str = "BIG_ENDIAN") -> float:
    return float(struct.unpack(f"{ORDERS[order]}d", value)[0])
