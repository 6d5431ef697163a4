"""The Connector object of a running connector: it generates the configs of the tasks."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping
from typing import Any

from ottla.connect.api import Connector, SourceConnector
from ottla.connect.config_providers import hide_secrets, with_references
from ottla.connect.errors import ConnectException
from ottla.connect.plugins import Plugins
from ottla.connect.run import source_offsets
from ottla.connect.run.worker_context import WorkerContext


class ConnectorInstance:
    """The connector's context, too. The runner calls it from one thread at a time; the connector
    may call the context's methods from any thread."""

    def __init__(
        self,
        name: str,
        config: Mapping[str, str],
        worker: WorkerContext,
        *,
        on_request: Callable[[], None],
    ) -> None:
        self._name = name
        self._raw_config = dict(config)
        self._config = dict(config)
        """The config that the connector gets: resolved at every start."""
        self._worker = worker
        self._on_request = on_request
        self._connector: Connector | None = None
        self._restart_requested = False
        self._reconfiguration_requested = False
        self._error: str | None = None
        self.task_configs: list[dict[str, str]] = []
        self.task_configs_changed = False
        """The last `start` generated other task configs than the one before."""

    @property
    def is_source(self) -> bool:
        return isinstance(self._connector, SourceConnector)

    @property
    def task_class(self) -> str:
        assert self._connector is not None
        kind = type(self._connector).task_class
        return f"{kind.__module__}:{kind.__qualname__}"

    def start(self) -> str | None:
        """Start what is not started yet; returns the trace of a failure."""
        if self._restart_requested:
            self._restart_requested = False
            self.stop()
        self.task_configs_changed = False
        try:
            if self._error is not None:
                return self._error
            if self._connector is None:
                self._connector = self._new_started_connector()
                self._reconfiguration_requested = True
            if self._reconfiguration_requested:
                self.update_task_configs()
        except Exception:
            self.stop()
            self._error = self.redacted(traceback.format_exc())
        return self._error

    def redacted(self, trace: str) -> str:
        """The trace without values that come from config providers."""
        return hide_secrets(trace, self._raw_config, self._config)

    def update_task_configs(self) -> bool:
        """Generate the task configs; True if they have changed."""
        self._reconfiguration_requested = False
        assert self._connector is not None
        made = [
            self._complete_task_config(config)
            for config in self._connector.task_configs(self._tasks_max())
        ]
        if self._config.get("tasks.max.enforce", "true").lower() != "false":
            self._enforce_tasks_max(len(made))
        self.task_configs_changed = made != self.task_configs
        self.task_configs = made
        return self.task_configs_changed

    @property
    def needs_attention(self) -> bool:
        """The connector has requested a task reconfiguration, or has raised an error."""
        return self._reconfiguration_requested or self._error is not None

    def is_unchanged(self) -> bool:
        """True if the connector requested a reconfiguration that changes nothing: then the
        query need not restart."""
        if (
            not self._reconfiguration_requested
            or self._restart_requested
            or self._error is not None
        ):
            return False
        try:
            return not self.update_task_configs()
        except Exception:
            self._error = self.redacted(traceback.format_exc())
            return False

    def restart_at_next_start(self) -> None:
        """Let the next `start` stop the connector and start a new one."""
        self._restart_requested = True

    def stop(self) -> None:
        connector, self._connector, self._error = self._connector, None, None
        if connector is not None:
            try:
                connector.stop()
            except Exception:
                traceback.print_exc()

    # ConnectorContext.

    def request_task_reconfiguration(self) -> None:
        self._reconfiguration_requested = True
        self._on_request()

    def raise_error(self, error: Exception) -> None:
        self._error = self.redacted("".join(traceback.format_exception(error)))
        self._on_request()

    def offset(self, partition: Mapping[str, Any]) -> Mapping[str, Any] | None:
        return source_offsets.load_source_offsets(self._name, self._config, self._worker).get(
            partition
        )

    def _new_started_connector(self) -> Connector:
        self._config = self._worker.resolved(self._raw_config)
        self._worker.find_plugins()
        kind = Plugins().connector(self._config.get("connector.class", ""))
        connector: Connector = kind()
        connector.context = self
        connector.start(dict(self._config))
        return connector

    def _tasks_max(self) -> int:
        return int(self._config.get("tasks.max", "1"))

    def _enforce_tasks_max(self, count: int) -> None:
        if count > self._tasks_max():
            raise ConnectException(
                f"The connector {self._name} has generated {count} tasks, which is greater than"
                f" {self._tasks_max()}, the maximum number of tasks it is configured to create."
                " This behaviour should be considered a bug and is disallowed. If necessary, it"
                " can be permitted by reconfiguring the connector with 'tasks.max.enforce' set to"
                " false."
            )

    def _complete_task_config(self, config: Mapping[str, str]) -> dict[str, str]:
        """Adds the task's class, and a sink's topics, as Kafka does. Task configs go to the config
        topic, so values from config providers become references again."""
        task_class = {"task.class": self.task_class.replace(":", ".")}
        names = () if self.is_source else ("topics", "topics.regex")
        topics = {name: self._config[name] for name in names if name in self._config}
        return with_references(self._raw_config, {**config, **task_class, **topics})
