"""`--help` shows every name whole, however narrow the terminal is."""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Iterator
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any

import pytest
import typer

from ottla.cli.app import add_verbs, app
from ottla.cli.help import use_our_help
from ottla.cli.kafka.options import Option, usage


def commands(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    yield path, command
    for name, inner in getattr(command, "commands", {}).items():
        yield from commands(inner, (*path, name))


def helped(command: Any) -> str:
    context = command.make_context("ottla", [], resilient_parsing=True)
    with contextlib.redirect_stdout(io.StringIO()) as out:
        command.format_help(context, None)
    return out.getvalue()


@pytest.mark.parametrize("columns", ["80", "60"])
def test_verbs_show_whole_names_and_no_types_of_python(
    columns: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    add_verbs([])
    root = typer.main.get_command(app)
    use_our_help(root)
    count = 0
    for path, command in commands(root):
        if path == ("serve",):  # argparse prints its help
            continue
        text = helped(command)
        assert "<bool>" not in text
        assert "<str>" not in text
        assert "…" not in text
        assert not re.search(r"default:\s+-1\)", text), "a number that stands for `not given`"
        words = set(re.split(r"[\s,]+", text))
        for parameter in command.params:
            assert parameter.param_type_name == "argument" or set(parameter.opts) <= words, path
            count += 1
        assert set(getattr(command, "commands", {})) <= words
    assert count > 100


def test_a_flag_has_no_value_and_an_option_says_what_it_takes() -> None:
    add_verbs([])
    root = typer.main.get_command(app)
    use_our_help(root)
    lines = helped(root.commands["topics"].commands["create"]).splitlines()  # type: ignore[attr-defined]
    assert any(re.match(r"  --if-not-exists  +Do nothing", line) for line in lines)
    assert any(
        re.match(r"  -p, --partitions NUMBER  +Number of partitions", line) for line in lines
    )
    assert any(
        re.match(r"  --version  +Print the version", part) for part in helped(root).split("\n")
    )


def test_kafkas_tools_show_whole_names() -> None:
    long = "follower.replication.throttled.replicas.and.more.of.it"
    shown = usage(
        [
            Option("x", f"One of:\n {long}\n or kafka-avro-console-producer-beside-it"),
            Option("an-option-whose-name-is-longer-than-its-column", "Text.", "value"),
        ]
    )
    assert {long, "kafka-avro-console-producer-beside-it"} <= set(shown.split())
    assert "--an-option-whose-name-is-longer-than-its-column" in shown.split()


def test_every_option_of_every_kafka_tool_is_whole() -> None:
    count = 0
    for point in entry_points(group="console_scripts"):
        module = import_module(point.module) if point.module.startswith("ottla.cli.kafka") else None
        options = getattr(module, "OPTIONS", ())
        if options and all(isinstance(option, Option) for option in options):
            words = set(usage(options).split())
            assert {f"--{option.name}" for option in options} <= words, point.name
            count += 1
    assert count > 10
