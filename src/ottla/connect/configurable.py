"""Configurable: what transforms, predicates and converters have in common."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ottla.connect.config import ConfigDef


class Configurable:
    """A part of a connector's config. `configure` is called first, and `close` last."""

    def version(self) -> str:
        return "undefined"

    def config_def(self) -> ConfigDef:
        return ConfigDef()

    def configure(self, props: Mapping[str, Any]) -> None:
        pass

    def close(self) -> None:
        pass
