"""Parser of expressions. Precedence as in ksqlDB, loosest first: OR, AND, NOT, one comparison,
`+ - ||`, `* / %`, sign, then `[...]` and `->`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from sqlglot import exp

from ottla.rows.reserved_words import UNITS
from ottla.sql.syntax import nodes
from ottla.sql.syntax.cursor import Cursor
from ottla.sql.syntax.tokens import Lexeme, SqlToken
from ottla.sql.syntax.type_names import type_name

Expression = exp.Expression

CHAIN_MAX: Final = 400
"""The maximum number of operands of `a + b + ...`, which is the depth of the tree."""
FLAT_MAX: Final = 16
"""Longer chains of AND or OR become a balanced tree, so that a thousand operands work."""

_COMPARISONS: Final[dict[str, type[Expression]]] = {
    "=": exp.EQ,
    "<>": exp.NEQ,
    "!=": exp.NEQ,
    "<": exp.LT,
    "<=": exp.LTE,
    ">": exp.GT,
    ">=": exp.GTE,
}
_SUMS: Final[dict[str, type[Expression]]] = {"+": exp.Add, "-": exp.Sub}
_PRODUCTS: Final[dict[str, type[Expression]]] = {"*": exp.Mul, "/": exp.Div, "%": exp.Mod}
_TAKES_UNIT: Final = frozenset(
    {"TIMESTAMPADD", "TIMESTAMPSUB", "DATEADD", "DATESUB", "TIMEADD", "TIMESUB"}
)
_ONLY_UNITS: Final = frozenset({"MILLISECOND", *(unit for unit in UNITS if unit.endswith("S"))})


class BeyondKsql(Exception):
    """Syntax that only Spark's grammar has, and which pull queries may use."""

    def __init__(self, token: SqlToken, what: str) -> None:
        super().__init__(what)
        self.token = token
        self.what = what


def expression(at: Cursor) -> Expression:
    with at.deeper():
        return _chain(at, "OR", exp.Or, lambda: _chain(at, "AND", exp.And, lambda: _not(at)))


def _chain(
    at: Cursor, word: str, node: type[Expression], operand: Callable[[], Expression]
) -> Expression:
    operands = [operand()]
    while at.word(word):
        operands.append(operand())
    if len(operands) > FLAT_MAX:
        return _balanced(node, operands)
    whole = operands[0]
    for next_operand in operands[1:]:
        whole = node(this=whole, expression=next_operand)
    return whole


def _balanced(node: type[Expression], operands: Sequence[Expression]) -> Expression:
    if len(operands) == 1:
        return operands[0]
    half = len(operands) // 2
    return node(this=_balanced(node, operands[:half]), expression=_balanced(node, operands[half:]))


def _not(at: Cursor) -> Expression:
    token = at.token
    if at.is_word("EXISTS") and at.is_ahead("("):
        raise BeyondKsql(token, "EXISTS")
    if at.word("NOT"):
        with at.deeper():
            return at.mark(exp.Not(this=_not(at)), token)
    return _predicate(at)


def _predicate(at: Cursor) -> Expression:
    left = value(at)
    token = at.token
    if token.kind is Lexeme.SYMBOL and token.value in _COMPARISONS:
        at.next()
        return at.mark(_COMPARISONS[token.value](this=left, expression=value(at)), token)
    if at.word("IS"):
        return _is(at, left, token)
    negative = bool(at.word("NOT"))
    found: Expression
    if at.word("BETWEEN"):
        low = value(at)
        at.need_word("AND")
        found = exp.Between(this=left, low=low, high=value(at))
    elif at.word("IN"):
        found = _in(at, left)
    elif at.word("LIKE"):
        found = exp.Like(this=left, expression=value(at))
        if at.word("ESCAPE"):
            found = exp.Escape(this=found, expression=_escape(at))
    elif negative:
        at.unexpected()
    else:
        return left
    at.mark(found, token)
    return at.mark(exp.Not(this=found), token) if negative else found


def _is(at: Cursor, left: Expression, token: SqlToken) -> Expression:
    negative = bool(at.word("NOT"))
    if at.phrase("DISTINCT", "FROM"):
        node = exp.NullSafeEQ if negative else exp.NullSafeNEQ
        return at.mark(node(this=left, expression=value(at)), token)
    at.need_word("NULL")
    found = at.mark(exp.Is(this=left, expression=exp.Null()), token)
    return at.mark(exp.Not(this=found), token) if negative else found


