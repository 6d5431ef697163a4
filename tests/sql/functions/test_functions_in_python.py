"""The same expressions as on Spark, computed by their Python texts."""

from __future__ import annotations

import pytest
from sql_cases import GROUPS, ROW, SCOPE, TABLE_FUNCTIONS, same

from ottla.sql.evaluation import compiled
from ottla.sql.expressions import resolve, translate
from ottla.sql.functions import BUILTIN, FunctionKind
from ottla.sql.syntax import parse_expression


@pytest.mark.parametrize("group", GROUPS)
def test_python_gives_ksqldbs_results(group: str) -> None:
    cases = GROUPS[group]
    texts = [translate(parse_expression(text), SCOPE).text.python for text, _ in cases]

    computed = compiled(texts)(ROW)

    wrong = [
        f"{text} gave {found!r}, not {expected!r}"
        for (text, expected), found in zip(cases, computed, strict=True)
        if not same(found, expected)
    ]
    assert not wrong, "\n".join(wrong)


def test_table_functions_make_arrays_of_rows() -> None:
    calls = [parse_expression(text) for text in TABLE_FUNCTIONS]
    texts = [resolve(call, SCOPE, translate).python for call in calls]

    assert list(compiled(texts)(ROW)) == list(TABLE_FUNCTIONS.values())


def test_every_function_is_tested() -> None:
    texts = " ".join(text for group in GROUPS.values() for text, _ in group)
    names = {function.name for function in BUILTIN if function.kind is FunctionKind.SCALAR}

    assert not [name for name in sorted(names) if f"{name}(" not in texts]


def test_each_function_has_a_python_form() -> None:
    lacking = [
        signature.text(function.name)
        for function in BUILTIN
        for signature in function.signatures
        if signature.python is None and function.kind is not FunctionKind.AGGREGATE
    ]

    assert not lacking
