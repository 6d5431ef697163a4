"""Parser of queries: pull queries, EMIT CHANGES, EMIT FINAL."""

from __future__ import annotations

from typing import Final

from ottla.rows.errors import SqlError
from ottla.rows.reserved_words import UNITS
from ottla.rows.schema import WindowKind
from ottla.sql.syntax import mistakes
from ottla.sql.syntax.beyond import limit_of, parse_beyond
from ottla.sql.syntax.cursor import Cursor
from ottla.sql.syntax.expressions import BeyondKsql, Expression, expression, value
from ottla.sql.syntax.statements import (
    Emit,
    Join,
    JoinKind,
    QueryBody,
    Relation,
    SelectItem,
    WindowExpression,
    Within,
)
from ottla.sql.syntax.tokens import Lexeme, SqlToken

_CLAUSES: Final = ("WINDOW", "WHERE", "GROUP", "PARTITION", "HAVING", "EMIT", "LIMIT")
_BEYOND_WORDS: Final = {
    "ORDER": ("BY",),
    "UNION": ("SELECT", "ALL", "DISTINCT", "("),
    "EXCEPT": ("SELECT", "ALL", "DISTINCT", "("),
    "INTERSECT": ("SELECT", "ALL", "DISTINCT", "("),
    "CROSS": ("JOIN",),
    "NATURAL": ("JOIN",),
    "LATERAL": ("VIEW",),
    "USING": ("(",),
}
_INSTEAD: Final = {
    "COUNT(DISTINCT ...)": "COUNT_DISTINCT(x) counts distinct values.",
    "SELECT DISTINCT": "GROUP BY the columns instead.",
}


def query(at: Cursor, *, persistent: bool) -> QueryBody:
    """Parse a SELECT. A pull query beyond ksqlDB's grammar is parsed again with Spark's."""
    start = at.index
    try:
        found = _query(at, persistent=persistent)
    except BeyondKsql as beyond:
        if persistent or _emits(at):
            at.fail(
                f"{beyond.what} is only supported in pull queries",
                _INSTEAD.get(beyond.what, "Leave out EMIT for a pull query."),
                beyond.token,
            )
        return _beyond(at, start)
    if found.emit is None and (found.joins or found.group_by or found.having):
        return _beyond(at, start)
    return found


def _beyond(at: Cursor, start: int) -> QueryBody:
    at.back_to(start)
    first = at.token
    while not at.at_end:
        last = at.next()
    try:
        tree = parse_beyond(at.text[first.start : last.end])
    except SqlError as error:
        at.fail_inside(error, first)
    return QueryBody(beyond=tree, limit=limit_of(tree))


def _emits(at: Cursor) -> bool:
    index = at.index
    while not at.at_end:
        if at.is_word("EMIT") and (at.is_ahead("CHANGES") or at.is_ahead("FINAL")):
            return True
        at.next()
    at.back_to(index)
    return False


def _query(at: Cursor, *, persistent: bool) -> QueryBody:
    if at.is_word("WITH"):
        raise BeyondKsql(at.token, "WITH ... AS (SELECT ...)")
    at.need_word("SELECT")
    if at.is_word("DISTINCT", "ALL"):
        raise BeyondKsql(at.token, f"SELECT {at.token.value}")
    select = at.listed(lambda: _item(at))
    at.need_word("FROM")
    source = _relation(at)
    joins = _joins(at)
    window = _window(at) if at.word("WINDOW") else None
    where = expression(at) if at.word("WHERE") else None
    group_by = _keys(at) if at.phrase("GROUP", "BY") else ()
    partition_by = _partition_by(at) if at.phrase("PARTITION", "BY") else ()
    having = expression(at) if at.word("HAVING") else None
    emit = Emit(at.need_word("CHANGES", "FINAL")) if at.word("EMIT") else None
    limit = at.integer() if at.word("LIMIT") else None
    _stop_at_beyond(at)
    if not at.at_end:
        _misplaced(at)
    return QueryBody(
        select=select,
        source=source,
        joins=joins,
        window=window,
        where=where,
        group_by=group_by,
        partition_by=partition_by,
        having=having,
        emit=Emit.CHANGES if emit is None and persistent else emit,
        limit=limit,
    )


def _stop_at_beyond(at: Cursor) -> None:
    follows = _BEYOND_WORDS.get(at.token.value) if at.token.kind is Lexeme.WORD else None
    if follows and any(at.is_ahead(word) for word in follows):
        raise BeyondKsql(at.token, at.token.value + (" BY" if at.is_ahead("BY") else ""))
    if at.is_word("OFFSET", "QUALIFY", "TABLESAMPLE") and at.ahead().kind is not Lexeme.END:
        raise BeyondKsql(at.token, at.token.value)


def _misplaced(at: Cursor) -> None:
    if at.token.kind is Lexeme.WORD and at.token.value in _CLAUSES:
        at.fail(
            f"unexpected '{at.token.text}': the clause is in the wrong place",
            "The order is FROM, JOIN, WINDOW, WHERE, GROUP BY, PARTITION BY, HAVING, EMIT, LIMIT.",
        )


# -- the select list and FROM


def _item(at: Cursor) -> SelectItem:
    if at.symbol("*"):
        return SelectItem(None, star_of="")
    if at.is_name and at.is_ahead(".") and at.is_ahead("*", 2):
        of = at.name()
        at.next()
        at.next()
        return SelectItem(None, star_of=of)
    found = expression(at)
    if at.symbol("->"):
        at.need_symbol("*")
        return SelectItem(None, star_of=found)
    if at.word("AS"):
        return SelectItem(found, at.name("an alias"))
    _stop_at_beyond(at)
    return SelectItem(found, at.name() if at.is_name else "")


