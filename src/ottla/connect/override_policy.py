"""connector.client.config.override.policy: what connectors may say of their clients (KIP-458).

    All        everything (the default, as in Kafka)
    Principal  who a connector is: security.protocol, sasl.jaas.config, sasl.mechanism
    None       nothing
    Allowlist  what connector.client.config.override.allowlist lists

Whatever the policy, a connector names no place to fetch a token from: the worker would read files
and reach hosts for whoever may create connectors (CVE-2025-27817). Nor does it name a keytab or
tickets: those of the worker's machine are not the connector's.
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


def policy_of(worker: Mapping[str, str]) -> str:
    """ConfigException for one that is not known: it must not mean All."""
    said = worker.get(POLICY, "All").strip()
    name = said.removeprefix(PACKAGE).removesuffix(SUFFIX)
    for known in POLICIES:
        if known.lower() == name.lower():
            return known
    raise ConfigException.of(POLICY, said, f"it is one of {', '.join(POLICIES)}")


def override_problems(
    config: Mapping[str, str], worker: Mapping[str, str]
) -> list[tuple[str, str]]:
    """(setting, why not) of each override that the worker's policy does not allow."""
    policy = policy_of(worker)
    listed = frozenset(name.strip() for name in worker.get(ALLOWLIST, "").split(","))
    allowed = {"Principal": PRINCIPAL, "None": frozenset[str](), "Allowlist": listed}
    problems = []
    for name, value in config.items():
        prefix = next((each for each in PREFIXES if name.startswith(each)), None)
        if prefix is None:
            continue
        plain = name.removeprefix(prefix)
        if plain in NEVER or plain.startswith(KERBEROS):
            problems.append((name, f"'{plain}' can be set for the worker only."))
        elif plain == "sasl.jaas.config" and _is_kerberos(value):
            problems.append((name, "Krb5LoginModule can be set for the worker only."))
        elif policy != "All" and plain not in allowed[policy]:
            told = f"The '{policy}' policy does not allow '{plain}' to be overridden in the"
            problems.append((name, f"{told} connector configuration."))
    return problems


def _is_kerberos(jaas: str) -> bool:
    """By what it means: a name may be written with escapes."""
    try:
        return parse_jaas(jaas).module == GSSAPI
    except ValueError:
        return False  # nobody logs in with it
