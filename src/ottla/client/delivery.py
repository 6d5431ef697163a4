"""Delivery guarantees by one word: the settings of the producer and of the consumer.

word            producer                          consumer
at_most_once    acks 0, no retries                offsets committed before records are handed out
at_least_once   acks all, idempotent              offsets stored after a record was worked on
exactly_once    acks all, idempotent, in          read_committed; offsets are committed by the
                transactions                      producer's transaction
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

Setting = str | int | float | bool


class Delivery(StrEnum):
    AT_MOST_ONCE = "at_most_once"
    AT_LEAST_ONCE = "at_least_once"
    EXACTLY_ONCE = "exactly_once"


PRODUCER: Final[dict[Delivery, dict[str, Setting]]] = {
    Delivery.AT_MOST_ONCE: {"acks": 0, "retries": 0, "enable.idempotence": False},
    Delivery.AT_LEAST_ONCE: {"acks": "all", "enable.idempotence": True},
    Delivery.EXACTLY_ONCE: {
        "acks": "all",
        "enable.idempotence": True,
        # When the last broker goes away, librdkafka (2.16) forgets all brokers and begins with its
        # bootstrap servers again (KIP-899). It still remembers a group's coordinator, as a broker
        # that never comes back, and send_offsets_to_transaction waits for it for ever.
        "metadata.recovery.strategy": "none",
    },
}

CONSUMER: Final[dict[Delivery, dict[str, Setting]]] = {
    Delivery.AT_MOST_ONCE: {"enable.auto.commit": False, "enable.auto.offset.store": False},
    Delivery.AT_LEAST_ONCE: {"enable.auto.commit": True, "enable.auto.offset.store": False},
    Delivery.EXACTLY_ONCE: {
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "isolation.level": "read_committed",
    },
}


def delivery_of(word: str) -> Delivery:
    """The guarantee by its name; the ValueError lists the names."""
    try:
        return Delivery(word)
    except ValueError:
        words = ", ".join(repr(delivery.value) for delivery in Delivery)
        raise ValueError(f"delivery is one of {words}, not {word!r}") from None
