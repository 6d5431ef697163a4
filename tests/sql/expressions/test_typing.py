"""Expressions have ksqlDB's types and errors; without Spark."""

from __future__ import annotations

import pytest

from ottla.rows.errors import SqlError
from ottla.rows.types import SqlType
from ottla.sql.expressions import Scope, condition, to_spark, typed
from ottla.sql.syntax import parse_expression, parse_type
from ottla.sql.text import Text, column, column_of

COLUMNS = {
    "I": "INTEGER",
    "L": "BIGINT",
    "D": "DOUBLE",
    "S": "STRING",
    "B": "BOOLEAN",
    "Y": "BYTES",
    "DEC": "DECIMAL(5, 2)",
    "DEC2": "DECIMAL(4, 1)",
    "DAY": "DATE",
    "CLOCK": "TIME",
    "TS": "TIMESTAMP",
    "ROWTIME": "BIGINT",
    "AI": "ARRAY<INTEGER>",
    "AS1": "ARRAY<STRING>",
    "M": "MAP<STRING, INTEGER>",
    "ST": "STRUCT<NAME STRING, AGE INTEGER>",
}
TYPES = {name: parse_type(text) for name, text in COLUMNS.items()}
SCOPE = Scope({("", name): (type_, column(name)) for name, type_ in TYPES.items()})
WITH_AGGREGATES = Scope(SCOPE.columns, aggregates=True)
JOINED = Scope(
    {
        ("A", "ID"): (TYPES["I"], column_of("A", "ID")),
        ("A", "NAME"): (TYPES["S"], column_of("A", "NAME")),
        ("B", "ID"): (TYPES["L"], column_of("B", "ID")),
    },
    clause="SELECT",
)


def type_of(text: str, scope: Scope = SCOPE) -> SqlType:
    return typed(parse_expression(text), scope)


def error_of(text: str, scope: Scope = SCOPE) -> SqlError:
    with pytest.raises(SqlError) as caught:
        typed(parse_expression(text), scope)
    return caught.value


