"""Functions of strings and bytes. Positions start at 1."""

from __future__ import annotations

import hashlib
import re
import uuid
from typing import Any, Final, TypeVar

T = TypeVar("T", str, bytes)
MASKS: Final = ("X", "x", "n", "-")
BLANKS: Final = "".join(map(chr, range(33)))
ESCAPED: Final = re.compile(r"\\u([0-9a-fA-F]{4})(?:\\u([0-9a-fA-F]{4}))?")


def capitals(text: str) -> str:
    return " ".join(word[:1].upper() + word[1:].lower() for word in text.split(" "))


def trimmed(text: str) -> str:
    return text.strip(BLANKS)


def padded_left(text: T, length: int, padding: T) -> T | None:
    return _padding(text, length, padding) + text[:length] if padding and length >= 0 else None


def padded_right(text: T, length: int, padding: T) -> T | None:
    return text[:length] + _padding(text, length, padding) if padding and length >= 0 else None


def _padding(text: T, length: int, padding: T) -> T:
    missing = max(length - len(text), 0)
    return (padding * (missing // len(padding) + 1))[:missing]


# -- hidden parts


def masked(text: str | None, *masks: str | None) -> str | None:
    return None if text is None else "".join(_mask(character, masks or MASKS) for character in text)


def _mask(character: str, masks: tuple[str | None, ...]) -> str:
    upper, lower, digit, other = masks
    if character.isupper():
        mask = upper
    elif character.islower():
        mask = lower
    else:
        mask = digit if character.isdecimal() else other
    return character if mask is None else mask[:1]


def mask_keep_left(text: str | None, count: int | None, *masks: str | None) -> str | None:
    if text is None or count is None:
        return None
    kept = max(count, 0)
    return text[:kept] + (masked(text[kept:], *masks) or "")


def mask_keep_right(text: str | None, count: int | None, *masks: str | None) -> str | None:
    if text is None or count is None:
        return None
    index = max(len(text) - max(count, 0), 0)
    return (masked(text[:index], *masks) or "") + text[index:]


def mask_left(text: str | None, count: int | None, *masks: str | None) -> str | None:
    if text is None or count is None:
        return None
    index = max(count, 0)
    return (masked(text[:index], *masks) or "") + text[index:]


def mask_right(text: str | None, count: int | None, *masks: str | None) -> str | None:
    if text is None or count is None:
        return None
    index = max(len(text) - max(count, 0), 0)
    return text[:index] + (masked(text[index:], *masks) or "")


# -- parts


def character(code: int) -> str | None:
    return chr(code) if 0 <= code <= 0x10FFFF and not 0xD800 <= code <= 0xDFFF else None


def character_of_escape(text: str) -> str | None:
    r"""The character of `\u004b`, or of two such escapes for a UTF-16 surrogate pair."""
    found = ESCAPED.fullmatch(text)
    if found is None:
        return None
    units = b"".join(bytes.fromhex(group) for group in found.groups() if group)
    decoded = units.decode("utf-16-be")
    return decoded if len(decoded) == 1 else None


def concat_strings(*texts: str | None) -> str:
    return "".join(text for text in texts if text is not None)


def concat_bytes(*parts: bytes | None) -> bytes:
    return b"".join(part for part in parts if part is not None)


def concat_ws(separator: Any, *parts: Any) -> Any:
    if separator is None:
        return None
    return separator.join(part for part in parts if part is not None)


def nth(number: int | None, *texts: str | None) -> str | None:
    if number is None or not 1 <= number <= len(texts):
        return None
    return texts[number - 1]


def position_among(text: str | None, *texts: str | None) -> int:
    return texts.index(text) + 1 if text is not None and text in texts else 0


def position_in(text: str, part: str) -> int:
    return text.find(part) + 1


def nth_position(text: str, part: str, position: int, number: int = 1) -> int:
    """Search forward from a position, or backward from the end if it is negative."""
    positions = [n for n in range(1, max(len(text), 1) + 1) if text.startswith(part, n - 1)]
    if position >= 0:
        found = [found_at for found_at in positions if found_at >= position]
    else:
        found = [
            found_at for found_at in reversed(positions) if found_at <= len(text) + position + 1
        ]
    return found[number - 1] if 1 <= number <= len(found) else 0


def replaced(text: str, part: str, other: str) -> str:
    return text.replace(part, other) if part else text


def split(text: str, delimiter: str) -> list[str]:
    if delimiter:
        return text.split(delimiter)
    return list(text) or [""]


def split_bytes(value: bytes, delimiter: bytes) -> list[bytes]:
    if delimiter:
        return value.split(delimiter)
    return [bytes([byte]) for byte in value] or [b""]


def split_to_map(text: str, entry_end: str, key_end: str) -> dict[str, str] | None:
    if not entry_end or not key_end:
        return None
    entries = [entry.split(key_end) for entry in text.split(entry_end)]
    return {entry[0]: entry[1] for entry in entries if len(entry) > 1}


def part_of(value: T, position: int, length: int | None = None) -> T:
    start = position - 1 if position > 0 else len(value) + position if position < 0 else 0
    end = len(value) if length is None else start + length
    return value[max(start, 0) : max(end, 0)]


def random_uuid() -> str:
    return str(uuid.uuid4())


def uuid_of(value: bytes) -> str | None:
    return str(uuid.UUID(bytes=bytes(value))) if len(value) == 16 else None


def md5(text: str) -> str:
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()
