"""A field's name in JSON, if the file does not set json_name."""

from __future__ import annotations


def json_name(name: str) -> str:
    """lowerCamelCase, as protoc makes it: the letter after an underscore becomes a capital."""
    first, *rest = name.split("_")
    return first + "".join(part[:1].upper() + part[1:] for part in rest)
