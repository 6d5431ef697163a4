from __future__ import annotations

import pytest

from ottla.connect.errors import ConfigException
from ottla.connect.override_policy import override_problems, policy_of
from ottla.connect.plugins import Plugins
from ottla.connect.settings import Settings
from ottla.connect.validation import validate

CONFIG = {
    "connector.class": "FileStreamSource",
    "name": "lines",
    "topic": "t",
    "file": "/lines",
    "producer.override.acks": "all",
    "producer.override.sasl.jaas.config": "PlainLoginModule hunter2",
}
JAVA = "org.apache.kafka.connect.connector.policy.{}ConnectorClientConfigOverridePolicy"


@pytest.mark.parametrize(
    ("worker", "refused"),
    [
        ({}, set()),
        ({"connector.client.config.override.policy": "None"}, {"acks", "sasl.jaas.config"}),
        ({"connector.client.config.override.policy": "principal"}, {"acks"}),
        ({"connector.client.config.override.policy": JAVA.format("Principal")}, {"acks"}),
        (
            {
                "connector.client.config.override.policy": "Allowlist",
                "connector.client.config.override.allowlist": "acks, linger.ms",
            },
            {"sasl.jaas.config"},
        ),
    ],
)
def test_a_policy_decides_what_connectors_override(
    worker: dict[str, str], refused: set[str]
) -> None:
    found = override_problems(CONFIG, worker)
    assert {name.removeprefix("producer.override.") for name, _ in found} == refused
    infos = validate(CONFIG, plugins=Plugins(), worker=worker)
    assert infos["error_count"] == len(refused)
    assert "hunter2" not in str(infos)


def test_cve_2025_27817_no_connector_names_a_place_to_fetch_tokens_from() -> None:
    """CVE-2025-27817."""
    name = "admin.override.sasl.oauthbearer.token.endpoint.url"
    found = override_problems({name: "file:///etc/passwd"}, {})
    assert [each for each, _ in found] == [name]


def test_a_policy_that_is_not_known_is_not_everything() -> None:
    worker = {"connector.client.config.override.policy": "com.example.Mine"}
    with pytest.raises(ConfigException, match="All, Principal, None, Allowlist"):
        policy_of(worker)
    with pytest.raises(ConfigException):
        Settings(worker).check()


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("sasl.kerberos.keytab", "/etc/krb5.keytab"),
        ("sasl.kerberos.kinit.cmd", "reboot"),
        ("sasl.kerberos.service.name", "kafka"),
        ("sasl.jaas.config", "com.sun.security.auth.module.Krb5LoginModule required;"),
        ("sasl.jaas.config", r'"com.sun.security.auth.module.Krb5Login\115odule" required;'),
    ],
)
def test_a_connector_never_logs_in_with_tickets_of_the_worker(setting: str, value: str) -> None:
    name = f"producer.override.{setting}"
    assert [found for found, _ in override_problems({name: value}, {})] == [name]
