"""Plugin discovery: Ottla's own, and those that other distributions declare as entry points.

    [project.entry-points."ottla.connectors"]
    lines = "my_package.lines:LinesSource"

Groups are `ottla.connectors`, `ottla.converters` (header converters too), `ottla.transforms` and
`ottla.predicates`. A config names a plugin by its entry point, its class (`LinesSource`),
`module.Class` or `module:Class`, or by Kafka's name for it. As in Kafka, the suffix `Connector` is
optional, and `InsertField$Value` names a nested class.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Final

from ottla.connect.api import Connector, SinkConnector, SourceConnector
from ottla.connect.builtin_plugins import builtin_plugins
from ottla.connect.converters.converter import Converter, HeaderConverter
from ottla.connect.errors import ConnectException
from ottla.connect.plugin import INTERFACES, Plugin, PluginType, load_target
from ottla.connect.predicates import Predicate
from ottla.connect.transforms.transform import Transform
from ottla.spelling import nearest_spelling

__all__ = ["CONNECTORS", "Plugin", "PluginType", "Plugins"]

log = logging.getLogger("ottla.connect")

CONNECTORS: Final = (PluginType.SOURCE, PluginType.SINK)
CLASSES: Final[dict[PluginType, type]] = {
    PluginType.SOURCE: SourceConnector,
    PluginType.SINK: SinkConnector,
    PluginType.CONVERTER: Converter,
    PluginType.HEADER_CONVERTER: HeaderConverter,
    PluginType.TRANSFORM: Transform,
    PluginType.PREDICATE: Predicate,
}
GROUPS: Final[dict[str, tuple[PluginType, ...]]] = {
    "ottla.connectors": CONNECTORS,
    "ottla.converters": (PluginType.CONVERTER, PluginType.HEADER_CONVERTER),
    "ottla.transforms": (PluginType.TRANSFORM,),
    "ottla.predicates": (PluginType.PREDICATE,),
}


class Plugins:
    """The plugins of this process: `found`, or everything that can be discovered."""

    def __init__(self, found: Iterable[Plugin] | None = None) -> None:
        self._plugins = list(discovered() if found is None else found)
        self._by_name: dict[str, list[Plugin]] = {}
        for plugin in self._plugins:
            for name in plugin.names():
                self._by_name.setdefault(name, []).append(plugin)

    def all(self, *kinds: PluginType) -> list[Plugin]:
        return [plugin for plugin in self._plugins if not kinds or plugin.kind in kinds]

    def find(self, name: str, *kinds: PluginType) -> Plugin:
        """The plugin with this name. Raises ConnectException if there is none, or several."""
        fitting = [
            plugin for plugin in self._by_name.get(name, ()) if not kinds or plugin.kind in kinds
        ]
        targets = {plugin.target for plugin in fitting}
        if len(targets) == 1:
            return fitting[0]
        if len(targets) > 1:
            raise ConnectException(
                f"More than one {_interface(kinds).lower()} matches alias {name}. Please use full "
                f"package and class name instead. Classes found: {_listed(fitting)}"
            )
        imported = _imported(name, kinds)
        if imported is None:
            interface = _interface(kinds)
            raise ConnectException(
                f"Failed to find any class that implements {interface} and which name matches "
                f"{name}, available {interface.lower()}s are: {_listed(self.all(*kinds))}"
                f"{self._meant(name, kinds)}"
            )
        return imported

    def _meant(self, name: str, kinds: tuple[PluginType, ...]) -> str:
        """A suggestion, also by the last part of the name: packages are long and similar."""
        there = [plugin_name for plugin in self.all(*kinds) for plugin_name in plugin.names()]
        found = nearest_spelling(name, there) or nearest_spelling(name.rpartition(".")[2], there)
        return f". Did you mean {found}?" if found else ""

    def connector(self, name: str) -> type[Connector]:
        return self.find(name, *CONNECTORS).load()

    def new(self, name: str, *kinds: PluginType) -> Any:
        return self.find(name, *kinds).new()


def _interface(kinds: tuple[PluginType, ...]) -> str:
    return INTERFACES[kinds[0]] if kinds else "Plugin"


def _listed(plugins: Iterable[Plugin]) -> str:
    return ", ".join(str(plugin) for plugin in plugins)


def _imported(name: str, kinds: tuple[PluginType, ...]) -> Plugin | None:
    """A class without an entry point: `module:Class` or `module.Class`."""
    module, colon, qualified = name.partition(":")
    if not colon:
        module, _, qualified = name.rpartition(".")
    if not module:
        return None
    try:
        found = load_target(f"{module}:{qualified}")
    except (ImportError, AttributeError, ValueError):
        return None
    for kind in kinds or tuple(PluginType):
        if isinstance(found, type) and issubclass(found, CLASSES[kind]):
            return Plugin(kind, f"{module}.{qualified}", f"{module}:{qualified}")
    return None


@cache
def discovered() -> tuple[Plugin, ...]:
    """Cached, because distributions do not change while a process runs."""
    return (*builtin_plugins(), *from_entry_points())


def from_entry_points() -> Iterator[Plugin]:
    found = entry_points()  # reads the files of all distributions, for one group as for all
    for group, kinds in GROUPS.items():
        for point in found.select(group=group):
            yield from _of_point(point, kinds)


def _of_point(point: EntryPoint, kinds: tuple[PluginType, ...]) -> Iterator[Plugin]:
    """A plugin that cannot be loaded is logged and skipped."""
    try:
        found = point.load()
    except Exception:
        log.exception("Loading plugin %s of %s failed", point.name, _named(point))
        return
    fitting = [k for k in kinds if isinstance(found, type) and issubclass(found, CLASSES[k])]
    if not fitting:
        log.error(
            "%s is declared in %s but is not a %s", point.value, point.group, INTERFACES[kinds[0]]
        )
    for kind in fitting:
        yield Plugin(
            kind,
            name=f"{found.__module__}.{found.__qualname__}",
            target=f"{found.__module__}:{found.__qualname__}",
            aliases=(point.name,),
            distribution=_named(point),
            distribution_version=point.dist.version if point.dist is not None else "undefined",
        )


def _named(point: EntryPoint) -> str:
    return point.dist.name if point.dist is not None else "unknown"
