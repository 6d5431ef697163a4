"""The cursor: a position in the tokens of a statement, and the tokens expected there."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final, NoReturn, TypeVar

from sqlglot import exp

from ottla.rows.errors import SqlError
from ottla.rows.reserved_words import RESERVED_WORDS
from ottla.rows.types import SqlType
from ottla.sql.syntax import mistakes
from ottla.sql.syntax.tokens import NUMBERS, Lexeme, SqlToken

DEPTH_MAX: Final = 50
"""The maximum nesting of expressions and types: a level takes a dozen of the
thousand frames of Python's stack."""

T = TypeVar("T")
Node = TypeVar("Node", bound=exp.Expression)


class Cursor:
    """Reads tokens. `types` are custom types; `position_of` gives line and column of an offset."""

    def __init__(
        self,
        text: str,
        tokens: Sequence[SqlToken],
        *,
        types: Mapping[str, SqlType],
        position_of: Callable[[int], tuple[int, int]],
    ) -> None:
        self.text = text
        self.types = types
        after = tokens[-1].end if tokens else len(text)
        end = SqlToken(Lexeme.END, "", "", after, after)
        self._tokens = [*tokens, end]
        self._position_of = position_of
        self._expected: set[str] = set()
        self._depth = 0
        self.index = 0
        self.token = self._tokens[0]

    # -- moving

    def next(self) -> SqlToken:
        token = self.token
        self.back_to(self.index + 1)
        return token

    def back_to(self, index: int) -> None:
        self.index = index
        self.token = self._tokens[index]
        self._expected = set()

    def ahead(self, count: int = 1) -> SqlToken:
        return self._tokens[min(self.index + count, len(self._tokens) - 1)]

    def is_ahead(self, value: str, count: int = 1) -> bool:
        token = self.ahead(count)
        return token.value == value and token.kind in (Lexeme.WORD, Lexeme.SYMBOL)

    @property
    def at_end(self) -> bool:
        return self.token.kind is Lexeme.END

    @contextmanager
    def deeper(self) -> Iterator[None]:
        self._depth += 1
        if self._depth > DEPTH_MAX:
            self.fail(f"nested more than {DEPTH_MAX} levels deep", "Take it apart.")
        yield
        self._depth -= 1

    # -- asking

    def is_word(self, *words: str) -> bool:
        if self.token.kind is Lexeme.WORD and self.token.value in words:
            return True
        self._expected.update(words)
        return False

    def is_symbol(self, symbol: str) -> bool:
        if self.token.kind is Lexeme.SYMBOL and self.token.value == symbol:
            return True
        self._expected.add(f"'{symbol}'")
        return False

    # -- taking

    def word(self, *words: str) -> str:
        """Take one of these words; "" if none is next."""
        return self.next().value if self.is_word(*words) else ""

    def phrase(self, *words: str) -> bool:
        """Take all of these words; False if they are not next."""
        for count, word in enumerate(words):
            token = self.ahead(count)
            if token.kind is not Lexeme.WORD or token.value != word:
                if count == 0:
                    self._expected.add(" ".join(words))
                return False
        self.back_to(self.index + len(words))
        return True

    def symbol(self, symbol: str) -> bool:
        if not self.is_symbol(symbol):
            return False
        self.next()
        return True

    def need_word(self, *words: str) -> str:
        return self.word(*words) or self.unexpected()

    def need_phrase(self, *words: str) -> None:
        for word in words:
            self.need_word(word)

    def need_symbol(self, symbol: str) -> None:
        if not self.symbol(symbol):
            self.unexpected()

    def listed(self, item: Callable[[], T]) -> tuple[T, ...]:
        """One or more items, separated by commas."""
        items = [item()]
        while self.symbol(","):
            items.append(item())
        return tuple(items)

    @property
    def is_name(self) -> bool:
        kind = self.token.kind
        if kind is Lexeme.WORD:
            return self.token.value not in RESERVED_WORDS
        return kind is Lexeme.QUOTED

    def name(self, what: str = "a name") -> str:
        """Take a name: upper case unless quoted."""
        if not self.is_name:
            self.unexpected(what)
        return self.next().value

    def name_as_written(self, what: str = "a name") -> str:
        """Take a name from outside of SQL, such as a topic: case-sensitive, possibly a string."""
        if self.token.kind is Lexeme.STRING:
            return self.next().value
        if not self.is_name:
            self.unexpected(what)
        token = self.next()
        return token.value if token.kind is Lexeme.QUOTED else token.text

    def string(self, what: str = "a string") -> str:
        if self.token.kind is not Lexeme.STRING:
            self.unexpected(what)
        return self.next().value

    def integer(self, what: str = "a whole number") -> int:
        if self.token.kind is not Lexeme.INTEGER:
            self.unexpected(what)
        return int(self.next().value)

    @property
    def is_number(self) -> bool:
        return self.token.kind in NUMBERS

    # -- positions and errors

    def position(self, token: SqlToken) -> tuple[int, int]:
        return self._position_of(token.start)

    def mark(self, node: Node, token: SqlToken) -> Node:
        """Store the position of a token in the node."""
        line, column = self.position(token)
        node.meta["line"], node.meta["col"] = line, column
        return node

    def unexpected(self, what: str = "") -> NoReturn:
        message, remedy = mistakes.explain_mistake(
            self.ahead(-1), self.token, self.ahead(), self._expected, what
        )
        self.fail(message, remedy)

    def fail(self, message: str, remedy: str = "", at: SqlToken | None = None) -> NoReturn:
        line, column = self.position(at or self.token)
        raise SqlError(message, remedy=remedy, statement=self.text, line=line, column=column)

    def fail_inside(self, error: SqlError, start: SqlToken) -> NoReturn:
        """Raise an error of another grammar in the part that starts at this token."""
        lines = self.text[start.start :].split("\n")
        before = sum(len(line) + 1 for line in lines[: max(error.line - 1, 0)])
        line, column = self._position_of(start.start + before + max(error.column - 1, 0))
        raise SqlError(
            error.message, remedy=error.remedy, statement=self.text, line=line, column=column
        )
