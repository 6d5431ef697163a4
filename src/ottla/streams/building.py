"""What every operation of the DSL does when it is called: names, nodes, stores, repartitions.

Names are counted as Kafka counts them, so that `describe()` of the same topology is the same text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

from ottla.client.serde import Serde
from ottla.engine.graph import (
    Graph,
    Node,
    Partitioner,
    ProcessorNode,
    Repartition,
    Supplier,
    TopologyError,
)
from ottla.engine.serdes import Pickle
from ottla.engine.stateless import Pass, WithKey
from ottla.engine.stores import StoreKind, StoreSpec

GENERATED: Final = re.compile(r"KSTREAM.*-[0-9]{10}")
VALID: Final = re.compile(r"[a-zA-Z0-9._-]{1,249}")


class Builder:
    """A graph that is being written. `key` and `value` are for whatever names no serde."""

    def __init__(self, key: Serde[Any] | None = None, value: Serde[Any] | None = None) -> None:
        self.graph = Graph()
        self.key = key
        self.value = value
        self._count = 0

    def new_name(self, prefix: str, name: str | None = None) -> str:
        """The name that was asked for, or the prefix with the next number.

        As in Kafka the number is taken either way: a name that is given to one operation does not
        change those of the operations behind it.
        """
        self._count += 1
        return f"{prefix}{self._count - 1:010d}" if name is None else checked_name(name)

    def new_store_name(self, prefix: str, name: str | None = None) -> str:
        """Here no number is taken if there is a name."""
        return self.new_name(f"{prefix}STATE-STORE-") if name is None else checked_name(name)

    def add(self, node: Node) -> str:
        self.graph.add(node)
        return node.name

    def processor(
        self,
        name: str,
        supplier: Supplier,
        parents: Iterable[str],
        *,
        stores: Iterable[StoreSpec] = (),
        connected: Iterable[str | StoreSpec] = (),
        pure: bool = True,
        custom: bool = False,
    ) -> str:
        """A node with the stores that it brings, and with those of others."""
        specs = [*stores, *(each for each in connected if isinstance(each, StoreSpec))]
        names = [each for each in connected if isinstance(each, str)]
        for spec in specs:
            self.graph.add_store(spec)
        node = ProcessorNode(name, supplier, list(parents), pure=pure, custom=custom)
        self.graph.add(node)
        self.graph.connect(name, [*(spec.name for spec in specs), *names])
        return name

    def repartition(
        self,
        parent: str,
        prefix: str,
        key: Serde[Any] | None,
        value: Serde[Any] | None,
        *,
        partitions: int | None = None,
        partitioner: Partitioner | None = None,
        asked: bool = False,
        keyless: bool = False,
    ) -> str:
        """Filter, sink, topic and source; the name of the source, where the stream goes on.

        `keyless`: records without key go on, too: a left join gives results for them (KIP-962).
        """
        topic = prefix if prefix.endswith("-repartition") else f"{prefix}-repartition"
        # Kafka takes the numbers whether it uses them or not.
        sink, present, source = (
            self.new_name(kind) for kind in ("KSTREAM-SINK-", "KSTREAM-FILTER-", "KSTREAM-SOURCE-")
        )
        if not GENERATED.fullmatch(prefix):
            sink, present, source = f"{topic}-sink", f"{topic}-filter", f"{topic}-source"
        if source in self.graph.nodes:  # a grouping with a name of its own, used a second time
            return source
        self.processor(present, Pass if keyless else WithKey, [parent])
        node = Repartition(
            source,
            sink,
            topic,
            self.key_serde(key, f"the repartition topic {topic}"),
            self.inner_value(value),
            [present],
            partitions=partitions,
            partitioner=partitioner,
            asked=asked,
        )
        return self.add(node)

    def store(
        self,
        prefix: str,
        name: str | None,
        key: Serde[Any] | None,
        value: Serde[Any] | None,
        *,
        kind: StoreKind = StoreKind.TIMESTAMPED_KEY_VALUE,
        retention_ms: int | None = None,
        window_ms: int | None = None,
        duplicates: bool = False,
        cached: bool = True,
        changelog: bool = True,
    ) -> StoreSpec:
        """Only a store that was given a name can be asked from outside: it has a changelog."""
        made = self.new_store_name(prefix, name)
        return StoreSpec(
            made,
            kind,
            self.key_serde(key, f"the store {made}"),
            self.inner_value(value),
            retention_ms=retention_ms,
            window_ms=window_ms,
            duplicates=duplicates,
            changelog=changelog and name is not None,
            cached=cached,
        )

    def key_serde(self, key: Serde[Any] | None, where: str) -> Serde[Any]:
        return self._given(key, self.key, "key", where).configured({}, is_key=True)

    def value_serde(self, value: Serde[Any] | None, where: str) -> Serde[Any]:
        return self._given(value, self.value, "value", where)

    def inner_value(self, value: Serde[Any] | None) -> Serde[Any]:
        """In stores and between sub-topologies nobody else reads: any Python value will do."""
        return value or self.value or Pickle()

    def outside(self, value: Serde[Any]) -> Serde[Any] | None:
        """What a topic of others may be written with: pickles only if they are asked for there."""
        return None if isinstance(value, Pickle) else value

    def _given(
        self, given: Serde[Any] | None, default: Serde[Any] | None, what: str, where: str
    ) -> Serde[Any]:
        found = given or default
        if found is None:
            raise TopologyError(
                f"nothing says how a {what} becomes bytes in {where}: give {what}=..., "
                f"for instance {what}=String(), there or to Topology()"
            )
        return found


def checked_name(name: str) -> str:
    if not VALID.fullmatch(name):
        raise TopologyError(
            f'Name "{name}" is illegal: letters, digits, ., _ and - are allowed, up to 249 of them'
        )
    return name
