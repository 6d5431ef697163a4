"""NULL, and what to do about it."""

from __future__ import annotations

from typing import Final

from ottla.spark.sql.functions.declare import scalar, signature

FAMILY: Final = "Nulls"

NULLS: Final = (
    scalar(
        "AS_VALUE",
        FAMILY,
        "A copy of a key column, as a column of the value.",
        signature("T key -> T", "{0}"),
    ),
    scalar(
        "COALESCE",
        FAMILY,
        "The first argument that is not NULL.",
        signature("T first, T... others -> T", "coalesce({all})"),
    ),
    scalar(
        "IFNULL",
        FAMILY,
        "The expression, or the other value where it is NULL.",
        signature("T expression, T otherwise -> T", "coalesce({0}, {1})"),
    ),
    scalar(
        "NULLIF",
        FAMILY,
        "NULL where the two are equal, else the first.",
        signature("T expression, T other -> T", "nullif({0}, {1})"),
    ),
)
