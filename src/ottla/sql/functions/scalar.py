"""Declarations of scalar functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ottla.sql.functions.function_registry import (
    Function,
    FunctionKind,
    Returns,
    Signature,
    SparkText,
    signature,
)
from ottla.sql.functions.python_form import PythonForm, with_nulls

__all__ = ["computed_in_python", "numbers", "scalar", "signature"]


def scalar(name: str, family: str, description: str, *signatures: Signature) -> Function:
    return Function(name, FunctionKind.SCALAR, family, description, signatures)


def numbers(
    text: str,
    spark: SparkText,
    *,
    returns: Returns | None = None,
    python: PythonForm | Callable[..., Any] | None = None,
) -> list[Signature]:
    """Signatures for all numeric types, for which `N` stands in the text."""
    kinds = ("INTEGER", "BIGINT", "DECIMAL", "DOUBLE")
    return [signature(_with(text, kind), spark, returns=returns, python=python) for kind in kinds]


def _with(text: str, kind: str) -> str:
    return " ".join(kind if word == "N" else word for word in text.split())


def computed_in_python(
    name: str, family: str, description: str, text: str, python: Callable[..., Any]
) -> Function:
    """A function that Spark does not have; Spark calls Python for each batch of rows."""
    udf = f"ottla_{name.lower()}"
    spark = f"{udf}({{all}})"
    return Function(
        name,
        FunctionKind.SCALAR,
        family,
        description,
        (signature(text, spark, python=with_nulls(python)),),
        udf=udf,
        python=python,
    )
