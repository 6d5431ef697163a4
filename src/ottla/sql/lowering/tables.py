"""Tables in a graph: how they are kept, and what gives their changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from ottla.engine.serdes import SessionWindowed
from ottla.engine.stores import StoreKind
from ottla.engine.table_steps import SourceStep
from ottla.rows.schema import Layout
from ottla.rows.types import spark_name
from ottla.sql.lowering.row_serdes import StoredRow, StoreKey
from ottla.sql.text import Text

if TYPE_CHECKING:
    from ottla.sql.lowering.lower import Lowering


@dataclass(frozen=True, slots=True)
class Changes:
    """A node that gives the changes of a table.

    `names` is what the columns of its key are called in texts over its rows, `row` are all columns.
    """

    node: str
    names: tuple[str, ...]
    row: tuple[str, ...]


def source_table(
    made: Lowering,
    name: str,
    parent: str,
    row: Sequence[str],
    *,
    windowed: bool = False,
    immutable: bool = False,
) -> str:
    """Rows become changes: a store, called `<name>-store`, knows what was there before."""
    key = SessionWindowed(StoreKey()) if windowed else StoreKey()
    value = StoredRow(row, immutable=immutable)
    spec = made.store(f"{name}-store", StoreKind.TIMESTAMPED_KEY_VALUE, key, value)
    step = partial(SourceStep, spec, old_values=True)
    return made.node(name, step, [parent], [spec.name])


def is_key(texts: Sequence[Text], layout: Layout) -> bool:
    """Whether rows lie by this key already."""
    names = [spark_name(each.name) for each in layout.schema.key]
    return layout.windowed is None and [each.spark for each in texts] == names
