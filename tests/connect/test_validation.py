"""Validation of a connector's config, as REST's .../config/validate answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from ottla.connect.api import (
    ConnectorTransactionBoundaries,
    ExactlyOnceSupport,
    SinkConnector,
    SourceConnector,
)
from ottla.connect.config import ConfigDef, ConfigType, ConfigValue
from ottla.connect.errors import ConnectException
from ottla.connect.plugins import Plugins
from ottla.connect.validation import validate

HERE = __name__


class Pump(SourceConnector):
    support: ExactlyOnceSupport | None = None

    def version(self) -> str:
        return "1.2"

    def config_def(self) -> ConfigDef:
        return ConfigDef().define("speed", ConfigType.INT, group="Pump", doc="How fast.")

    def exactly_once_support(self, props: Mapping[str, str]) -> ExactlyOnceSupport | None:
        return self.support


class SurePump(Pump):
    support = ExactlyOnceSupport.SUPPORTED

    def can_define_transaction_boundaries(self, props: Any) -> ConnectorTransactionBoundaries:
        return ConnectorTransactionBoundaries.SUPPORTED


class Drain(SinkConnector):
    def validate(self, props: Mapping[str, str]) -> list[ConfigValue]:
        return [*super().validate(props), ConfigValue("extra", "x", errors=["is extra"])]


def asked(kind: str, worker: Mapping[str, str] | None = None, /, **props: Any) -> dict[str, Any]:
    given = {key.replace("__", "."): value for key, value in props.items()}
    config = {"connector.class": f"{HERE}:{kind}", "name": "c", **given}
    return validate(config, plugins=Plugins(), worker=worker)


def errors(infos: dict[str, Any]) -> dict[str, list[str]]:
    values = (info["value"] for info in infos["configs"])
    return {value["name"]: value["errors"] for value in values if value["errors"]}


def of(infos: dict[str, Any], name: str) -> dict[str, Any]:
    (found,) = (info for info in infos["configs"] if info["value"]["name"] == name)
    return dict(found)


def test_a_sources_config_has_common_settings_and_its_own() -> None:
    infos = asked("Pump", speed="3")
    assert infos["name"] == f"{HERE}:Pump"
    assert infos["error_count"] == 0
    assert infos["groups"] == [
        "Common", "Transforms", "Predicates", "Error Handling", "Topic Creation",
        "Exactly Once Support", "offsets.topic", "Pump",
    ]  # fmt: skip
    assert of(infos, "speed")["value"]["value"] == "3"
    assert of(infos, "tasks.max")["definition"] == {
        "name": "tasks.max",
        "type": "INT",
        "required": False,
        "default_value": "1",
        "importance": "HIGH",
        "documentation": "The maximum number of tasks.",
        "group": "Common",
        "order_in_group": 4,
        "width": "SHORT",
        "display_name": "Tasks max",
        "dependents": [],
    }
    assert of(infos, "connector.plugin.version")["definition"]["default_value"] == "1.2"
    offered = of(infos, "key.converter")["value"]["recommended_values"]
    assert "org.apache.kafka.connect.json.JsonConverter" in offered


def test_all_errors_are_reported_at_once() -> None:
    infos = asked("Pump", tasks__max="0", errors__tolerance="some", key__converter="No", name="")
    assert errors(infos) == {
        "name": ["Invalid value  for configuration name: String may not be empty"],
        "tasks.max": ["Invalid value 0 for configuration tasks.max: Value must be at least 1"],
        "key.converter": [
            "Invalid value No for configuration key.converter: Class No could not be found."
        ],
        "errors.tolerance": [
            "Invalid value some for configuration errors.tolerance: "
            "String must be one of: none, all"
        ],
        "speed": ['Missing required configuration "speed" which has no default value.'],
    }
    assert infos["error_count"] == 5


def test_transforms_and_predicates_have_their_settings_under_their_names() -> None:
    infos = asked(
        "Drain",
        topics="t",
        transforms="one,two",
        transforms__one__type="Cast$Value",
        transforms__one__spec="nope",
        transforms__one__predicate="p",
        transforms__two__type="Nothing",
        predicates="p",
        predicates__p__type="TopicNameMatches",
    )
    found = errors(infos)
    assert found["transforms.one.spec"] == ["Invalid type found in casting spec: nope"]
    assert found["transforms.two.type"] == [
        "Invalid value Nothing for configuration transforms.two.type: "
        "Class Nothing could not be found."
    ]
    assert found["predicates.p.pattern"][0].startswith("Missing required configuration")
    assert found["extra"] == ["is extra"]
    assert of(infos, "transforms.one.negate")["definition"]["group"] == "Transforms: one"
    kinds = of(infos, "transforms.one.type")["value"]["recommended_values"]
    assert "org.apache.kafka.connect.transforms.Cast$Key" in kinds
    assert {"Transforms: one", "Transforms: two", "Predicates: p"} <= set(infos["groups"])
    alone = asked("Drain", topics="t", transforms="a,a", transforms__a__type="Filter",
                  transforms__a__negate="true")  # fmt: skip
    assert errors(alone)["transforms"] == [
        "Invalid value [a, a] for configuration transforms: Duplicate alias provided."
    ]
    assert "there is no config 'transforms.a.predicate'" in errors(alone)["transforms.a.type"][0]


def test_a_connectors_own_converters_are_validated() -> None:
    infos = asked("Drain", topics="t", value__converter="JsonConverter",
                  value__converter__decimal__format="roman")  # fmt: skip
    assert "value.converter.decimal.format" in errors(infos)
    assert of(infos, "value.converter.schemas.enable")["definition"]["default_value"] == "true"


@pytest.mark.parametrize(
    ("props", "name", "message"),
    [
        ({}, "topics", "Must configure one of topics or topics.regex"),
        ({"topics": "a", "topics.regex": "b"}, "topics.regex", "mutually exclusive options"),
        (
            {"topics": "a, d", "errors.deadletterqueue.topic.name": "d"},
            "topics",
            "The DLQ topic 'd' may not be included in the list of topics ('topics=[a, d]')",
        ),
        (
            {"topics.regex": "d.*", "errors.deadletterqueue.topic.name": "dead"},
            "topics.regex",
            "The DLQ topic 'dead' may not be matched by the regex",
        ),
        ({"topics.regex": "("}, "topics.regex", "Invalid regex"),
        ({"topics": "a", "name": "me"}, "name", "conflicts with Connect worker group connect-me"),
        (
            {"topics": "a", "consumer.override.group.id": "connect-me"},
            "consumer.override.group.id",
            "Consumer group connect-me conflicts with Connect worker group connect-me",
        ),
        ({"topics": "a", "x": None}, "x", "Null value can not be supplied"),
    ],
)
def test_a_sinks_settings_must_be_consistent(props: Any, name: str, message: str) -> None:
    found = errors(asked("Drain", {"group.id": "connect-me"}, **props))
    assert message in found[name][0]


def test_exactly_once_may_be_required() -> None:
    required = {"exactly.once.support": "required", "speed": "1"}
    enabled = {"exactly.once.source.support": "enabled"}
    message = errors(asked("Pump", **required))["exactly.once.support"][0]
    assert message == "This worker does not have exactly-once source support enabled."
    message = errors(asked("Pump", enabled, **required))["exactly.once.support"][0]
    assert message.startswith("The connector does not implement the API required")
    assert errors(asked("SurePump", enabled, **required)) == {}


def test_only_some_connectors_define_transaction_boundaries() -> None:
    found = errors(asked("Pump", speed="1", transaction__boundary="connector"))
    assert "connector-defined transaction boundaries" in found["transaction.boundary"][0]
    assert errors(asked("SurePump", speed="1", transaction__boundary="connector")) == {}


def test_settings_of_clients_are_shown() -> None:
    infos = asked("Pump", speed="1", producer__override__acks="1", consumer__override__x="y")
    names = [info["value"]["name"] for info in infos["configs"]]
    assert "producer.override.acks" in names
    assert "consumer.override.x" not in names


def test_a_plugin_of_another_type_is_reported_as_such() -> None:
    infos = asked(
        "Drain", topics="t", value__converter="org.apache.kafka.connect.transforms.Filter"
    )
    assert errors(infos)["value.converter"] == [
        "Class class org.apache.kafka.connect.transforms.Filter does not implement the Converter "
        "interface"
    ]
    unknown = of(asked("Drain", topics="t", value__converter="No"), "value.converter")
    assert unknown["value"]["value"] is None


def test_without_a_connector_there_is_nothing_to_check() -> None:
    with pytest.raises(ConnectException, match="Connector config contains no connector type"):
        validate({}, plugins=Plugins())
    with pytest.raises(ConnectException, match="Failed to find any class that implements Connecto"):
        validate({"connector.class": "Nothing"}, plugins=Plugins())
