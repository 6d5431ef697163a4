"""The prompt: colors, completion, history, and Enter, which runs complete statements."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from prompt_toolkit import PromptSession
from prompt_toolkit.auto_suggest import AutoSuggestFromHistory
from prompt_toolkit.completion import Completer
from prompt_toolkit.document import Document
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.lexers import Lexer
from prompt_toolkit.styles import Style

from ottla.rows.reserved_words import KEYWORDS, TYPE_WORDS
from ottla.sql.syntax.tokens import split_statements

WORDS: Final = frozenset({"help", "exit", "quit", "clear", "output", "server", "version", "spool"})
STYLE: Final = Style.from_dict(
    {
        "sql.word": "ansiblue bold",
        "sql.type": "ansicyan",
        "sql.function": "ansimagenta",
        "sql.string": "ansigreen",
        "sql.number": "ansiyellow",
        "sql.comment": "ansibrightblack italic",
        "prompt": "bold",
    }
)
_PARTS: Final = re.compile(
    r"""
      (?P<comment>  --[^\n]* | /\*.*?(?:\*/|$) )
    | (?P<string>   '(?:[^']|'')*'? )
    | (?P<name>     `[^`]*`? | "[^"]*"? )
    | (?P<number>   \b\d+(?:\.\d*)?(?:[eE][+-]?\d+)?\b )
    | (?P<function> \b[A-Za-z_]\w*(?=\() )
    | (?P<word>     [A-Za-z_]\w* )
    | (?P<other>    . )
    """,
    re.VERBOSE | re.DOTALL,
)


def make_prompt(completer: Completer, history: Path | None) -> PromptSession[str]:
    return PromptSession(
        history=_history(history),
        completer=completer,
        complete_while_typing=False,
        auto_suggest=AutoSuggestFromHistory(),
        lexer=SqlLexer(),
        style=STYLE,
        multiline=True,
        key_bindings=_keys(),
        enable_history_search=True,
        prompt_continuation=lambda width, line, wrapped: "" if wrapped else "  ... "[-width:],
    )


def _history(path: Path | None) -> History:
    """The history; in memory if the file is not writable."""
    if path is None:
        return InMemoryHistory()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(mode=0o600)
    except OSError:
        return InMemoryHistory()
    return FileHistory(path)


def is_whole(text: str) -> bool:
    """True if Enter runs the text: a statement with its semicolon, or a command of the shell."""
    words = text.split()
    if not words or words[0].rstrip(";").lower() in WORDS:
        return True
    whole, rest = split_statements(text)
    return bool(whole) and not rest.strip()


def _keys() -> KeyBindings:
    keys = KeyBindings()

    @keys.add("enter")
    def _(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if buffer.complete_state and buffer.complete_state.current_completion:
            buffer.apply_completion(buffer.complete_state.current_completion)
        elif is_whole(buffer.text):
            buffer.validate_and_handle()
        else:
            buffer.insert_text("\n")

    @keys.add("escape", "enter")
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    return keys


class SqlLexer(Lexer):
    def lex_document(self, document: Document) -> Callable[[int], StyleAndTextTuples]:
        lines: list[StyleAndTextTuples] = [[]]
        for match in _PARTS.finditer(document.text):
            style = _style(match)
            for at, part in enumerate(match.group().split("\n")):
                if at:
                    lines.append([])
                lines[-1].append((style, part))
        return lambda number: lines[number] if number < len(lines) else []


def _style(match: re.Match[str]) -> str:
    kind, upper = match.lastgroup, match.group().upper()
    if kind in ("word", "function"):
        if upper in TYPE_WORDS and kind == "word":
            return "class:sql.type"
        if upper in KEYWORDS or upper in ("PAUSE", "RESUME"):
            return "class:sql.word"
        return "class:sql.function" if kind == "function" else ""
    return f"class:sql.{kind}" if kind in ("string", "number", "comment") else ""


def ask(prompt: PromptSession[str]) -> str:
    """Read a text; EOFError for Ctrl-D, KeyboardInterrupt for Ctrl-C."""
    message: Any = [("class:prompt", "sql> ")]
    return prompt.prompt(message)
