"""Errors of the parser: position, expected tokens, and remedy."""

from __future__ import annotations

import pytest

from ottla.rows.errors import SqlError
from ottla.sql.syntax import parse, parse_expression

MISTAKES = [
    # statement, line, column, a part of the message, a part of the remedy
    ("SHOW STREAMS", 1, 13, "missing ';'", "semicolon"),
    ("SHOW STREAMS SHOW TABLES;", 1, 14, "unexpected 'SHOW'", "a semicolon (;) is missing"),
    ("SELECT * FROM s\nSELECT * FROM t;", 2, 1, "unexpected 'SELECT'", "semicolon"),
    ("SELECT * FROM t WHERE a == 1;", 1, 25, "unexpected '=='", "single equals sign"),
    (
        'CREATE STREAM s (a INT) WITH (KAFKA_TOPIC="x");',
        1,
        43,
        "string",
        "single quotes for strings: 'x'",
    ),
    ("CREATE STREAM s (a INT) WITH (VALUE_FORMAT=JSON);", 1, 44, "string", "'JSON'"),
    (
        "CREATE STREAM 's' (a INT);",
        1,
        15,
        "name of a stream or table",
        "back quotes for names: `s`",
    ),
    ("SELECT * FROM 's';", 1, 15, "name of a stream or table", "back quotes"),
    ("SELECT * FORM s;", 1, 10, "expected ',' or FROM", "Did you mean FROM?"),
    ("SELECT 1;", 1, 9, "unexpected end of statement", "FROM with a stream or table"),
    ("SHOW;", 1, 5, "unexpected end of statement", "STREAMS, TABLES, TOPICS"),
    ("SELECT a b c FROM s;", 1, 12, "unexpected 'c'", ""),
    ("SELECT a, FROM s;", 1, 11, "expected an expression", "FROM is a reserved word"),
    ("SELECT size FROM s;", 1, 8, "unexpected 'size'", "`SIZE`"),
    ("CREATE STREAM s (limit INT);", 1, 18, "name of a column", "`LIMIT`"),
    ("SELECT * FROM s EMIT CHANGE;", 1, 22, "CHANGES or FINAL", "Did you mean CHANGES?"),
    ("SELECT * FROM s LIMIT 3 EMIT CHANGES;", 1, 25, "in the wrong place", "EMIT, LIMIT"),
    (
        "SELECT * FROM s GROUP BY a WHERE b EMIT CHANGES;",
        1,
        28,
        "in the wrong place",
        "WHERE, GROUP BY",
    ),
    ("SELECT 'abc FROM s;", 1, 8, "unterminated string", "single quote"),
    ("SELECT `abc FROM s;", 1, 8, "unterminated name", "back quote"),
    ("SELECT /* abc FROM s;", 1, 8, "unterminated comment", "*/"),
    ("SELECT ‘abc’ FROM s;", 1, 8, "unexpected '‘'", "straight single quotes"),
    ("SELECT a FROM my-topic EMIT CHANGES;", 1, 17, "unexpected '-'", ""),
    ("SELECT 1a FROM s;", 1, 8, "must not start with a digit", "`1a`"),
    ("SELECT a # b FROM s;", 1, 10, "unexpected '#'", "back quotes"),
    ("CREAT STREAM s (a INT);", 1, 1, "unknown statement: CREAT", "Did you mean CREATE?"),
    ("SELCT * FROM s;", 1, 1, "unknown statement: SELCT", "Did you mean SELECT?"),
    ("UPDATE t SET a = 1;", 1, 1, "unknown statement: UPDATE", "INSERT INTO"),
    ("DELETE FROM t;", 1, 1, "unknown statement: DELETE", "no value"),
    ("GRANT ALL;", 1, 1, "unknown statement: GRANT", "starts with one of"),
    ("SHOW STREAM;", 1, 6, "unexpected 'STREAM'", "Did you mean STREAMS?"),
    ("CREATE VIEW v AS SELECT * FROM s;", 1, 8, "unexpected 'VIEW'", ""),
    ("SET auto.offset.reset = 'earliest';", 1, 5, "name of a property", "single quotes"),
    ("SET 'auto.offset.reset' = earliest;", 1, 27, "value as a string", "'earliest'"),
    ("DEFINE x = 3;", 1, 12, "value as a string", ""),
    ("CREATE STREAM s (a TEXT);", 1, 20, "unknown type: TEXT", "Write STRING."),
    ("CREATE STREAM s (a STRNG);", 1, 20, "unknown type: STRNG", "Did you mean STRING?"),
    ("CREATE STREAM s (a Mine);", 1, 20, "unknown type: MINE", "CREATE TYPE"),
    ("CREATE STREAM s (a ARRAY);", 1, 20, "ARRAY needs element types", "ARRAY<INT>"),
    ("CREATE STREAM s (a DECIMAL);", 1, 20, "precision and a scale", "DECIMAL(10, 2)"),
    ("CREATE STREAM s (a DECIMAL(2, 3));", 1, 20, "precision must be >= scale", ""),
    ("CREATE STREAM s (a DECIMAL(0, 0));", 1, 20, "precision must be >= 1", ""),
    ("CREATE STREAM s (a DECIMAL(39, 0));", 1, 20, "precision must be <= 38", ""),
    ("CREATE STREAM s (a INT) AS SELECT * FROM t;", 1, 25, "takes its columns", "Remove"),
    (
        "CREATE SOURCE STREAM s AS SELECT * FROM t;",
        1,
        24,
        "a SOURCE stream or table can't have a query",
        "SOURCE",
    ),
    ("CREATE STREAM s (a INT) WITH (A='1', a='2');", 1, 38, "Duplicate property: A", "Remove one"),
    ("CREATE STREAM s AS SELECT * FROM t ORDER BY a;", 1, 36, "ORDER BY", "pull query"),
    ("SELECT COUNT(DISTINCT a) FROM s EMIT CHANGES;", 1, 14, "DISTINCT", "COUNT_DISTINCT"),
    ("SELECT DISTINCT a FROM s EMIT CHANGES;", 1, 8, "SELECT DISTINCT", "GROUP BY"),
    ("SELECT * FROM (SELECT * FROM s) EMIT CHANGES;", 1, 15, "a subquery", "pull query"),
    ("SELECT a FROM s WINDOW TUMBLING (SIZE 5 SEC);", 1, 41, "unit of time", "SECONDS"),
    ("SELECT a FROM s WINDOW TUMBLING (SIZE 5);", 1, 40, "unit of time", "MILLISECOND"),
    ("SELECT a FROM s WINDOW TUMBLING (SIZE 5 SECNDS);", 1, 41, "unit of time", "SECONDS"),
    ("SELECT a FROM s WINDOW TUMBLING (SIZE ten SECONDS);", 1, 39, "expected a number", ""),
    ("SELECT a FROM s WINDOW TUMBLING (5 SECONDS);", 1, 34, "expected SIZE", ""),
    ("SELECT a FROM s WINDOW HOPPING (SIZE 5 SECONDS);", 1, 24, "ADVANCE BY", "HOPPING"),
    ("SELECT a FROM s WINDOW SLIDING (SIZE 5 SECONDS);", 1, 24, "TUMBLING", ""),
    ("SELECT * FROM a JOIN b EMIT CHANGES;", 1, 24, "expected", ""),
    ("SELECT * FROM s WHERE a IN (1, 2;", 1, 33, "end of statement", "not closed"),
    ("SELECT * FROM s WHERE a IN 1;", 1, 28, "expected '('", ""),
    ("SELECT a.b.c FROM s;", 1, 11, "unexpected '.'", "A.B->X"),
    ("SELECT STRUCT(a = 1) FROM s;", 1, 17, "expected ':='", "NAME := value"),
    ("SELECT a LIKE 'x' ESCAPE 'ab' FROM s;", 1, 26, "only one escape character", "ESCAPE '!'"),
    ("SELECT CASE a END FROM s;", 1, 15, "WHEN", ""),
    ("INSERT INTO s (a, b) VALUES (1);", 1, 29, "value for each column", "must match"),
    ("INSERT INTO s VALUES (1), (2);", 1, 25, "one row", "for each row"),
    ("INSERT s VALUES (1);", 1, 8, "expected INTO", ""),
    ("ALTER STREAM s DROP COLUMN a;", 1, 16, "can only add columns", "ADD COLUMN"),
    ("DROP STREAM s DELETE;", 1, 15, "unexpected 'DELETE'", ""),
    ("SELECT ${nobody} FROM s;", 1, 8, "variable nobody is not defined", "DEFINE nobody"),
    ("SELECT a FROM t ORDER BY;", 1, 17, "", "Spark's grammar"),
    ("SELECT (((a FROM s;", 1, 13, "unexpected 'FROM'", ""),
]


