"""Random expressions: formatted and parsed again, they are the same."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.rows.errors import SqlError
from ottla.sql.syntax import format_expression, format_statement, parse, parse_expression

NAMES = st.sampled_from(["a", "B", "`a b`", "`from`", '"x"', "day", "s.a", "`s`.`t`", "a@b"])
OPERATORS = ("+", "-", "*", "/", "%", "||", "=", "<>", "<", ">=", "AND", "OR", "LIKE")
TYPES = st.sampled_from(["INT", "STRING", "DECIMAL(4, 2)", "ARRAY<STRUCT<`x` INT, Y DATE>>"])
LITERALS = st.one_of(
    st.integers(min_value=0, max_value=2**64).map(str),
    st.sampled_from(["1.5", ".5", "1E5", "2e-3", "TRUE", "NULL", "''", "'${x}'"]),
    st.text(max_size=5).map(lambda text: "'" + text.replace("'", "''") + "'"),
)


def joined(*parts: st.SearchStrategy[str] | str) -> st.SearchStrategy[str]:
    strategies = [st.just(part) if isinstance(part, str) else part for part in parts]
    return st.tuples(*strategies).map(" ".join)


def larger(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Many of these are not expressions, such as `a = b = c`: they are refused without a crash."""
    operators = st.sampled_from([*OPERATORS, "IS DISTINCT FROM", "IS NOT DISTINCT FROM"])
    return st.one_of(
        joined(inner, operators, inner),
        joined("(", inner, ")"),
        joined("-", inner),
        joined("NOT", inner),
        joined(inner, st.sampled_from(["IS NULL", "IS NOT NULL", "LIKE 'x!%' ESCAPE '!'"])),
        joined(inner, st.sampled_from(["BETWEEN", "NOT BETWEEN"]), inner, "AND", inner),
        joined(inner, st.sampled_from(["IN (", "NOT IN ("]), inner, ",", inner, ")"),
        joined(inner, "[", inner, "]"),
        joined(inner, "->", st.sampled_from(["f", "`g h`", "type"])),
        joined("CAST(", inner, "AS", TYPES, ")"),
        joined("CASE WHEN", inner, "THEN", inner, "ELSE", inner, "END"),
        joined("CASE", inner, "WHEN", inner, "THEN", inner, "END"),
        joined("F(", inner, ",", inner, ")"),
        joined("ARRAY[", inner, "]"),
        joined("MAP(", inner, ":=", inner, ")"),
        joined("STRUCT( x :=", inner, ", `y` :=", inner, ")"),
        joined("TRANSFORM(", inner, ", x =>", inner, ")"),
        joined("REDUCE(", inner, ", (s, x) =>", inner, ")"),
    )


EXPRESSIONS = st.recursive(st.one_of(NAMES, LITERALS), larger, max_leaves=12)


@settings(max_examples=400, deadline=None)
@given(EXPRESSIONS)
def test_an_expression_is_read_again_as_the_same(text: str) -> None:
    try:
        first = parse_expression(text)
    except SqlError:
        return
    written = format_expression(first)
    assert parse_expression(written) == first
    assert format_expression(parse_expression(written)) == written


@settings(max_examples=100, deadline=None)
@given(EXPRESSIONS, EXPRESSIONS, EXPRESSIONS)
def test_a_statement_is_read_again_as_the_same(one: str, two: str, three: str) -> None:
    text = (
        f"CREATE TABLE x AS SELECT {one} AS a, * FROM s WINDOW SESSION (5 SECONDS)"
        f" WHERE {two} GROUP BY {three}, b HAVING {one} EMIT CHANGES;"
    )
    try:
        first = parse(text)
    except SqlError:
        return
    assert parse(format_statement(first[0])) == first


@settings(max_examples=300, deadline=None)
@given(st.text(alphabet=st.sampled_from("aS 1.'`\"-/*+;()[]<>=!:$%{}|,\n")))
def test_any_text_is_parsed_or_refused(text: str) -> None:
    for statement in (text, f"SELECT {text} FROM s;"):
        refused = refusal(statement)
        assert refused is None or (refused.line >= 1 and refused.column >= 1)


def refusal(text: str) -> SqlError | None:
    try:
        parse(text)
    except SqlError as error:
        return error
    return None
