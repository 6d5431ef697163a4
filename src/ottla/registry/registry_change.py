"""The result of a decision: records and an answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")

KeyValue = tuple[bytes, bytes | None]


@dataclass(frozen=True, slots=True)
class RegistryChange(Generic[T]):
    """Records to append, all or none, and the answer once they are in the log."""

    answer: T
    records: Sequence[KeyValue] = ()
