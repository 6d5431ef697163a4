from __future__ import annotations

import pytest

from ottla.cli.kafka.exceptions import describe, exception_name
from ottla.cli.kafka.options import Option, Options, UsageError, usage
from ottla.errors import ErrorCode, KafkaError

KNOWN = (
    Option("topic", "The topic.", "topic"),
    Option("property", "A property.", "key=value"),
    Option("list", "List."),
    Option("codec", "A codec.", "codec", optional=True),
    Option("time", "A time.", "ms", default="-1"),
)


def parse(*words: str) -> Options:
    return Options(KNOWN, words)


def test_a_value_follows_its_option_or_an_equals_sign() -> None:
    assert parse("--topic", "a").value("topic") == "a"
    assert parse("--topic=a=b").value("topic") == "a=b"
    assert parse("-topic", "a").value("topic") == "a"


def test_a_value_may_look_like_anything() -> None:
    assert parse("--time", "-3").value("time") == "-3"
    assert parse("--topic", "--list").value("topic") == "--list"


def test_an_option_that_is_not_there_has_its_default() -> None:
    assert parse().value("time") == "-1"
    assert parse().value("topic") is None


def test_words_that_belong_to_no_option_are_ignored() -> None:
    given = parse("extra", "--list", "words")
    assert given.has("list")


def test_an_optional_value_may_be_omitted() -> None:
    assert parse("--codec", "--list").value("codec") is None
    assert parse("--codec").has("codec")
    assert parse("--codec", "zstd").value("codec") == "zstd"


def test_properties_add_up() -> None:
    given = parse("--property", "a=1", "--property", "b=x=y", "--property", "c")
    assert given.properties("property") == {"a": "1", "b": "x=y", "c": ""}


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--nonsense"], "nonsense is not a recognized option"),
        (["--top", "a"], "top is not a recognized option"),
        (["--topic"], "Option topic requires an argument"),
    ],
)
def test_unparsable_options_are_refused(words: list[str], complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint):
        parse(*words)


def test_a_single_valued_option_may_not_repeat() -> None:
    with pytest.raises(UsageError, match="Found multiple arguments for option topic"):
        parse("--topic", "a", "--topic", "b").value("topic")
    assert parse("--topic", "a", "--topic", "b").values("topic") == ["a", "b"]


def test_numeric_options_refuse_other_text() -> None:
    assert parse("--time", "12").integer("time") == 12
    with pytest.raises(UsageError, match="Cannot parse argument 'x' of option time"):
        parse("--time", "x").integer("time")


def test_the_usage_has_two_columns() -> None:
    lines = usage(KNOWN).splitlines()
    assert lines[0].split() == ["Option", "Description"]
    assert "--codec [codec]" in lines[2]
    assert all(len(line) <= 80 for line in lines)


@pytest.mark.parametrize(
    ("code", "name"),
    [
        (ErrorCode.TOPIC_ALREADY_EXISTS, "TopicExistsException"),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "UnknownTopicOrPartitionException"),
        (ErrorCode.INVALID_CONFIG, "InvalidConfigurationException"),
        (ErrorCode.INVALID_REPLICATION_FACTOR, "InvalidReplicationFactorException"),
        (ErrorCode.REQUEST_TIMED_OUT, "TimeoutException"),
        (ErrorCode.NON_EMPTY_GROUP, "GroupNotEmptyException"),
    ],
)
def test_errors_have_the_names_of_javas_classes(code: ErrorCode, name: str) -> None:
    assert exception_name(code) == f"org.apache.kafka.common.errors.{name}"


def test_an_error_code_without_a_message_is_described() -> None:
    assert describe(KafkaError(ErrorCode.NON_EMPTY_GROUP)).endswith("The group is not empty.")
    said = KafkaError(ErrorCode.INVALID_PARTITIONS, "Topic already has 5 partition(s).")
    assert describe(said).endswith(": Topic already has 5 partition(s).")
