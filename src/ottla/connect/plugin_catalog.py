"""The plugins as REST shows them: the list, their settings, and the validation of a config."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ottla.connect.api import SourceConnector
from ottla.connect.config import ConfigDef, ConfigType
from ottla.connect.config_providers import ConfigProviders, hide_secrets
from ottla.connect.connector_config import connector_config, sink_config, source_config
from ottla.connect.errors import ConnectException
from ottla.connect.herder.rest_exceptions import bad_request, not_found
from ottla.connect.plugins import Plugin, Plugins, PluginType
from ottla.connect.secrets import masked
from ottla.connect.validation import validate

CONNECTORS: Final = (PluginType.SINK, PluginType.SOURCE)
ORDER: Final = (
    *CONNECTORS,
    PluginType.TRANSFORM,
    PluginType.PREDICATE,
    PluginType.CONVERTER,
    PluginType.HEADER_CONVERTER,
)
UNKNOWN: Final = "unknown"
CLASS: Final = "connector.class"


class PluginCatalog:
    """`worker`: the worker's properties, with the default converters."""

    def __init__(self, worker: Mapping[str, str], plugins: Plugins | None = None) -> None:
        self._worker = worker
        self._plugins = plugins or Plugins()

    def all(self, *, connectors_only: bool) -> list[dict[str, Any]]:
        kinds = CONNECTORS if connectors_only else ORDER
        return [_described(plugin) for kind in kinds for plugin in self._plugins.all(kind)]

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
        """source, sink, or unknown: the config may name a plugin that is not installed here."""
        try:
            found = self._plugins.connector((config or {}).get(CLASS, ""))
        except ConnectException:
            return UNKNOWN
        return (
            PluginType.SOURCE.value if issubclass(found, SourceConnector) else PluginType.SINK.value
        )

    def version_of(self, config: Mapping[str, str]) -> str | None:
        """The connector's version, for its status."""
        try:
            return self._plugins.find(config.get(CLASS, ""), *CONNECTORS).version
        except Exception:  # a broken plugin has no version, but still a status
            return None

    def masked(self, config: Mapping[str, str]) -> dict[str, str]:
        """A connector's config, or a task's, without its secrets."""
        try:
            found = self._plugins.find(config.get(CLASS, ""), *CONNECTORS).new().config_def().keys
            passwords = {name for name, key in found.items() if key.type is ConfigType.PASSWORD}
        except Exception:  # a missing or broken plugin: mask by the settings' names only
            passwords = set()
        return masked(config, passwords)

    def validate(self, config: Mapping[str, str]) -> dict[str, Any]:
        if config.get(CLASS) is None:
            shown = ", ".join(f"{key}={value}" for key, value in masked(config).items())
            raise bad_request(f"Connector config {{{shown}}} contains no connector type")
        resolved: Mapping[str, str] = config
        try:
            resolved = ConfigProviders(self._worker).resolved(config)
            infos = validate(resolved, plugins=self._plugins, worker=self._worker)
        except ConnectException as error:
            raise bad_request(hide_secrets(str(error), config, resolved)) from None
        return _without_secrets(infos, config, resolved)


def _without_secrets(
    infos: dict[str, Any], raw: Mapping[str, str], resolved: Mapping[str, str]
) -> dict[str, Any]:
    """Validation needs resolved values; the answer shows the references again."""
    for info in infos["configs"]:
        value = info["value"]
        name = value["name"]
        if name in raw and raw[name] != resolved[name]:
            value["value"] = raw[name]
        value["errors"] = [hide_secrets(error, raw, resolved) for error in value["errors"]]
    return infos


def _described(plugin: Plugin) -> dict[str, Any]:
    return {"class": plugin.name, "type": plugin.kind.value, "version": plugin.version}


def _framework(kind: PluginType) -> ConfigDef:
    """The settings that every connector of this type has."""
    if kind not in CONNECTORS:
        return ConfigDef()
    base = connector_config()
    return source_config(base) if kind is PluginType.SOURCE else sink_config(base)
