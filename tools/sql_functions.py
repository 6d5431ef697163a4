"""Writes docs/sql-functions.md from the table of functions. `make functions-doc` runs it."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

from ottla.sql.functions import BUILTIN, Function, FunctionKind
from ottla.sql.functions.aggregates import GROWING

PATH = Path(__file__).parent.parent / "docs" / "sql-functions.md"
COLUMNS = 100
HEAD = """\
# Functions of the SQL

Written by `tools/sql_functions.py` from the table of functions; `tests/sql/functions` checks
that it is current. A letter such as T stands for any type, `...` for any number of arguments.
INTEGER, BIGINT, DECIMAL and DOUBLE widen in that order where a wider one is wanted.

What fails for a row is NULL and the query goes on. Formats of dates and times are Java's
(`DateTimeFormatter`), without the letters that Spark does not know: A B N W Y c e n p u w.

## Where they differ from ksqlDB's

Every function is written twice, for Spark and for Python (`SqlTestDriver`, pull queries of tables,
tasks of the engine), and one table of cases judges both. In both:

- GREATEST, LEAST, COALESCE and others widen numbers of different types, where ksqlDB wants a CAST.
- DECIMALs have up to 38 digits; of a longer result, digits after the point go first.
- A NULL key of a map is the text `null` where keys are STRINGs, as ksqlDB writes it in JSON; with
  keys of another type, and in AS_MAP, such an entry is left out.
- REDUCE takes the entries of a map in the order in which they came; ksqlDB's order is that of
  Java's hash codes.

On Spark alone:

- COLLECT_SET of a pull query gives its values in their own order, not in the order in which they
  came. (A persistent query with COLLECT_SET runs on tasks.)
- EXTRACTJSONFIELD, JSON_RECORDS and JSON_ITEMS reformat numbers: `1.50` comes out as `1.5`.
- The last digits of LN, LOG, STDDEV_SAMP and STDDEV_SAMPLE may be others.
- PARSE_DATE with a format from a column is NULL where text follows behind the date.
- LATEST_BY_OFFSET, EARLIEST_BY_OFFSET and COLLECT_LIST go by the time of rows, then by partition
  and offset, unless rows are grouped by their key: offsets of two partitions can't be compared.
- A regular expression that comes from a column and is none ends the query; in a literal it is
  found when the query starts.
- UNIX_TIMESTAMP() and UNIX_DATE() are those of the micro-batch.
- FILTER and REDUCE take NULL for arithmetic with a NULL, where ksqlDB gives NULL for all of it.

## Functions of one's own

A module in `ottla.udf.modules` marks Python functions, and every statement can call them:

```python
from ottla.sql.functions import udf


@udf
def net(price: float, tax_percent: int) -> float:
    "The price before tax."
    return price / (1 + tax_percent / 100)


@udf(name="SHOUT", signature="STRING text -> STRING")
def loud(text):
    return text.upper() + "!"
```

Hints of int, float, str, bool, bytes, date, time, datetime, `list[...]` and `dict[...]` are BIGINT,
DOUBLE, STRING, BOOLEAN, BYTES, DATE, TIME, TIMESTAMP, ARRAY and MAP; a signature says the rest. A
NULL does not reach the function unless a hint says `| None`, and a call that raises is NULL. They
can't be used inside lambdas of queries that run on Spark, which calls no Python there; where Python
computes an expression, as in pull queries, they can.
"""


def main() -> int:
    PATH.write_text(document(), encoding="utf-8")
    return 0


def document() -> str:
    by_family = sorted(BUILTIN, key=lambda function: (order(function), function.family))
    parts = [HEAD]
    for family, functions in groupby(by_family, key=lambda function: function.family):
        parts.append(f"\n## {family}\n")
        parts += [section(function) for function in functions]
    return "\n".join(parts)


def order(function: Function) -> int:
    return list(FunctionKind).index(function.kind)


def section(function: Function) -> str:
    return "\n".join([f"### {function.name}\n", *signatures(function), "", *words(function), ""])


def signatures(function: Function) -> Iterator[str]:
    for signature in function.signatures:
        yield f"    {signature.text(function.name)} -> {signature.result}"


def words(function: Function) -> Iterator[str]:
    for paragraph in function.description.split("\n"):
        yield textwrap.fill(paragraph, COLUMNS, break_long_words=False, break_on_hyphens=False)
    if function.kind is FunctionKind.AGGREGATE:
        sources = "streams and tables" if function.on_tables else "streams"
        grows = " Its state grows with the rows." if function.name in GROWING else ""
        yield f"\nOver {sources}.{grows}"
    if function.python is not None:
        yield "\nComputed in Python."


if __name__ == "__main__":
    sys.exit(main())
