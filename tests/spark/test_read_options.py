"""Options of the source: what Spark's own source takes, and its errors."""

from __future__ import annotations

import logging
from collections.abc import Mapping

import pytest

from ottla.client.record import TopicPartition
from ottla.spark.limits import EARLIEST, LATEST, OffsetRangeLimit, OptionError
from ottla.spark.options import ReadOptions, read_options

SERVERS = {"kafka.bootstrap.servers": "h:9092"}


def options(streaming: bool | None = True, **given: str) -> ReadOptions:
    named = {name.replace("__", "."): value for name, value in given.items()}
    if not {"subscribe", "subscribePattern", "assign"} & named.keys():
        named["subscribe"] = "t"
    return read_options({**SERVERS, **named}, streaming=streaming)


def refusal(given: Mapping[str, str], *, streaming: bool | None = True) -> str:
    with pytest.raises(OptionError) as caught:
        read_options(given, streaming=streaming)
    return str(caught.value)


def test_defaults_are_those_of_sparks_source() -> None:
    stream, batch = options(True), options(False)
    assert stream.starting.everywhere == LATEST
    assert batch.starting.everywhere == EARLIEST
    assert batch.ending.everywhere == LATEST
    assert stream.fail_on_data_loss
    assert not stream.with_headers
    assert not stream.read_committed
    assert stream.records_max is None
    assert stream.delay_max_ms == 15 * 60 * 1000


def test_names_are_not_case_sensitive() -> None:
    read = read_options(
        {"Kafka.Bootstrap.Servers": "h:1", "SUBSCRIBE": " b, a ,", "startingoffsets": "EARLIEST"},
        streaming=True,
    )
    assert (read.servers, read.topics) == ("h:1", ("a", "b"))
    assert read.starting.everywhere == EARLIEST


def test_consumer_settings_are_passed_on() -> None:
    read = options(
        kafka__security__protocol="SASL_SSL",
        kafka__sasl__jaas__config='... required username="u" password="p";',
        kafka__group__id="g",
        kafka__isolation__level="read_committed",
    )
    assert read.settings["security.protocol"] == "SASL_SSL"
    assert "username" in str(read.settings["sasl.jaas.config"])
    assert "jaas" not in repr(read)
    assert read.read_committed
    assert options().settings == {}


def test_numbers_and_booleans_are_parsed() -> None:
    read = options(
        maxOffsetsPerTrigger="10",
        minOffsetsPerTrigger="2",
        maxTriggerDelay="30s",
        minPartitions="4",
        maxRecordsPerPartition="7",
        failOnDataLoss="false",
        includeHeaders="true",
    )
    assert (read.records_max, read.records_min, read.delay_max_ms) == (10, 2, 30_000)
    assert (read.partitions_min, read.partition_records_max) == (4, 7)
    assert (read.fail_on_data_loss, read.with_headers) == (False, True)


@pytest.mark.parametrize(
    ("text", "delay_ms"), [("100ms", 100), ("15m", 900_000), ("2h", 7_200_000), ("250", 250)]
)
def test_times_have_sparks_form(text: str, delay_ms: int) -> None:
    assert options(maxTriggerDelay=text).delay_max_ms == delay_ms


def test_starting_and_ending_of_all_kinds() -> None:
    first, second = TopicPartition("t", 0), TopicPartition("t", 1)
    read = options(False, startingOffsets='{"t":{"0":23,"1":-2}}', endingOffsets='{"t":{"0":-1}}')
    assert read.starting.by_partition == {first: 23, second: EARLIEST}
    assert read.ending.by_partition == {first: LATEST}
    read = options(startingOffsetsByTimestamp='{"t":{"0":5}}', startingOffsets="earliest")
    assert (read.starting.by_partition, read.starting.by_time) == ({first: 5}, True)
    read = options(startingTimestamp="9", startingOffsetsByTimestamp='{"t":{"0":5}}')
    assert (read.starting.everywhere, read.starting.by_time) == (9, True)
    assert options(startingOffsetsByTimestampStrategy="latest").latest_if_no_time


def test_assign_names_partitions() -> None:
    read = options(assign='{"b":[1,0],"a":[2]}')
    assert [str(partition) for partition in read.partitions] == ["a-2", "b-0", "b-1"]