def _relation(at: Cursor) -> Relation:
    token = at.token
    if at.is_symbol("("):
        raise BeyondKsql(token, "a subquery")
    name = at.name("the name of a stream or table")
    _stop_at_beyond(at)
    alias = ""
    if at.word("AS"):
        alias = at.name("an alias")
    elif at.is_name and not _begins_clause(at):
        alias = at.name()
    if at.is_symbol(","):
        raise BeyondKsql(at.token, "a list of streams and tables in FROM")
    line, column = at.position(token)
    return Relation(name, alias or name, line, column)


def _begins_clause(at: Cursor) -> bool:
    """True if EMIT or PARTITION starts a clause; neither is reserved, so it may be an
    alias."""
    if at.is_word("EMIT"):
        return at.ahead().kind is Lexeme.WORD and at.ahead().value not in _CLAUSES
    return at.is_word("PARTITION") and at.is_ahead("BY")


def _joins(at: Cursor) -> tuple[Join, ...]:
    joins: list[Join] = []
    while True:
        _stop_at_beyond(at)
        kind = _join_kind(at)
        if kind is None:
            return tuple(joins)
        relation = _relation(at)
        within = _within(at) if at.word("WITHIN") else None
        if not at.word("ON"):
            at.unexpected()
        joins.append(Join(relation, kind, expression(at), within))


def _join_kind(at: Cursor) -> JoinKind | None:
    word = at.word("INNER", "LEFT", "RIGHT", "FULL", "OUTER", "JOIN")
    if not word:
        return None
    if word == "JOIN":
        return JoinKind.INNER
    if word in ("LEFT", "RIGHT", "FULL"):
        if at.is_word("SEMI", "ANTI"):
            raise BeyondKsql(at.token, f"{word} {at.token.value} JOIN")
        at.word("OUTER")
    at.need_word("JOIN")
    return JoinKind(word) if word in ("INNER", "LEFT", "RIGHT") else JoinKind.OUTER


def _within(at: Cursor) -> Within:
    if at.symbol("("):
        before = duration(at)
        at.need_symbol(",")
        after = duration(at)
        at.need_symbol(")")
    else:
        before = after = duration(at)
    grace = duration(at) if at.phrase("GRACE", "PERIOD") else None
    return Within(before, after, grace)


# -- windows and keys


def duration(at: Cursor) -> int:
    """Take a duration such as `30 SECONDS`; return milliseconds."""
    count = at.integer("a number")
    if at.token.kind is not Lexeme.WORD or at.token.value not in UNITS:
        at.fail(*mistakes.wrong_unit(at.token))
    return count * UNITS[at.next().value]


def _window(at: Cursor) -> WindowExpression:
    if at.is_name and not at.is_word("SESSION") and not at.is_ahead("("):
        at.next()  # a name of the window, which is ignored
    token = at.token
    kind = WindowKind(at.need_word("TUMBLING", "HOPPING", "SESSION"))
    at.need_symbol("(")
    sizes: dict[str, int] = {}
    if kind is WindowKind.SESSION:
        sizes["gap_ms"] = duration(at)
    else:
        at.need_word("SIZE")
        sizes["size_ms"] = duration(at)
    while at.symbol(","):
        name = _window_option(at, kind)
        if name in sizes:
            at.fail("duplicate option of the window")
        sizes[name] = duration(at)
    at.need_symbol(")")
    if kind is WindowKind.HOPPING and "advance_ms" not in sizes:
        at.fail(
            "a hopping window needs ADVANCE BY",
            "For example: WINDOW HOPPING (SIZE 30 SECONDS, ADVANCE BY 10 SECONDS).",
            token,
        )
    _check_sizes(at, token, sizes)
    return WindowExpression(kind, **sizes)


def _check_sizes(at: Cursor, token: SqlToken, sizes: dict[str, int]) -> None:
    """As in Kafka Streams the size is positive, and there is no gap between windows."""
    size = sizes.get("size_ms", sizes.get("gap_ms", 0))
    advance = sizes.get("advance_ms", size)
    if size <= 0:
        at.fail(
            "the size of a window must be positive",
            "For example: WINDOW TUMBLING (SIZE 30 SECONDS).",
            token,
        )
    if not 0 < advance <= size:
        at.fail(
            "a hopping window must advance by more than 0, and by at most its SIZE",
            "If ADVANCE BY equals SIZE, use WINDOW TUMBLING.",
            token,
        )


def _window_option(at: Cursor, kind: WindowKind) -> str:
    if kind is WindowKind.HOPPING and at.phrase("ADVANCE", "BY"):
        return "advance_ms"
    if at.word("RETENTION"):
        return "retention_ms"
    if at.phrase("GRACE", "PERIOD"):
        return "grace_ms"
    at.unexpected()


def _partition_by(at: Cursor) -> tuple[Expression, ...]:
    keys = _keys(at)
    if not keys:
        at.fail(
            "PARTITION BY requires at least one expression",
            "PARTITION BY NULL makes records without a key.",
        )
    return keys


def _keys(at: Cursor) -> tuple[Expression, ...]:
    """The expressions of GROUP BY or PARTITION BY, with or without parentheses around all."""
    start = at.index
    if at.symbol("("):
        keys: tuple[Expression, ...] = ()
        if not at.is_symbol(")"):
            keys = at.listed(lambda: value(at))
        if at.symbol(")") and (at.at_end or at.is_word(*_CLAUSES)):
            return keys
        at.back_to(start)
    return at.listed(lambda: value(at))
