"""The text of an expression in two languages: Spark SQL, and Python over `row`, a mapping."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

from ottla.rows.types import SqlType, spark_name
from ottla.sql.spark_strings import spark_null, spark_string


class Text(NamedTuple):
    """The same computation, once for Spark and once for Python.

    `python` is one expression. It refers to columns as `row["A"]`, by the names that `spark` uses,
    and to functions that `ottla.sql.evaluation.compiled` knows.
    """

    spark: str
    python: str


COLUMN: Final = re.compile(r"row\[('[^']*'|\"[^\"]*\")\]")


def columns_of(text: Text) -> set[str]:
    """The columns that the text refers to."""
    return {name[1:-1] for name in COLUMN.findall(text.python)}


def is_column(text: Text) -> bool:
    """True if the text is just a column."""
    return COLUMN.fullmatch(text.python) is not None


def column(name: str) -> Text:
    return Text(spark_name(name), f"row[{name!r}]")


def column_of(struct: str, name: str) -> Text:
    """A column of one side of a join; NULL if that side has no row."""
    return Text(f"{spark_name(struct)}.{spark_name(name)}", f"(row[{struct!r}] or NONE)[{name!r}]")


def composed(spark: str, python: str, *parts: Text) -> Text:
    """A text made of two templates, in which `{0}` is the first part in that language."""
    return Text(
        spark.format(*(part.spark for part in parts)),
        python.format(*(part.python for part in parts)),
    )


def struct_of(fields: Iterable[tuple[str, Text]]) -> Text:
    found = list(fields)
    spark = ", ".join(f"{spark_string(name)}, {text.spark}" for name, text in found)
    python = ", ".join(f"{name!r}: {text.python}" for name, text in found)
    return Text(f"named_struct({spark})", f"{{{python}}}")


def null_text(type_: SqlType) -> Text:
    return Text(spark_null(type_), "None")


def array_of(parts: Iterable[Text]) -> Text:
    found = list(parts)
    spark = ", ".join(text.spark for text in found)
    return Text(f"array({spark})", f"[{', '.join(text.python for text in found)}]")
