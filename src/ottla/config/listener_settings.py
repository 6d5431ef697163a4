"""The properties of one listener: `listener.name.<listener>.<property>` overrides `<property>`.

SASL's properties may also be meant for one mechanism of a listener:
`listener.name.<listener>.<mechanism>.sasl.jaas.config`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.config.definition import ConfigError, Value
from ottla.config.tables import BROKER_CONFIGS

if TYPE_CHECKING:
    from ottla.config.server import ServerConfig

PER_MECHANISM = frozenset(
    {
        "connections.max.reauth.ms",
        "sasl.jaas.config",
        "sasl.login.callback.handler.class",
        "sasl.login.class",
        "sasl.server.callback.handler.class",
    }
)

PER_LISTENER = ("ssl.", "sasl.", "ottla.sasl.", "connections.max.reauth.ms", "confluent.")
"""Prefixes of names that are looked up in a listener's settings, or that configure another
program's client: ServerConfig has no attributes for them."""


class ListenerSettings:
    """`settings.get("ssl.client.auth")`, typed; ConfigError names an invalid property."""

    def __init__(self, config: ServerConfig, listener: str) -> None:
        self._config = config
        self._texts = {**config.static, **config.dynamic_default, **config.dynamic_broker}
        self._prefix = f"listener.name.{listener.lower()}."
        self.listener = listener

    def get(self, name: str, mechanism: str | None = None) -> Value:
        """The value for this listener, and for this SASL mechanism if it may differ by that."""
        for full in self._names(name, mechanism):
            if full in self._texts:
                return self._parsed(full, name)
        return self._config.get(name)

    def own(self, name: str, mechanism: str | None = None) -> Value:
        """The value that is set for this listener (or mechanism) only; None if there is none."""
        for full in self._names(name, mechanism):
            if full in self._texts:
                return self._parsed(full, name)
        return None

    def is_set(self, name: str) -> bool:
        """True if it is set, for this listener or for all."""
        return any(full in self._texts for full in (self._prefix + name, name))

    def _names(self, name: str, mechanism: str | None) -> list[str]:
        names = [self._prefix + name]
        if mechanism is not None and name in PER_MECHANISM:
            names.insert(0, f"{self._prefix}{mechanism.lower()}.{name}")
        return names

    def _parsed(self, full: str, name: str) -> Value:
        definition = BROKER_CONFIGS[name]
        text = self._texts[full]
        try:
            return definition.parse(text)
        except ValueError as error:
            shown = None if definition.sensitive else text
            raise ConfigError([(full, shown, str(error))]) from error
