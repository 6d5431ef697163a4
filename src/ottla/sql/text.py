"""An expression in both languages: Spark SQL, and Python over `row`, a mapping of columns."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

from ottla.rows.types import SqlType, spark_name
from ottla.sql.spark_text import null_of, string


class Text(NamedTuple):
    """The same computation, once for Spark and once for Python.

    `python` is one expression. It speaks of columns by the names that `spark` has for them,
    `row["A"]`, and of functions that `ottla.sql.evaluation.compiled` knows.
    """

    spark: str
    python: str


COLUMN: Final = re.compile(r"row\[('[^']*'|\"[^\"]*\")\]")


def columns_of(text: Text) -> set[str]:
    """The columns of the row that it speaks of."""
    return {each[1:-1] for each in COLUMN.findall(text.python)}


def is_column(text: Text) -> bool:
    """True if it computes nothing."""
    return COLUMN.fullmatch(text.python) is not None


def column(name: str) -> Text:
    return Text(spark_name(name), f"row[{name!r}]")


def column_of(struct: str, name: str) -> Text:
    """A column of a side of a join, which may be missing: then it is NULL."""
    return Text(f"{spark_name(struct)}.{spark_name(name)}", f"(row[{struct!r}] or NONE)[{name!r}]")


def composed(spark: str, python: str, *parts: Text) -> Text:
    """Two templates, `{0}` in each is the first part in its language."""
    return Text(
        spark.format(*(each.spark for each in parts)),
        python.format(*(each.python for each in parts)),
    )


def struct_of(fields: Iterable[tuple[str, Text]]) -> Text:
    found = list(fields)
    spark = ", ".join(f"{string(name)}, {text.spark}" for name, text in found)
    python = ", ".join(f"{name!r}: {text.python}" for name, text in found)
    return Text(f"named_struct({spark})", f"{{{python}}}")


def null_text(type_: SqlType) -> Text:
    return Text(null_of(type_), "None")


def array_of(parts: Iterable[Text]) -> Text:
    found = list(parts)
    spark = ", ".join(each.spark for each in found)
    return Text(f"array({spark})", f"[{', '.join(each.python for each in found)}]")
