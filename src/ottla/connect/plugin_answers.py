"""What is answered about plugins: which there are, their settings, what is wrong with a config."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ottla.connect.api import SourceConnector
from ottla.connect.common_config import connector_config, sink_config, source_config
from ottla.connect.config import ConfigDef, ConfigType
from ottla.connect.errors import ConnectException
from ottla.connect.herder.refusals import bad_request, not_found
from ottla.connect.plugins import Kind, Plugin, Plugins
from ottla.connect.providers import Providers, hidden
from ottla.connect.secrets import masked
from ottla.connect.validation import validate

CONNECTORS: Final = (Kind.SINK, Kind.SOURCE)
ORDER: Final = (
    *CONNECTORS,
    Kind.TRANSFORM,
    Kind.PREDICATE,
    Kind.CONVERTER,
    Kind.HEADER_CONVERTER,
)
UNKNOWN: Final = "unknown"
CLASS: Final = "connector.class"


class PluginAnswers:
    """`worker` has the converters that a connector may leave out."""

    def __init__(self, worker: Mapping[str, str], plugins: Plugins | None = None) -> None:
        self._worker = worker
        self._plugins = plugins or Plugins()

    def all(self, *, connectors_only: bool) -> list[dict[str, Any]]:
        kinds = CONNECTORS if connectors_only else ORDER
        return [_told(each) for kind in kinds for each in self._plugins.all(kind)]

    def config(self, name: str) -> list[dict[str, Any]]:
        try:
            plugin = self._plugins.find(name)
        except ConnectException:
            raise not_found(f"Unknown plugin {name}.") from None
        config = ConfigDef(plugin.new().config_def())
        for key in _framework(plugin.kind).keys.values():
            config.keys.setdefault(key.name, key)
        return config.key_infos()

    def type_of(self, config: Mapping[str, str] | None) -> str:
        """source, sink, or unknown: a config may name what is not installed here."""
        try:
            found = self._plugins.connector((config or {}).get(CLASS, ""))
        except ConnectException:
            return UNKNOWN
        return Kind.SOURCE.value if issubclass(found, SourceConnector) else Kind.SINK.value

    def version_of(self, config: Mapping[str, str]) -> str | None:
        """What a status says of the connector."""
        try:
            return self._plugins.find(config.get(CLASS, ""), *CONNECTORS).version
        except Exception:  # a plugin that is broken has no version, and a status is still told
            return None

    def masked(self, config: Mapping[str, str]) -> dict[str, str]:
        """A connector's config, or a task's, without its secrets."""
        try:
            found = self._plugins.find(config.get(CLASS, ""), *CONNECTORS).new().config_def().keys
            passwords = {name for name, key in found.items() if key.type is ConfigType.PASSWORD}
        except Exception:  # a plugin that is not here, or broken: names alone tell
            passwords = set()
        return masked(config, passwords)

    def validate(self, config: Mapping[str, str]) -> dict[str, Any]:
        if config.get(CLASS) is None:
            told = ", ".join(f"{key}={value}" for key, value in masked(config).items())
            raise bad_request(f"Connector config {{{told}}} contains no connector type")
        resolved: Mapping[str, str] = config
        try:
            resolved = Providers(self._worker).resolved(config)
            infos = validate(resolved, plugins=self._plugins, worker=self._worker)
        except ConnectException as error:
            raise bad_request(hidden(str(error), config, resolved)) from None
        return _without_secrets(infos, config, resolved)


def _without_secrets(
    infos: dict[str, Any], raw: Mapping[str, str], resolved: Mapping[str, str]
) -> dict[str, Any]:
    """Values are checked as they will be used, and shown as they are written."""
    for each in infos["configs"]:
        value = each["value"]
        name = value["name"]
        if name in raw and raw[name] != resolved[name]:
            value["value"] = raw[name]
        value["errors"] = [hidden(told, raw, resolved) for told in value["errors"]]
    return infos


def _told(plugin: Plugin) -> dict[str, Any]:
    return {"class": plugin.name, "type": plugin.kind.value, "version": plugin.version}


def _framework(kind: Kind) -> ConfigDef:
    """What every connector has, whatever its own settings are."""
    if kind not in CONNECTORS:
        return ConfigDef()
    base = connector_config()
    return source_config(base) if kind is Kind.SOURCE else sink_config(base)