@pytest.mark.parametrize(
    ("given", "streaming", "words"),
    [
        ({}, True, "'kafka.bootstrap.servers' must be specified"),
        (SERVERS, True, "One of the following options must be specified"),
        (SERVERS | {"subscribe": "t", "assign": "{}"}, True, "Only one of the following options"),
        (SERVERS | {"assign": ""}, True, "No topicpartitions to assign"),
        (SERVERS | {"assign": '{"t":"0"}'}, True, "Expected e.g."),
        (SERVERS | {"subscribe": " , "}, True, "No topics to subscribe to"),
        (SERVERS | {"subscribePattern": ""}, True, "Pattern to subscribe is empty"),
        (SERVERS | {"subscribePattern": "("}, True, "is not a valid pattern"),
        (SERVERS | {"subscribe": "t", "endingOffsets": "latest"}, True, "ending offset not valid"),
        (
            SERVERS | {"subscribe": "t", "endingTimestamp": "1"},
            True,
            "ending timestamp not valid in streaming queries",
        ),
        (
            SERVERS | {"subscribe": "t", "startingOffsets": "latest"},
            False,
            "starting offset can't be latest for batch queries",
        ),
        (
            SERVERS | {"subscribe": "t", "startingOffsets": '{"t":{"3":-1}}'},
            False,
            "(t-3)",
        ),
        (
            SERVERS | {"subscribe": "t", "endingOffsets": "earliest"},
            False,
            "ending offset can't be earliest for batch queries",
        ),
        (
            SERVERS | {"subscribe": "t", "startingOffsets": "erliest"},
            True,
            "Expected e.g.",
        ),
        (
            SERVERS | {"subscribe": "t", "startingOffsets": '{"t":{"0":-3}}'},
            True,
            "Expected e.g.",
        ),
        (SERVERS | {"subscribe": "t", "startingTimestamp": "soon"}, True, "in ms since 1970"),
        (
            SERVERS
            | {"subscribe": "t", "minOffsetsPerTrigger": "20", "maxOffsetsPerTrigger": "15"},
            True,
            "minOffsetPerTrigger(20) is higher than the maxOffsetsPerTrigger(15)",
        ),
        (
            SERVERS | {"subscribe": "t", "minPartitions": "0"},
            True,
            "minPartitions must be positive",
        ),
        (SERVERS | {"subscribe": "t", "maxTriggerDelay": "soon"}, True, "is not a duration"),
        (SERVERS | {"subscribe": "t", "failOnDataLoss": "no"}, True, "must be true or false"),
        (
            SERVERS | {"subscribe": "t", "kafka.auto.offset.reset": "latest"},
            True,
            "'auto.offset.reset' is not supported. Set the option 'startingOffsets'",
        ),
        (
            SERVERS | {"subscribe": "t", "kafka.enable.auto.commit": "true"},
            True,
            "'enable.auto.commit' is not supported",
        ),
        (
            SERVERS | {"subscribe": "t", "kafka.isolation.level": "read_all"},
            True,
            "read_uncommitted or read_committed, not 'read_all'",
        ),
        (
            SERVERS | {"subscribe": "t", "startingOffsetsByTimestampStrategy": "x"},
            True,
            "either of 'error' or 'latest'",
        ),
        (SERVERS | {"subscribe": "t", "ottla.layuot": "x"}, True, "did you mean ottla.layout?"),
    ],
)
def test_invalid_options_are_refused(given: Mapping[str, str], streaming: bool, words: str) -> None:
    assert words in refusal(given, streaming=streaming)


def test_an_unknown_option_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        options(startingOffset="earliest")
    assert "did you mean startingOffsets?" in caplog.text


def test_a_limit_for_each_partition_must_name_all() -> None:
    first, second = TopicPartition("t", 0), TopicPartition("t", 1)
    limit = OffsetRangeLimit(by_partition={first: 4}, option="startingOffsets")
    with pytest.raises(
        OptionError, match=r"Use -1 for latest.*\nSpecified: t-0 Assigned: t-0, t-1"
    ):
        limit.numbers([first, second])


def test_times_after_the_last_record() -> None:
    first, second = TopicPartition("t", 0), TopicPartition("t", 1)

    def find(times: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        return {
            place: 50 if at == LATEST else None if place == second else 7
            for place, at in times.items()
        }

    limit = OffsetRangeLimit(1000, by_time=True)
    assert limit.resolve([first, second], find, latest_if_no_time=True) == {first: 7, second: 50}
    with pytest.raises(OptionError, match="t-1 and timestamp 1000"):
        limit.resolve([first, second], find, latest_if_no_time=False)
