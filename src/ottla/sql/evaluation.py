"""Evaluation of expressions: compiles their Python texts into one function of a row.

    where, name = compiled([plan.where.python, "UCASE_0(row['NAME'])"])({"NAME": "x", ...})

A text is an expression over `row`. It calls operators (`ottla.sql.python_operators`) and SQL
functions by name and signature: `UCASE_0` is the first signature of UCASE. Calls that depend on
types alone are made once, at compile time: `converter('INTEGER', 'STRING')` is replaced by the
function that it returns.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from ottla.rows.errors import SqlError
from ottla.sql.conversions import type_of
from ottla.sql.functions import BUILTIN, FunctionRegistry
from ottla.sql.python_operators import OPERATORS, PYTHON_OPERATOR_MAKERS

Evaluation: TypeAlias = Callable[[Any], tuple[Any, ...]]
MakeRow: TypeAlias = Callable[[Any], dict[str, Any]]
EvaluateEach: TypeAlias = Callable[[Iterable[Any]], list[Any]]
Place: TypeAlias = int | tuple[str, int | None]
EACH: Final = ("row_key", "row_value", "row_time")
"""The variables of a record: the tuple of its key, of its value, and its timestamp."""
BUILTINS: Final[dict[str, Any]] = {}
"""Texts can't call Python's builtins."""
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
"""The nodes that texts may contain. Texts are made from users' statements: should one of them break
out of its quotes, it must not reach anything. So there are no attributes, which could lead from a
value to Python's classes, no loops and no assignments."""


def compiled(
    texts: Sequence[str],
    functions: FunctionRegistry = BUILTIN,
    *,
    places: Mapping[str, int] | None = None,
) -> Evaluation:
    """A function that returns the values of all texts for a row, in order.

    With `places` a row is a tuple, and `places` has the index of each column.
    """
    made: Evaluation = _compiled(_tuple(texts), functions, places)
    return made


def compiled_row(columns: Sequence[tuple[str, str]]) -> MakeRow:
    """A function that returns a new row; each column has a name and a text."""
    made: MakeRow = _compiled(_dict(columns), BUILTIN)
    return made


def compiled_keyed_row(
    keys: Sequence[str], columns: Sequence[tuple[str, str]], places: Mapping[str, int]
) -> Callable[[tuple[Any, ...]], tuple[tuple[Any, ...], dict[str, Any]]]:
    """A function that returns key and row at once; its argument is a tuple, indexed by `places`."""
    made: Callable[[tuple[Any, ...]], tuple[tuple[Any, ...], dict[str, Any]]] = _compiled(
        f"({_tuple(keys)}, {_dict(columns)})", BUILTIN, places
    )
    return made


def compiled_each(
    texts: Sequence[str], *, places: Mapping[str, tuple[str, int | None]] | None = None
) -> EvaluateEach:
    """Like `compiled`, for many rows at once: the function takes them and returns a list of tuples.

    With `places` a row is a tuple of `EACH`, and a column is one of these, or an item of it.
    """
    return _compiled_each(_tuple(texts), places)


def compiled_row_each(
    columns: Sequence[tuple[str, str]],
    *,
    places: Mapping[str, tuple[str, int | None]] | None = None,
) -> EvaluateEach:
    """Like `compiled_each`, with a list of new rows."""
    return _compiled_each(_dict(columns), places)


def _compiled_each(body: str, places: Mapping[str, tuple[str, int | None]] | None) -> EvaluateEach:
    each = "row" if places is None else f"({', '.join(EACH)})"
    made: EvaluateEach = _compiled(body, BUILTIN, places, around=f"[0 for {each} in rows]")
    return made


def _tuple(texts: Sequence[str]) -> str:
    return f"({''.join(f'{text}, ' for text in texts)})"


def _dict(columns: Sequence[tuple[str, str]]) -> str:
    return f"{{{''.join(f'{name!r}: {text}, ' for name, text in columns)}}}"


def _compiled(
    body: str,
    functions: FunctionRegistry,
    places: Mapping[str, Place] | None = None,
    *,
    around: str = "",
) -> Any:
    """`around`: a list comprehension over `rows`, whose element is replaced by the body."""
    tree = ast.parse(f"lambda row: {body}", mode="eval")
    _check(tree)
    if places is not None:
        tree = _Places(places).visit(tree)
    names = _Names(functions)
    linked = names.visit(tree)
    if around:
        outer: Any = ast.parse(f"lambda rows: {around}", mode="eval")
        outer.body.body.elt = linked.body.body
        linked = outer
    code = compile(ast.fix_missing_locations(linked), "<sql>", "eval")
    return eval(code, {"__builtins__": BUILTINS, **names.found})


def _check(tree: ast.Expression) -> None:
    for node in ast.walk(tree):
        if not isinstance(node, ALLOWED):
            raise SqlError(f"Not allowed in an expression: {type(node).__name__}.")


class _Places(ast.NodeTransformer):
    """`row['NAME']` becomes `row[3]`, or what else its place says."""

    def __init__(self, places: Mapping[str, Place]) -> None:
        self._places = places

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        match node:
            case ast.Subscript(value=ast.Name(id="row"), slice=ast.Constant(value=str() as name)):
                place = self._places[name]
                if isinstance(place, int):
                    return ast.Subscript(node.value, ast.Constant(place), node.ctx)
                of, index = place
                found = ast.Name(of, ast.Load())
                return (
                    found if index is None else ast.Subscript(found, ast.Constant(index), node.ctx)
                )
        return self.generic_visit(node)


class _Names(ast.NodeTransformer):
    """Resolves the names of a text, and replaces calls that make functions by these functions."""

    def __init__(self, functions: FunctionRegistry) -> None:
        self.functions = functions
        self.found: dict[str, Any] = {}
        self._made: dict[str, str] = {}

    def visit_Call(self, node: ast.Call) -> ast.AST:
        constant = [argument.value for argument in node.args if isinstance(argument, ast.Constant)]
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        if name in PYTHON_OPERATOR_MAKERS:
            assert len(constant) == len(node.args), ast.unparse(node)
            return self._kept(ast.unparse(node), lambda: PYTHON_OPERATOR_MAKERS[name](*constant))
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
        """`ARRAY_JOIN_0('STRING', 'ARRAY<INTEGER>')(...)`: make the inner call, whose arguments
        are types."""
        inner = node.func
        assert isinstance(inner, ast.Call)
        assert isinstance(inner.func, ast.Name)
        name = inner.func.id
        if name in PYTHON_OPERATOR_MAKERS:
            return
        texts = [ast.literal_eval(argument) for argument in inner.args]
        types = [None if text is None else type_of(text) for text in texts]
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
            raise SqlError(f"Function '{function}' has no implementation in Python.")
        return found