@pytest.mark.parametrize(("text", "line", "column", "message", "remedy"), MISTAKES)
def test_a_mistake_has_its_place_and_a_remedy(
    text: str, line: int, column: int, message: str, remedy: str
) -> None:
    with pytest.raises(SqlError) as caught:
        parse(text)
    error = caught.value
    assert message in error.message
    assert remedy in error.remedy
    assert (error.line, error.column) == (line, column)
    assert error.statement


def test_the_position_counts_from_the_start_of_the_text() -> None:
    with pytest.raises(SqlError) as caught:
        parse("SHOW STREAMS;\n\n  SELECT *\n  FORM s;")
    assert (caught.value.line, caught.value.column) == (4, 3)
    assert caught.value.statement == "SELECT *\n  FORM s;"


def test_the_position_refers_to_the_text_before_substitution() -> None:
    with pytest.raises(SqlError) as caught:
        parse("SELECT ${a}, ${a} FORM s;", variables={"a": "a_long_name"})
    assert (caught.value.line, caught.value.column) == (1, 24)
    assert caught.value.remedy == "Did you mean FROM instead of FORM?"


def test_the_depth_of_brackets_is_limited() -> None:
    with pytest.raises(SqlError, match="nested more than"):
        parse_expression("(" * 5000 + "1" + ")" * 5000)
    with pytest.raises(SqlError, match="nested more than"):
        parse_expression("NOT " * 5000 + "a")
    with pytest.raises(SqlError, match="nested more than"):
        parse_expression("- " * 5000 + "1")
    with pytest.raises(SqlError, match="operands in a row"):
        parse_expression("1" + " + 1" * 5000)