def _in(at: Cursor, left: Expression) -> Expression:
    at.need_symbol("(")
    if at.is_word("SELECT", "WITH"):
        raise BeyondKsql(at.token, "a subquery")
    choices = at.listed(lambda: expression(at))
    at.need_symbol(")")
    return exp.In(this=left, expressions=list(choices))


def _escape(at: Cursor) -> Expression:
    token = at.token
    text = at.string("the escape character as a string")
    if len(text) != 1:
        at.fail(
            f"Expected only one escape character but got {text}", "For example: ESCAPE '!'.", token
        )
    return exp.Literal.string(text)


def value(at: Cursor) -> Expression:
    """An expression without AND, OR and comparisons outside of parentheses."""
    found = _product(at)
    count = 0
    while at.token.kind is Lexeme.SYMBOL and at.token.value in ("+", "-", "||"):
        token = at.next()
        count = _counted(at, count)
        right = _product(at)
        if token.value == "||":
            found = exp.Anonymous(this="CONCAT", expressions=[found, right])
        else:
            found = _SUMS[token.value](this=found, expression=right)
        at.mark(found, token)
    return found


def _product(at: Cursor) -> Expression:
    found = _signed(at)
    count = 0
    while at.token.kind is Lexeme.SYMBOL and at.token.value in _PRODUCTS:
        token = at.next()
        count = _counted(at, count)
        found = at.mark(_PRODUCTS[token.value](this=found, expression=_signed(at)), token)
    return found


def _counted(at: Cursor, count: int) -> int:
    if count >= CHAIN_MAX:
        at.fail(f"more than {CHAIN_MAX} operands in a row", "Use parentheses to split it.")
    return count + 1


def _signed(at: Cursor) -> Expression:
    token = at.token
    if at.symbol("-"):
        with at.deeper():
            return at.mark(exp.Neg(this=_signed(at)), token)
    if at.symbol("+"):
        with at.deeper():
            return _signed(at)
    return _reached_into(at)


def _reached_into(at: Cursor) -> Expression:
    """`a[1]`, `a->b`, and so on, but not `a->*`, which only the select list has."""
    found = _primary(at)
    while True:
        token = at.token
        if at.symbol("["):
            index = value(at)
            at.need_symbol("]")
            found = at.mark(exp.Bracket(this=found, expressions=[index]), token)
        elif at.is_symbol("->") and not at.is_ahead("*"):
            at.next()
            field = _identifier(at, "the name of a field")
            found = at.mark(exp.Dot(this=found, expression=field), token)
        else:
            return found


def _primary(at: Cursor) -> Expression:
    token = at.token
    kind = token.kind
    if kind is Lexeme.STRING:
        return at.mark(exp.Literal.string(at.next().value), token)
    if at.is_number:
        at.next()
        return at.mark(exp.Literal(this=token.text, is_string=False), token)
    if kind is Lexeme.SYMBOL and token.value == "(":
        return _bracketed(at)
    special = _SPECIAL.get(token.value) if kind is Lexeme.WORD else None
    found = special(at, token) if special else None
    if found is not None:
        return at.mark(found, token)
    if not at.is_name:
        at.unexpected("an expression")
    if at.is_ahead("("):
        return _function(at)
    return _column(at)


def _bracketed(at: Cursor) -> Expression:
    token = at.next()
    if at.is_word("SELECT", "WITH"):
        raise BeyondKsql(at.token, "a subquery")
    inner = expression(at)
    at.need_symbol(")")
    return at.mark(exp.Paren(this=inner), token)


def _identifier(at: Cursor, what: str = "a name") -> exp.Identifier:
    token = at.token
    return at.mark(exp.Identifier(this=at.name(what), quoted=False), token)


def _column(at: Cursor) -> Expression:
    token = at.token
    name = _identifier(at)
    if at.is_symbol(".") and not at.is_ahead("*"):
        at.next()
        column = _identifier(at, "the name of a column")
        if at.is_symbol("."):
            at.fail(
                "unexpected '.' after a column",
                f"Use an arrow for the field of a STRUCT: {name.this}.{column.this}->X.",
            )
        return at.mark(exp.Column(this=column, table=name), token)
    return at.mark(exp.Column(this=name), token)


# -- functions


def _function(at: Cursor) -> Expression:
    token = at.next()
    name = token.value.upper()
    at.need_symbol("(")
    if at.is_symbol("*") and at.is_ahead(")"):
        at.next()
        at.next()
        return _called(at, token, exp.Anonymous(this=name, expressions=[exp.Star()]))
    if at.is_word("DISTINCT"):
        raise BeyondKsql(at.token, f"{name}(DISTINCT ...)")
    arguments: list[Expression] = []
    if not at.is_symbol(")"):
        while True:
            arguments.append(_argument(at, name, first=not arguments))
            if not at.symbol(","):
                break
    at.need_symbol(")")
    return _called(at, token, exp.Anonymous(this=name, expressions=arguments))


