"""Validates a connector's whole config, as for REST's .../config/validate.

It covers the settings of every connector, the connector's own, those of its converters, and those
of each transform and predicate under their prefixes, and collects all errors.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ottla.connect.api import (
    Connector,
    ConnectorTransactionBoundaries,
    ExactlyOnceSupport,
    SourceConnector,
)
from ottla.connect.config import ConfigDef, ConfigType, ConfigValue, Importance, Width, parse_type
from ottla.connect.connector_config import (
    connector_config,
    sink_config,
    sink_problems,
    source_config,
)
from ottla.connect.errors import ConfigException, ConnectException
from ottla.connect.override_policy import override_problems
from ottla.connect.plugin import INTERFACES
from ottla.connect.plugins import CONNECTORS, Plugins, PluginType
from ottla.connect.secrets import masked
from ottla.connect.transformation_stage import DEFAULTS, with_prefix
from ottla.spelling import did_you_mean

NOT_FOUND: Final = "Class {} could not be found."
CONVERTER_KINDS: Final = {
    "header.converter": PluginType.HEADER_CONVERTER,
    "key.converter": PluginType.CONVERTER,
    "value.converter": PluginType.CONVERTER,
}


def validate(
    props: Mapping[str, Any], *, plugins: Plugins, worker: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Kafka's ConfigInfos. Raises ConnectException if the connector class is unknown."""
    named = props.get("connector.class")
    if named is None:
        raise ConnectException("Connector config contains no connector type")
    return _Validation(dict(props), worker or {}, plugins).infos(str(named))


