"""One plugin: a class that can be named in a config, loaded when it is needed."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

import ottla

UNDEFINED: Final = "undefined"


class Kind(Enum):
    """The value is what REST calls it."""

    SOURCE = "source"
    SINK = "sink"
    CONVERTER = "converter"
    HEADER_CONVERTER = "header_converter"
    TRANSFORM = "transformation"
    PREDICATE = "predicate"


# The name of the interface in Kafka, which its messages tell.
INTERFACES: Final = {
    Kind.SOURCE: "Connector",
    Kind.SINK: "Connector",
    Kind.CONVERTER: "Converter",
    Kind.HEADER_CONVERTER: "HeaderConverter",
    Kind.TRANSFORM: "Transformation",
    Kind.PREDICATE: "Predicate",
}


@dataclass(frozen=True, slots=True)
class Plugin:
    kind: Kind
    name: str  # what REST shows: Kafka's class name where there is one
    target: str  # "module:Class"
    aliases: tuple[str, ...] = ()
    distribution: str = "ottla"
    distribution_version: str = UNDEFINED

    def load(self) -> type[Any]:
        found = loaded(self.target)
        assert isinstance(found, type), f"{self.target} is no class"
        return found

    def new(self) -> Any:
        return self.load()()

    @property
    def version(self) -> str:
        """What the class says; else the version of the distribution that it came with."""
        try:
            said = str(self.new().version())
        except Exception:  # it can't be made here, say for want of a driver: it is listed still
            said = UNDEFINED
        if said != UNDEFINED:
            return said
        return ottla.__version__ if self.distribution == "ottla" else self.distribution_version

    @property
    def simple_name(self) -> str:
        """Java's: without the package; `InsertField$Value` for a nested class."""
        return self.name.rpartition(".")[2]

    def names(self) -> set[str]:
        """All that it may be called in a config."""
        simple = self.simple_name
        module, _, qualified = self.target.partition(":")
        names = {self.name, simple, self.target, f"{module}.{qualified}", *self.aliases}
        for one in (simple, *self.aliases):
            for suffix in {INTERFACES[self.kind], INTERFACES[self.kind].removeprefix("Header")}:
                names |= {one[: one.rfind(suffix)]} if one.rfind(suffix) > 0 else set()
        return names

    def __str__(self) -> str:
        """As Kafka lists them in its messages."""
        return (
            f"PluginDesc{{klass=class {self.name}, name='{self.name}', version='{self.version}', "
            f"encodedVersion={self.version}, type={self.kind.value}, "
            f"typeName='{self.kind.value}', location='{self.distribution}'}}"
        )


def loaded(target: str) -> Any:
    """`module:Class`, or a class inside of a class: `module:Outer.Inner`."""
    module, _, qualified = target.partition(":")
    found: Any = importlib.import_module(module)
    for name in qualified.split("."):
        found = getattr(found, name)
    return found
