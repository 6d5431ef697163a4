"""Every command of README and docs, in code or in a sentence, has options that its parser knows."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import io
import re
import shlex
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import click
import pytest
import typer

from ottla.cli.app import add_verbs, app
from ottla.cli.kafka.options import Option
from ottla.cli.kafka.subcommands import Subcommand

ROOT = Path(__file__).parents[2]
TOP = ("README.md", "DESIGN.md", "CONTRIBUTING.md", "SECURITY.md")
PAGES = [*(ROOT / name for name in TOP), *sorted((ROOT / "docs").rglob("*.md"))]
NOT_BUILT = "0030-quorum-without-zookeeper.md"
SPAN = re.compile(r"`((?:ottla|kafka-[a-z-]+|zookeeper-[a-z-]+|connect-[a-z-]+) [^`]+)`")
SCRIPTS: dict[str, str] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
COMMAND = re.compile(
    r"(?:^|\| |&& |\$\()(?:\.venv/bin/)?((?:ottla|kafka-|zookeeper-|connect-)[^|]*)"
)
# Files and shell words, which are not arguments of the tools.
SHELL_WORD = re.compile(r"^(\d?>>?.*|<.*|&|;|\\)$")


def code_lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines of code in Markdown, with their continuations, and the number of the first."""
    fenced, parts, first = False, "", 0
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("```"):
            fenced = not fenced
            continue
        if not fenced and not line.startswith("    "):
            parts = ""
            continue
        words = line.strip().removeprefix("$ ")
        first = first if parts else number
        parts = f"{parts} {words}".strip()
        if parts.endswith("\\"):
            parts = parts[:-1].rstrip()
            continue
        yield first, parts
        parts = ""


def spans(text: str) -> Iterator[tuple[int, str]]:
    """Commands in sentences and tables, with the number of their line."""
    fences = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
    prose = fences.sub(lambda code: "\n" * code[0].count("\n"), text)
    for match in SPAN.finditer(prose):
        yield prose.count("\n", 0, match.start()) + 1, " ".join(match[1].split())


def commands() -> Iterator[Any]:
    for page in PAGES:
        for number, line in code_lines(page.read_text(encoding="utf-8")):
            if "=" in line.split(" ", 1)[0] and line.split(" ", 1)[0].isupper():
                line = line.split(" ", 1)[-1]
            for found in COMMAND.finditer(re.split(r"\s{2,}#|\s{3,}", line)[0]):
                place = f"{page.relative_to(ROOT)}:{number}"
                with contextlib.suppress(ValueError):  # a quote that ends on another line
                    yield pytest.param(shlex.split(found[1]), id=f"{place} {found[1][:40]}")
        for number, command in spans(page.read_text(encoding="utf-8")):
            place = f"{page.relative_to(ROOT)}:{number}"
            if page.name != NOT_BUILT:
                yield pytest.param(shlex.split(command), id=f"{place} {command[:40]}")


@pytest.mark.parametrize("words", list(commands()))
def test_every_documented_command_parses(words: list[str]) -> None:
    end = next((n for n, word in enumerate(words) if SHELL_WORD.match(word)), len(words))
    name, *rest = words[:end]
    name = name.removesuffix(".sh")
    if name == "ottla":
        check_verb(rest)
        return
    if name not in SCRIPTS and not name.startswith("kafka-"):
        return  # a name that a command prints
    assert name in SCRIPTS, f"there is no command {name}"
    known = options_of(name)
    given = {word.split("=", 1)[0] for word in rest if re.match(r"--?[a-z][a-z-]+", word)}
    assert {option.lstrip("-") for option in given} <= known


def test_the_pages_list_every_tool() -> None:
    tools = {name for name in SCRIPTS if not name.endswith(".sh")}
    page = (ROOT / "docs/cli.md").read_text(encoding="utf-8")
    assert {name for name in tools if f"`{name}`" not in page} == {"ottla"}
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    sisters = re.compile(r"kafka-(avro|json-schema|protobuf)-console-")
    assert {name for name in tools if name not in readme and not sisters.match(name)} == set()
    scripts = {name for name in tools if name != "ottla" and not sisters.match(name)}
    assert {f"{name}.sh" for name in scripts} <= set(SCRIPTS)


def check_verb(words: list[str]) -> None:
    if words and words[0] == "serve":
        known = {"override", "registry", "help", "version"}
        assert {word[2:].split("=")[0] for word in words if word.startswith("--")} <= known
        return
    command: Any = verbs()
    while hasattr(command, "commands"):
        if not words or words[0].startswith("-") or words[0] in ("...", "<verb>"):
            return
        assert words[0] in command.commands, f"there is no verb {words[0]}"
        command, words = command.commands[words[0]], words[1:]
    if "..." in words or any(word.startswith("[") for word in words):
        return
    with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(click.exceptions.Exit):
        command.make_context("ottla", list(words), resilient_parsing=True).close()
    known = {name for parameter in command.params for name in (*parameter.opts, "--help")}
    known |= {name for parameter in command.params for name in parameter.secondary_opts}
    given = {word.split("=", 1)[0] for word in words if word.startswith("--") and word != "--"}
    assert given <= known


@cache
def verbs() -> Any:
    add_verbs([])
    return typer.main.get_command(app)


@cache
def options_of(name: str) -> set[str]:
    module = importlib.import_module(SCRIPTS[name].split(":")[0])
    known = {"help", "version", *options_in_module(module)}
    for other in vars(module).values():  # tools that are made of another one
        if isinstance(other, ModuleType) and other.__name__.startswith("ottla.cli.kafka."):
            known |= options_in_module(other)
    return known


def options_in_module(module: ModuleType) -> set[str]:
    found: set[str] = set()
    for value in vars(module).values():
        for item in value if isinstance(value, tuple | list) else (value,):
            if isinstance(item, Option):
                found.add(item.name)
            elif isinstance(item, Subcommand):
                found |= {"bootstrap-server", "command-config", *(f.name for f in item.flags)}
    for maker in ("_parser", "make_parser"):
        make = getattr(module, maker, None)
        if make is not None and not make.__code__.co_argcount:
            found |= set(options_in(make()))
    return found


def options_in(parser: argparse.ArgumentParser) -> Iterator[str]:
    for action in parser._actions:
        yield from (option.lstrip("-") for option in action.option_strings)
        if isinstance(action, argparse._SubParsersAction):
            for inner in action.choices.values():
                yield from options_in(inner)
