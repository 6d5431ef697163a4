"""Tables in a graph: their stores, and the nodes of their changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from ottla.engine.stores import StoreKind
from ottla.engine.table_processors import KTableSourceProcessor
from ottla.engine.windowed_serdes import SessionWindowed
from ottla.rows.schema import Layout
from ottla.rows.types import spark_name
from ottla.sql.lowering.row_serdes import StoredRowSerde, StoreKeySerde
from ottla.sql.text import Text

if TYPE_CHECKING:
    from ottla.sql.lowering.graph_builder import GraphBuilder


@dataclass(frozen=True, slots=True)
class TableNode:
    """A node whose output is the changes of a table.

    `names` are the names of the key columns in texts over its rows; `row` are all columns.
    """

    node: str
    names: tuple[str, ...]
    row: tuple[str, ...]


def source_table(
    made: GraphBuilder,
    name: str,
    parent: str,
    row: Sequence[str],
    *,
    windowed: bool = False,
    immutable: bool = False,
) -> str:
    """Turn rows into changes with a store, `<name>-store`, which has the old row of each key."""
    key = SessionWindowed(StoreKeySerde()) if windowed else StoreKeySerde()
    value = StoredRowSerde(row, immutable=immutable)
    spec = made.store(f"{name}-store", StoreKind.TIMESTAMPED_KEY_VALUE, key, value)
    step = partial(KTableSourceProcessor, spec, old_values=True)
    return made.node(name, step, [parent], [spec.name])


def is_key(texts: Sequence[Text], layout: Layout) -> bool:
    """True if the topic is already keyed by these texts."""
    names = [spark_name(column.name) for column in layout.schema.key]
    return layout.windowed is None and [text.spark for text in texts] == names