@pytest.mark.parametrize(
    ("text", "type_"),
    [
        ("1", "INTEGER"),
        ("2147483648", "BIGINT"),
        ("-2147483648", "INTEGER"),
        ("-9223372036854775808", "BIGINT"),
        ("2.345", "DECIMAL(4, 3)"),
        ("0.08", "DECIMAL(2, 2)"),
        ("1E0", "DOUBLE"),
        ("'a'", "STRING"),
        ("TRUE", "BOOLEAN"),
        ("I + 1", "INTEGER"),
        ("I + L", "BIGINT"),
        ("I / 2", "INTEGER"),
        ("L % 2", "BIGINT"),
        ("I * D", "DOUBLE"),
        ("DEC + D", "DOUBLE"),
        ("DEC + DEC2", "DECIMAL(6, 2)"),
        ("DEC - DEC2", "DECIMAL(6, 2)"),
        ("DEC * DEC2", "DECIMAL(10, 3)"),
        ("DEC / DEC2", "DECIMAL(11, 7)"),
        ("DEC % DEC2", "DECIMAL(5, 2)"),
        ("I + DEC", "DECIMAL(13, 2)"),
        ("L + DEC", "DECIMAL(22, 2)"),
        ("-DEC", "DECIMAL(5, 2)"),
        ("S + 'x'", "STRING"),
        ("S + NULL", "STRING"),
        ("I = 1", "BOOLEAN"),
        ("I = 1.5", "BOOLEAN"),
        ("DAY > '2020-01-01'", "BOOLEAN"),
        ("TS = DAY", "BOOLEAN"),
        ("S < CLOCK", "BOOLEAN"),
        ("ROWTIME >= '2020-02-03T10'", "BOOLEAN"),
        ("AI = ARRAY[1, 2]", "BOOLEAN"),
        ("M <> MAP('a' := 1)", "BOOLEAN"),
        ("ST IS DISTINCT FROM ST", "BOOLEAN"),
        ("B AND NOT B OR I = 1", "BOOLEAN"),
        ("I IN (1, 2, '3')", "BOOLEAN"),
        ("S IN ('a', 1)", "BOOLEAN"),
        ("I BETWEEN 1 AND L", "BOOLEAN"),
        ("S LIKE '%a' ESCAPE '!'", "BOOLEAN"),
        ("S IS NOT NULL", "BOOLEAN"),
        ("AI[1]", "INTEGER"),
        ("AI[-1] + L", "BIGINT"),
        ("M['a']", "INTEGER"),
        ("ST->NAME", "STRING"),
        ("CASE WHEN B THEN 1 ELSE 2 END", "INTEGER"),
        ("CASE WHEN B THEN 1 ELSE L END", "BIGINT"),
        ("CASE WHEN B THEN NULL ELSE 'x' END", "STRING"),
        ("CASE I WHEN 1 THEN 'one' END", "STRING"),
        ("ARRAY[1, NULL, L]", "ARRAY<BIGINT>"),
        ("ARRAY[1, '2', 3]", "ARRAY<INTEGER>"),
        ("MAP('a' := 1, 'b' := 2.5)", "MAP<STRING, DECIMAL(11, 1)>"),
        ("STRUCT(A := 1, `b` := S)", "STRUCT<A INTEGER, `b` STRING>"),
        ("CAST(I AS DECIMAL(4, 2))", "DECIMAL(4, 2)"),
        ("CAST(NULL AS ARRAY<INT>)", "ARRAY<INTEGER>"),
        ("ABS(DEC)", "DECIMAL(5, 2)"),
        ("ROUND(DEC)", "DECIMAL(3, 0)"),
        ("ROUND(D)", "BIGINT"),
        ("ROUND(DEC, 1)", "DECIMAL(5, 2)"),
        ("SQRT(I)", "DOUBLE"),
        ("GEO_DISTANCE(1, 2, 3.5, L)", "DOUBLE"),
        ("COALESCE(I, L, 1)", "BIGINT"),
        ("IFNULL(S, 'x')", "STRING"),
        ("GREATEST(I, 2, L)", "BIGINT"),
        ("ARRAY_CONTAINS(AI, 1)", "BOOLEAN"),
        ("ARRAY_MAX(AI)", "INTEGER"),
        ("ENTRIES(M, true)", "ARRAY<STRUCT<K STRING, V INTEGER>>"),
        ("AS_MAP(AS1, AI)", "MAP<STRING, INTEGER>"),
        ("GENERATE_SERIES(1, L)", "ARRAY<BIGINT>"),
        ("TRANSFORM(AI, x => x + L)", "ARRAY<BIGINT>"),
        ("TRANSFORM(M, (k, v) => LEN(k), (k, v) => k)", "MAP<INTEGER, STRING>"),
        ("FILTER(M, (k, v) => v > 1)", "MAP<STRING, INTEGER>"),
        ("REDUCE(AI, L, (s, x) => s + x)", "BIGINT"),
        ("REDUCE(M, '', (s, k, v) => s + k)", "STRING"),
        ("TRANSFORM(AI, x => TRANSFORM(AI, y => x * y))", "ARRAY<ARRAY<INTEGER>>"),
        ("DATEADD(DAYS, 1, DAY)", "DATE"),
        ("UNIX_TIMESTAMP()", "BIGINT"),
        ("SPLIT(Y, Y)", "ARRAY<BYTES>"),
        ("JSON_CONCAT(S, S, S)", "STRING"),
    ],
)
def test_an_expression_has_the_type_that_ksqldb_gives_it(text: str, type_: str) -> None:
    assert type_of(text) == parse_type(type_)


