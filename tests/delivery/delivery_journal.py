"""A worker's journal: one line of JSON per event, in a file that survives a kill -9.

    ["sent", id]  ["acked", id, topic, partition, offset]  ["failed", id, why]
    ["committing", transaction]  ["committed", transaction]  ["aborted", transaction]
    ["read", topic, partition, offset, value]   ["error", text]   ["ready"]   ["note", text]

A record's id is `slot.incarnation.transaction.number.count`: the number-th of count records that
belong together. The id is the record's value in all topics; the key is the id from the last writer,
so the key of an output record names the transaction of the transforming worker.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any


class Journal:
    """The writer: one write(2) per line, so that each line is complete or missing."""

    def __init__(self, path: str) -> None:
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def __call__(self, *fields: Any) -> None:
        os.write(self._descriptor, json.dumps(fields).encode() + b"\n")


@dataclass(frozen=True, slots=True)
class RecordId:
    transaction: str
    number: int
    count: int

    @classmethod
    def of(cls, text: bytes | str | None) -> RecordId:
        assert text is not None
        words = (text.decode() if isinstance(text, bytes) else text).rsplit(".", 2)
        return cls(words[0], int(words[1]), int(words[2]))

    def __str__(self) -> str:
        return f"{self.transaction}.{self.number}.{self.count}"


def read_journal(path: Path) -> list[list[Any]]:
    """All complete lines."""
    if not path.exists():
        return []
    lines = path.read_bytes().split(b"\n")
    return [json.loads(line) for line in lines[:-1]]


def is_ready(path: Path) -> bool:
    """True if the line is anywhere, because notes may come before it."""
    return path.exists() and b'["ready"]\n' in path.read_bytes()
