"""A stream of tokens, and the options that may appear anywhere."""

from __future__ import annotations

import re
from typing import Any

from ottla.schemas.invalid_schema import InvalidSchema
from ottla.schemas.protobuf.proto_file import ProtoOption
from ottla.schemas.protobuf.tokens import ProtoToken, tokenize

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_ESCAPE = re.compile(
    r"\\(x[0-9a-fA-F]{1,2}|[0-7]{1,3}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|.)", re.DOTALL
)
# Nesting of maps and lists in the value of an option.
VALUE_DEPTH_MAX = 16
_PLAIN_ESCAPES = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


class TokenStream:
    def __init__(self, text: str) -> None:
        self._tokens = tokenize(text)
        self._at = 0
        self._value_depth = 0

    @property
    def peek(self) -> ProtoToken:
        return self._ahead(0)

    @property
    def next(self) -> ProtoToken:
        return self._ahead(1)

    @property
    def after_next(self) -> ProtoToken:
        return self._ahead(2)

    @property
    def third(self) -> ProtoToken:
        return self._ahead(3)

    def _ahead(self, count: int) -> ProtoToken:
        return self._tokens[min(self._at + count, len(self._tokens) - 1)]

    def take(self) -> ProtoToken:
        token = self.peek
        if token.kind == "end":
            raise self.wrong(token, "more")
        self._at += 1
        return token

    def accept(self, text: str) -> bool:
        found = self.peek.text == text and self.peek.kind != "text"
        if found:
            self._at += 1
        return found

    def expect(self, text: str) -> None:
        if not self.accept(text):
            raise self.wrong(self.peek, text)

    def wrong(self, token: ProtoToken, wanted: str) -> InvalidSchema:
        return InvalidSchema(f"line {token.line}: expected {wanted}, found {token.text}")

    def word(self) -> str:
        token = self.take()
        if token.kind != "word":
            raise self.wrong(token, "a name")
        return token.text

    def name(self) -> str:
        token = self.take()
        self.check_name(token.text)
        return token.text

    def check_name(self, name: str) -> None:
        if not _NAME.match(name):
            raise InvalidSchema(f"line {self.peek.line}: {name} is not a name")

    def integer(self) -> int:
        sign = -1 if self.accept("-") else 1
        token = self.take()
        text = token.text
        try:
            if text[:2] in ("0x", "0X"):
                return sign * int(text, 16)
            if len(text) > 1 and text[0] == "0":
                return sign * int(text, 8)
            return sign * int(text)
        except ValueError as error:
            raise self.wrong(token, "a whole number") from error

    def string(self) -> str:
        """One string, or several in a row."""
        if self.peek.kind != "text":
            raise self.wrong(self.peek, "a string")
        parts = []
        while self.peek.kind == "text":
            parts.append(_ESCAPE.sub(_unescape, self.take().text[1:-1]))
        return "".join(parts)

    def option_statement(self) -> ProtoOption:
        option = self.option()
        self.expect(";")
        return option

    def bracketed_options(self) -> list[ProtoOption]:
        found: list[ProtoOption] = []
        if self.accept("["):
            found.append(self.option())
            while self.accept(","):
                found.append(self.option())
            self.expect("]")
        return found

    def option(self) -> ProtoOption:
        name = ""
        while not self.accept("="):
            if self.accept("("):
                name += f"({self.word()})"
                self.expect(")")
            else:
                token = self.take()
                if token.kind != "word" and token.text != ".":
                    raise self.wrong(token, "the name of an option")
                name += token.text
        if not name:
            raise self.wrong(self.peek, "the name of an option")
        kind, value = self.value()
        return ProtoOption(name, kind, value)

    def value(self) -> tuple[str, Any]:
        token = self.peek
        if token.kind == "text":
            return "text", self.string()
        if token.text in ("{", "<", "["):
            self._value_depth += 1
            if self._value_depth > VALUE_DEPTH_MAX:
                raise InvalidSchema(f"options are nested more than {VALUE_DEPTH_MAX} deep")
            self.take()
            found = (
                self.listed()
                if token.text == "["
                else self.mapped("}" if token.text == "{" else ">")
            )
            self._value_depth -= 1
            return found
        if token.text in ("-", "+"):
            sign = self.take().text
            number = self.take()
            if number.kind not in ("number", "word"):
                raise self.wrong(number, "a number")
            return "number", f"{'-' * (sign == '-')}{number.text}"
        token = self.take()
        if token.kind not in ("number", "word"):
            raise self.wrong(token, "a value")
        return token.kind, token.text

    def listed(self) -> tuple[str, Any]:
        values: list[tuple[str, Any]] = []
        while not self.accept("]"):
            values.append(self.value())
            if self.peek.text != "]":
                self.expect(",")
        return "list", values

    def mapped(self, end: str) -> tuple[str, Any]:
        pairs: list[tuple[str, tuple[str, Any]]] = []
        while not self.accept(end):
            if self.accept("["):
                key = self.word()
                while self.accept("/"):
                    key += f"/{self.word()}"
                key = f"[{key}]"
                self.expect("]")
            else:
                key = self.word()
            self.accept(":")
            pairs.append((key, self.value()))
            if not self.accept(","):
                self.accept(";")
        return "map", pairs


def _unescape(match: re.Match[str]) -> str:
    text = match[1]
    if text[0] in "xuU" and len(text) > 1:
        code = int(text[1:], 16)
        return chr(code) if code <= 0x10FFFF else match[0]
    if text[0] in "01234567":
        return chr(int(text, 8) & 0xFF)
    return _PLAIN_ESCAPES.get(text, text)
