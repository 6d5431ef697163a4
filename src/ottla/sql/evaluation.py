"""Python texts of expressions, compiled: one function of a row for all of them.

    where, name = compiled([plan.where.python, "UCASE_0(row['NAME'])"])({"NAME": "x", ...})

A text is an expression over `row`. It calls operators (`ottla.sql.python_operators`) and functions
of the SQL by name and signature: `UCASE_0` is the first signature of UCASE. What depends on types
alone is done once, here: `converter('INTEGER', 'STRING')` becomes the function that it gives.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from ottla.rows.errors import SqlError
from ottla.sql.conversions import type_of
from ottla.sql.functions import BUILTIN, Functions
from ottla.sql.python_operators import MAKERS, OPERATORS

Evaluate: TypeAlias = Callable[[Any], tuple[Any, ...]]
MakeRow: TypeAlias = Callable[[Any], dict[str, Any]]
BUILTINS: Final[dict[str, Any]] = {}
"""A text calls nothing of Python's own."""
ALLOWED: Final = (
    ast.Expression,
    ast.Lambda,
    ast.arguments,
    ast.arg,
    ast.Name,
    ast.Load,
    ast.Constant,
    ast.Call,
    ast.Subscript,
    ast.Tuple,
    ast.List,
    ast.Dict,
    ast.IfExp,
    ast.BoolOp,
    ast.boolop,
    ast.UnaryOp,
    ast.unaryop,
    ast.Compare,
    ast.cmpop,
)
"""All that texts are made of. No attributes, so that no value leads to Python's own classes; no
loops, no names that are bound. Texts are made from statements of users: should one of them find a
way out of its quotes, there is nothing here that it could reach."""


def compiled(
    texts: Sequence[str],
    functions: Functions = BUILTIN,
    *,
    places: Mapping[str, int] | None = None,
) -> Evaluate:
    """A function that gives the values of all texts for a row, in their order.

    With `places` a row is a tuple, and these are the places of its columns.
    """
    made: Evaluate = _compiled(_tuple(texts), functions, places)
    return made


def compiled_row(columns: Sequence[tuple[str, str]], functions: Functions = BUILTIN) -> MakeRow:
    """A function that gives a new row of these columns, each with its text."""
    made: MakeRow = _compiled(_dict(columns), functions)
    return made


def compiled_keyed_row(
    keys: Sequence[str], columns: Sequence[tuple[str, str]], places: Mapping[str, int]
) -> Callable[[tuple[Any, ...]], tuple[tuple[Any, ...], dict[str, Any]]]:
    """A function that gives key and row at once, of a tuple whose columns are at these places."""
    made: Callable[[tuple[Any, ...]], tuple[tuple[Any, ...], dict[str, Any]]] = _compiled(
        f"({_tuple(keys)}, {_dict(columns)})", BUILTIN, places
    )
    return made


def _tuple(texts: Sequence[str]) -> str:
    return f"({''.join(f'{each}, ' for each in texts)})"


def _dict(columns: Sequence[tuple[str, str]]) -> str:
    return f"{{{''.join(f'{name!r}: {text}, ' for name, text in columns)}}}"


def _compiled(body: str, functions: Functions, places: Mapping[str, int] | None = None) -> Any:
    tree = ast.parse(f"lambda row: {body}", mode="eval")
    _check(tree)
    if places is not None:
        tree = _Places(places).visit(tree)
    names = _Names(functions)
    linked = ast.fix_missing_locations(names.visit(tree))
    code = compile(linked, "<sql>", "eval")
    return eval(code, {"__builtins__": BUILTINS, **names.found})


def _check(tree: ast.Expression) -> None:
    for node in ast.walk(tree):
        if not isinstance(node, ALLOWED):
            raise SqlError(f"No expression of the SQL has a {type(node).__name__}.")


class _Places(ast.NodeTransformer):
    """`row['NAME']` becomes `row[3]`."""

    def __init__(self, places: Mapping[str, int]) -> None:
        self._places = places

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        match node:
            case ast.Subscript(value=ast.Name(id="row"), slice=ast.Constant(value=str() as name)):
                return ast.Subscript(node.value, ast.Constant(self._places[name]), node.ctx)
        return self.generic_visit(node)


class _Names(ast.NodeTransformer):
    """Finds what the names of a text stand for, and calls those that make functions."""

    def __init__(self, functions: Functions) -> None:
        self.functions = functions
        self.found: dict[str, Any] = {}
        self._made: dict[str, str] = {}

    def visit_Call(self, node: ast.Call) -> ast.AST:
        constant = [each.value for each in node.args if isinstance(each, ast.Constant)]
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        if name in MAKERS:
            assert len(constant) == len(node.args), ast.unparse(node)
            return self._kept(ast.unparse(node), lambda: MAKERS[name](*constant))
        if isinstance(node.func, ast.Call) and isinstance(node.func.func, ast.Name):
            self._keep_typed(node)
        return self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        name = node.id
        if name in OPERATORS:
            self.found[name] = OPERATORS[name]
        elif name.isupper() and name not in self.found:
            self.found[name] = self._form(name).safe()
        return node

    def _keep_typed(self, node: ast.Call) -> None:
        """`ARRAY_JOIN_0('STRING', 'ARRAY<INTEGER>')(...)`: the inner call is by types."""
        inner = node.func
        assert isinstance(inner, ast.Call)
        assert isinstance(inner.func, ast.Name)
        name = inner.func.id
        if name in MAKERS:
            return
        texts = [ast.literal_eval(each) for each in inner.args]
        types = [None if each is None else type_of(each) for each in texts]
        node.func = self._kept(ast.unparse(inner), lambda: self._form(name).safe(*types))

    def _kept(self, text: str, make: Callable[[], Any]) -> ast.Name:
        if text not in self._made:
            name = f"made_{len(self._made)}"
            self._made[text] = name
            self.found[name] = make()
        return ast.Name(self._made[text], ast.Load())

    def _form(self, name: str) -> Any:
        function, _, place = name.rpartition("_")
        found = self.functions.get(function).signatures[int(place)].python
        if found is None:
            raise SqlError(f"Function '{function}' has no Python form.")
        return found
