"""Certificates, users and settings of a secured test cluster."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from ottla.testing.certificates import CertificateAuthority
from ottla.testing.ports import HOST

PROTOCOLS: Final = ("plaintext", "ssl", "sasl_plaintext", "sasl_ssl")
MECHANISMS: Final = "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512"
BROKER_USER: Final = ("broker", "broker-secret")
DEFAULT_USERS: Final = {"admin": "admin-secret"}
PLAIN_MODULE: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
BROKER_NAME: Final = "broker"
CLIENT_NAME: Final = "client"


class LocalSecurity:
    """`protocol` is one of PROTOCOLS; `users` are PLAIN users with their passwords.

    Brokers connect to each other over the same listener, as the user `broker`.
    """

    def __init__(self, protocol: str, users: Mapping[str, str] | None = None) -> None:
        if protocol not in PROTOCOLS:
            raise ValueError(f"security must be one of {', '.join(PROTOCOLS)}, not {protocol}")
        self.protocol = protocol.upper()
        self.users = dict(users or DEFAULT_USERS)
        self.authority: CertificateAuthority | None = None

    @property
    def has_tls(self) -> bool:
        return self.protocol.endswith("SSL")

    @property
    def has_sasl(self) -> bool:
        return self.protocol.startswith("SASL_")

    def prepare(self, directory: Path) -> None:
        """Make certificates in this directory, if the protocol needs them."""
        if self.has_tls:
            self.authority = CertificateAuthority(directory)
            self.authority.issue(BROKER_NAME)
            self.authority.issue(CLIENT_NAME)

    def broker_properties(self, port: int) -> dict[str, str]:
        properties = {"listeners": f"{self.protocol}://{HOST}:{port}"}
        if self.protocol == "PLAINTEXT":
            return properties
        properties["security.inter.broker.protocol"] = self.protocol
        if self.authority is not None:
            folder = self.authority.directory
            properties |= {
                "ssl.keystore.type": "PEM",
                "ssl.keystore.location": str(folder / f"{BROKER_NAME}.pem"),
                "ssl.truststore.type": "PEM",
                "ssl.truststore.location": str(self.authority.certificate),
            }
        if self.has_sasl:
            properties |= {
                "sasl.enabled.mechanisms": MECHANISMS,
                "sasl.mechanism.inter.broker.protocol": "PLAIN",
                f"listener.name.{self.protocol.lower()}.plain.sasl.jaas.config": self._module(),
            }
        return properties

    def client_settings(self, user: str | None = None) -> dict[str, str]:
        """Settings by librdkafka's names; without a `user` those of the brokers themselves."""
        if self.protocol == "PLAINTEXT":
            return {}
        settings = {"security.protocol": self.protocol}
        if self.authority is not None:
            folder = self.authority.directory
            settings |= {
                "ssl.ca.location": str(self.authority.certificate),
                "ssl.certificate.location": str(folder / f"{CLIENT_NAME}.crt"),
                "ssl.key.location": str(folder / f"{CLIENT_NAME}.key"),
            }
        if self.has_sasl:
            name, password = BROKER_USER if user is None else (user, self.users[user])
            settings |= {
                "sasl.mechanism": "PLAIN",
                "sasl.username": name,
                "sasl.password": password,
            }
        return settings

    def _module(self) -> str:
        name, password = BROKER_USER
        options = [f'username="{name}" password="{password}"']
        users = {name: password, **self.users}
        options += [f'user_{user}="{secret}"' for user, secret in users.items()]
        return f"{PLAIN_MODULE} required {' '.join(options)};"
