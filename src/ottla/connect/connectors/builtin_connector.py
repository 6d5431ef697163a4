"""BuiltinConnector: what the connectors that come with Ottla have in common."""

from __future__ import annotations

from typing import Any, ClassVar

from ottla.connect.api import Connector, Props
from ottla.connect.config import ConfigDef


class BuiltinConnector(Connector):
    """Gives all tasks the connector's own config; one that divides its work overrides that."""

    config: ClassVar[ConfigDef]

    def version(self) -> str:
        return "1.0"

    def config_def(self) -> ConfigDef:
        return self.config

    def start(self, props: Props) -> None:
        self._settings: Any = self.config.parse(props)
        self._props = dict(props)

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        return [self._props] * max_tasks
