"""Python texts of expressions, compiled."""

from __future__ import annotations

import pickle

import pytest

from ottla.rows.errors import SqlError
from ottla.rows.types import INTEGER, STRING
from ottla.sql.evaluation import compiled
from ottla.sql.expressions import Scope, to_text
from ottla.sql.functions import BUILTIN, FunctionRegistry, python_function
from ottla.sql.functions.function_registry import Function, FunctionKind, signature
from ottla.sql.syntax import parse_expression
from ottla.sql.text import column, column_of

SCOPE = Scope(
    {
        ("", "A"): (INTEGER, column("A")),
        ("", "B"): (INTEGER, column_of("left", "B")),
        ("", "S"): (STRING, column("S")),
    }
)


def test_all_expressions_become_one_function_of_a_row() -> None:
    texts = [to_text(parse_expression(text), SCOPE) for text in ("A + 1", "S = 'x'", "B IS NULL")]
    travelled = pickle.loads(pickle.dumps(texts))

    compute = compiled([text.python for text in travelled])

    assert compute({"A": 1, "S": "x", "left": {"B": 2}}) == (2, True, False)
    assert compute({"A": None, "S": None, "left": None}) == (None, False, True)


def test_no_expressions_give_no_values() -> None:
    assert compiled([])({}) == ()


def test_user_functions_are_called() -> None:
    own = FunctionRegistry(
        [python_function(lambda text: text + "!", name="SHOUT", text="STRING t -> STRING")]
    )
    text = to_text(parse_expression("SHOUT(S)"), Scope(SCOPE.columns, functions=own))

    compute = compiled([text.python], own)

    assert compute({"S": "a"}) == ("a!",)
    assert compute({"S": None}) == (None,)


def test_user_functions_are_called_in_lambdas_if_spark_is_not_needed() -> None:
    own = FunctionRegistry(BUILTIN)
    own.include(
        [python_function(lambda number: number + 1, name="NEXT", text="BIGINT n -> BIGINT")]
    )
    node = parse_expression("TRANSFORM(ARRAY[A, 5], x => NEXT(x))")

    text = to_text(node, Scope(SCOPE.columns, functions=own, spark=False))

    assert compiled([text.python], own)({"A": 1}) == ([2, 6],)
    with pytest.raises(SqlError, match="can't be used in a lambda"):
        to_text(node, Scope(SCOPE.columns, functions=own))


def test_a_function_without_a_python_form_is_named() -> None:
    bare = Function("BARE", FunctionKind.SCALAR, "", "", (signature("-> STRING", "bare()"),))
    text = to_text(parse_expression("BARE()"), Scope({}, functions=FunctionRegistry([bare])))

    with pytest.raises(SqlError, match="'BARE' has no implementation in Python"):
        compiled([text.python], FunctionRegistry([bare]))


def test_expressions_cannot_reach_pythons_builtins() -> None:
    with pytest.raises(NameError):
        compiled(["open('x')"])({})
