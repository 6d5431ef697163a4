"""PRINT."""

from __future__ import annotations

import struct

import pytest

from ottla.client import ConsumerRecord
from ottla.rows.errors import SqlError
from ottla.sql.syntax.statements import Print
from ottla.sql.topic_printer import RecordFormatter, TopicPrinter, rowtime_text
from ottla.testing import LocalCluster


def lines_of(*records: tuple[bytes | None, bytes | None]) -> list[str]:
    lines = RecordFormatter()
    return [
        line
        for offset, (key, value) in enumerate(records)
        for line in lines.of(ConsumerRecord("t", 3, offset, 0, key, value))
    ]


def formats_of(*records: tuple[bytes | None, bytes | None]) -> list[str]:
    return [line for line in lines_of(*records) if "format: " in line]


def test_lines() -> None:
    assert lines_of((b"k", b'{"a": 1.10, "b": [null]}'), (None, b"5"), (b"k", None)) == [
        "Key format: KAFKA_STRING",
        "Value format: JSON or KAFKA_STRING",
        'rowtime: 1970/01/01 00:00:00.000 Z, key: k, value: {"a":1.10,"b":[null]}, partition: 3',
        "rowtime: 1970/01/01 00:00:00.000 Z, key: <null>, value: 5, partition: 3",
        "rowtime: 1970/01/01 00:00:00.000 Z, key: k, value: <null>, partition: 3",
    ]


def test_the_possible_formats_narrow_down() -> None:
    assert formats_of(
        (struct.pack(">q", 5), b"1"), (struct.pack(">i", 5), b"x"), (None, b"\xff")
    ) == [
        "Key format: KAFKA_BIGINT or KAFKA_DOUBLE or KAFKA_STRING",
        "Value format: JSON or KAFKA_STRING",
        "Key format: KAFKA_STRING",
        "Value format: KAFKA_STRING",
        "Value format: UNRECOGNIZED_BYTES",
    ]


def test_numbers_and_texts_of_their_size() -> None:
    assert "value: 5," in lines_of((None, struct.pack(">i", 5)))[-1]
    assert "value: abcdefgh," in lines_of((None, b"abcdefgh"))[-1]
    assert "value: ff00," in lines_of((None, b"\xff\x00"))[-1]


def test_keys_with_windows() -> None:
    moment = 1_600_000_000_000
    window = b"k" + struct.pack(">q", moment)
    assert "key: [k@1600000000000/-]," in lines_of((window, b"1"))[-1]
    session = b"k" + struct.pack(">qq", moment + 5, moment)
    found = lines_of((session, b"1"))
    assert found[0].startswith("Key format: SESSION(KAFKA_STRING)")
    assert f"key: [k@{moment}/{moment + 5}]," in found[-1]


def test_rowtime() -> None:
    assert rowtime_text(1_709_251_198_123) == "2024/02/29 23:59:58.123 Z"
    assert rowtime_text(-1) == "N/A"


def test_a_topic() -> None:
    with LocalCluster() as cluster:
        servers = cluster.bootstrap_servers
        cluster.create_topic("orders")
        with cluster.producer(value=str) as producer:
            for number in range(10):
                producer.send("orders", f"v{number}", timestamp_ms=0)
        every = Print("orders", from_beginning=True, interval=3, limit=3)
        printing = TopicPrinter(servers, every)
        lines: list[str] = []
        while (taken := printing.take(5.0)) is not None:
            lines += taken
        assert [line.split(", ")[2] for line in lines[2:]] == [
            "value: v0",
            "value: v3",
            "value: v6",
        ]
        following = TopicPrinter(servers, Print("orders"))
        assert following.take(0.1) == []
        with cluster.producer(value=str) as producer:
            producer.send("orders", "new").result()
        assert "value: new" in (following.take(10.0) or [""])[-1]
        following.close()
        assert following.take(0.1) is None
        with pytest.raises(SqlError, match="Could not find topic 'Orders'") as error:
            TopicPrinter(servers, Print("Orders"))
        assert error.value.remedy == "Did you mean orders?"
