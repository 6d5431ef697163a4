"""The layout of `--help`: two columns, uncut names, at any width of the terminal."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from types import MethodType
from typing import Any, Final

from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

NAME_WIDTH_MAX: Final = 34
"""A longer name gets its own line, with its text below."""
WORDS: Final = {
    "str": "TEXT",
    "int": "NUMBER",
    "int range": "NUMBER",
    "float": "NUMBER",
    "float range": "NUMBER",
    "path": "PATH",
    "list[str]": "TEXT",
    "list[int]": "NUMBER",
}
"""The names of option values, for people who do not write Python."""

Command = Any  # typer's, which brings a click of its own since 0.20 or so, and another one before
Parameter = Any
Rows = list[tuple[str, str]]


def use_our_help(command: Command) -> None:
    """For a command and all its subcommands."""
    for parameter in _all(command):
        parameter.format_help = MethodType(
            lambda self, context, formatter: show(self, context), parameter
        )


def show(command: Command, context: Any) -> None:
    shown = Console(highlight=False, emoji=False)
    shown.print(escape(command.get_usage(context)), style="bold")
    if command.help:
        text = Text.from_markup(inspect.cleandoc(command.help).strip())
        shown.print(Padding(text, (1, 0, 0, 2), expand=False))
    parameters = [
        parameter
        for parameter in command.get_params(context)
        if not getattr(parameter, "hidden", False)
    ]
    arguments = [
        _argument(parameter) for parameter in parameters if parameter.param_type_name == "argument"
    ]
    options = [
        _option(parameter, context)
        for parameter in parameters
        if parameter.param_type_name == "option"
    ]
    _section(shown, "Arguments", arguments)
    _section(shown, "Options", options)
    _section(shown, "Commands", list(_commands(command, context)))


def _all(command: Command) -> Iterator[Command]:
    yield command
    for command_ in getattr(command, "commands", {}).values():
        yield from _all(command_)


def _section(shown: Console, title: str, rows: Rows) -> None:
    if not rows:
        return
    width = max((len(name) for name, _ in rows if len(name) <= NAME_WIDTH_MAX), default=0)
    shown.print(f"\n[bold]{title}[/]")
    for name, text in rows:
        if len(name) > width:  # a table would cut the name
            shown.print(f"  [cyan]{escape(name)}[/]", soft_wrap=True)
        row = Table.grid(padding=(0, 2, 0, 0))
        row.add_column(no_wrap=True, style="cyan", width=width)
        row.add_column(overflow="fold")
        row.add_row("" if len(name) > width else escape(name), text)
        shown.print(Padding(row, (0, 0, 0, 2), expand=False))


def _argument(parameter: Parameter) -> tuple[str, str]:
    name = parameter.metavar or f"{parameter.name}{'...' if parameter.nargs != 1 else ''}"
    return name, _text(parameter)


def _option(parameter: Parameter, context: Any) -> tuple[str, str]:
    names = sorted(parameter.opts, key=len)  # the short option first
    title = ", ".join(names)
    if not getattr(parameter, "is_flag", False):
        title += f" {_metavar(parameter, context)}"
    return title, _text(parameter)


def _metavar(parameter: Parameter, context: Any) -> str:
    if parameter.metavar:
        return str(parameter.metavar)
    show_type = getattr(parameter, "display_type_rich", None) or parameter.make_metavar
    label = str(show_type(context) or "").strip("<>[]")
    return WORDS.get(label, label)


def _text(parameter: Parameter) -> str:
    notes = []
    if parameter.required:
        notes.append("required")
    default = parameter.default
    # Options hide a default that stands for "not given", such as -1.
    shown = getattr(parameter, "show_default", True) not in (False, "")
    if shown and default not in (None, False, True, "", [], ()) and not callable(default):
        notes.append(f"default: {default}")
    if getattr(parameter, "envvar", None):
        notes.append(f"or ${parameter.envvar}")
    text = getattr(parameter, "help", None) or ""
    return f"{text} [dim]{escape('(' + ', '.join(notes) + ')')}[/]" if notes else text


def _commands(command: Command, context: Any) -> Iterator[tuple[str, str]]:
    if not hasattr(command, "list_commands"):
        return
    for name in command.list_commands(context):
        found = command.get_command(context, name)
        if found is not None and not found.hidden:
            text = inspect.cleandoc(found.short_help or found.help or "").strip()
            yield name, text.partition("\n\n")[0].replace("\n", " ")
