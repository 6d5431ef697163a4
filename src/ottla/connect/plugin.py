"""A plugin: a class that configs can name, imported when it is needed."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

import ottla

UNDEFINED: Final = "undefined"


class PluginType(Enum):
    """The values are REST's."""

    SOURCE = "source"
    SINK = "sink"
    CONVERTER = "converter"
    HEADER_CONVERTER = "header_converter"
    TRANSFORM = "transformation"
    PREDICATE = "predicate"


# The interface's name in Kafka, for error messages.
INTERFACES: Final = {
    PluginType.SOURCE: "Connector",
    PluginType.SINK: "Connector",
    PluginType.CONVERTER: "Converter",
    PluginType.HEADER_CONVERTER: "HeaderConverter",
    PluginType.TRANSFORM: "Transformation",
    PluginType.PREDICATE: "Predicate",
}


@dataclass(frozen=True, slots=True)
class Plugin:
    kind: PluginType
    name: str  # what REST shows: Kafka's class name where there is one
    target: str  # "module:Class"
    aliases: tuple[str, ...] = ()
    distribution: str = "ottla"
    distribution_version: str = UNDEFINED

    def load(self) -> type[Any]:
        found = load_target(self.target)
        assert isinstance(found, type), f"{self.target} is not a class"
        return found

    def new(self) -> Any:
        return self.load()()

    @property
    def version(self) -> str:
        """The class's own version, or the version of its distribution."""
        try:
            said = str(self.new().version())
        except Exception:  # e.g. a driver is missing: the plugin is still listed
            said = UNDEFINED
        if said != UNDEFINED:
            return said
        return ottla.__version__ if self.distribution == "ottla" else self.distribution_version

    @property
    def simple_name(self) -> str:
        """Java's: without the package; `InsertField$Value` for a nested class."""
        return self.name.rpartition(".")[2]

    def names(self) -> set[str]:
        """All names that a config may use for it."""
        simple = self.simple_name
        module, _, qualified = self.target.partition(":")
        names = {self.name, simple, self.target, f"{module}.{qualified}", *self.aliases}
        for known in (simple, *self.aliases):
            for suffix in {INTERFACES[self.kind], INTERFACES[self.kind].removeprefix("Header")}:
                names |= {known[: known.rfind(suffix)]} if known.rfind(suffix) > 0 else set()
        return names

    def __str__(self) -> str:
        """As Kafka lists them in its messages."""
        return (
            f"PluginDesc{{klass=class {self.name}, name='{self.name}', version='{self.version}', "
            f"encodedVersion={self.version}, type={self.kind.value}, "
            f"typeName='{self.kind.value}', location='{self.distribution}'}}"
        )


def load_target(target: str) -> Any:
    """`module:Class`, or a nested class: `module:Outer.Inner`."""
    module, _, qualified = target.partition(":")
    found: Any = importlib.import_module(module)
    for name in qualified.split("."):
        found = getattr(found, name)
    return found
