"""Several statements in a text, incomplete statements, variables, custom types."""

from __future__ import annotations

import pytest
from sqlglot import exp

from ottla.rows.errors import SqlError
from ottla.rows.types import INTEGER, STRING, struct
from ottla.sql.syntax import format_expression, parse, parse_expression, split_statements
from ottla.sql.syntax.statements import CreateSource, Define, Select, Show


def test_statements_are_cut_at_semicolons_and_nowhere_else() -> None:
    text = "SHOW STREAMS; -- one; two\nSELECT 'a;b', `c;d` /* ; */ FROM s EMIT CHANGES;;\n;"
    first, second = parse(text)
    assert isinstance(first, Show)
    assert isinstance(second, Select)
    assert second.text == "SELECT 'a;b', `c;d` /* ; */ FROM s EMIT CHANGES;"
    assert (second.line, second.column) == (2, 1)


@pytest.mark.parametrize("text", ["", "  \n", "-- nothing", "/* nothing */ ;", ";;"])
def test_a_text_can_be_empty(text: str) -> None:
    assert parse(text) == []


@pytest.mark.parametrize(
    ("text", "whole", "rest"),
    [
        ("SHOW STREAMS;", ["SHOW STREAMS;"], ""),
        ("SHOW STREAMS", [], "SHOW STREAMS"),
        ("SHOW STREAMS; SHOW", ["SHOW STREAMS;"], " SHOW"),
        ("SELECT 'a;", [], "SELECT 'a;"),
        ("SELECT `a;", [], "SELECT `a;"),
        ("SHOW TABLES; /* a;", ["SHOW TABLES;"], " /* a;"),
        ("SHOW TABLES; -- done", ["SHOW TABLES;"], ""),
        ("-- a;\nSHOW TABLES;", ["SHOW TABLES;"], ""),
        ("", [], ""),
    ],
)
def test_typed_text_is_complete_or_continues(text: str, whole: list[str], rest: str) -> None:
    assert split_statements(text) == (whole, rest)


def test_a_variable_is_replaced_everywhere() -> None:
    (found,) = parse(
        "CREATE STREAM ${name} (a INT, `${name} x` ${type}) WITH (kafka_topic='${Name}-topic');",
        variables={"NAME": "orders", "type": "STRING"},
    )
    assert isinstance(found, CreateSource)
    assert found.name == "ORDERS"
    assert [element.name for element in found.elements] == ["A", "orders x"]
    assert found.properties == {"KAFKA_TOPIC": "orders-topic"}
    assert found.text.startswith("CREATE STREAM orders (")


def test_a_variable_applies_from_its_definition_on() -> None:
    define, select, _ = parse(
        "DEFINE what = 'a + 1'; SELECT ${what} FROM s EMIT CHANGES; UNDEFINE WHAT;"
    )
    assert define == Define("what", "a + 1")
    assert isinstance(select, Select)
    assert select.query.select[0].expression == parse_expression("a + 1")
    with pytest.raises(SqlError, match="not defined"):
        parse("DEFINE x = 'a'; UNDEFINE x; SELECT ${x} FROM s;")


def test_in_a_string_an_unknown_variable_stays_and_a_doubled_dollar_escapes() -> None:
    (found,) = parse("SELECT '${other}', '$${x}' FROM s EMIT CHANGES;", variables={"x": "no"})
    assert isinstance(found, Select)
    shown = [format_expression(item.expression) for item in found.query.select if item.expression]
    assert shown == ["'${other}'", "'${x}'"]


def test_a_variable_ends_no_statement() -> None:
    with pytest.raises(SqlError):
        parse(
            "SELECT ${x} FROM s EMIT CHANGES;", variables={"x": "1 FROM t; DROP TABLE t; SELECT 1"}
        )


def test_custom_types_are_registered_or_given() -> None:
    address = struct(("CITY", STRING))
    _, made, *_ = parse(
        "CREATE TYPE point AS STRUCT<x INT>;"
        "CREATE STREAM s (a ADDRESS, p ARRAY<point>, c STRUCT<p point>);"
        "DROP TYPE point;",
        types={"ADDRESS": address},
    )
    assert isinstance(made, CreateSource)
    assert made.elements[0].type == address
    assert made.elements[1].type.element == struct(("X", INTEGER))
    with pytest.raises(SqlError, match="unknown type: POINT"):
        parse("CREATE TYPE point AS INT; DROP TYPE point; CREATE STREAM s (a point);")


def test_names_are_upper_case_unless_quoted() -> None:
    column = parse_expression('s."Mixed"')
    assert isinstance(column, exp.Column)
    assert (column.table, column.name) == ("S", "Mixed")


def test_nodes_have_positions() -> None:
    tree = parse_expression("a +\n  b->c")
    places = {
        node.sql(): (node.meta["line"], node.meta["col"]) for node in tree.find_all(exp.Identifier)
    }
    assert places == {"A": (1, 1), "B": (2, 3), "C": (2, 6)}


def test_a_thousand_alternatives_make_a_flat_tree() -> None:
    text = " OR ".join(f"a = {number}" for number in range(5000))
    tree = parse_expression(text)
    assert format_expression(tree) == text.replace("a", "A")
