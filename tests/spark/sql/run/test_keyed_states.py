"""What the machines keep with Spark, and how often they write it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql import Row

from ottla.spark.sql.run.keyed.states import OneValue


class Held:
    """Spark's state of one key, and how often it was written."""

    def __init__(self) -> None:
        self.value: tuple[bytes] | None = None
        self.writes = 0

    def getValueState(self, *_: Any) -> Held:  # noqa: N802 (Spark's name)
        return self

    def get(self) -> tuple[bytes] | None:
        return self.value

    def update(self, value: tuple[bytes]) -> None:
        self.value = value
        self.writes += 1

    def clear(self) -> None:
        self.value = None
        self.writes += 1


def work(state: dict[str, int], key: str, rows: Iterator[Row]) -> Iterator[tuple[Any, ...]]:
    for row in rows:
        if row["put"] is not None:
            state["table"] = row["put"]
        elif row["gone"]:
            state.clear()
        yield key, state.get("table")


def test_a_state_is_written_when_it_has_changed_and_only_then() -> None:
    held = Held()
    processor = OneValue(dict, work, ["key", "found"])
    processor.init(held)  # type: ignore[arg-type]

    def step(put: int | None = None, gone: bool = False) -> Any:
        rows = iter([Row(key="k", put=put, gone=gone)])
        (found,) = processor.handleInputRows("k", rows, None)  # type: ignore[arg-type]
        return found["found"]

    assert (step(), held.writes) == (None, 0)
    assert (step(put=300), held.writes) == (300, 1)
    assert (step(), held.writes) == (300, 1)
    assert (step(put=300), held.writes) == (300, 1)
    assert (step(put=301), held.writes) == (301, 2)
    assert (step(gone=True), held.writes) == (None, 3)
    assert (step(gone=True), held.writes) == (None, 3)
    assert held.value is None
