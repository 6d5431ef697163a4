"""The command topic: every statement that changes something, in one order for all servers.

A server validates a statement and writes it here as a command. Every server of the same service id
executes it when it reads it, the writer included, and again after a restart.

Two servers that write at the same time may have validated against different catalogs. So each
command names the offset of the last effective command that its writer had executed (`basis`). A
command whose basis is not the last effective one before it is void, on every server. Its writer
sees that, validates the statement against the new catalog, and writes it again. Void commands
don't count as a basis: of several concurrent commands the first always takes effect.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ottla.client import Admin, Consumer, ConsumerRecord, Producer, TopicPartition
from ottla.client.delivery import Setting
from ottla.client.offsets import OffsetAt
from ottla.errors import ErrorCode, KafkaError

VERSION: Final = 1
NOTHING_READ: Final = -1
WRITE_S_MAX: Final = 30.0
COMMAND_BYTES_MAX: Final = 900_000

TOPIC_CONFIGS: Final[Mapping[str, str]] = {
    "cleanup.policy": "delete",
    "retention.ms": "-1",
    "retention.bytes": "-1",
}


@dataclass(frozen=True, slots=True)
class Command:
    """`id` is ksqlDB's command id: stream/`ORDERS`/create.

    `properties` came with the statement. `settings` are those of the server that wrote the command:
    a query keeps them, even if a server starts with other settings later.
    """

    id: str
    statement: str
    properties: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)
    basis: int = NOTHING_READ
    version: int = VERSION

    def to_json(self) -> bytes:
        return json.dumps(
            {
                "version": self.version,
                "statement": self.statement,
                "streamsProperties": dict(self.properties),
                "originalProperties": dict(self.settings),
                "basis": self.basis,
            },
            ensure_ascii=False,
        ).encode()

    @staticmethod
    def from_json(id_: str, data: bytes) -> Command:
        """ValueError if this is not a command, or has an unknown version."""
        try:
            fields: dict[str, Any] = json.loads(data)
            version = int(fields["version"])
            if version > VERSION:
                raise ValueError(
                    f"command version {version} is newer than {VERSION}, the latest that this"
                    " server supports"
                )
            return Command(
                id_,
                str(fields["statement"]),
                _texts(fields.get("streamsProperties")),
                _texts(fields.get("originalProperties")),
                int(fields.get("basis", NOTHING_READ)),
                version,
            )
        except (KeyError, TypeError, UnicodeDecodeError, json.JSONDecodeError) as error:
            raise ValueError(f"not a command: {error}") from None


@dataclass(frozen=True, slots=True)
class QueuedCommand:
    """The record at an offset: a command, or why it can't be read as one."""

    offset: int
    command: Command | None
    trouble: str = ""


class CommandTopic:
    """Writes commands, from any thread; `reader` gives a consumer of them."""

    def __init__(
        self,
        bootstrap_servers: str,
        service_id: str,
        settings: Mapping[str, Setting] | None = None,
    ) -> None:
        self.name = topic_name(service_id)
        self._bootstrap_servers = bootstrap_servers
        self._settings = dict(settings or {})
        self._producer: Producer[bytes, bytes] | None = None

    def make(self) -> int:
        """Create the topic if it does not exist; return its end offset."""
        partition = TopicPartition(self.name, 0)
        with Admin(self._bootstrap_servers, settings=self._settings) as admin:
            try:
                admin.topics.create(self.name, 1, configs=TOPIC_CONFIGS)
            except KafkaError as error:
                if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                    raise
            found = admin.offsets.find([partition])[partition]
        if not isinstance(found, OffsetAt):
            raise found
        return found.offset

    def write(self, command: Command) -> int:
        """Append a command; return its offset when all in-sync replicas have it."""
        data = command.to_json()
        if len(data) > COMMAND_BYTES_MAX:
            raise KafkaError(
                ErrorCode.MESSAGE_TOO_LARGE,
                f"the statement has {len(data)} bytes, {COMMAND_BYTES_MAX} are allowed",
            )
        if self._producer is None:
            settings = {"linger.ms": 0, **self._settings}
            self._producer = Producer(self._bootstrap_servers, settings=settings)
        sending = self._producer.send(self.name, data, key=command.id.encode(), partition=0)
        return sending.result(WRITE_S_MAX).offset

    def reader(self) -> Consumer[bytes, bytes]:
        """A consumer at the beginning of the topic."""
        consumer = Consumer[bytes, bytes](self._bootstrap_servers, settings=self._settings)
        consumer.assign({TopicPartition(self.name, 0): 0})
        return consumer

    def close(self) -> None:
        if self._producer is not None:
            self._producer.close()


def topic_name(service_id: str) -> str:
    return f"_ottla-sql-{service_id}command_topic"


def read(record: ConsumerRecord[bytes, bytes]) -> QueuedCommand:
    """A record of the topic; one that is not a command gives its error instead."""
    try:
        id_ = (record.key or b"").decode()
        return QueuedCommand(record.offset, Command.from_json(id_, record.value or b""))
    except ValueError as error:
        return QueuedCommand(record.offset, None, str(error))


def _texts(data: Any) -> dict[str, str]:
    return {str(name): str(value) for name, value in (data or {}).items()}
