"""Random typed expressions over the columns of `pull_rows`."""

from __future__ import annotations

from random import Random
from typing import Final

ANY: Final = ("int", "long", "double", "decimal", "string", "bool", "array")
FORMS: Final[dict[str, tuple[str, ...]]] = {
    "int": (
        *("I", "A[{int}]", "M['k']", "U->F", "({int} {op} {int})", "-({int})", "ABS({int})"),
        *("LEN({string})", "ARRAY_LENGTH({array})", "CAST({long} AS INTEGER)", "SIGN({double})"),
        *("CAST({double} AS INTEGER)", "CAST({string} AS INTEGER)", "INSTR({string}, 'c')"),
        *(
            "CASE WHEN {bool} THEN {int} ELSE {int} END",
            "COALESCE({int}, {int})",
            "NULLIF({int}, 5)",
        ),
        *("ARRAY_MAX({array})", "REDUCE({array}, 1, (s, x) => s + COALESCE(x, 2))"),
    ),
    "long": (
        *(
            "L",
            "({long} {op} {int})",
            "({int} {op} {long})",
            "-({long})",
            "CAST({double} AS BIGINT)",
        ),
        *("GREATEST({long}, {long})", "UNIX_TIMESTAMP(T)", "ROWTIME", "ROUND({double})"),
    ),
    "double": (
        *("D", "({double} {op} {double})", "({double} {op} {int})", "CAST({decimal} AS DOUBLE)"),
        *("CEIL({double})", "CAST({string} AS DOUBLE)", "LEAST({double}, {double})"),
        *("CAST({long} AS DOUBLE)", "ROUND(CAST({int} AS DOUBLE) / 3, 2)"),
    ),
    "decimal": (
        *("X", "(X {sum} 1.25)", "(X * {int})", "-X", "ABS(X)", "CAST({int} AS DECIMAL(6, 2))"),
        *("FLOOR(X)", "ROUND(X, 1)", "CAST({string} AS DECIMAL(8, 3))", "(X / 3.5)", "(X % 0.7)"),
    ),
    "string": (
        *("S", "ID", "U->G", "UCASE({string})", "SUBSTRING({string}, {int}, 3)", "TRIM({string})"),
        *("CONCAT({string}, {string})", "({string} + 'x')", "CAST({int} AS STRING)"),
        *("CAST({decimal} AS STRING)", "CAST({bool} AS STRING)", "CAST({array} AS STRING)"),
        *("LPAD({string}, 7, '*')", "REPLACE({string}, 'c', 'dd')", "CAST(DAY AS STRING)"),
        *("FORMAT_TIMESTAMP(T, 'yyyy-MM-dd HH:mm:ss')", "ARRAY_JOIN({array}, '-')"),
        *("IFNULL({string}, 'none')", "REGEXP_REPLACE({string}, '[a-c]', '.')", "MASK({string})"),
    ),
    "bool": (
        *("B", "({int} {compare} {int})", "({int} {compare} {long})", "({double} {compare} {int})"),
        *("({decimal} {compare} {double})", "({string} {compare} {string})", "NOT {bool}"),
        *(
            "({bool} AND {bool})",
            "({bool} OR {bool})",
            "({string} IS NULL)",
            "({string} LIKE '%c%')",
        ),
        *("({int} IN (5, -7, {int}))", "({int} BETWEEN {int} AND {int})", "(DAY > '2000-01-01')"),
        *(
            "({int} IS DISTINCT FROM {int})",
            "ARRAY_CONTAINS({array}, {int})",
            "({array} = {array})",
        ),
    ),
    "array": (
        *("A", "ARRAY[{int}, 2]", "FILTER({array}, x => x > {int})", "ARRAY_DISTINCT({array})"),
        *("TRANSFORM({array}, x => COALESCE(x, {int}))", "SLICE({array}, 1, 2)"),
        *("ARRAY_CONCAT({array}, {array})", "ARRAY_SORT({array})"),
    ),
}
LEAVES: Final = {
    "int": ("I", "3", "-2", "0"),
    "long": ("L", "3000000000"),
    "double": ("D", "2.5E0", "-1E-3"),
    "decimal": ("X", "1.25"),
    "string": ("S", "ID", "'abc'", "' 12 '"),
    "bool": ("B", "true", "(I > 0)"),
    "array": ("A", "ARRAY[1, NULL]"),
}
OPERATORS: Final = {
    "op": ("+", "-", "*", "/", "%"),
    "sum": ("+", "-"),
    "compare": ("=", "<>", "<", "<=", ">", ">="),
}


def any_expression(random: Random, kind: str, depth: int) -> str:
    """The text of an expression; `depth` limits its nesting."""
    if not depth:
        return random.choice(LEAVES[kind])
    parts = random.choice(FORMS[kind]).split("{")
    text = parts[0]
    for part in parts[1:]:
        name, _, rest = part.partition("}")
        if name in OPERATORS:
            text += random.choice(OPERATORS[name]) + rest
        else:
            text += any_expression(random, name, random.randrange(depth)) + rest
    return text
