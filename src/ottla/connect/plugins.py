"""Where plugins are found: in the box, and in other distributions by entry points.

    [project.entry-points."ottla.connectors"]
    lines = "my_package.lines:LinesSource"

Groups are `ottla.connectors`, `ottla.converters` (header converters too), `ottla.transforms` and
`ottla.predicates`. A plugin is named by its entry point, its class (`LinesSource`),
`module.Class` or `module:Class`, and Kafka's by the names that Kafka has for them; a connector may
leave `Connector` out, as in Kafka. `InsertField$Value` names a nested class, as Java does.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Final

from ottla.connect.api import Connector, SinkConnector, SourceConnector
from ottla.connect.box import in_the_box
from ottla.connect.converters.converter import Converter, HeaderConverter
from ottla.connect.errors import ConnectException
from ottla.connect.plugin import INTERFACES, Kind, Plugin, loaded
from ottla.connect.predicates import Predicate
from ottla.connect.transforms.transform import Transform
from ottla.spelling import near

__all__ = ["CONNECTORS", "Kind", "Plugin", "Plugins"]

log = logging.getLogger("ottla.connect")

CONNECTORS: Final = (Kind.SOURCE, Kind.SINK)
CLASSES: Final[dict[Kind, type]] = {
    Kind.SOURCE: SourceConnector,
    Kind.SINK: SinkConnector,
    Kind.CONVERTER: Converter,
    Kind.HEADER_CONVERTER: HeaderConverter,
    Kind.TRANSFORM: Transform,
    Kind.PREDICATE: Predicate,
}
GROUPS: Final[dict[str, tuple[Kind, ...]]] = {
    "ottla.connectors": CONNECTORS,
    "ottla.converters": (Kind.CONVERTER, Kind.HEADER_CONVERTER),
    "ottla.transforms": (Kind.TRANSFORM,),
    "ottla.predicates": (Kind.PREDICATE,),
}


class Plugins:
    """All that were found, in this process. Without an argument: what there is."""

    def __init__(self, found: Iterable[Plugin] | None = None) -> None:
        self._plugins = list(discovered() if found is None else found)
        self._by_name: dict[str, list[Plugin]] = {}
        for plugin in self._plugins:
            for name in plugin.names():
                self._by_name.setdefault(name, []).append(plugin)

    def all(self, *kinds: Kind) -> list[Plugin]:
        return [each for each in self._plugins if not kinds or each.kind in kinds]

    def find(self, name: str, *kinds: Kind) -> Plugin:
        """By any of its names; ConnectException in Kafka's words if there is none, or several."""
        fitting = [each for each in self._by_name.get(name, ()) if not kinds or each.kind in kinds]
        targets = {each.target for each in fitting}
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

    def _meant(self, name: str, kinds: tuple[Kind, ...]) -> str:
        """The last part of a long name counts: packages are long, and all alike."""
        there = [one for each in self.all(*kinds) for one in each.names()]
        found = near(name, there) or near(name.rpartition(".")[2], there)
        return f". Did you mean {found}?" if found else ""

    def connector(self, name: str) -> type[Connector]:
        return self.find(name, *CONNECTORS).load()

    def new(self, name: str, *kinds: Kind) -> Any:
        return self.find(name, *kinds).new()


def _interface(kinds: tuple[Kind, ...]) -> str:
    return INTERFACES[kinds[0]] if kinds else "Plugin"


def _listed(plugins: Iterable[Plugin]) -> str:
    return ", ".join(str(each) for each in plugins)


def _imported(name: str, kinds: tuple[Kind, ...]) -> Plugin | None:
    """A class that no entry point tells of, by where it lies: `module:Class` or `module.Class`."""
    module, colon, qualified = name.partition(":")
    if not colon:
        module, _, qualified = name.rpartition(".")
    if not module:
        return None
    try:
        found = loaded(f"{module}:{qualified}")
    except (ImportError, AttributeError, ValueError):
        return None
    for kind in kinds or tuple(Kind):
        if isinstance(found, type) and issubclass(found, CLASSES[kind]):
            return Plugin(kind, f"{module}.{qualified}", f"{module}:{qualified}")
    return None


@cache
def discovered() -> tuple[Plugin, ...]:
    """Once in a process: distributions do not come and go while it runs."""
    return (*in_the_box(), *from_entry_points())


def from_entry_points() -> Iterator[Plugin]:
    found = entry_points()  # reads the files of all distributions, for one group as for all
    for group, kinds in GROUPS.items():
        for point in found.select(group=group):
            yield from _of_point(point, kinds)


def _of_point(point: EntryPoint, kinds: tuple[Kind, ...]) -> Iterator[Plugin]:
    """One that can't be loaded is told of, and does no harm to the others."""
    try:
        found = point.load()
    except Exception:
        log.exception("the plugin %s of %s can't be loaded", point.name, _named(point))
        return
    fitting = [k for k in kinds if isinstance(found, type) and issubclass(found, CLASSES[k])]
    if not fitting:
        log.error("%s is named by %s but is no %s", point.value, point.group, INTERFACES[kinds[0]])
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
