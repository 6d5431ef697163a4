"""Where plugins are found: in the box, and in other distributions by entry points.

    [project.entry-points."ottla.connectors"]
    lines = "my_package.lines:LinesSource"

A plugin is named by its entry point, its class (`LinesSource`), `module.Class` or
`module:Class`, and Kafka's by the names that Kafka has for them; a connector may leave `Connector`
out, as in Kafka. `InsertField$Value` names a nested class, as Java does.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Kind(Enum):
    """The value is what REST calls it; the group is where entry points are looked for."""

    SOURCE = "source"
    SINK = "sink"
    CONVERTER = "converter"
    HEADER_CONVERTER = "header_converter"
    TRANSFORM = "transformation"
    PREDICATE = "predicate"


@dataclass(frozen=True, slots=True)
class Plugin:
    """A class that can be named in a config."""

    kind: Kind
    name: str  # what REST shows: Kafka's class name where there is one
    target: str  # "module:Class"
    aliases: tuple[str, ...] = ()

    def load(self) -> type:
        raise NotImplementedError


class Plugins:
    """All that were found, in this process."""

    def all(self, *kinds: Kind) -> list[Plugin]:
        raise NotImplementedError

    def find(self, name: str, *kinds: Kind) -> Plugin:
        """By any of its names; ConnectException in Kafka's words if there is none."""
        raise NotImplementedError

    def connector(self, name: str) -> type:
        raise NotImplementedError

    def new(self, name: str, *kinds: Kind) -> object:
        raise NotImplementedError
