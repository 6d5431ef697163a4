"""Converters and transforms, created from a connector's config."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ottla.connect.config import ConfigType, parse_type
from ottla.connect.errors import ConfigException, ConnectException
from ottla.connect.plugins import Plugins, PluginType
from ottla.connect.predicates import Predicate
from ottla.connect.transforms.transform import Transform

DEFAULTS: Final = {
    "key": "org.apache.kafka.connect.json.JsonConverter",
    "value": "org.apache.kafka.connect.json.JsonConverter",
    "header": "org.apache.kafka.connect.storage.SimpleHeaderConverter",
}


def configured_converter(
    half: str, configs: tuple[Mapping[str, str], ...], plugins: Plugins
) -> tuple[Any, str]:
    """From the first config that names a converter, with the converter settings of that config.

    As in Kafka, a connector that sets only `value.converter.schemas.enable` changes nothing.
    """
    setting = f"{half}.converter"
    config = next((config for config in configs if config.get(setting)), {})
    kind = PluginType.HEADER_CONVERTER if half == "header" else PluginType.CONVERTER
    plugin = plugins.find(config.get(setting, DEFAULTS[half]), kind)
    converter = plugin.new()
    converter.configure(with_prefix(config, f"{setting}.") | {"converter.type": half})
    return converter, plugin.name


def with_prefix(config: Mapping[str, str], prefix: str) -> dict[str, str]:
    return {
        name.removeprefix(prefix): value
        for name, value in config.items()
        if name.startswith(prefix)
    }


class TransformationStage:
    """A transform, and the predicate that selects its records."""

    def __init__(
        self, transform: Transform, name: str, predicate: Predicate | None, negate: bool
    ) -> None:
        self.name = name
        self._transform, self._predicate, self._negate = transform, predicate, negate
        # Without a predicate call the transform directly: one call less per record.
        self.apply: Any = transform.apply if predicate is None else self._apply_if

    def _apply_if(self, record: Any) -> Any:
        assert self._predicate is not None
        if self._predicate.test(record) is self._negate:
            return record
        return self._transform.apply(record)

    def close(self) -> None:
        self._transform.close()
        if self._predicate is not None:
            self._predicate.close()


def transformation_stages(config: Mapping[str, str], plugins: Plugins) -> list[TransformationStage]:
    aliases = parse_type("transforms", config.get("transforms", ""), ConfigType.LIST)
    return [_step(alias, config, plugins) for alias in aliases]


def _step(alias: str, config: Mapping[str, str], plugins: Plugins) -> TransformationStage:
    settings = with_prefix(config, f"transforms.{alias}.")
    named = settings.pop("predicate", None)
    negate = settings.pop("negate", "false").strip().lower() == "true"
    transform, name = _made(PluginType.TRANSFORM, f"transforms.{alias}.type", settings, plugins)
    predicate = None
    if named is not None:
        inner = with_prefix(config, f"predicates.{named}.")
        predicate, _ = _made(PluginType.PREDICATE, f"predicates.{named}.type", inner, plugins)
    return TransformationStage(transform, name, predicate, negate)


def _made(
    kind: PluginType, setting: str, settings: dict[str, str], plugins: Plugins
) -> tuple[Any, str]:
    named = settings.pop("type", None)
    if named is None:
        raise ConfigException(
            f'Missing required configuration "{setting}" which has no default value.'
        )
    try:
        plugin = plugins.find(named, kind)
    except ConnectException:
        raise ConfigException.of(setting, named, f"Class {named} could not be found.") from None
    made = plugin.new()
    made.configure(settings)
    return made, plugin.name