@pytest.mark.parametrize(
    ("text", "type_"),
    [
        ("COUNT(*)", "BIGINT"),
        ("COUNT(S)", "BIGINT"),
        ("SUM(I)", "INTEGER"),
        ("SUM(DEC)", "DECIMAL(5, 2)"),
        ("SUM(I) / COUNT(*)", "BIGINT"),
        ("AVG(DEC)", "DOUBLE"),
        ("MIN(TS)", "TIMESTAMP"),
        ("MAX(ROWTIME)", "BIGINT"),
        ("COLLECT_LIST(ST)", "ARRAY<STRUCT<NAME STRING, AGE INTEGER>>"),
        ("LATEST_BY_OFFSET(S)", "STRING"),
        ("LATEST_BY_OFFSET(S, false)", "STRING"),
        ("EARLIEST_BY_OFFSET(S, 3)", "ARRAY<STRING>"),
        ("EARLIEST_BY_OFFSET(S, 3, false)", "ARRAY<STRING>"),
        ("TOPK(D, 3)", "ARRAY<DOUBLE>"),
        ("TOPK(D, S, I, 3)", "ARRAY<STRUCT<`sort_col` DOUBLE, `col0` STRING, `col1` INTEGER>>"),
        ("HISTOGRAM(S)", "MAP<STRING, BIGINT>"),
        ("CORRELATION(I, DEC)", "DOUBLE"),
        ("AVG(*)", "DOUBLE"),
    ],
)
def test_an_aggregate_has_the_type_that_ksqldb_gives_it(text: str, type_: str) -> None:
    assert type_of(text, WITH_AGGREGATES) == parse_type(type_)


@pytest.mark.parametrize(
    ("text", "message", "remedy"),
    [
        ("NAM", "Column 'NAM' cannot be resolved.", "There are:"),
        ("CLOK", "Column 'CLOK' cannot be resolved.", "Did you mean CLOCK?"),
        ("UCSE(S)", "Can't find any functions with the name 'UCSE'", "Did you mean UCASE"),
        ("LEN(I)", "Function 'LEN' does not accept parameters (INTEGER).", "DESCRIBE FUNCTION"),
        ("LEN(I)", "Valid alternatives are:\nLEN(STRING value)\nLEN(BYTES value)", ""),
        ("COALESCE()", "Function 'COALESCE' does not accept parameters ()", ""),
        ("GREATEST()", "Function 'GREATEST' does not accept parameters ().", ""),
        ("GREATEST(S, I)", "Function 'GREATEST' does not accept parameters (STRING, INTEGER).", ""),
        ("GREATEST(NULL, NULL)", "ambiguous method parameters (null, null).", "CAST(NULL AS"),
        ("GEO_DISTANCE(D, D, 'foo', 0)", "Function 'GEO_DISTANCE' does not accept parameters", ""),
        ("DATEADD(TS, 5, DAY)", "does not accept parameters (TIMESTAMP, INTEGER, DATE).", ""),
        (
            "TRUE + 1.5",
            "Error processing expression: (TRUE + 1.5). Unsupported arithmetic types. "
            "BOOLEAN DECIMAL",
            "",
        ),
        ("S - 'a'", "Unsupported arithmetic types. STRING STRING", ""),
        ("I / NULL", "Arithmetic on types INTEGER and null are not supported.", ""),
        (
            "I >= 'not an int'",
            "Cannot compare I (INTEGER) to 'not an int' (STRING) with GREATER_THAN_OR_EQUAL.",
            "CAST",
        ),
        (
            "AI < AI",
            "Cannot compare AI (ARRAY<INTEGER>) to AI (ARRAY<INTEGER>) with LESS_THAN.",
            "use = or <>",
        ),
        ("NULL <> NULL", "Comparison with NULL not supported: ", "IS NULL"),
        ("I IN (10, true)", "operator does not exist: INTEGER = BOOLEAN (TRUE)", "explicit type"),
        ("I IN (1, 'x')", 'invalid input syntax for type INTEGER: "x".', ""),
        ("B IN (true, 'nope')", 'invalid input syntax for type BOOLEAN: "nope".', ""),
        ("ARRAY[]", "Array constructor cannot be empty.", ""),
        ("ARRAY[NULL]", "Cannot construct an array with all NULL elements", ""),
        ("ARRAY[1, 'no']", 'invalid input syntax for type INTEGER: "no"', ""),
        ("MAP()", "Map constructor cannot be empty.", ""),
        ("MAP('a' := NULL)", "Cannot construct a map with all NULL values", ""),
        ("MAP(NULL := 1)", "Cannot construct a map with all NULL keys", ""),
        ("STRUCT(A := 1, A := 2)", "Duplicate field names found in STRUCT", ""),
        ("CAST(S AS ARRAY<INT>)", "Cast of STRING to ARRAY<INTEGER> is not supported", ""),
        ("CAST(Y AS STRING)", "Cast of BYTES to STRING is not supported", "FROM_BYTES"),
        ("CAST(B AS INTEGER)", "Cast of BOOLEAN to INTEGER is not supported", ""),
        (
            "CASE WHEN B THEN NULL ELSE NULL END",
            "Invalid Case expression. All case branches have NULL type",
            "",
        ),
        ("CASE WHEN B THEN 1 ELSE 'x' END", "invalid input syntax for type INTEGER", ""),
        ("CASE WHEN I THEN 1 END", "WHEN operand type should be boolean.", ""),
        ("NULL", "Can't infer a type of null.", ""),
        ("ST->NAM", "Could not find field 'NAM' in 'ST'.", "NAME, AGE"),
        ("S->X", "Expected STRUCT type, got: STRING", ""),
        ("I[1]", "Subscript expression is not supported for INTEGER", ""),
        ("SUM(I)", "Aggregate function SUM is not allowed here.", "GROUP BY"),
        ("EXPLODE(AI)", "Table function EXPLODE can only be used in a SELECT clause.", ""),
        ("TRANSFORM(AS1, x => JSON_CONCAT(x, x))", "can't be used in a lambda", "EXPLODE"),
        ("REDUCE(AI, 0, (s, x) => s + L)", "gives BIGINT, and INTEGER is needed", "CAST"),
        ("9223372036854775808", "Invalid numeric literal: 9223372036854775808", ""),
        ("1.7976931348623159E308", "Number overflows DOUBLE: 1.7976931348623159E308", ""),
        ("PARSE_DATE(S, 'YYYY')", "Unknown pattern letter: Y", ""),
        ("TO_BYTES(S, 'rot13')", "Unknown encoding type 'rot13'", "base64"),
        ("ROWTIME > 'noon'", "Failed to parse timestamp 'noon'", "2020-02-03T10"),
    ],
)
def test_errors_have_ksqldbs_messages(text: str, message: str, remedy: str) -> None:
    error = error_of(text)

    assert message in error.message
    assert remedy in error.remedy


