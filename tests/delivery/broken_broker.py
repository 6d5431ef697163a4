"""A broker with one fault built in, so that the delivery tests are seen to fail.

    python broken_broker.py FAULT serve --override ...

The fault is put in here, from outside; the project's source has no switch for it.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from typing import Any

from ottla.broker import markers, transactions
from ottla.cli.main import main
from ottla.coordinator.keys import OFFSETS_TOPIC
from ottla.errors import ErrorCode
from ottla.storage.log import Log

write_marker = markers.write_marker
chance = random.Random(7)


def drop_markers(broker: Any, topic: str, index: int, **values: Any) -> ErrorCode:
    """Every third marker is not written; the coordinator is told that it was."""
    if topic != OFFSETS_TOPIC and chance.random() < 1 / 3:
        return ErrorCode.NONE
    return write_marker(broker, topic, index, **values)


def commit_all(broker: Any, topic: str, index: int, *, commit: bool, **values: Any) -> ErrorCode:
    """An abort is written as a commit."""
    return write_marker(broker, topic, index, commit=True, **values)


def drop_offsets(broker: Any, topic: str, index: int, **values: Any) -> ErrorCode:
    """Records are committed, the offsets of the same transaction are not."""
    if topic == OFFSETS_TOPIC:
        values["commit"] = False
    return write_marker(broker, topic, index, **values)


def list_nothing(log: Log, start: int, end: int) -> list[tuple[int, int]]:
    """read_committed is told of no aborted transaction."""
    return []


MARKER_FAULTS: dict[str, Callable[..., ErrorCode]] = {
    "drop-markers": drop_markers,
    "commit-all": commit_all,
    "drop-offsets": drop_offsets,
}


def break_it(fault: str) -> None:
    if fault == "list-nothing":
        Log.aborted = list_nothing  # type: ignore[method-assign]
        return
    markers.write_marker = MARKER_FAULTS[fault]
    transactions.write_marker = MARKER_FAULTS[fault]


if __name__ == "__main__":
    break_it(sys.argv.pop(1))
    sys.exit(main())
