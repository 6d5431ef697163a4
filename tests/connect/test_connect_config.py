"""ConfigDef: parsing, validation, and REST's form of both."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from ottla.connect import validators
from ottla.connect.config import ConfigDef, ConfigType, Importance, Password, Width
from ottla.connect.errors import ConfigException


class Colours:
    def valid_values(self, name: str, parsed: Mapping[str, Any]) -> list[Any]:
        return ["red", "blue"]

    def visible(self, name: str, parsed: Mapping[str, Any]) -> bool:
        return bool(parsed["size"])


def settings() -> ConfigDef:
    return (
        ConfigDef()
        .define("file", ConfigType.STRING, importance=Importance.HIGH, doc="Where.", group="Main")
        .define("size", ConfigType.INT, 5, validator=validators.at_least(1), width=Width.SHORT)
        .define("colour", ConfigType.STRING, None, recommender=Colours(), dependents=["size"])
        .define("names", ConfigType.LIST, "")
        .define("secret", ConfigType.PASSWORD, "hush")
        .define("share", ConfigType.DOUBLE, 0.5)
        .define("on", ConfigType.BOOLEAN, "true")
    )


def test_values_are_typed_and_defaults_fill_in() -> None:
    parsed = settings().parse({"file": " a ", "size": "+7", "names": "a , b,c", "on": "FALSE"})
    assert parsed == {
        "file": "a",
        "size": 7,
        "colour": None,
        "names": ["a", "b", "c"],
        "secret": Password("hush"),
        "share": 0.5,
        "on": False,
    }
    assert "hush" not in repr(parsed)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, 'Missing required configuration "file" which has no default value.'),
        ({"size": "0"}, "Invalid value 0 for configuration size: Value must be at least 1"),
        ({"size": "x"}, "Invalid value x for configuration size: Not a number of type INT"),
        ({"size": str(2**31)}, "Not a number of type INT"),
        ({"size": 1.5}, "Expected value to be a 32-bit integer, but it was a float"),
        ({"on": "yes"}, "for configuration on: Expected value to be either true or false"),
        ({"share": "much"}, "Not a number of type DOUBLE"),
        ({"names": 3}, "Expected a comma separated list."),
    ],
)
def test_error_messages_equal_kafkas(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigException) as caught:
        settings().parse(given if message.startswith("Missing") else {"file": "a", **given})
    assert message in str(caught.value)


def test_validate_finds_every_error_and_answers_in_kafka_s_form() -> None:
    config = settings()
    infos = config.infos("My", config.validate({"size": "0", "on": "yes"}))
    assert infos["name"] == "My"
    assert infos["error_count"] == 3
    assert infos["groups"] == ["Main"]
    by_name = {info["value"]["name"]: info for info in infos["configs"]}
    assert by_name["file"]["definition"] == {
        "name": "file",
        "type": "STRING",
        "required": True,
        "default_value": None,
        "importance": "HIGH",
        "documentation": "Where.",
        "group": "Main",
        "order_in_group": -1,
        "width": "NONE",
        "display_name": "file",
        "dependents": [],
    }
    assert by_name["colour"]["value"] == {
        "name": "colour",
        "value": None,
        "recommended_values": ["red", "blue"],
        "errors": [],
        "visible": False,
    }
    assert by_name["secret"]["value"]["value"] == "[hidden]"
    assert by_name["on"]["definition"]["default_value"] == "true"
    assert by_name["on"]["value"]["errors"] == [
        "Invalid value yes for configuration on: Expected value to be either true or false"
    ]


def test_a_setting_is_defined_once() -> None:
    with pytest.raises(ConfigException, match="Configuration file is defined twice"):
        settings().define("file", ConfigType.STRING)


@pytest.mark.parametrize(
    ("check", "bad", "message"),
    [
        (validators.one_of("a", "b"), "c", "String must be one of: a, b"),
        (validators.one_of_any_case("a"), "c", "String must be one of (case insensitive): A"),
        (validators.between(1, 3), 4, "Value must be no more than 3"),
        (validators.between(1, 3), None, "Invalid value null for configuration x"),
        (validators.non_empty_string, "", "String must be non-empty"),
        (validators.non_empty_list, [], "Invalid value [] for configuration x: Empty list"),
        (validators.no_duplicates, ["a", "a"], "'x' values must not be duplicated."),
        (validators.each_of("a"), ["b"], "String must be one of: a"),
        (validators.printable_string, "a\tb", "had the following ASCII chars: 9"),
        (validators.regex, "(", "Invalid regex"),
        (validators.non_null, None, "entry must be non null"),
        (validators.every(validators.non_null, validators.at_least(2)), 1, "at least 2"),
    ],
)
def test_each_check_names_the_error(check: Any, bad: Any, message: str) -> None:
    with pytest.raises(ConfigException) as caught:
        check("x", bad)
    assert message in str(caught.value)