def test_an_error_has_its_position() -> None:
    error = error_of("I + 1 +\n  NOPE")

    assert (error.line, error.column) == (2, 3)


def test_a_clause_is_named_where_a_column_is_missing() -> None:
    error = error_of("A.BOB", JOINED)

    assert error.message == "SELECT column 'A.BOB' cannot be resolved."


def test_a_column_of_two_sources_needs_the_name_of_one() -> None:
    error = error_of("ID", JOINED)

    assert error.message == "Column 'ID' is ambiguous. Could be A.ID or B.ID."
    assert type_of("B.ID", JOINED) == TYPES["L"]
    assert type_of("NAME", JOINED) == TYPES["S"]


def test_arguments_that_set_up_an_aggregate_are_literals() -> None:
    error = error_of("EARLIEST_BY_OFFSET(S, I)", WITH_AGGREGATES)

    assert error.message == (
        "Parameter 2 passed to function EARLIEST_BY_OFFSET must be a literal constant, "
        "but was expression: 'I'"
    )


def test_an_irreversible_aggregate_is_refused_on_a_table() -> None:
    table = Scope(SCOPE.columns, aggregates=True, table=True)

    assert error_of("MIN(I)", table).message == (
        "The aggregation function MIN cannot be applied to a table source, only to a stream source."
    )
    assert type_of("SUM(I)", table) == TYPES["I"]


def test_a_condition_is_a_boolean() -> None:
    with pytest.raises(SqlError, match="Should evaluate to boolean but is"):
        condition(parse_expression("RANDOM() + 1.5"), SCOPE)

    assert condition(parse_expression("B"), SCOPE) == Text(
        "coalesce(`B`, false)", "(row['B'] is True)"
    )


def test_names_are_quoted_and_text_is_escaped() -> None:
    text = to_spark(parse_expression(r"CONCAT('it''s a \ ', S)"), SCOPE)

    assert text == r"concat(coalesce('it\'s a \\ ', ''), coalesce(`S`, ''))"
