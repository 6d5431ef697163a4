"""A broker with one built-in fault, which proves that the delivery tests find it.

    python broken_broker.py FAULT serve --override ...

The fault is patched in here; the project's source has no switch for it.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from typing import Any

from ottla.broker.security import Security
from ottla.broker.transaction_markers import MarkerWriter
from ottla.broker.verification import Verification
from ottla.cli.main import main
from ottla.coordinator.records import OFFSETS_TOPIC
from ottla.coordinator.transactions import shard
from ottla.coordinator.transactions.transaction import EPOCH_BUMP_FROM, EPOCH_MAX, PREPARED
from ottla.errors import ErrorCode
from ottla.net.listener_tls import ListenerTls
from ottla.storage.log import Log

write_marker, check_end, marked = MarkerWriter.write, shard.check_end_txn, Verification.marked
reconfigure = Security.reconfigure
chance = random.Random(7)


def drop_markers(writer: Any, topic: str, index: int, end: Any, **values: Any) -> None:
    """Every third marker is not written, but acknowledged to the coordinator."""
    if topic != OFFSETS_TOPIC and chance.random() < 1 / 3:
        values["callback"](ErrorCode.NONE)
    else:
        write_marker(writer, topic, index, end, **values)


def commit_all(writer: Any, topic: str, index: int, end: Any, **values: Any) -> None:
    """An abort is written as a commit."""
    write_marker(writer, topic, index, end._replace(commit=True), **values)


def drop_offsets(writer: Any, topic: str, index: int, end: Any, **values: Any) -> None:
    """Records are committed, but not the offsets of the same transaction."""
    if topic == OFFSETS_TOPIC:
        end = end._replace(commit=False)
    write_marker(writer, topic, index, end, **values)


def list_nothing(log: Log, start: int, end: int) -> list[tuple[int, int]]:
    """Fetch with read_committed lists no aborted transactions."""
    return []


def fence_early(transaction: Any, **values: Any) -> ErrorCode | None:
    """EndTxn v5 of the next transaction is fenced while markers of the last one are in flight."""
    comes = values["client_version"] >= EPOCH_BUMP_FROM and values["epoch"] == transaction.epoch
    if comes and transaction.state in PREPARED:
        return ErrorCode.PRODUCER_FENCED
    return check_end(transaction, **values)


def keep_certificates(self: ListenerTls, settings: Any) -> None:
    """New certificates, by file or by configuration, take effect only at the next start."""


def forget_mechanisms(self: Security, config: Any) -> None:
    """After a change of the configuration no SASL mechanism is left for new connections."""
    reconfigure(self, config)
    for mechanisms in self._mechanisms.values():
        mechanisms.clear()


def void_next(self: Verification, topic: str, index: int, producer_id: int, _: int) -> None:
    """A marker also voids writes of the next transaction that arrived before it."""
    marked(self, topic, index, producer_id, EPOCH_MAX)


MARKER_FAULTS: dict[str, Callable[..., None]] = {
    "drop-markers": drop_markers,
    "commit-all": commit_all,
    "drop-offsets": drop_offsets,
}


def break_it(fault: str) -> None:
    if fault == "list-nothing":
        Log.aborted = list_nothing  # type: ignore[method-assign]
    elif fault == "fence-early":
        shard.check_end_txn = fence_early
    elif fault == "keep-certificates":
        ListenerTls.reconfigure = keep_certificates  # type: ignore[method-assign]
    elif fault == "forget-mechanisms":
        Security.reconfigure = forget_mechanisms  # type: ignore[method-assign]
    elif fault == "void-next":
        Verification.marked = void_next  # type: ignore[method-assign]
    else:
        MarkerWriter.write = MARKER_FAULTS[fault]  # type: ignore[method-assign]


if __name__ == "__main__":
    break_it(sys.argv.pop(1))
    sys.exit(main())
