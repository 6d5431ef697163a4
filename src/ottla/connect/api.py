"""What a connector is made of. A connector says how the work is cut; its tasks do it.

    class LinesSource(SourceConnector):
        task_class = LinesTask

        def config_def(self): return ConfigDef().define("file", ConfigType.STRING)
        def start(self, props): self.props = dict(props)
        def task_configs(self, max_tasks): return [self.props]

    class LinesTask(SourceTask):
        def start(self, props, context): ...
        def poll(self): return [SourceRecord({"file": name}, {"line": 7}, topic, value=line)]

Methods, their order and their meaning are Kafka Connect's. A class is made without arguments.
Tasks run on Spark's executors: their configs are plain text, and nothing else is shared with the
connector. Raise RetriableException for what may pass, ConnectException for what fails the task.
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


# What the runtime gives.


class ConnectorContext(Protocol):
    def request_task_reconfiguration(self) -> None:
        """The tasks should be cut anew: `task_configs` is asked again."""

    def raise_error(self, error: Exception) -> None:
        """The connector failed outside of a call."""

    def offset(self, partition: Mapping[str, Any]) -> SourceOffset | None:
        """Sources: the last committed offset of a source partition."""


class TransactionContext(Protocol):
    """Where transactions end, for a task that says so by itself (KIP-618)."""

    def commit_transaction(self, record: SourceRecord | None = None) -> None:
        """With this record, which is the last of its transaction, or with the next poll."""

    def abort_transaction(self, record: SourceRecord | None = None) -> None:
        """All records since the last end are left out, and not asked for again."""


class SourceTaskContext(Protocol):
    @property
    def configs(self) -> Props: ...

    @property
    def transaction_context(self) -> TransactionContext | None:
        """None unless `transaction.boundary` is `connector`, and the worker has transactions."""

    def offset(self, partition: Mapping[str, Any]) -> SourceOffset | None:
        """The last committed offset of a source partition, if there is one."""

    def offsets(
        self, partitions: Collection[Mapping[str, Any]]
    ) -> list[tuple[Mapping[str, Any], SourceOffset | None]]: ...


class ErrantRecordReporter(Protocol):
    def report(self, record: SinkRecord, error: Exception) -> None:
        """To the dead letter topic and the log; raises if errors are not tolerated."""


class SinkTaskContext(Protocol):
    @property
    def configs(self) -> Props: ...

    @property
    def assignment(self) -> set[TopicPartition]: ...

    @property
    def errant_record_reporter(self) -> ErrantRecordReporter | None:
        """None where neither a dead letter topic nor tolerance nor logging was asked for."""

    def offset(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Start from here: to be called in `start` or `open`."""

    def timeout(self, timeout_ms: int) -> None:
        """How long to wait before `put` is tried again after a RetriableException."""

    def request_commit(self) -> None: ...

    def pause(self, *partitions: TopicPartition) -> None: ...

    def resume(self, *partitions: TopicPartition) -> None: ...


# What a connector's author writes.


class Connector:
    """How the work is cut into tasks."""

    task_class: ClassVar[type[Task]]
    context: ConnectorContext  # set before `start`

    def version(self) -> str:
        return "undefined"

    def config_def(self) -> ConfigDef:
        return ConfigDef()

    def start(self, props: Props) -> None:
        """Once, before task_configs; also when the config has changed."""

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        """The configs of at most that many tasks."""
        raise NotImplementedError

    def stop(self) -> None:
        pass

    def validate(self, props: Props) -> list[ConfigValue]:
        """All settings with their errors; checks beyond ConfigDef's are added here."""
        return self.config_def().validate(props)


class SourceConnector(Connector):
    """Copies something into topics."""

    def exactly_once_support(self, props: Props) -> ExactlyOnceSupport | None:
        """SUPPORTED if its tasks always go on from the offsets they are given."""
        return None

    def can_define_transaction_boundaries(self, props: Props) -> ConnectorTransactionBoundaries:
        """SUPPORTED if its tasks use the TransactionContext that they are given."""
        return ConnectorTransactionBoundaries.UNSUPPORTED

    def alter_offsets(
        self,
        props: Props,
        offsets: Sequence[tuple[Mapping[str, Any], SourceOffset | None]],
    ) -> bool:
        """Checks offsets that a person wants to set (None: to forget); False: can't tell."""
        return False


class SinkConnector(Connector):
    """Copies topics to something."""

    def alter_offsets(self, props: Props, offsets: Mapping[TopicPartition, int | None]) -> bool:
        """As for a source; also the place to change what the system outside has kept."""
        return False


class Task:
    """A share of the work. `start` first, `stop` last."""

    def version(self) -> str:
        return "undefined"

    def stop(self) -> None:
        pass


class SourceTask(Task):
    """Reads. What `poll` returns is written in order; offsets are committed with the records."""

    def start(self, props: Props, context: SourceTaskContext) -> None:
        raise NotImplementedError

    def poll(self) -> Sequence[SourceRecord] | None:
        """The next records; None or none at all where there are none now. May wait shortly."""
        raise NotImplementedError

    def commit(self) -> None:
        """All that was polled so far is committed."""

    def commit_record(self, record: SourceRecord) -> None:
        """This record is committed, or was left out by a transform or by tolerance."""


class SinkTask(Task):
    """Writes. After `flush` (or `pre_commit`) what was put may never be given again."""

    def start(self, props: Props, context: SinkTaskContext) -> None:
        raise NotImplementedError

    def open(self, partitions: Collection[TopicPartition]) -> None:
        pass

    def put(self, records: Sequence[SinkRecord]) -> None:
        raise NotImplementedError

    def flush(self, offsets: Mapping[TopicPartition, int]) -> None:
        """All records before these offsets are to be safe when this returns."""

    def pre_commit(self, offsets: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        """The offsets that may be committed: by default all, after `flush`."""
        self.flush(offsets)
        return offsets

    def close(self, partitions: Collection[TopicPartition]) -> None:
        pass
