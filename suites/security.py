"""Secured listeners of the brokers of a run: certificates, mechanisms, users.

The properties are the same for both kinds of broker. Each listener has the name of its protocol.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ottla.client import Admin
from ottla.testing.certificates import CertificateAuthority

SSL, SASL_PLAINTEXT, SASL_SSL = "SSL", "SASL_PLAINTEXT", "SASL_SSL"
PLAIN, OAUTHBEARER = "PLAIN", "OAUTHBEARER"
SCRAM = ("SCRAM-SHA-256", "SCRAM-SHA-512")
ADMIN = "admin", "admin-secret"
ORDINARY = "tester", "tester-secret"  # not a super user, so that ACLs apply
SCRAM_ITERATIONS = 4096
MODULES = "org.apache.kafka.common.security"


@dataclass(frozen=True, slots=True)
class SuiteSecurity:
    """What a suite needs beside the plain listener, whose clients are super users."""

    protocols: Sequence[str]
    mechanisms: Sequence[str] = (PLAIN, *SCRAM)
    users: Mapping[str, str] = field(default_factory=dict)
    """Passwords of PLAIN by name."""
    scram_users: Sequence[tuple[str, str, str]] = ()
    """Name, mechanism, password."""
    ports: Mapping[str, Sequence[int]] = field(default_factory=dict)
    """Fixed addresses at which the suite expects the listeners of a protocol."""
    client_auth: str = "required"
    """Of the listener SSL, whose clients have nothing else to show."""
    provider: bool = False
    """Tokens are signed by a provider (token_provider.py); without one nobody signs them."""


def make_certificates(directory: Path, host: str) -> Path:
    """ca.pem; of brokers and of a client the key (.key), the certificate (.crt), both (.pem)."""
    names = ("DNS:localhost", "IP:127.0.0.1", *([] if host[0].isdigit() else [f"DNS:{host}"]))
    authority = CertificateAuthority(directory)
    for name in ("broker", "client"):
        authority.issue(name, alternative_names=dict.fromkeys(names))
    return directory


def properties(secured: SuiteSecurity, certificates: Path) -> dict[str, str]:
    lines = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(certificates / "broker.pem"),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(certificates / "ca.pem"),
        "ssl.client.auth": secured.client_auth,
        "sasl.enabled.mechanisms": ",".join(secured.mechanisms),
        "super.users": f"User:ANONYMOUS;User:{ADMIN[0]}",
    }
    if OAUTHBEARER in secured.mechanisms and not secured.provider:
        lines["ottla.sasl.oauthbearer.unsecured"] = "true"  # as Kafka does by default
    for protocol in secured.protocols:
        if protocol.startswith("SASL"):
            for mechanism in secured.mechanisms:
                name = f"listener.name.{protocol.lower()}.{mechanism.lower()}.sasl.jaas.config"
                lines[name] = _login_module(mechanism, secured)
    return lines


def token_properties(keys: str) -> dict[str, str]:
    handler = "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler"
    return {
        "sasl.oauthbearer.jwks.endpoint.url": keys,
        "sasl.oauthbearer.expected.audience": "api://default",
        "listener.name.sasl_ssl.oauthbearer.sasl.server.callback.handler.class": handler,
    }


def add_scram_users(secured: SuiteSecurity, bootstrap: str) -> None:
    """Over the plain listener, which works on both kinds of broker."""
    admins = [(ADMIN[0], mechanism, ADMIN[1]) for mechanism in SCRAM]
    with Admin(bootstrap) as admin:
        for user, mechanism, password in (*admins, *secured.scram_users):
            admin.users.set_password(user, mechanism, password, SCRAM_ITERATIONS)


def _login_module(mechanism: str, secured: SuiteSecurity) -> str:
    if mechanism == PLAIN:
        users = {ADMIN[0]: ADMIN[1], **secured.users}
        known = " ".join(f'user_{name}="{password}"' for name, password in users.items())
        me = f'username="{ADMIN[0]}" password="{ADMIN[1]}"'
        return f"{MODULES}.plain.PlainLoginModule required {me} {known};"
    if mechanism == OAUTHBEARER:
        return f"{MODULES}.oauthbearer.OAuthBearerLoginModule required;"
    return f"{MODULES}.scram.ScramLoginModule required;"
