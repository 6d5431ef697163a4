"""The name of a field in JSON, where the file does not give one."""

from __future__ import annotations


def json_name(name: str) -> str:
    """lowerCamelCase, as protoc makes it: the letter behind an underscore is a capital."""
    first, *rest = name.split("_")
    return first + "".join(part[:1].upper() + part[1:] for part in rest)
