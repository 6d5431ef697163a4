"""Helpers for tests of topologies: strings in, strings out."""

from __future__ import annotations

from typing import Any

from ottla.streams import Serde, String, Topology, TopologyTestDriver

Pairs = list[tuple[Any, Any]]


def strings() -> Topology:
    """A topology whose keys and values are strings, unless it says otherwise."""
    return Topology(key=String(), value=String())


def outcome(
    topology: Topology,
    pairs: Pairs,
    *,
    source: str = "in",
    sink: str = "out",
    key: Serde[Any] | None = None,
    value: Serde[Any] | None = None,
    caching: bool = True,
) -> Pairs:
    """The output in `out` for these pairs in `in`."""
    with TopologyTestDriver(topology, caching=caching) as driver:
        driver.create_input_topic(source, String(), String()).pipe_key_value_list(pairs)
        topic = driver.create_output_topic(sink, key or String(), value or String())
        return topic.read_key_values_to_list()
