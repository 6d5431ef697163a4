"""Functions for NULL."""

from __future__ import annotations

from typing import Any, Final

from ottla.sql.functions.python_form import with_nulls
from ottla.sql.functions.scalar import scalar, signature

FAMILY: Final = "Nulls"


def _first(*values: Any) -> Any:
    return next((value for value in values if value is not None), None)


def _unless_equal(value: Any, other: Any) -> Any:
    return None if value == other else value


def _itself(value: Any) -> Any:
    return value


NULLS: Final = (
    scalar(
        "AS_VALUE",
        FAMILY,
        "A copy of a key column as a value column.",
        signature("T key -> T", "{0}", python=_itself),
    ),
    scalar(
        "COALESCE",
        FAMILY,
        "The first argument that is not NULL.",
        signature("T first, T... others -> T", "coalesce({all})", python=with_nulls(_first)),
    ),
    scalar(
        "IFNULL",
        FAMILY,
        "The expression, or the other value if it is NULL.",
        signature(
            "T expression, T otherwise -> T", "coalesce({0}, {1})", python=with_nulls(_first)
        ),
    ),
    scalar(
        "NULLIF",
        FAMILY,
        "NULL if both are equal, else the first.",
        signature(
            "T expression, T other -> T", "nullif({0}, {1})", python=with_nulls(_unless_equal)
        ),
    ),
)