def _called(at: Cursor, token: SqlToken, call: exp.Anonymous) -> Expression:
    if at.is_word("OVER", "FILTER") and at.is_ahead("("):
        raise BeyondKsql(at.token, at.token.value)
    return at.mark(call, token)


def _argument(at: Cursor, function: str, *, first: bool) -> Expression:
    token = at.token
    if token.kind is Lexeme.WORD and token.value in UNITS:
        alone = at.is_ahead(",") or at.is_ahead(")")
        if alone and (token.value in _ONLY_UNITS or (first and function in _TAKES_UNIT)):
            at.next()
            return at.mark(nodes.IntervalUnit(this=token.value), token)
    parameters = _lambda_parameters(at)
    if parameters:
        body = expression(at)
        return at.mark(exp.Lambda(this=body, expressions=parameters), token)
    return expression(at)


def _lambda_parameters(at: Cursor) -> list[Expression]:
    """Take `x =>` or `(k, v) =>`; empty if none is next."""
    start = at.index
    if at.is_name and at.is_ahead("=>"):
        names: list[Expression] = [_identifier(at)]
        at.next()
        return names
    if at.token.value == "(" and at.token.kind is Lexeme.SYMBOL:
        at.next()
        names = []
        while at.is_name:
            names.append(_identifier(at))
            if not at.symbol(","):
                break
        if names and at.symbol(")") and at.symbol("=>"):
            return names
        at.back_to(start)
    return []


# -- expressions with a keyword


def _case(at: Cursor, token: SqlToken) -> Expression:
    at.next()
    subject = None if at.is_word("WHEN") else value(at)
    whens = []
    while at.word("WHEN"):
        condition = expression(at)
        at.need_word("THEN")
        whens.append(exp.If(this=condition, true=expression(at)))
    if not whens:
        at.unexpected()
    default = expression(at) if at.word("ELSE") else None
    at.need_word("END")
    return exp.Case(this=subject, ifs=whens, default=default)


def _cast(at: Cursor, token: SqlToken) -> Expression:
    at.next()
    at.need_symbol("(")
    inner = expression(at)
    at.need_word("AS")
    to = nodes.TypeNode(this=type_name(at))
    at.need_symbol(")")
    return exp.Cast(this=inner, to=to)


def _array(at: Cursor, token: SqlToken) -> Expression | None:
    if not at.is_ahead("["):
        return None
    at.next()
    at.next()
    items: tuple[Expression, ...] = ()
    if not at.is_symbol("]"):
        items = at.listed(lambda: expression(at))
    at.need_symbol("]")
    return nodes.ArrayOf(expressions=list(items))


def _map(at: Cursor, token: SqlToken) -> Expression | None:
    if not at.is_ahead("("):
        return None
    return nodes.MapOf(expressions=_pairs(at, lambda: expression(at)))


def _struct(at: Cursor, token: SqlToken) -> Expression | None:
    if not at.is_ahead("("):
        return None
    return nodes.StructOf(expressions=_pairs(at, lambda: _identifier(at, "the name of a field")))


def _pairs(at: Cursor, left: Callable[[], Expression]) -> list[Expression]:
    def pair() -> Expression:
        token = at.token
        key = left()
        if at.is_symbol("="):
            at.fail("unexpected '=', expected ':='", "Write entries as NAME := value.")
        at.need_symbol(":=")
        return at.mark(nodes.Pair(this=key, expression=expression(at)), token)

    at.next()
    at.next()
    pairs: tuple[Expression, ...] = ()
    if not at.is_symbol(")"):
        pairs = at.listed(pair)
    at.need_symbol(")")
    return list(pairs)


def _constant(make: Callable[[], Expression]) -> Callable[[Cursor, SqlToken], Expression]:
    def found(at: Cursor, token: SqlToken) -> Expression:
        at.next()
        return make()

    return found


_SPECIAL: Final[dict[str, Callable[[Cursor, SqlToken], Expression | None]]] = {
    "CASE": _case,
    "CAST": _cast,
    "ARRAY": _array,
    "MAP": _map,
    "STRUCT": _struct,
    "NULL": _constant(exp.Null),
    "TRUE": _constant(lambda: exp.Boolean(this=True)),
    "FALSE": _constant(lambda: exp.Boolean(this=False)),
}
