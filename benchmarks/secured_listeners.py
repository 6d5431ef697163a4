"""Both brokers over TLS: the same certificate, the same cipher, the same users.

The certificate is of an elliptic curve (P-256), in PEM. Which cipher is used is the client's
choice: Kafka's own client, told to use one of TLS 1.3.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from benchmarks.bench import Bench
from benchmarks.brokers import HOST, Broker, start_broker
from ottla.testing.certificates import CertificateAuthority

PROTOCOLS = ("SSL", "SASL_SSL")
CIPHER = "TLS_AES_256_GCM_SHA384"
USER, PASSWORD = "bench", "bench-secret"
PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule required"


@dataclass(frozen=True, slots=True)
class Door:
    """One listener of a broker, as a load sees it."""

    name: str
    bootstrap: str
    pids: list[int]
    config: Path
    """Properties of a client that comes by it."""


class SecuredListeners:
    """An authority and a certificate in a directory, and brokers that use it."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._authority = CertificateAuthority(directory)
        self._keystore = self._authority.issue("broker").keystore
        for protocol in PROTOCOLS:
            self._write_client(protocol)

    def start(self, name: str, bench: Bench) -> Broker:
        directory = bench.directory / f"secured-{name}"
        changes = self.broker_properties()
        return start_broker(name, directory, bench.commands, overrides=changes, protocols=PROTOCOLS)

    def broker_properties(self) -> dict[str, str]:
        users = f'{PLAIN_MODULE} user_{USER}="{PASSWORD}";'
        return {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self._keystore),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self._authority.certificate),
            "sasl.enabled.mechanisms": "PLAIN",
            "listener.name.sasl_ssl.plain.sasl.jaas.config": users,
        }

    def _write_client(self, protocol: str) -> None:
        module = f'{PLAIN_MODULE} username="{USER}" password="{PASSWORD}";'
        lines = {
            "security.protocol": protocol,
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self._authority.certificate),
            "ssl.enabled.protocols": "TLSv1.3",
            "ssl.cipher.suites": CIPHER,
        }
        if protocol == "SASL_SSL":
            lines |= {"sasl.mechanism": "PLAIN", "sasl.jaas.config": module}
        text = "".join(f"{name}={value}\n" for name, value in lines.items())
        client_config(self._directory, protocol).write_text(text)


def client_config(directory: Path, protocol: str) -> Path:
    return directory / f"{protocol.lower()}.properties"


def door(bench: Bench, broker: Broker, protocol: str) -> Door:
    config = client_config(bench.directory / "certificates", protocol)
    return Door(broker.name, f"{HOST}:{broker.listeners[protocol]}", broker.pids, config)
