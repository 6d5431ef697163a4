"""The connector itself: started beside its query, it says how the work is cut into tasks."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping
from typing import Any

from ottla.connect.api import Connector, SourceConnector
from ottla.connect.errors import ConnectException
from ottla.connect.plugins import Plugins
from ottla.connect.providers import hidden, referring
from ottla.connect.run import source_offsets
from ottla.connect.run.worker import Worker


class Cut:
    """Used by one thread of the runner at a time; a connector may call `on_request` from any."""

    def __init__(
        self,
        name: str,
        config: Mapping[str, str],
        worker: Worker,
        *,
        on_request: Callable[[], None],
    ) -> None:
        self._name = name
        self._written = dict(config)
        self._config = dict(config)
        """As it is used: resolved whenever the connector is started."""
        self._worker = worker
        self._on_request = on_request
        self._connector: Connector | None = None
        self._forgotten = False
        self._asked = False
        self._error: str | None = None
        self.task_configs: list[dict[str, str]] = []
        self.is_new = False
        """The tasks are others than before."""

    @property
    def is_source(self) -> bool:
        return isinstance(self._connector, SourceConnector)

    @property
    def task_class(self) -> str:
        assert self._connector is not None
        kind = type(self._connector).task_class
        return f"{kind.__module__}:{kind.__qualname__}"

    def start(self) -> str | None:
        """As far as it is not; returns the trace of what went wrong."""
        if self._forgotten:
            self._forgotten = False
            self.stop()
        self.is_new = False
        try:
            if self._error is not None:
                return self._error
            if self._connector is None:
                self._connector = self._started()
                self._asked = True
            if self._asked:
                self.again()
        except Exception:
            self.stop()
            self._error = self.shown(traceback.format_exc())
        return self._error

    def shown(self, trace: str) -> str:
        """With no value that the config only refers to."""
        return hidden(trace, self._written, self._config)

    def again(self) -> bool:
        """Whether the tasks are cut otherwise now."""
        self._asked = False
        assert self._connector is not None
        made = [self._completed(each) for each in self._connector.task_configs(self._tasks_max())]
        if self._config.get("tasks.max.enforce", "true").lower() != "false":
            self._enforce(len(made))
        self.is_new = made != self.task_configs
        self.task_configs = made
        return self.is_new

    @property
    def has_asked(self) -> bool:
        """The connector wants other tasks, or has failed by itself."""
        return self._asked or self._error is not None

    def is_cut_as_before(self) -> bool:
        """Nobody but the connector has asked for a change, and it wants the same tasks again."""
        if not self._asked or self._forgotten or self._error is not None:
            return False
        try:
            return not self.again()
        except Exception:
            self._error = self.shown(traceback.format_exc())
            return False

    def forget(self) -> None:
        """The connector is to be started anew."""
        self._forgotten = True

    def stop(self) -> None:
        connector, self._connector, self._error = self._connector, None, None
        if connector is not None:
            try:
                connector.stop()
            except Exception:
                traceback.print_exc()

    # The context of the connector.

    def request_task_reconfiguration(self) -> None:
        self._asked = True
        self._on_request()

    def raise_error(self, error: Exception) -> None:
        self._error = self.shown("".join(traceback.format_exception(error)))
        self._on_request()

    def offset(self, partition: Mapping[str, Any]) -> Mapping[str, Any] | None:
        return source_offsets.load(self._name, self._config, self._worker).get(partition)

    def _started(self) -> Connector:
        self._config = self._worker.resolved(self._written)
        self._worker.find_plugins()
        kind = Plugins().connector(self._config.get("connector.class", ""))
        connector: Connector = kind()
        connector.context = self
        connector.start(dict(self._config))
        return connector

    def _tasks_max(self) -> int:
        return int(self._config.get("tasks.max", "1"))

    def _enforce(self, count: int) -> None:
        if count > self._tasks_max():
            raise ConnectException(
                f"The connector {self._name} has generated {count} tasks, which is greater than"
                f" {self._tasks_max()}, the maximum number of tasks it is configured to create."
                " This behaviour should be considered a bug and is disallowed. If necessary, it"
                " can be permitted by reconfiguring the connector with 'tasks.max.enforce' set to"
                " false."
            )

    def _completed(self, config: Mapping[str, str]) -> dict[str, str]:
        """Sink tasks are told their topics, and each its class, as Kafka does. They are written
        down: what the config only refers to is a reference again."""
        task_class = {"task.class": self.task_class.replace(":", ".")}
        names = () if self.is_source else ("topics", "topics.regex")
        topics = {name: self._config[name] for name in names if name in self._config}
        return referring(self._written, {**config, **task_class, **topics})