class _Validation:
    def __init__(self, props: dict[str, Any], worker: Mapping[str, str], plugins: Plugins) -> None:
        self._given = props
        self._props: dict[str, str] = {n: v for n, v in props.items() if v is not None}
        self._worker = worker
        self._plugins = plugins

    def infos(self, named: str) -> dict[str, Any]:
        plugin = self._plugins.find(named, *CONNECTORS)
        connector: Connector = plugin.new()
        common = self._common(plugin.version, plugin.kind)
        self._add_plugins(common, "transforms", PluginType.TRANSFORM)
        self._add_plugins(common, "predicates", PluginType.PREDICATE)
        values = common.validate_all(self._props)
        for value in values.values():
            if value.errors and NOT_FOUND.format(value.value) in value.errors[-1]:
                value.value = None  # Kafka has a class here, which does not exist
        self._add_problems(values, connector)
        for name in (name for name, value in self._given.items() if value is None):
            value = values.setdefault(name, ConfigValue(name))
            value.value = None
            value.errors.append("Null value can not be supplied as the configuration value.")
        converters = [self._converter(name, values) for name in CONVERTER_KINDS]
        own = connector.config_def()
        whole = ConfigDef(common)
        for key in own.keys.values():
            whole.keys[key.name] = key
        whole.groups += [group for group in own.groups if group not in whole.groups]
        infos = whole.infos(named, [*values.values(), *connector.validate(self._props)])
        return _merged(infos, [self._overrides(plugin.kind), *converters])

    def _common(self, version: str, kind: PluginType) -> ConfigDef:
        defaults: dict[str, str | None] = {
            name: self._worker.get(name) or DEFAULTS[name.partition(".")[0]]
            for name in CONVERTER_KINDS
        }
        base = connector_config(
            converters=defaults,
            validators={name: self._plugin_check(kind) for name, kind in CONVERTER_KINDS.items()},
            recommenders={
                n: PluginRecommender(self._plugins, kind) for n, kind in CONVERTER_KINDS.items()
            },
            version=version,
        )
        return source_config(base) if kind is PluginType.SOURCE else sink_config(base)

    def _plugin_check(self, kind: PluginType) -> Any:
        def check(name: str, value: Any) -> None:
            if value is None:
                return
            try:
                self._plugins.find(value, kind)
            except ConnectException:
                raise self._wrong_plugin(name, value, kind) from None

        return check

    def _wrong_plugin(self, name: str, value: str, kind: PluginType) -> ConfigException:
        try:
            other = self._plugins.find(value)
        except ConnectException:
            return ConfigException.of(name, value, NOT_FOUND.format(value))
        message = f"Class class {other.name} does not implement the {INTERFACES[kind]} interface"
        return ConfigException(message)

    # Transforms and predicates.

    def _add_plugins(self, config: ConfigDef, setting: str, kind: PluginType) -> None:
        for alias in _aliases(self._props, setting):
            prefix, group = f"{setting}.{alias}.", f"{setting.capitalize()}: {alias}"
            word = setting.removesuffix("s")
            called = "transformation" if kind is PluginType.TRANSFORM else "predicate"
            interface = called.capitalize()
            config.define(f"{prefix}type", ConfigType.CLASS, importance=Importance.HIGH,
                          doc=f"The class of the {word} '{alias}'.", group=group, order=0,
                          width=Width.LONG, display_name=f"{interface} type for {alias}",
                          validator=self._type_check(prefix, kind),
                          recommender=PluginRecommender(self._plugins, kind))  # fmt: skip
            config.define(f"{prefix}plugin.version", ConfigType.STRING,
                          self._version(f"{prefix}type", kind), Importance.HIGH,
                          f"The version of the {word} '{alias}'.", group=group, order=1,
                          width=Width.LONG,
                          display_name=f"{interface} version for {alias}")  # fmt: skip
            inner = self._settings_of(f"{prefix}type", kind)
            if inner is not None:
                config.embed(prefix, group, 2, inner)

    def _type_check(self, prefix: str, kind: PluginType) -> Any:
        is_one = self._plugin_check(kind)

        def check(name: str, value: Any) -> None:
            if f"{prefix}negate" in self._props and f"{prefix}predicate" not in self._props:
                raise ConfigException(
                    f"Config '{prefix}negate' was provided but there is no config "
                    f"'{prefix}predicate' defining a predicate to be negated."
                )
            is_one(name, value)

        return check

    def _version(self, setting: str, kind: PluginType) -> str | None:
        try:
            return self._plugins.find(self._props.get(setting, ""), kind).version
        except ConnectException:
            return None

    def _settings_of(self, setting: str, kind: PluginType) -> ConfigDef | None:
        try:
            inner: ConfigDef = self._plugins.new(self._props.get(setting, ""), kind).config_def()
        except ConnectException:
            return None
        if kind is PluginType.PREDICATE:
            return inner
        implicit = (
            ConfigDef()
            .define("predicate", ConfigType.STRING, None, Importance.MEDIUM,
                    "The predicate that selects the records for this transform.")
            .define("negate", ConfigType.BOOLEAN, False, Importance.MEDIUM,
                    "Whether to apply the transform to the other records instead.")
        )  # fmt: skip
        for key in inner.keys.values():
            if key.name not in implicit.keys:
                implicit.add(key)
        return implicit

    # Checks that look at more than one setting.

    def _add_problems(self, values: dict[str, ConfigValue], connector: Connector) -> None:
        if isinstance(connector, SourceConnector):
            problems = self._source_problems(connector)
        else:
            problems = sink_problems(self._props) + self._group_problems()
        for name, message in problems:
            value = values.setdefault(name, ConfigValue(name, self._props.get(name)))
            value.errors.append(message)

    def _group_problems(self) -> list[tuple[str, str]]:
        workers = self._worker.get("group.id")
        override = "consumer.override.group.id"
        group, name = self._props.get(override), self._props.get("name")
        if workers is not None and group == workers:
            message = f"Consumer group {group} conflicts with Connect worker group {workers}"
            return [(override, message)]
        if workers is not None and group is None and workers == f"connect-{name}":
            message = (
                f"Consumer group for sink connector named {name} conflicts with Connect worker "
                f"group {workers}"
            )
            return [("name", message)]
        return []

    def _source_problems(self, connector: SourceConnector) -> list[tuple[str, str]]:
        problems = self._exactly_once_problems(connector)
        if self._props.get("transaction.boundary", "").strip().lower() == "connector":
            boundaries = connector.can_define_transaction_boundaries(self._props)
            if boundaries is ConnectorTransactionBoundaries.SUPPORTED:
                return problems
            message = (
                "The connector does not support connector-defined transaction boundaries with the "
                "given configuration. Please reconfigure it to use a different transaction "
                "boundary definition."
            )
            problems.append(("transaction.boundary", message))
        return problems

    def _exactly_once_problems(self, connector: SourceConnector) -> list[tuple[str, str]]:
        setting = "exactly.once.support"
        if self._props.get(setting, "").strip().lower() != "required":
            return []
        if self._worker.get("exactly.once.source.support", "disabled").lower() != "enabled":
            return [(setting, "This worker does not have exactly-once source support enabled.")]
        support = connector.exactly_once_support(self._props)
        if support is ExactlyOnceSupport.SUPPORTED:
            return []
        if support is None:
            message = (
                "The connector does not implement the API required for preflight validation of "
                "exactly-once source support. Please consult the documentation for the connector "
                "to determine whether it supports exactly-once semantics, and then consider "
                'reconfiguring the connector to use the value "requested" for this property '
                "(which will disable this preflight check and allow the connector to be created)."
            )
        else:
            message = (
                "The connector does not support exactly-once semantics with the provided "
                "configuration."
            )
        return [(setting, message)]

    def _overrides(self, kind: PluginType) -> dict[str, Any]:
        """Settings of the connector's clients. What they mean is up to the clients."""
        letters = self._props.get("errors.deadletterqueue.topic.name", "").strip()
        creates = any(name.startswith("topic.creation.") for name in self._props)
        used = {
            "producer.override.": kind is PluginType.SOURCE or bool(letters),
            "consumer.override.": kind is PluginType.SINK,
            "admin.override.": creates if kind is PluginType.SOURCE else bool(letters),
        }
        prefixes = tuple(prefix for prefix, is_used in used.items() if is_used)
        wrong = dict(override_problems(self._props, self._worker))
        shown = masked(self._props)
        given = [
            ConfigValue(n, v) for n, v in shown.items() if n.startswith(prefixes) or n in wrong
        ]
        for value in given:
            if value.name in wrong:
                value.errors.append(wrong[value.name])
        message = [{"definition": None, "value": value.info(None)} for value in given]
        return {"error_count": len(wrong), "groups": [], "configs": message}

    # Converters of the connector's own.

    def _converter(self, name: str, values: dict[str, ConfigValue]) -> dict[str, Any] | None:
        given = self._props.get(name)
        if given is None or values[name].errors:
            return None
        config = self._plugins.new(given, CONVERTER_KINDS[name]).config_def()
        half = name.partition(".")[0]
        inner = {"converter.type": half} | with_prefix(self._props, f"{name}.")
        prefix = f"{name}."
        checked = config.validate(inner)
        return {
            "error_count": sum(1 for value in checked if value.errors),
            "groups": list(config.groups),
            "configs": [
                {
                    "definition": config.keys[value.name].info(prefix),
                    "value": value.info(config.keys[value.name].type, prefix),
                }
                for value in checked
            ],
        }


