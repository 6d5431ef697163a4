"""Translates Java's regular expressions for Python's re: groups, quotes, replacements."""

from __future__ import annotations

import re
from typing import Final

TOKENS: Final = re.compile(r"\\Q(.*?)(?:\\E|$)|\(\?<(?![=!])|\\z|\\p\{(\w+)\}|\\.|.", re.DOTALL)
CLASSES: Final = {
    "Lower": "a-z",
    "Upper": "A-Z",
    "Alpha": "a-zA-Z",
    "Digit": "0-9",
    "Alnum": "a-zA-Z0-9",
    "Punct": re.escape("!\"#$%&'()*+,-./:;<=>?@[]^_`{|}~"),
    "Space": r" \t\n\x0b\f\r",
    "XDigit": "0-9a-fA-F",
}
REFERENCE: Final = re.compile(r"\\(.)|\$\{(\w+)\}|\$(\d+)|([\\$])", re.DOTALL)


def compile_regular_expression(pattern: str) -> re.Pattern[str]:
    """Raises re.error, also for what only Java supports (such as \\p{IsGreek})."""
    inside = False
    parts = []
    for token in TOKENS.finditer(pattern):
        text = token.group()
        if text.startswith("\\Q"):
            text = re.escape(token.group(1))
        elif text == "(?<":
            text = "(?P<"
        elif text == "\\z":
            text = "\\Z"
        elif token.group(2):
            named = CLASSES.get(token.group(2))
            if named is None:
                raise re.error(f"unknown character class {text}", pattern, token.start())
            text = named if inside else f"[{named}]"
        elif text == "[" and not inside:
            inside = True
        elif text == "]":
            inside = False
        parts.append(text)
    return re.compile("".join(parts))


def replace_first(pattern: re.Pattern[str], replacement: str, text: str) -> str:
    """Matcher.replaceFirst: $1, ${name} and \\ in the replacement."""
    match = pattern.search(text)
    if match is None:
        return text
    return text[: match.start()] + _expanded(match, replacement) + text[match.end() :]


def replace_all(pattern: re.Pattern[str], replacement: str, text: str) -> str:
    """Matcher.replaceAll."""
    return pattern.sub(lambda match: _expanded(match, replacement), text)


def _expanded(match: re.Match[str], replacement: str) -> str:
    def expand(reference: re.Match[str]) -> str:
        escaped, name, number, stray = reference.groups()
        if stray:
            raise re.error("Illegal group reference", replacement, reference.start())
        if escaped:
            return str(escaped)
        return _group(match, name) if name else _numbered(match, number)

    return REFERENCE.sub(expand, replacement)


def _group(match: re.Match[str], name: str) -> str:
    try:
        return match.group(name) or ""
    except IndexError:
        raise re.error(f"No group with name {{{name}}}") from None


def _numbered(match: re.Match[str], digits: str) -> str:
    """Takes as many digits as form an existing group; the rest is text."""
    count = match.re.groups
    size = 1
    if int(digits[0]) > count:
        raise re.error(f"No group {digits[0]}")
    while size < len(digits) and int(digits[: size + 1]) <= count:
        size += 1
    return (match.group(int(digits[:size])) or "") + digits[size:]
