"""User-defined functions."""

from __future__ import annotations

import pickle
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ottla.rows.errors import SqlError
from ottla.rows.types import BIGINT, DOUBLE, STRING, decimal
from ottla.sql.evaluation import compiled
from ottla.sql.expressions import Scope, to_spark, typed
from ottla.sql.functions import BUILTIN, FunctionRegistry, load_user_functions, udf
from ottla.sql.functions.user_functions import python_function
from ottla.sql.lowering.user_functions import UserFunctions
from ottla.sql.run.session import prepare_session
from ottla.sql.syntax import parse_expression
from ottla.sql.text import column

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MODULE = """
from ottla.sql.functions import udf

def rate():
    return 2

@udf
def net(price: float, tax_percent: int) -> float:
    "The price before tax."
    return price / (1 + tax_percent / 100)

@udf(name="shout", signature="STRING text -> STRING")
def loud(text):
    return text.upper() + "!" * rate()

@udf
def known(value: str | None) -> bool:
    return value is not None

@udf
def count_all(*texts: str) -> int:
    return sum(len(text) for text in texts)

@udf
def ages(rows: dict[str, int]) -> list[int]:
    return sorted(rows.values())
"""
COLUMNS = {
    ("", "S"): (STRING, column("S")),
    ("", "L"): (BIGINT, column("L")),
    ("", "D"): (DOUBLE, column("D")),
}


@pytest.fixture
def functions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FunctionRegistry:
    (tmp_path / "my_sql_functions.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "my_sql_functions", raising=False)
    functions = FunctionRegistry(BUILTIN)
    load_user_functions(" my_sql_functions, ", functions)
    return functions


def test_a_modules_functions_are_in_the_table(functions: FunctionRegistry) -> None:
    scope = Scope(COLUMNS, functions=functions)

    assert len(functions) == len(BUILTIN) + 5
    assert typed(parse_expression("NET(D, 19)"), scope) == DOUBLE
    assert typed(parse_expression("AGES(MAP('a' := 1))[1]"), scope) == BIGINT
    assert to_spark(parse_expression("SHOUT(S)"), scope) == "ottla_shout(`S`)"
    assert functions.get("NET").description == "The price before tax."
    with pytest.raises(SqlError, match="does not accept parameters"):
        typed(parse_expression("NET(S, 19)"), scope)


def test_a_null_or_a_failure_is_null() -> None:
    def inverse(value: int) -> float:
        return 1 / value

    safe = python_function(inverse).python

    assert safe is not None
    assert safe(4) == 0.25
    assert safe(None) is None
    assert safe(0) is None


def test_a_signature_may_have_a_decimal_of_one_size() -> None:
    made = python_function(str, name="TEXT_OF", text="DECIMAL(6, 2) price -> STRING")
    functions = BUILTIN.plus([made])

    assert functions.resolve("TEXT_OF", [decimal(4, 1)]).parameter_types() == [decimal(6, 2)]
    with pytest.raises(SqlError, match="does not accept"):
        functions.resolve("TEXT_OF", [decimal(6, 3)])


def test_a_function_without_types_is_refused() -> None:
    with pytest.raises(SqlError, match="Function F has no SQL type for x"):
        udf(lambda_named_f())  # type: ignore[call-overload]


def lambda_named_f() -> object:
    def f(x):  # type: ignore[no-untyped-def]
        return x

    return f


def test_the_name_of_a_builtin_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_taken_names.py").write_text(
        "from ottla.sql.functions import udf\n@udf\ndef abs(x: int) -> int: return x\n"
    )
    monkeypatch.syspath_prepend(tmp_path)

    with pytest.raises(SqlError, match="Function ABS exists already"):
        load_user_functions("my_taken_names", FunctionRegistry(BUILTIN))


def test_an_absent_module_is_named() -> None:
    with pytest.raises(SqlError, match=r"no_such_module of the setting ottla\.udf\.modules"):
        load_user_functions("no_such_module", FunctionRegistry(BUILTIN))


@pytest.mark.spark
@pytest.mark.timeout(300)
def test_spark_calls_them_where_the_module_is_not_installed(
    spark: SparkSession, functions: FunctionRegistry
) -> None:
    session = spark.newSession()
    prepare_session(session, functions)
    frame = session.createDataFrame(
        [("a", 1, 119.0), (None, None, None)], "S string, L bigint, D double"
    )
    scope = Scope(COLUMNS, functions=functions)
    texts = [
        "NET(D, 19)",
        "SHOUT(S)",
        "KNOWN(S)",
        "COUNT_ALL(S, 'xyz')",
        "AGES(MAP('a' := L, 'b' := 0))",
    ]
    selected = frame.selectExpr(*(to_spark(parse_expression(text), scope) for text in texts))

    first, second = selected.collect()

    assert tuple(first) == (100.0, "A!!", True, 4, [0, 1])
    assert tuple(second)[:4] == (None, None, False, None)


def test_a_module_that_is_loaded_again_replaces_its_functions(functions: FunctionRegistry) -> None:
    count = len(functions)

    load_user_functions(["my_sql_functions"], functions)

    assert len(functions) == count


def test_a_graph_carries_its_functions() -> None:
    made = python_function(double_it, name="DOUBLE_IT_ELSEWHERE")
    data = pickle.dumps(UserFunctions((made,)))
    assert BUILTIN.find("DOUBLE_IT_ELSEWHERE") is None
    try:
        assert pickle.loads(data).functions == (made,)
        (value,) = compiled(["DOUBLE_IT_ELSEWHERE_0(row['A'])"])({"A": 21})
        assert value == 42
    finally:
        BUILTIN._functions.pop("DOUBLE_IT_ELSEWHERE", None)


def double_it(number: int) -> int:
    return 2 * number
