"""connector.client.config.override.policy: which client settings connectors may set (KIP-458).

    All        everything (the default, as in Kafka)
    Principal  the connector's identity: security.protocol, sasl.jaas.config, sasl.mechanism
    None       nothing
    Allowlist  the settings in connector.client.config.override.allowlist

No policy lets a connector set a URL to fetch tokens from, because then every user with the right to
create connectors could make the worker read files and connect to hosts (CVE-2025-27817). Nor may it
set a keytab or a ticket cache: those of the worker's machine do not belong to the connector.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ottla.auth.jaas import parse_jaas
from ottla.auth.sasl_client import GSSAPI
from ottla.connect.errors import ConfigException

POLICY: Final = "connector.client.config.override.policy"
ALLOWLIST: Final = "connector.client.config.override.allowlist"
PREFIXES: Final = ("producer.override.", "consumer.override.", "admin.override.")
PACKAGE: Final = "org.apache.kafka.connect.connector.policy."
SUFFIX: Final = "ConnectorClientConfigOverridePolicy"
PRINCIPAL: Final = frozenset({"security.protocol", "sasl.jaas.config", "sasl.mechanism"})
NEVER: Final = ("sasl.oauthbearer.token.endpoint.url", "sasl.oauthbearer.jwks.endpoint.url")
KERBEROS: Final = "sasl.kerberos."
POLICIES: Final = ("All", "Principal", "None", "Allowlist")


def override_policy_of(worker: Mapping[str, str]) -> str:
    """Raises ConfigException for an unknown policy, which must not silently mean All."""
    said = worker.get(POLICY, "All").strip()
    name = said.removeprefix(PACKAGE).removesuffix(SUFFIX)
    for known in POLICIES:
        if known.lower() == name.lower():
            return known
    raise ConfigException.of(POLICY, said, f"it is one of {', '.join(POLICIES)}")


def override_problems(
    config: Mapping[str, str], worker: Mapping[str, str]
) -> list[tuple[str, str]]:
    """(setting, message) for each override that the worker's policy does not allow."""
    policy = override_policy_of(worker)
    listed = frozenset(name.strip() for name in worker.get(ALLOWLIST, "").split(","))
    allowed = {"Principal": PRINCIPAL, "None": frozenset[str](), "Allowlist": listed}
    problems = []
    for name, value in config.items():
        prefix = next((prefix for prefix in PREFIXES if name.startswith(prefix)), None)
        if prefix is None:
            continue
        plain = name.removeprefix(prefix)
        if plain in NEVER or plain.startswith(KERBEROS):
            problems.append((name, f"'{plain}' can be set for the worker only."))
        elif plain == "sasl.jaas.config" and _is_kerberos(value):
            problems.append((name, "Krb5LoginModule can be set for the worker only."))
        elif policy != "All" and plain not in allowed[policy]:
            text = f"The '{policy}' policy does not allow '{plain}' to be overridden in the"
            problems.append((name, f"{text} connector configuration."))
    return problems


def _is_kerberos(jaas: str) -> bool:
    """Parsed, because the login module's name may contain escapes."""
    try:
        return parse_jaas(jaas).module == GSSAPI
    except ValueError:
        return False  # an invalid config cannot log in either
