"""The options of Kafka's tools, parsed as Kafka parses them (joptsimple).

Names in full (no abbreviations), `--name value` or `--name=value`, one dash or two; an option that
needs a value takes the next word, whatever it is; words that belong to no option are ignored.
argparse differs in each of these.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from ottla.spelling import nearest_spelling

WIDTH: Final = 80
NAME_WIDTH_MAX: Final = 40


@dataclass(slots=True, frozen=True)
class Option:
    """`value` names the option's argument; None makes it a flag, `optional` may be omitted."""

    name: str
    help: str
    value: str | None = None
    optional: bool = False
    default: str | None = None

    @property
    def title(self) -> str:
        if self.value is None:
            return f"--{self.name}"
        return f"--{self.name} [{self.value}]" if self.optional else f"--{self.name} <{self.value}>"


HELP: Final = Option("help", "Print usage information.")
VERSION: Final = Option("version", "Print the version.")
BOOTSTRAP: Final = Option(
    "bootstrap-server", "REQUIRED: The broker(s) to connect to: HOST1:PORT1,HOST2:PORT2.", "server"
)
COMMAND_CONFIG: Final = Option("command-config", "A properties file with client settings.", "file")


class UsageError(Exception):
    """The command line is wrong: printed above the usage."""


class Options:
    """The options of a command line."""

    def __init__(self, known: Iterable[Option], arguments: Sequence[str]) -> None:
        self._known = {option.name: option for option in known}
        self._given: dict[str, list[str]] = {}
        # In the order of the command line, because some options form pairs.
        self.sequence: list[tuple[str, str | None]] = []
        self._parse(list(arguments))

    def has(self, name: str) -> bool:
        return name in self._given

    def value(self, name: str) -> str | None:
        """The value of an option, or its default."""
        values = self.values(name)
        if len(values) > 1:
            raise UsageError(
                f"Found multiple arguments for option {name}, but you asked for only one"
            )
        return values[0] if values else self._known[name].default

    def values(self, name: str) -> list[str]:
        return self._given.get(name, [])

    def require(self, name: str) -> str:
        value = self.value(name)
        if value is None:
            raise UsageError(f'Missing required argument "[{name}]"')
        return value

    def integer(self, name: str) -> int | None:
        value = self.value(name)
        if value is None:
            return None
        try:
            return int(value)
        except ValueError:
            raise UsageError(f"Cannot parse argument '{value}' of option {name}") from None

    def refuse(self, name: str, others: Iterable[str]) -> None:
        """`others` are incompatible with `name`."""
        if self.has(name):
            for other in others:
                if other != name and self.has(other):
                    raise UsageError(f'Option "[{name}]" can\'t be used with option "[{other}]"')

    def properties(self, name: str) -> dict[str, str]:
        """All `--name key=value`; a key without a value has the empty one."""
        found: dict[str, str] = {}
        for text in self.values(name):
            key, equals, value = text.partition("=")
            if not key:
                raise UsageError(f"Invalid property: {text}")
            found[key] = value if equals else ""
        return found

    def _parse(self, words: list[str]) -> None:
        position = 0
        while position < len(words):
            word = words[position]
            position += 1
            if not word.startswith("-") or word in ("-", "--"):
                continue
            name, equals, value = word.lstrip("-").partition("=")
            option = self._known.get(name)
            if option is None:
                meant = nearest_spelling(name, self._known)
                hint = f"; did you mean --{meant}?" if meant else ""
                raise UsageError(f"{name} is not a recognized option{hint}")
            values = self._given.setdefault(name, [])
            taken: str | None = None
            if option.value is None:
                pass
            elif equals:
                taken = value
            elif position < len(words) and self._takes(option, words[position]):
                taken = words[position]
                position += 1
            elif not option.optional:
                raise UsageError(f"Option {name} requires an argument")
            if taken is not None:
                values.append(taken)
            self.sequence.append((name, taken))

    def _takes(self, option: Option, word: str) -> bool:
        """An optional argument is present unless the next word is an option."""
        return (
            not option.optional
            or word.lstrip("-").partition("=")[0] not in self._known
            or (not word.startswith("-"))
        )


def usage(options: Iterable[Option]) -> str:
    """Names on the left, descriptions on the right, in alphabetical order."""
    shown = sorted(options, key=lambda option: option.name)
    left = min(NAME_WIDTH_MAX, max(len(option.title) for option in shown)) + 2
    lines = ["Option".ljust(left) + "Description", "------".ljust(left) + "-----------"]
    for option in shown:
        names = _wrapped(option.title, left - 2)
        help_text = option.help
        if option.default is not None:
            help_text += f" (default: {option.default})"
        texts = [line for part in help_text.split("\n") for line in _wrapped(part, WIDTH - left)]
        if len(names[0]) > left - 2:
            texts.insert(0, "")
        for row in range(max(len(names), len(texts))):
            name = names[row] if row < len(names) else ""
            text = texts[row] if row < len(texts) else ""
            lines.append((name.ljust(left) + text).rstrip())
    return "\n".join(lines)


def _wrapped(text: str, width: int) -> list[str]:
    """Setting names are never broken, not even at a dash, because users copy them."""
    lines = textwrap.wrap(
        text, width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
    )
    return lines or [""]
