"""COUNT_DISTINCT: the approximate number of distinct values, by HyperLogLog.

Up to EXACT_MAX values the state is a list of hashes, and the number is exact. Then it is 4096
registers, each with the longest run of leading zeros of its hashes; the error is about 2 %.
"""

from __future__ import annotations

import json
import math
from hashlib import blake2b
from typing import Any, Final, TypeAlias

from ottla.sql.functions.udaf import only_streams

EXACT_MAX: Final = 512
REGISTER_BITS: Final = 12
REGISTERS: Final = 1 << REGISTER_BITS

State: TypeAlias = list[int] | str
"""Hashes, or registers as text with one character for each."""


class CountDistinctUdaf:
    def initial(self) -> State:
        return []

    def add(self, state: State, value: Any) -> State:
        return state if value is None else self.merge(state, [_hash(value)])

    def merge(self, first: State, second: State) -> State:
        if isinstance(first, list) and isinstance(second, list):
            both = sorted({*first, *second})
            return both if len(both) <= EXACT_MAX else _registers(both)
        one, two = _registers(first), _registers(second)
        return "".join(max(pair) for pair in zip(one, two, strict=True))

    def undo(self, state: State, *arguments: Any) -> State:
        raise only_streams("COUNT_DISTINCT")

    def result(self, state: State) -> int:
        if isinstance(state, list):
            return len(state)
        ranks = [ord(register) - ord("0") for register in state]
        estimate = _ALPHA * REGISTERS**2 / sum(2.0**-rank for rank in ranks)
        empty = ranks.count(0)
        if estimate <= 2.5 * REGISTERS and empty:
            estimate = REGISTERS * math.log(REGISTERS / empty)
        return round(estimate)


_ALPHA: Final = 0.7213 / (1 + 1.079 / REGISTERS)


def _hash(value: Any) -> int:
    text = json.dumps(value, sort_keys=True, default=repr)
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest())


def _registers(state: State) -> str:
    if isinstance(state, str):
        return state
    ranks = [0] * REGISTERS
    for register in state:
        rest = register >> REGISTER_BITS
        rank = 64 - REGISTER_BITS - rest.bit_length() + 1
        index = register & (REGISTERS - 1)
        ranks[index] = max(ranks[index], rank)
    return "".join(chr(ord("0") + rank) for rank in ranks)
