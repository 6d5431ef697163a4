from __future__ import annotations

import pytest

from ottla.connect.errors import ConfigException
from ottla.connect.override_policy import override_policy_of, override_problems
from ottla.connect.plugins import Plugins
from ottla.connect.validation import validate
from ottla.connect.worker_config import WorkerConfig

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


def test_cve_2025_27817_no_connector_sets_a_token_endpoint() -> None:
    """CVE-2025-27817."""
    name = "admin.override.sasl.oauthbearer.token.endpoint.url"
    found = override_problems({name: "file:///etc/passwd"}, {})
    assert [item for item, _ in found] == [name]


def test_an_unknown_policy_does_not_mean_all() -> None:
    worker = {"connector.client.config.override.policy": "com.example.Mine"}
    with pytest.raises(ConfigException, match="All, Principal, None, Allowlist"):
        override_policy_of(worker)
    with pytest.raises(ConfigException):
        WorkerConfig(worker).check()


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
def test_a_connector_never_uses_the_workers_kerberos_credentials(setting: str, value: str) -> None:
    name = f"producer.override.{setting}"
    assert [found for found, _ in override_problems({name: value}, {})] == [name]
