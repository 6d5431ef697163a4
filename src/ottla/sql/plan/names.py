"""Name resolution: the source of each column in a query.

In a bound expression all columns are qualified, `ALIAS.NAME`, so that expressions can be compared
by comparing their trees.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

from sqlglot import exp

from ottla.rows.errors import SqlError
from ottla.rows.schema import PSEUDO_COLUMNS, WINDOW_BOUNDS
from ottla.rows.types import SqlType
from ottla.sql.catalog import Catalog, DataSource
from ottla.sql.expressions import Scope, typed
from ottla.sql.syntax.statements import Expression, QueryBody, Relation
from ottla.sql.text import Text, column

JOIN_KEY: Final = "ROWKEY"
MADE: Final = ""
"""The relation of columns that a stage computes: groups, aggregates, window bounds."""


@dataclass(frozen=True, slots=True)
class AliasedSource:
    """A source and its alias. `columns` are those of the schema, without pseudo columns."""

    alias: str
    source: DataSource

    @property
    def columns(self) -> dict[str, SqlType]:
        return {column.name: column.type for column in self.source.schema.columns}

    @property
    def pseudo_columns(self) -> dict[str, SqlType]:
        return {**PSEUDO_COLUMNS, **(WINDOW_BOUNDS if self.source.is_windowed else {})}

    def type_of(self, name: str) -> SqlType | None:
        return self.columns.get(name) or self.pseudo_columns.get(name)


@dataclass(frozen=True, slots=True)
class QueryNames:
    """The relations of a query, and computed columns, which have no relation."""

    relations: tuple[AliasedSource, ...]
    made: dict[str, SqlType] = field(default_factory=dict)
    spark: bool = True
    """Spark must be able to compute all expressions, in addition to Python."""

    def find(self, alias: str) -> AliasedSource | None:
        return next((relation for relation in self.relations if relation.alias == alias), None)

    @property
    def joined(self) -> bool:
        return len(self.relations) > 1

    @property
    def join_key(self) -> str:
        """The name of a join's key that equals no column, because either side may be missing or is
        joined by an expression: ROWKEY, or ROWKEY_1 and so on if a source has that column."""
        taken = {name for relation in self.relations for name in relation.columns}
        choices = itertools.chain([JOIN_KEY], (f"{JOIN_KEY}_{n}" for n in itertools.count(1)))
        return next(choice for choice in choices if choice not in taken)

    def clashes(self, name: str) -> bool:
        """True if several relations have a column of this name."""
        return sum(relation.type_of(name) is not None for relation in self.relations) > 1

    def type_of(self, alias: str, name: str) -> SqlType:
        if alias == MADE:
            return self.made[name]
        relation = self.find(alias)
        found = relation.type_of(name) if relation else None
        assert found is not None, (alias, name)
        return found

    def bind(self, expression: Expression, clause: str) -> Expression:
        """Qualify all columns of an expression; SqlError for an unknown name.

        Outer parentheses are dropped, so that `(a + b)` equals `a + b`.
        """
        bare = expression
        while isinstance(bare, exp.Paren):
            bare = bare.this
        return _bind(bare.copy(), self, clause, frozenset())

    def resolve(self, column: exp.Column, clause: str) -> Expression:
        name, qualifier = column.name, column.table
        if qualifier:
            relation = self.find(qualifier)
            if relation is None and self._has(qualifier):
                raise _unresolved(column, f"{qualifier}.{name}", clause, _struct_hint(column))
            if relation is None:
                there = ", ".join(relation.alias for relation in self.relations)
                raise _at(
                    column,
                    f"'{qualifier}' is not a valid stream/table name or alias.",
                    f"Names in this query: {there}.",
                )
            if name in self.made and name in WINDOW_BOUNDS:
                return reference(MADE, name)
            if relation.type_of(name) is None:
                raise _unresolved(column, f"{qualifier}.{name}", clause, self._near(name))
            return reference(qualifier, name)
        if name in self.made:
            return reference(MADE, name)
        having = [relation for relation in self.relations if relation.type_of(name) is not None]
        if not having:
            raise _unresolved(column, name, clause, self._near(name))
        if len(having) > 1:
            choices = " or ".join(f"{relation.alias}.{name}" for relation in having)
            raise _at(
                column,
                f"Column '{name}' is ambiguous. Could be {choices}.",
                "Qualify the column with the name of its source.",
            )
        return reference(having[0].alias, name)

    def _has(self, name: str) -> bool:
        return any(relation.type_of(name) is not None for relation in self.relations)

    def _near(self, name: str) -> str:
        import difflib

        there = [column for relation in self.relations for column in relation.columns]
        close = difflib.get_close_matches(name, there, 1)
        if close:
            return f"Did you mean {close[0]}?"
        return f"Available columns: {', '.join(dict.fromkeys(there))}."


def names_of(query: QueryBody, catalog: Catalog) -> QueryNames:
    """The names of a query, with its relations from the catalog."""
    assert query.source is not None
    relations: list[AliasedSource] = []
    for relation in (query.source, *(join.relation for join in query.joins)):
        found = AliasedSource(relation.alias or relation.name, _find(catalog, relation))
        if any(found.alias == other.alias for other in relations):
            raise SqlError(
                f"Sources of a query need distinct names: {found.alias} is used twice.",
                remedy=f"Add an alias: {relation.name} AS {found.alias}2.",
                line=relation.line,
                column=relation.column,
            )
        relations.append(found)
    return QueryNames(tuple(relations))


def _find(catalog: Catalog, relation: Relation) -> DataSource:
    return catalog.find(relation.name, line=relation.line, column=relation.column)


# -- expressions


def reference(alias: str, name: str) -> exp.Column:
    table = exp.Identifier(this=alias, quoted=False) if alias else None
    return exp.Column(this=exp.Identifier(this=name, quoted=False), table=table)


def _bind(node: Expression, names: QueryNames, clause: str, own: frozenset[str]) -> Expression:
    """`own` are the parameters of enclosing lambdas."""
    if isinstance(node, exp.Column):
        if not node.table and node.name in own:
            return node
        return _placed(names.resolve(node, clause), node)
    if isinstance(node, exp.Lambda):
        own |= {expression.name for expression in node.expressions}
        node.set("this", _bind(node.this, names, clause, own))
        return node
    return with_children(node, lambda child: _bind(child, names, clause, own))


def with_children(node: Expression, change: Callable[[Expression], Expression]) -> Expression:
    """Apply `change` to each child of the node."""
    for key, value in list(node.args.items()):
        if isinstance(value, list):
            node.set(key, [change(e) if isinstance(e, exp.Expression) else e for e in value])
        elif isinstance(value, exp.Expression) and not isinstance(value, exp.Identifier):
            node.set(key, change(value))
    return node


def _placed(new: Expression, old: Expression) -> Expression:
    new.meta.update(old.meta)
    return new


def replaced(node: Expression, change: Callable[[Expression], Expression | None]) -> Expression:
    """A copy in which each subtree for which `change` returns a node is replaced by it."""
    found = change(node)
    if found is not None:
        return _placed(found.copy(), node)
    copy = node.copy()
    if isinstance(copy, exp.Column | exp.Identifier):
        return copy
    return with_children(copy, lambda child: replaced(child, change))


def columns_in(expression: Expression) -> Iterator[tuple[str, str]]:
    """(relation, name) of each bound column; parameters of lambdas are left out."""
    yield from _columns_in(expression, frozenset())


def _columns_in(node: Expression, own: frozenset[str]) -> Iterator[tuple[str, str]]:
    if isinstance(node, exp.Column):
        if node.table or node.name not in own:
            yield node.table, node.name
        return
    if isinstance(node, exp.Lambda):
        own |= {expression.name for expression in node.expressions}
    for child in node.iter_expressions():
        yield from _columns_in(child, own)


def scope_of(
    names: QueryNames,
    text: Callable[[str, str], Text],
    columns: Iterator[tuple[str, str]] | None = None,
) -> Scope:
    """The scope of an expression. `text` gets relation and name of a column."""
    wanted = columns if columns is not None else _all(names)
    known = {reference: (names.type_of(*reference), text(*reference)) for reference in wanted}
    return Scope(known, spark=names.spark)


def _all(names: QueryNames) -> Iterator[tuple[str, str]]:
    for relation in names.relations:
        for name in (*relation.columns, *relation.pseudo_columns):
            yield relation.alias, name
    for name in names.made:
        yield MADE, name


def plain_text(_: str, name: str) -> Text:
    """The text of a column of a query with one source."""
    return column(name)


def check_boolean(expression: Expression, scope: Scope, clause: str, text: str) -> None:
    found = typed(expression, scope)
    if str(found) != "BOOLEAN":
        raise _at(
            expression,
            f"Type mismatch in {clause} expression: Should evaluate to boolean but is {text}"
            f" ({found}) instead.",
            f"Write a comparison: {clause} {text} = ...",
        )


def _unresolved(node: Expression, name: str, clause: str, remedy: str) -> SqlError:
    return _at(node, f"{clause} column '{name}' cannot be resolved.", remedy)


def _struct_hint(column: exp.Column) -> str:
    return f"Use an arrow for the field of a STRUCT: {column.table}->{column.name}."


def _at(node: Expression, message: str, remedy: str) -> SqlError:
    meta = next((child.meta for child in node.walk() if "line" in child.meta), {})
    return SqlError(
        message, remedy=remedy, line=int(meta.get("line", 0)), column=int(meta.get("col", 0))
    )


at = _at
