"""The processing log: records of which no row could be made, in a topic, as ksqlDB has it.

Where a topic is read, in a worker of Spark's, nobody looks at the log. So each such record is
written to a topic, in ksqlDB's own JSON, with its partition and offset; a server follows the topic,
and tells of them. The topic is made with the first message. A message that can't be written is only
logged: it must never end a query.
"""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from ottla.client import Admin, Producer
from ottla.client.delivery import Setting
from ottla.client.security import is_security
from ottla.errors import ErrorCode, KafkaError

DESERIALIZATION_ERROR: Final = 0
"""The number of ksqlDB's message type."""
WRITE_S_MAX: Final = 10.0

processing = logging.getLogger("ottla.processing")


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A record that is no row. `target` is key, value or timestamp."""

    topic: str
    partition: int
    offset: int
    target: str
    cause: str

    def __str__(self) -> str:
        where = f"{self.topic}-{self.partition} at offset {self.offset}"
        return f"{where} is no row, its {self.target}: {self.cause}"

    def to_json(self) -> bytes:
        error: dict[str, object] = {
            "target": self.target,
            "errorMessage": self.cause,
            "recordB64": None,
            "cause": [],
            "topic": self.topic,
            "partition": self.partition,
            "offset": self.offset,
        }
        message = {"type": DESERIALIZATION_ERROR, "deserializationError": error}
        now_ms = int(time.time() * 1000)
        logger = f"processing.{self.topic}.deserializer"
        whole = {"level": "ERROR", "logger": logger, "time": now_ms, "message": message}
        return json.dumps(whole, ensure_ascii=False).encode()

    @staticmethod
    def from_json(data: bytes) -> Unreadable:
        """ValueError or KeyError: it is another kind of message."""
        error = json.loads(data)["message"]["deserializationError"]
        return Unreadable(
            str(error["topic"]),
            int(error["partition"]),
            int(error["offset"]),
            str(error["target"]),
            str(error["errorMessage"]),
        )


@dataclass(frozen=True, slots=True)
class ProcessingLog:
    """Where to write; it travels to the workers. Without a topic nothing is written."""

    servers: str
    settings: Mapping[str, Setting]
    topic: str

    def write(self, unreadable: Iterable[Unreadable]) -> None:
        """Returns when they are safe, or could not be written."""
        found = list(unreadable)
        if not found or not self.topic:
            return
        secured = tuple(
            (name, value) for name, value in sorted(self.settings.items()) if is_security(name)
        )
        try:
            producer = _producer(os.getpid(), self.servers, secured, self.topic)
            for each in found:
                producer.send(self.topic, each.to_json())
            producer.flush(WRITE_S_MAX)
        except KafkaError as error:
            processing.warning("%s can't be written: %s", self.topic, error)


@lru_cache(4)
def _producer(
    process: int, servers: str, settings: tuple[tuple[str, Setting], ...], topic: str
) -> Producer[bytes, bytes]:
    """Of this process: a fork has no threads of librdkafka."""
    try:
        with Admin(servers, settings=dict(settings)) as admin:
            admin.topics.create(topic, 1)
    except KafkaError as error:
        if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
            raise
    return Producer(servers, settings=dict(settings))
