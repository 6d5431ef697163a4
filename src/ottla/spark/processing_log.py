"""The processing log: a topic of records that could not be deserialized, as in ksqlDB.

Nobody reads the log files of Spark's workers. So each such record is reported in a topic, in
ksqlDB's JSON, with its partition and offset; a server follows the topic and shows the entries. The
first message creates the topic. A message that can't be written is only logged, because it must
never fail a query.
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
    """A record that could not be deserialized. `target` is key, value or timestamp."""

    topic: str
    partition: int
    offset: int
    target: str
    cause: str

    def __str__(self) -> str:
        where = f"{self.topic}-{self.partition} at offset {self.offset}"
        return f"{where}: failed to deserialize the {self.target}: {self.cause}"

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
        """Raises ValueError or KeyError for other types of messages."""
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
    """The topic to write to, pickled for the workers. An empty topic disables the log."""

    servers: str
    settings: Mapping[str, Setting]
    topic: str

    def write(self, unreadable: Iterable[Unreadable]) -> None:
        """Returns when the messages are stored or have failed."""
        found = list(unreadable)
        if not found or not self.topic:
            return
        secured = tuple(
            (name, value) for name, value in sorted(self.settings.items()) if is_security(name)
        )
        try:
            producer = _producer(os.getpid(), self.servers, secured, self.topic)
            for record in found:
                producer.send(self.topic, record.to_json())
            producer.flush(WRITE_S_MAX)
        except KafkaError as error:
            processing.warning("Failed to write to %s: %s", self.topic, error)


@lru_cache(4)
def _producer(
    process: int, servers: str, settings: tuple[tuple[str, Setting], ...], topic: str
) -> Producer[bytes, bytes]:
    """One producer per process: after a fork, librdkafka's threads are missing."""
    try:
        with Admin(servers, settings=dict(settings)) as admin:
            admin.topics.create(topic, 1)
    except KafkaError as error:
        if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
            raise
    return Producer(servers, settings=dict(settings))
