"""The builder below the DSL: names, nodes, stores and repartitions.

It numbers names as Kafka does, so `describe()` of the same topology returns the same text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

from ottla.client.serde import Serde
from ottla.engine.graph import (
    Graph,
    Node,
    ProcessorNode,
    ProcessorSupplier,
    RepartitionNode,
    StreamPartitioner,
    TopologyError,
)
from ottla.engine.stateless import KStreamPassThrough, NonNullKeyFilter
from ottla.engine.stores import StoreKind, StoreSpec
from ottla.engine.windowed_serdes import Pickle

GENERATED: Final = re.compile(r"KSTREAM.*-[0-9]{10}")
VALID: Final = re.compile(r"[a-zA-Z0-9._-]{1,249}")


class InternalStreamsBuilder:
    """Builds a graph. `key` and `value` are the default serdes."""

    def __init__(self, key: Serde[Any] | None = None, value: Serde[Any] | None = None) -> None:
        self.graph = Graph()
        self.key = key
        self.value = value
        self._count = 0

    def new_name(self, prefix: str, name: str | None = None) -> str:
        """The given name, or the prefix with the next number.

        As in Kafka, both consume a number, so naming one operation does not change the generated
        names of the following ones.
        """
        self._count += 1
        return f"{prefix}{self._count - 1:010d}" if name is None else checked_name(name)

    def new_store_name(self, prefix: str, name: str | None = None) -> str:
        """Like `new_name`, but a given name consumes no number."""
        return self.new_name(f"{prefix}STATE-STORE-") if name is None else checked_name(name)

    def add(self, node: Node) -> str:
        self.graph.add(node)
        return node.name

    def processor(
        self,
        name: str,
        supplier: ProcessorSupplier,
        parents: Iterable[str],
        *,
        stores: Iterable[StoreSpec] = (),
        connected: Iterable[str | StoreSpec] = (),
        pure: bool = True,
        custom: bool = False,
    ) -> str:
        """Adds a node with its own stores, connected to those of other nodes."""
        specs = [*stores, *(store for store in connected if isinstance(store, StoreSpec))]
        names = [store for store in connected if isinstance(store, str)]
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
        partitioner: StreamPartitioner | None = None,
        explicit: bool = False,
        keyless: bool = False,
    ) -> str:
        """Adds filter, sink, topic and source; returns the source's name.

        `keyless`: keeps records with a null key, which have results in a left join (KIP-962).
        """
        topic = prefix if prefix.endswith("-repartition") else f"{prefix}-repartition"
        # Kafka consumes the numbers whether it uses them or not.
        sink, present, source = (
            self.new_name(kind) for kind in ("KSTREAM-SINK-", "KSTREAM-FILTER-", "KSTREAM-SOURCE-")
        )
        if not GENERATED.fullmatch(prefix):
            sink, present, source = f"{topic}-sink", f"{topic}-filter", f"{topic}-source"
        if source in self.graph.nodes:  # a named grouping that is used a second time
            return source
        self.processor(present, KStreamPassThrough if keyless else NonNullKeyFilter, [parent])
        node = RepartitionNode(
            source,
            sink,
            topic,
            self.key_serde(key, f"the repartition topic {topic}"),
            self.inner_value(value),
            [present],
            partitions=partitions,
            partitioner=partitioner,
            explicit=explicit,
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
        """Only a named store can be queried from outside, so only that has a changelog."""
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
        """For stores and internal topics, which no other application reads: any Python value."""
        return value or self.value or Pickle()

    def outside(self, value: Serde[Any]) -> Serde[Any] | None:
        """The serde for a user's topic: never an implicit Pickle."""
        return None if isinstance(value, Pickle) else value

    def _given(
        self, given: Serde[Any] | None, default: Serde[Any] | None, what: str, where: str
    ) -> Serde[Any]:
        found = given or default
        if found is None:
            raise TopologyError(
                f"no serde for the {what} in {where}: pass {what}=..., "
                f"for instance {what}=String(), there or to Topology()"
            )
        return found


def checked_name(name: str) -> str:
    if not VALID.fullmatch(name):
        raise TopologyError(
            f'Name "{name}" is illegal: letters, digits, ., _ and - are allowed, up to 249 of them'
        )
    return name