class PluginRecommender:
    """Recommends all plugins of a type."""

    def __init__(self, plugins: Plugins, kind: PluginType) -> None:
        self._names = [plugin.name for plugin in plugins.all(kind)]

    def valid_values(self, name: str, parsed: Mapping[str, Any]) -> list[Any]:
        return list(self._names)

    def visible(self, name: str, parsed: Mapping[str, Any]) -> bool:
        return True


def _aliases(props: Mapping[str, str], setting: str) -> list[str]:
    found = parse_type(setting, props.get(setting, ""), ConfigType.LIST)
    return list(dict.fromkeys(found))


def _merged(infos: dict[str, Any], others: list[dict[str, Any] | None]) -> dict[str, Any]:
    for other in others:
        if other is not None:
            infos["error_count"] += other["error_count"]
            infos["groups"] = list(dict.fromkeys([*infos["groups"], *other["groups"]]))
            infos["configs"] += other["configs"]
    return infos


def misspelled(config: Mapping[str, Any], infos: Mapping[str, Any]) -> list[str]:
    """A sentence for each setting that looks like a misspelled one.

    As in Kafka, such a setting is not an error: a connector may read settings that it does not
    define. Those of a converter or transformation, which begin with its name, are not examined.
    """
    known = {info["value"]["name"] for info in infos["configs"]}
    hints = {
        name: did_you_mean(name, known)
        for name in config
        if name not in known and not any(name.startswith(f"{prefix}.") for prefix in known)
    }
    return [f"{name} is not a known setting{hint}" for name, hint in hints.items() if hint]
