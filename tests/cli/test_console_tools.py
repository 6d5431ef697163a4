"""kafka-console-producer and kafka-console-consumer, as Apache Kafka 4.3.1's behave."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from typing import Any

import pytest

from ottla.cli.kafka.console_consumer import main as consumer_main
from ottla.cli.kafka.console_producer import main as producer_main
from ottla.cli.kafka.line_reader import LineReader
from ottla.cli.kafka.tool import ToolError
from ottla.client import Admin, Consumer, ConsumerRecord, Producer

Tool = Callable[..., Any]


@pytest.fixture
def produce(run: Tool, bootstrap: str) -> Tool:
    return lambda topic, stdin, *words: run(
        producer_main, "--bootstrap-server", bootstrap, "--topic", topic, *words, stdin=stdin
    )


@pytest.fixture
def consume(run: Tool, bootstrap: str) -> Tool:
    return lambda topic, *words: run(
        consumer_main, "--bootstrap-server", bootstrap, "--topic", topic, *words
    )


def read(bootstrap: str, topic: str, count: int) -> list[ConsumerRecord]:
    with Consumer(bootstrap, topic, auto_offset_reset="earliest") as consumer:
        return consumer.take(count)


def test_each_line_is_a_record(produce: Tool, bootstrap: str, admin: Admin, topic: str) -> None:
    admin.topics.create(topic, 1)
    ran = produce(topic, "one\ntwo\n\nthree")
    assert (ran.out, ran.err, ran.code) == ("", "", 0)
    found = read(bootstrap, topic, 4)
    assert [(record.key, record.value) for record in found] == [
        (None, b"one"),
        (None, b"two"),
        (None, b""),
        (None, b"three"),
    ]


def test_keys_headers_and_nulls(produce: Tool, bootstrap: str, admin: Admin, topic: str) -> None:
    admin.topics.create(topic, 1)
    words = ["parse.key=true", "parse.headers=true", "null.marker=NULL"]
    options = [word for pair in words for word in ("--reader-property", pair)]
    ran = produce(topic, "h1:NULL,h2:v2\tkey\tNULL\nNULL\tNULL\tv\n", *options, "--sync")
    assert ran.code == 0
    first, second = read(bootstrap, topic, 2)
    assert (first.key, first.value) == (b"key", None)
    assert first.headers == (("h1", None), ("h2", b"v2"))
    assert (second.key, second.value, second.headers) == (None, b"v", ())


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd", None])
def test_codecs(produce: Tool, bootstrap: str, admin: Admin, topic: str, codec: str | None) -> None:
    admin.topics.create(topic, 1)
    words = ["--compression-codec", *([codec] if codec else [])]
    assert produce(topic, "zipped\n" * 10, *words).code == 0
    assert read(bootstrap, topic, 10)[9].value == b"zipped"


def test_a_line_without_a_key_stops_the_producer(produce: Tool, topic: str) -> None:
    ran = produce(topic, "nokey\nk:v\n", "--property", "parse.key=true")
    assert "No key separator found on line number 1: 'nokey'" in ran.err
    assert ran.out.startswith("Option --property is deprecated")
    assert ran.code == 1


@pytest.mark.parametrize(
    ("properties", "line", "expected"),
    [
        ({"parse.key": "true", "key.separator": ":"}, "a:b:c", (b"a", b"b:c", [])),
        ({"parse.key": "true", "ignore.error": "true"}, "nokey", (None, b"nokey", [])),
        ({"parse.headers": "true"}, "h:1,i:2\tv", (None, b"v", [("h", b"1"), ("i", b"2")])),
        ({"parse.headers": "true", "ignore.error": "true"}, "x\tv", (None, b"v", [("x", None)])),
        ({}, "plain", (None, b"plain", [])),
    ],
)
def test_a_line_is_cut_at_its_separators(
    properties: dict[str, str], line: str, expected: tuple[object, ...]
) -> None:
    cut = LineReader(properties).cut(line)
    assert (cut.key, cut.value, cut.headers) == expected


def test_a_header_without_a_separator_is_an_error() -> None:
    with pytest.raises(ToolError, match="No header key separator found in pair 'bad'"):
        LineReader({"parse.headers": "true"}).cut("bad\tvalue")


def test_a_failed_record_is_reported_and_the_exit_code_stays_zero(produce: Tool) -> None:
    ran = produce("bad name", "x\n")
    assert "Error when sending message to topic bad name with key: null, value: 1 bytes" in ran.err
    assert "InvalidTopicException" in ran.err
    assert ran.code == 0


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--compression-codec", "nope"], "Invalid value nope for configuration compression.type"),
        (["--command-property", "acks=7"], "Invalid value 7 for configuration acks"),
        (
            ["--property", "a=b", "--reader-property", "c=d"],
            "Options --reader-property and --property cannot be specified together.",
        ),
    ],
)
def test_the_producer_refuses_invalid_options(
    produce: Tool, topic: str, words: list[str], sentence: str
) -> None:
    ran = produce(topic, "x\n", *words)
    assert sentence in ran.err
    assert ran.code == 1


def test_a_producer_without_a_broker_gives_up_in_time(run: Tool) -> None:
    words = ("--bootstrap-server", "localhost:1", "--topic", "x", "--max-block-ms", "100")
    ran = run(producer_main, *words, stdin="line\n")
    assert "no metadata of it in 100 ms" in ran.err
    assert ran.code == 0


def test_from_the_beginning(consume: Tool, five: str) -> None:
    ran = consume(five, "--from-beginning", "--max-messages", "3")
    assert (ran.out, ran.code) == ("0\n1\n2\n", 0)
    assert ran.err == "Processed a total of 3 messages\n"


def test_everything_about_a_record(consume: Tool, bootstrap: str, admin: Admin, topic: str) -> None:
    admin.topics.create(topic, 1)
    with Producer(bootstrap, key=str, value=str) as producer:
        producer.send(topic, "v", key="k", headers={"h1": b"v1", "h2": None}, timestamp_ms=5)
        producer.send(topic, None, timestamp_ms=6)
    names = ("timestamp", "partition", "offset", "headers", "key")
    words = [word for name in names for word in ("--formatter-property", f"print.{name}=true")]
    ran = consume(topic, "--from-beginning", "--max-messages", "2", *words)
    assert ran.lines == [
        "CreateTime:5\tPartition:0\tOffset:0\th1:v1,h2:null\tk\tv",
        "CreateTime:6\tPartition:0\tOffset:1\tNO_HEADERS\tnull\tnull",
    ]


def test_separators_and_literals(consume: Tool, five: str) -> None:
    words = ["print.key=true", "key.separator= => ", "line.separator=|", "null.literal=NIL"]
    options = [word for pair in words for word in ("--property", pair)]
    ran = consume(five, "--from-beginning", "--max-messages", "2", *options)
    assert ran.out.endswith("k0 => 0|k1 => 1|")


@pytest.mark.parametrize(
    ("offset", "expected"), [("2", "2\n3\n"), ("earliest", "0\n1\n"), ("3", "3\n4\n")]
)
def test_one_partition_from_an_offset(consume: Tool, five: str, offset: str, expected: str) -> None:
    ran = consume(five, "--partition", "0", "--offset", offset, "--max-messages", "2")
    assert ran.out == expected


def test_a_timeout_ends_the_consumer_without_an_error(consume: Tool, five: str) -> None:
    ran = consume(five, "--partition", "0", "--offset", "latest", "--timeout-ms", "200")
    assert "org.apache.kafka.common.errors.TimeoutException" in ran.err
    assert ran.err.endswith("Processed a total of 0 messages\n")
    assert ran.code == 0


def test_a_group_resumes_at_its_offsets(consume: Tool, five: str, group: str) -> None:
    words = ("--group", group, "--from-beginning", "--max-messages", "2")
    assert consume(five, *words).out == "0\n1\n"
    assert consume(five, *words).out == "2\n3\n"


def test_topics_by_a_pattern(run: Tool, bootstrap: str, five: str) -> None:
    words = ("--bootstrap-server", bootstrap, "--include", f"{five}|x", "--from-beginning")
    assert run(consumer_main, *words, "--max-messages", "1").out == "0\n"


def test_numbers_as_javas_deserializers_read_them(
    consume: Tool, bootstrap: str, admin: Admin, topic: str
) -> None:
    admin.topics.create(topic, 1)
    with Producer(bootstrap) as producer:
        producer.send(topic, struct.pack(">q", 42))
        producer.send(topic, b"abc")
    name = "org.apache.kafka.common.serialization.LongDeserializer"
    words = ("--from-beginning", "--value-deserializer", name)
    assert consume(topic, *words, "--max-messages", "1").out == "42\n"
    bad = consume(topic, *words, "--max-messages", "2")
    assert "3 bytes where 8 were expected" in bad.err
    assert bad.code == 1
    skipped = consume(topic, *words, "--max-messages", "2", "--skip-message-on-error")
    assert skipped.code == 0


def test_the_offsets_topic_can_be_printed(consume: Tool, five: str, group: str) -> None:
    consume(five, "--group", group, "--from-beginning", "--max-messages", "1")
    package = "org.apache.kafka.tools.consumer"
    words = ("--from-beginning", "--timeout-ms", "2000", "--formatter")
    ran = consume("__consumer_offsets", *words, f"{package}.OffsetsMessageFormatter")
    data = rf'"data":{{"group":"{group}","topic":"{five}","partition":0}}'
    assert re.search(rf'{{"key":{{"type":1,{data}}},"value":{{"version":\d,', ran.out)
    groups = consume("__consumer_offsets", *words, f"{package}.GroupMetadataMessageFormatter")
    assert f'{{"key":{{"type":2,"data":{{"group":"{group}"}}}}' in groups.out


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--offset", "4"], "The partition is required when offset is specified."),
        (["--partition", "0", "--offset", "x"], "The provided offset value 'x' is incorrect."),
        (["--partition", "0", "--offset", "-4"], "The provided offset value '-4' is incorrect."),
        (
            ["--partition", "0", "--offset", "earliest", "--from-beginning"],
            "Options from-beginning and offset cannot be specified together.",
        ),
        (
            ["--partition", "0", "--group", "g"],
            "Options group and partition cannot be specified together.",
        ),
        (["--include", "x"], "Exactly one of the following arguments is required: [topic], [inc"),
        (["--group", "a", "--command-property", "group.id=b"], "The group ids provided in"),
        (
            ["--from-beginning", "--command-property", "auto.offset.reset=latest"],
            "Can't simultaneously specify --from-beginning and 'auto.offset.reset=latest'",
        ),
        (["--isolation-level", "nope"], "Invalid value nope for configuration isolation.level"),
        (["--formatter", "nope.Nope"], "unknown formatter nope.Nope"),
    ],
)
def test_the_consumer_refuses_invalid_options(
    consume: Tool, words: list[str], sentence: str
) -> None:
    ran = consume("t", *words)
    assert ran.err.startswith(sentence)
    assert ran.code == 1
