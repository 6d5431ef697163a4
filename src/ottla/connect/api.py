"""The API for connector authors. A connector divides the work into tasks; the tasks do it.

    class LinesSource(SourceConnector):
        task_class = LinesTask

        def config_def(self): return ConfigDef().define("file", ConfigType.STRING)
        def start(self, props): self.props = dict(props)
        def task_configs(self, max_tasks): return [self.props]

    class LinesTask(SourceTask):
        def start(self, props, context): ...
        def poll(self): return [SourceRecord({"file": name}, {"line": 7}, topic, value=line)]

Methods, their order and their meaning are Kafka Connect's. Classes are instantiated without
arguments. Tasks run on Spark's executors: their configs are strings, and they share nothing else
with the connector. Raise RetriableException if a retry may help, ConnectException to fail the task.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from enum import Enum
from typing import Any, ClassVar, Protocol

from ottla.client.record import TopicPartition
from ottla.connect.config import ConfigDef, ConfigValue
from ottla.connect.data import SinkRecord, SourceRecord

__all__ = [
    "Connector",
    "ConnectorContext",
    "ConnectorTransactionBoundaries",
    "ErrantRecordReporter",
    "ExactlyOnceSupport",
    "SinkConnector",
    "SinkTask",
    "SinkTaskContext",
    "SourceConnector",
    "SourceTask",
    "SourceTaskContext",
    "Task",
    "TopicPartition",
    "TransactionContext",
]

Props = Mapping[str, str]
SourceOffset = Mapping[str, Any]


class ExactlyOnceSupport(Enum):
    SUPPORTED = "supported"
    UNSUPPORTED = "unsupported"


class ConnectorTransactionBoundaries(Enum):
    SUPPORTED = "supported"
    UNSUPPORTED = "unsupported"


# What the framework provides.


class ConnectorContext(Protocol):
    def request_task_reconfiguration(self) -> None:
        """Ask the framework to call `task_configs` again, because the tasks should change."""

    def raise_error(self, error: Exception) -> None:
        """Report that the connector has failed, outside of a call by the framework."""

    def offset(self, partition: Mapping[str, Any]) -> SourceOffset | None:
        """Sources: the last committed offset of a source partition."""


class TransactionContext(Protocol):
    """For tasks that define their own transaction boundaries (KIP-618)."""

    def commit_transaction(self, record: SourceRecord | None = None) -> None:
        """Commit after this record or, without one, after the records of the next poll."""

    def abort_transaction(self, record: SourceRecord | None = None) -> None:
        """Drop all records of the open transaction; they are not polled again."""


class SourceTaskContext(Protocol):
    @property
    def configs(self) -> Props: ...

    @property
    def transaction_context(self) -> TransactionContext | None:
        """None unless `transaction.boundary` is `connector` and exactly-once is enabled."""

    def offset(self, partition: Mapping[str, Any]) -> SourceOffset | None:
        """The last committed offset of a source partition, if there is one."""

    def offsets(
        self, partitions: Collection[Mapping[str, Any]]
    ) -> list[tuple[Mapping[str, Any], SourceOffset | None]]: ...


class ErrantRecordReporter(Protocol):
    def report(self, record: SinkRecord, error: Exception) -> None:
        """Send it to the dead letter queue and the log; raises unless errors are tolerated."""


class SinkTaskContext(Protocol):
    @property
    def configs(self) -> Props: ...

    @property
    def assignment(self) -> set[TopicPartition]: ...

    @property
    def errant_record_reporter(self) -> ErrantRecordReporter | None:
        """None unless a dead letter queue or error logging is configured."""

    def offset(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Rewind the consumer to these offsets."""

    def timeout(self, timeout_ms: int) -> None:
        """How long to wait before the retry of `put` after a RetriableException."""

    def request_commit(self) -> None: ...

    def pause(self, *partitions: TopicPartition) -> None: ...

    def resume(self, *partitions: TopicPartition) -> None: ...


# What a connector's author implements.


class Connector:
    """Divides the work into tasks."""

    task_class: ClassVar[type[Task]]
    context: ConnectorContext  # set before `start`

    def version(self) -> str:
        return "undefined"

    def config_def(self) -> ConfigDef:
        return ConfigDef()

    def start(self, props: Props) -> None:
        """Called once, before task_configs. A changed config starts a new instance."""

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        """The configs of the tasks, at most `max_tasks` of them."""
        raise NotImplementedError

    def stop(self) -> None:
        pass

    def validate(self, props: Props) -> list[ConfigValue]:
        """All settings with their errors. Override to add checks beyond ConfigDef's."""
        return self.config_def().validate(props)


class SourceConnector(Connector):
    """Copies data from another system into topics."""

    def exactly_once_support(self, props: Props) -> ExactlyOnceSupport | None:
        """SUPPORTED if the tasks always resume from the committed source offsets."""
        return None

    def can_define_transaction_boundaries(self, props: Props) -> ConnectorTransactionBoundaries:
        """SUPPORTED if the tasks use the TransactionContext."""
        return ConnectorTransactionBoundaries.UNSUPPORTED

    def alter_offsets(
        self,
        props: Props,
        offsets: Sequence[tuple[Mapping[str, Any], SourceOffset | None]],
    ) -> bool:
        """Check offsets that a user wants to set (None: to delete). Raise if they are invalid;
        return False if the connector cannot tell."""
        return False


class SinkConnector(Connector):
    """Copies records from topics to another system."""

    def alter_offsets(self, props: Props, offsets: Mapping[TopicPartition, int | None]) -> bool:
        """As for a source. A connector that keeps offsets in its target system alters them here."""
        return False


class Task:
    """A part of the connector's work. `start` is called first, `stop` last."""

    def version(self) -> str:
        return "undefined"

    def stop(self) -> None:
        pass


class SourceTask(Task):
    """Reads. Records that `poll` returns are written in order, with their source offsets."""

    def start(self, props: Props, context: SourceTaskContext) -> None:
        raise NotImplementedError

    def poll(self) -> Sequence[SourceRecord] | None:
        """The next records; None or an empty list if there are none now. May block briefly."""
        raise NotImplementedError

    def commit(self) -> None:
        """All that was polled so far is committed."""

    def commit_record(self, record: SourceRecord) -> None:
        """This record is committed, or was dropped by a transform or because it is bad."""


class SinkTask(Task):
    """Writes. Records before the offsets that `pre_commit` returns are not delivered again."""

    def start(self, props: Props, context: SinkTaskContext) -> None:
        raise NotImplementedError

    def open(self, partitions: Collection[TopicPartition]) -> None:
        pass

    def put(self, records: Sequence[SinkRecord]) -> None:
        raise NotImplementedError

    def flush(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Must return only when all records before these offsets are durable."""

    def pre_commit(self, offsets: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        """The offsets that may be committed: by default all of them, after `flush`."""
        self.flush(offsets)
        return offsets

    def close(self, partitions: Collection[TopicPartition]) -> None:
        pass
