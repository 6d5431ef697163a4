"""Responses of a server, as the shell prints them."""

from __future__ import annotations

import io
from typing import Any

import pytest

from ottla.sql.shell.entities import print_entity
from ottla.sql.shell.screen import Screen

INT = {"type": "INTEGER", "fields": None, "memberSchema": None}
ARRAY = {"type": "ARRAY", "fields": None, "memberSchema": INT}
SOURCE = {
    "name": "T",
    "type": "TABLE",
    "fields": [{"name": "ID", "schema": INT, "type": "KEY"}, {"name": "xs", "schema": ARRAY}],
    "extended": True,
    "topic": "t",
    "keyFormat": "KAFKA",
    "valueFormat": "JSON",
    "partitions": 3,
    "statement": "CREATE TABLE T ...",
    "readQueries": [{"id": "CSAS_X_1", "queryString": "CREATE STREAM X AS\nSELECT 1"}],
}
QUERY = {
    "id": "CSAS_X_1",
    "state": "RUNNING",
    "statementText": "CREATE STREAM X AS SELECT 1;",
    "fields": [{"name": "A", "schema": INT}],
    "sources": ["T"],
    "sinks": ["X"],
    "topology": "0: t --> Map --> X",
    "queryErrors": [{"errorMessage": "it broke"}],
}

WAITING = {
    "id": "CSAS_X_1",
    "state": "STANDBY",
    "cause": "for a broker",
    "progress": {"rows": 3, "lag": 0, "rowsPerSecond": 1.5, "batchMs": 102},
}

CONNECTOR = {
    "@type": "connector_description",
    "connectorClass": "FileStreamSource",
    "status": {
        "name": "lines",
        "type": "source",
        "connector": {"state": "RUNNING", "worker_id": "host:8083"},
        "tasks": [{"id": 0, "state": "FAILED", "worker_id": "host:8083", "trace": "it [broke]"}],
    },
    "sources": [{"name": "LINES", "type": "STREAM", "topic": "lines"}],
    "topics": ["lines", "more"],
}


def printed(entity: dict[str, Any]) -> str:
    out = io.StringIO()
    print_entity(Screen(out, out), entity)
    return out.getvalue()


@pytest.mark.parametrize(
    ("entity", "words"),
    [
        (
            {"@type": "currentStatus", "commandStatus": {"status": "SUCCESS", "message": "made"}},
            ["done made"],
        ),
        (
            {"@type": "currentStatus", "commandStatus": {"status": "ERROR", "message": "no [x]"}},
            ["ERROR no [x]"],
        ),
        (
            {"@type": "assert_topic", "topicName": "t", "exists": False},
            ["Topic t does not exist."],
        ),
        ({"@type": "streams", "streams": []}, ["There are no streams yet."]),
        (
            {"@type": "kafka_topics", "topics": [{"name": "t", "replicaInfo": [1, 1, 1]}]},
            ["topic", "t", "3", "1"],
        ),
        ({"@type": "type_list", "types": {"XS": ARRAY}}, ["XS", "ARRAY<INTEGER>"]),
        (
            {"@type": "sourceDescription", "sourceDescription": SOURCE},
            ["T TABLE", "primary key", "`xs`", "ARRAY<INTEGER>", "partitions", "read by CSAS_X_1"],
        ),
        (
            {"@type": "queryDescription", "queryDescription": QUERY},
            ["CSAS_X_1 RUNNING", "reads", "0: t --> Map --> X", "failed it broke"],
        ),
        (
            {"@type": "queryDescription", "queryDescription": WAITING},
            [
                "CSAS_X_1 STANDBY",
                "rows 3, lag 0, rows/s 1.5, batch ms 102",
                "waits",
                "for a broker",
            ],
        ),
        (
            {"@type": "queries", "queries": [{"id": "Q", "state": "STANDBY", "cause": "away"}]},
            ["STANDBY", "Q away"],
        ),
        (
            {"@type": "queries", "queries": [{"id": "Q", "state": "FAILED", "cause": "why"}]},
            ["Q", "FAILED", "Q why"],
        ),
        (
            {
                "@type": "describe_function",
                "name": "LEN",
                "type": "SCALAR",
                "description": "How long.",
                "functions": [
                    {"arguments": [{"name": "x", "type": "STRING"}], "returnType": "INTEGER"}
                ],
            },
            ["LEN SCALAR", "How long.", "LEN(x STRING) -> INTEGER"],
        ),
        (
            {"@type": "connector_info", "info": {"name": "lines", "type": "source"}},
            ["done Created source connector `lines`"],
        ),
        (
            {"@type": "drop_connector", "connectorName": "LINES"},
            ["done Dropped connector LINES"],
        ),
        ({"@type": "connector_list", "connectors": []}, ["There are no connectors yet."]),
        (
            {"@type": "connector_list", "connectors": [{"name": "c", "state": "RUNNING (1/1)"}]},
            ["connector", "class", "`c`", "RUNNING (1/1)"],
        ),
        (
            {"@type": "connector_plugins_list", "connectorsPlugins": [{"className": "a.B"}]},
            ["class", "version", "a.B"],
        ),
        (
            CONNECTOR,
            [
                *("`lines` source", "class", "FileStreamSource", "state", "RUNNING", "worker"),
                *("topics", "lines, more", "task", "FAILED", "stream or table", "LINES"),
                "task 0 failed it [broke]",
            ],
        ),
        ({"@type": "something_new", "field": 5}, ['"field": 5']),
        (
            {"@type": "warning_entity", "message": "m", "warnings": [{"message": "careful"}]},
            ["m", "warning careful"],
        ),
    ],
)
def test_an_entity_is_shown(entity: dict[str, Any], words: list[str]) -> None:
    text = printed(entity)
    at = 0
    for word in words:
        assert word in text[at:], f"{word!r} in:\n{text}"
        at = text.index(word, at)
