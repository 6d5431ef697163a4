"""Suggestions of the completer."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from ottla.sql.shell.client import KsqlRestClient
from ottla.sql.shell.completer import NameLoader, ServerNames, suggestions
from ottla.sql.shell.prompt import SqlLexer, is_whole

KNOWN = ServerNames(
    streams=("ORDERS", "`odd one`"),
    tables=("USERS",),
    topics=("orders", "my-topic"),
    queries=("CSAS_X_1",),
    functions=("UCASE", "COUNT"),
    connectors=("`lines`", "COPY"),
    columns={"ORDERS": ("ID", "AMOUNT"), "USERS": ("ID", "NAME")},
)


def offered(before: str, behind: str = "") -> list[str]:
    return [text for text, _ in suggestions(before, before + behind, KNOWN)]


@pytest.mark.parametrize(
    ("before", "behind", "first"),
    [
        ("", "", "SELECT"),
        ("SHOW STREAMS; ", "", "SELECT"),
        ("SHOW ", "", "STREAMS"),
        ("SELECT * FROM ", "", "ORDERS"),
        ("SELECT * FROM orders JOIN ", "", "ORDERS"),
        ("INSERT INTO ", "", "ORDERS"),
        ("SELECT ", " FROM users", "ID"),
        ("SELECT u.", " FROM users u", "ID"),
        ("SELECT o.", " FROM users u JOIN orders AS o ON u.id = o.id", "ID"),
        ("SELECT orders.", " FROM orders", "ID"),
        ("PRINT ", "", "orders"),
        ("TERMINATE ", "", "CSAS_X_1"),
        ("DESCRIBE ", "", "ORDERS"),
        ("DESCRIBE FUNCTION ", "", "UCASE"),
        ("DROP TABLE ", "", "ORDERS"),
        ("DROP CONNECTOR ", "", "`lines`"),
        ("DESCRIBE CONNECTOR ", "", "`lines`"),
        ("CREATE SOURCE CONNECTOR c WITH (", "", "'connector.class'="),
        ("CREATE STREAM s (a INT) WITH (", "", "KAFKA_TOPIC="),
        ("CREATE STREAM s (a ", "", "BOOLEAN"),
    ],
)
def test_the_likeliest_comes_first(before: str, behind: str, first: str) -> None:
    assert offered(before, behind)[0] == first


def test_columns_are_those_of_the_sources() -> None:
    assert offered("SELECT o.", " FROM orders o") == ["ID", "AMOUNT"]
    assert "NAME" not in offered("SELECT ", " FROM orders")
    assert {"AMOUNT", "NAME"} <= set(offered("SELECT ", " FROM orders, users JOIN users"))


def test_a_topic_is_quoted_where_it_must_be() -> None:
    assert offered("PRINT ")[:2] == ["orders", "'my-topic'"]


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        ("", True),
        ("help", True),
        ("exit", True),
        ("output JSON", True),
        ("SHOW STREAMS", False),
        ("SHOW STREAMS;", True),
        ("SHOW STREAMS; SELECT", False),
        ("SELECT 'a;", False),
        ("SELECT 1; -- done", True),
        ("/* open ;", False),
    ],
)
def test_enter_runs_complete_statements(text: str, whole: bool) -> None:
    assert is_whole(text) is whole


def test_every_line_is_highlighted() -> None:
    from prompt_toolkit.document import Document

    text = "SELECT 'a\nb', COUNT(x) -- c\nFROM s WHERE n > 1.5;"
    line = SqlLexer().lex_document(Document(text))
    shown = ["".join(part[1] for part in line(number)) for number in range(3)]
    assert "\n".join(shown) == text
    assert ("class:sql.string", "b'") in line(1)
    assert ("class:sql.comment", "-- c") in line(1)
    assert ("class:sql.word", "FROM") in line(2)
    assert line(9) == []


def test_connectors_are_completed_only_with_a_worker(
    server: Any,
) -> None:
    no_worker = {"error_code": 50000, "message": "Can't reach a Connect worker"}
    server.answers |= {
        "SHOW TOPICS;": [{"topics": [{"name": "orders"}]}],
        "SHOW CONNECTORS;": no_worker,
    }
    learning = NameLoader(lambda: KsqlRestClient(server.url))
    learning.refresh()
    until(lambda: learning.known.topics == ("orders",))
    listed = [{"name": "lines"}, {"name": "COPY"}]
    server.answers["SHOW CONNECTORS;"] = [{"connectors": listed}]
    learning.refresh()
    until(lambda: learning.known.connectors == ("`lines`", "COPY"))
    server.answers |= {"SHOW TOPICS;": [{"topics": []}], "SHOW CONNECTORS;": no_worker}
    learning.refresh()
    until(lambda: learning.known.topics == ())
    assert learning.known.connectors == ("`lines`", "COPY"), "as they were last seen"


def until(found: Callable[[], bool], patience_s: float = 60.0) -> None:
    deadline = time.monotonic() + patience_s
    while not found():
        assert time.monotonic() < deadline
        time.sleep(0.01)
