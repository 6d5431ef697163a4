"""The end of a transaction in one partition: its marker goes into the log, its readers go on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.coordinator.keys import OFFSETS_TOPIC
from ottla.errors import ErrorCode, KafkaError
from ottla.records.control import Marker

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


def write_marker(
    broker: Broker,
    topic: str,
    index: int,
    *,
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int,
    commit: bool,
    transaction_version: int,
    now_ms: int,
) -> ErrorCode:
    """Commit or abort a producer's transaction in a partition that this broker leads.

    A marker may be written again when it is not certain that it was: where no transaction is open
    it ends none. With transaction version 2 (KIP-890) it has the epoch after the transaction's.
    """
    try:
        partition = broker.partitions.find(topic, index)
        partition.append_marker(
            Marker(commit, coordinator_epoch),
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            transaction_version=transaction_version,
            now_ms=now_ms,
        )
    except KafkaError as error:
        return error.code
    if topic == OFFSETS_TOPIC:
        broker.groups.transaction_ended(index, producer_id, commit=commit)
    return ErrorCode.NONE
