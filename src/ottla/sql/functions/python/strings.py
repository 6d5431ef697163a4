"""Text and bytes. Places are counted from 1."""

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
    return " ".join(each[:1].upper() + each[1:].lower() for each in text.split(" "))


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
    return None if text is None else "".join(_mask(each, masks or MASKS) for each in text)


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
    place = max(len(text) - max(count, 0), 0)
    return (masked(text[:place], *masks) or "") + text[place:]


def mask_left(text: str | None, count: int | None, *masks: str | None) -> str | None:
    if text is None or count is None:
        return None
    place = max(count, 0)
    return (masked(text[:place], *masks) or "") + text[place:]


def mask_right(text: str | None, count: int | None, *masks: str | None) -> str | None:
    if text is None or count is None:
        return None
    place = max(len(text) - max(count, 0), 0)
    return text[:place] + (masked(text[place:], *masks) or "")


# -- parts


def character(code: int) -> str | None:
    return chr(code) if 0 <= code <= 0x10FFFF and not 0xD800 <= code <= 0xDFFF else None


def character_of_escape(text: str) -> str | None:
    r"""Of `\u004b`, or of two of them where it takes two units of UTF-16."""
    found = ESCAPED.fullmatch(text)
    if found is None:
        return None
    units = b"".join(bytes.fromhex(each) for each in found.groups() if each)
    decoded = units.decode("utf-16-be")
    return decoded if len(decoded) == 1 else None


def joined(*texts: str | None) -> str:
    return "".join(each for each in texts if each is not None)


def joined_bytes(*parts: bytes | None) -> bytes:
    return b"".join(each for each in parts if each is not None)


def joined_with(separator: Any, *parts: Any) -> Any:
    if separator is None:
        return None
    return separator.join(each for each in parts if each is not None)


def nth(number: int | None, *texts: str | None) -> str | None:
    if number is None or not 1 <= number <= len(texts):
        return None
    return texts[number - 1]


def place_among(text: str | None, *texts: str | None) -> int:
    return texts.index(text) + 1 if text is not None and text in texts else 0


def place_in(text: str, part: str) -> int:
    return text.find(part) + 1


def nth_place_in(text: str, part: str, place: int, number: int = 1) -> int:
    """From a place on, forwards, or backwards from the end where it is below zero."""
    places = [n for n in range(1, max(len(text), 1) + 1) if text.startswith(part, n - 1)]
    if place >= 0:
        found = [each for each in places if each >= place]
    else:
        found = [each for each in reversed(places) if each <= len(text) + place + 1]
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
    return [bytes([each]) for each in value] or [b""]


def split_to_map(text: str, entry_end: str, key_end: str) -> dict[str, str] | None:
    if not entry_end or not key_end:
        return None
    entries = [each.split(key_end) for each in text.split(entry_end)]
    return {each[0]: each[1] for each in entries if len(each) > 1}


def part_of(value: T, place: int, length: int | None = None) -> T:
    start = place - 1 if place > 0 else len(value) + place if place < 0 else 0
    end = len(value) if length is None else start + length
    return value[max(start, 0) : max(end, 0)]


def random_uuid() -> str:
    return str(uuid.uuid4())


def uuid_of(value: bytes) -> str | None:
    return str(uuid.UUID(bytes=bytes(value))) if len(value) == 16 else None


def md5(text: str) -> str:
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()
