"""Requests as large as the broker's limits allow: every list of every API, filled."""

from __future__ import annotations

import inspect
import re
import struct
from collections.abc import Iterator
from typing import Any

from every_request import requests

from ottla.broker.portions import PORTIONS, WHOLE_COUNT_MAX, WHOLE_COUNTS_MAX, whole_count
from ottla.wire.apis import ApiKey
from ottla.wire.connection import FRAME_BYTES_MAX_OF_OTHERS
from ottla.wire.fields import PRODUCE_COUNT_MAX, Message, Writer

_LIST = re.compile(r"list\[(\w+)\]")

Path = tuple[str, ...]

ROOM = 64 * 1024  # for the rest of the frame
SAMPLE = 1000  # by which the size of an element is found


def largest(
    key: ApiKey, version: int, topic_id: bytes, cut_count: int
) -> Iterator[tuple[str, Message]]:
    """Each list of the request in turn, with `cut_count` elements if the broker splits it, else
    with as many as the broker accepts."""
    for path in _paths(requests(topic_id, version)[key]()):
        request = requests(topic_id, version)[key]()
        _clear(request, path[0])
        holder, element = _place(request, path)
        if element is None:
            continue
        cut = any(path == cut.request_path[: len(path)] for cut in PORTIONS.get(key, ()))
        count = cut_count if cut else _whole_count(key, element)
        size = _fill(request, holder, path[-1], element, min(count, SAMPLE), version)
        if size < min(count, SAMPLE):
            continue  # this version has no such list
        count = min(count, (FRAME_BYTES_MAX_OF_OTHERS - ROOM) * SAMPLE // (size + 4 * SAMPLE))
        if count > SAMPLE:
            _fill(request, holder, path[-1], element, count, version)
        yield f"{key.name} v{version} {'.'.join(path)} x {count}", request


def _paths(message: Message, above: Path = ()) -> Iterator[Path]:
    for name, element in _lists(message):
        yield (*above, name)
        value = getattr(message, name)
        first = value[0] if value else element
        if isinstance(first, Message):
            yield from _paths(first, (*above, name))
    for name in message.__match_args__:
        inner = getattr(message, name)
        if isinstance(inner, Message):
            yield from _paths(inner, (*above, name))


def _lists(message: Message) -> Iterator[tuple[str, Any]]:
    """The fields that are lists, each with an element that it could have."""
    annotations = getattr(type(message).__init__, "__annotations__", {})
    for name in message.__match_args__:
        value = getattr(message, name)
        found = _LIST.search(str(annotations.get(name, "")))
        if value and isinstance(value, list):
            yield name, value[0]
        elif found is not None:
            kind = getattr(inspect.getmodule(type(message)), found[1], None)
            kinds: dict[str, Any] = {"str": "", "int": 0}
            yield name, kind() if kind is not None else kinds.get(found[1])


def _place(request: Message, path: Path) -> tuple[Any, Any]:
    """The object that holds the last list of the path, and an element for that list."""
    holder: Any = request
    for name in path[:-1]:
        if not getattr(holder, name):
            setattr(holder, name, [dict(_lists(holder))[name]])
        inner = getattr(holder, name)
        holder = inner[0] if isinstance(inner, list) else inner
    return holder, dict(_lists(holder)).get(path[-1])


def _clear(request: Any, but: str) -> None:
    for name, _ in _lists(request):
        if name != but and getattr(request, name) and len(getattr(request, name)) > 1:
            setattr(request, name, getattr(request, name)[:1])


def _whole_count(key: ApiKey, element: Any) -> int:
    """The most elements that the broker accepts unsplit, with room for the other lists."""
    limit = WHOLE_COUNTS_MAX.get(key, WHOLE_COUNT_MAX)
    if key is ApiKey.PRODUCE:
        limit = PRODUCE_COUNT_MAX
    return (limit - 20) // (1 + whole_count(element))


def _fill(request: Message, holder: Any, name: str, element: Any, count: int, version: int) -> int:
    """The size of the request with this number of elements."""
    setattr(holder, name, [_distinct(element, number) for number in range(count)])
    try:
        return len(_written(request, version))
    except struct.error:  # numbers of one byte
        setattr(holder, name, [number % 100 for number in range(count)])
        return len(_written(request, version))


def _distinct(element: Any, number: int) -> Any:
    """A copy with another name, or with another index if it has no name."""
    if isinstance(element, str):
        return f"{element}{number}"
    if not isinstance(element, Message):
        return number
    fields = {name: getattr(element, name) for name in element.__match_args__}
    for kind in (str, int):
        for name, value in fields.items():
            if type(value) is kind:
                is_index = "partition" in name or "index" in name  # others may have one byte
                other = number if is_index else number % 100
                fields[name] = f"{value}{number}" if kind is str else other
                return type(element)(**fields)
    return element


def _written(message: Message, version: int) -> bytearray:
    writer = Writer()
    message.write(writer, version)
    return writer.buffer
