"""kafka-groups; columns and sentences are those of Apache Kafka 4.3.1's tool."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ottla.cli.kafka.groups import main
from ottla.client import Consumer
from ottla.client.groups import GroupListing

Tool = Callable[..., Any]


@pytest.fixture
def groups(run: Tool, bootstrap: str) -> Tool:
    return lambda *words: run(main, "--bootstrap-server", bootstrap, *words)


@pytest.fixture
def classic(bootstrap: str, five: str, group: str) -> str:
    with Consumer(bootstrap, five, group=group, auto_offset_reset="earliest") as consumer:
        consumer.take(2)
    return group


def test_list(groups: Tool, classic: str) -> None:
    ran = groups("--list")
    assert ran.code == 0
    assert ran.lines[0].split() == ["GROUP", "TYPE", "PROTOCOL"]
    (row,) = (line for line in ran.lines if classic in line)
    assert row.split() == [classic, "Classic", "consumer"]
    assert row.endswith(f" {'Classic'.ljust(20)} {'consumer'.ljust(20)} ")


@pytest.mark.parametrize(
    ("words", "is_there"),
    [
        (["--consumer"], True),
        (["--share"], False),
        (["--streams"], False),
        (["--group-type", "classic"], True),
        (["--group-type", "Consumer"], False),
        (["--protocol", "consumer"], True),
        (["--protocol", "connect"], False),
        (["--group-type", "classic", "--protocol", "consumer"], True),
    ],
)
def test_filters(groups: Tool, classic: str, words: list[str], is_there: bool) -> None:
    assert (classic in groups("--list", *words).out) == is_there


def test_listings_recognise_consumer_groups() -> None:
    assert GroupListing("g", "Empty", "Classic", "").of_consumers
    assert GroupListing("g", "Empty", "Consumer", "consumer").of_consumers
    assert not GroupListing("g", "Empty", "Classic", "connect").of_consumers
    assert not GroupListing("g", "Empty", "Share", "share").of_consumers


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([], "Command must include exactly one action: --list."),
        (["--list", "--group-type", "bogus"], "--group-type must be a valid group type."),
        (
            ["--list", "--consumer", "--share"],
            'Option "[consumer]" can\'t be used with option "[share]"',
        ),
        (
            ["--list", "--share", "--group-type", "share"],
            'Option "[share]" can\'t be used with option "[group-type]"',
        ),
    ],
)
def test_wrong_command_lines(groups: Tool, words: list[str], sentence: str) -> None:
    ran = groups(*words)
    assert ran.err.startswith(sentence)
    assert ran.code == 1
