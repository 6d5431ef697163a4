"""How inputs are damaged: small changes that are likely to upset readers of lengths and counts."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable

MUTATIONS_MAX = 6
SIZE_MAX = 256 * 1024

EDGES_8 = (0, 1, 2, 0x7E, 0x7F, 0x80, 0x81, 0xFE, 0xFF)
EDGES_16 = (0, 1, 0x7F, 0x80, 0xFF, 0x100, 0x7FFF, 0x8000, 0xFFFE, 0xFFFF)
EDGES_32 = (0, 1, 0x7F, 0x80, 0xFFFF, 0x10000, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFE, 0xFFFFFFFF)
EDGES_64 = (0, 1, 0x7FFFFFFF, 0x80000000, 0x7FFFFFFFFFFFFFFF, 1 << 63, (1 << 64) - 1)
VARINTS = (
    b"\x80\x80\x80\x80\x08",  # 2^31
    b"\xff\xff\xff\xff\x0f",  # the largest of 32 bits
    b"\xff\xff\xff\xff\x7f",  # 35 bits
    b"\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01",
    b"\xff" * 11,
)


def mutate(data: bytearray, source: random.Random, count_max: int = MUTATIONS_MAX) -> None:
    for _ in range(source.randint(1, count_max)):
        source.choice(MUTATIONS)(data, source)
    del data[SIZE_MAX:]


def _somewhere(data: bytearray, source: random.Random, size: int = 1) -> int:
    """A random position, more often near the start, which has most of the structure."""
    end = max(1, len(data) - size + 1)
    return source.randrange(min(end, 80) if source.random() < 0.5 else end)


def flip_bit(data: bytearray, source: random.Random) -> None:
    if data:
        data[_somewhere(data, source)] ^= 1 << source.randrange(8)


def set_byte(data: bytearray, source: random.Random) -> None:
    if data:
        edge = source.choice(EDGES_8) if source.random() < 0.5 else source.randrange(256)
        data[_somewhere(data, source)] = edge


def set_number(data: bytearray, source: random.Random) -> None:
    layout, edges = source.choice(((">H", EDGES_16), (">I", EDGES_32), (">Q", EDGES_64)))
    size = struct.calcsize(layout)
    if len(data) >= size:
        struct.pack_into(layout, data, _somewhere(data, source, size), source.choice(edges))


def nudge_number(data: bytearray, source: random.Random) -> None:
    """Off by a little, for lengths and counts that nearly fit."""
    layout = source.choice((">H", ">I", ">Q"))
    size = struct.calcsize(layout)
    if len(data) >= size:
        position = _somewhere(data, source, size)
        (number,) = struct.unpack_from(layout, data, position)
        number = (number + source.choice((-8, -2, -1, 1, 2, 8))) % (1 << 8 * size)
        struct.pack_into(layout, data, position, number)


def put_varint(data: bytearray, source: random.Random) -> None:
    position = _somewhere(data, source)
    varint = source.choice(VARINTS)
    data[position : position + source.randrange(2) * len(varint)] = varint


def cut_off(data: bytearray, source: random.Random) -> None:
    if data:
        del data[source.randrange(len(data)) :]


def remove_some(data: bytearray, source: random.Random) -> None:
    if data:
        position = _somewhere(data, source)
        del data[position : position + source.randint(1, 16)]


def insert_some(data: bytearray, source: random.Random) -> None:
    position = _somewhere(data, source)
    some = source.randbytes(source.randint(1, 16))
    data[position:position] = some if source.random() < 0.7 else bytes(len(some))


def copy_some(data: bytearray, source: random.Random) -> None:
    start = _somewhere(data, source)
    piece = data[start : start + source.randint(1, 64)]
    position = _somewhere(data, source)
    data[position : position + source.randrange(2) * len(piece)] = piece


def repeat_all(data: bytearray, source: random.Random) -> None:
    if len(data) < SIZE_MAX // 4:
        data *= 2


Mutation = Callable[[bytearray, random.Random], None]

MUTATIONS: tuple[Mutation, ...] = (
    flip_bit,
    flip_bit,
    set_byte,
    set_byte,
    set_number,
    nudge_number,
    put_varint,
    cut_off,
    remove_some,
    insert_some,
    copy_some,
    repeat_all,
)
