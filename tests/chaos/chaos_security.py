"""A secured cluster: every listener is SASL_SSL, and rights are granted by ACLs.

Workers and the watch authenticate with a password (SCRAM-SHA-256, PLAIN for the watch), and have
only the rights that their role needs. Brokers also present certificates to each other, so that a
broker which does not trust another one's authority is noticed.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from compat_raw import RawClient
from compat_security import SCRAM, jaas

from ottla.client import Admin
from ottla.client.acls import Acl, AclOperation, AclPattern, AclPermission, AclResource
from ottla.testing.certificates import CertificateAuthority, CertificateFiles

PASSWORDS = {
    name: f"{name}-secret"
    for name in ("broker", "operator", "watch", "source", "transform", "observer")
}
WORKERS = ("source", "transform", "observer")
ITERATIONS = 4096
LOOK_MS = 300
"""How soon a broker notices a changed file."""
REAUTHENTICATE_MS = 5000
LISTENERS = ("client", "internal")
NO_ERROR = 0


class ClusterSecurity:
    """Certificates and settings. `authorities` are all that a run needs: clients trust them from
    the start, as they must before a broker gets a certificate of a new one."""

    def __init__(self, directory: Path, numbers: Iterable[str], authorities: int = 2) -> None:
        self.directory = directory
        self.authorities = [
            CertificateAuthority(directory / f"authority{number}", name=f"authority {number}")
            for number in range(authorities)
        ]
        self.trusted = directory / "clients.pem"
        self.trusted.write_text(bundle(self.authorities))
        self.keystores: dict[str, Path] = {}
        """By broker: the file that its configuration names."""
        self.certificates: dict[str, CertificateFiles] = {}
        """By broker: the newest that it was given."""
        self._count = 0
        for number in numbers:
            self.trust(number, self.authorities[:1])
            self.renew(number, self.authorities[0])

    def issue(self, number: str, authority: CertificateAuthority) -> CertificateFiles:
        """A new certificate for a broker, of the same subject as all before."""
        self._count += 1
        name = f"broker{number}-{self._count}"
        return authority.issue(name, subject=f"/CN=broker{number}")

    def renew(self, number: str, authority: CertificateAuthority) -> None:
        """In the file of the broker's present certificate."""
        issued = self.issue(number, authority)
        path = self.keystores.setdefault(number, self.directory / f"broker{number}.pem")
        replace(path, issued.keystore.read_text())
        self.certificates[number] = issued

    def trust(self, number: str, authorities: Iterable[CertificateAuthority]) -> None:
        """What a broker trusts from now on."""
        replace(self._truststore(number), bundle(authorities))

    def _truststore(self, number: str) -> Path:
        return self.directory / f"trusted{number}.pem"

    def broker_settings(self, number: str) -> dict[str, str]:
        secret = PASSWORDS["broker"]
        outside = {f"user_{name}": PASSWORDS[name] for name in ("operator", "watch")}
        inside = {"username": "broker", "password": secret, "user_broker": secret}
        return {
            "listener.security.protocol.map": "CLIENT:SASL_SSL,INTERNAL:SASL_SSL",
            "ssl.keystore.location": str(self.keystores[number]),
            "ssl.truststore.location": str(self._truststore(number)),
            "listener.name.internal.ssl.client.auth": "required",
            "ottla.ssl.files.check.interval.ms": str(LOOK_MS),
            "sasl.enabled.mechanisms": f"PLAIN,{SCRAM}",
            "listener.name.internal.sasl.enabled.mechanisms": "PLAIN",
            "sasl.mechanism.inter.broker.protocol": "PLAIN",
            "listener.name.client.plain.sasl.jaas.config": jaas("Plain", **outside),
            f"listener.name.client.{SCRAM.lower()}.sasl.jaas.config": jaas("Scram"),
            "listener.name.internal.plain.sasl.jaas.config": jaas("Plain", **inside),
            "connections.max.reauth.ms": str(REAUTHENTICATE_MS),
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:broker;User:operator",
        }

    def client_settings(self, user: str) -> dict[str, str]:
        """As librdkafka names them."""
        return {
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(self.trusted),
            "sasl.mechanism": SCRAM if user in WORKERS else "PLAIN",
            "sasl.username": user,
            "sasl.password": PASSWORDS[user],
        }

    def credentials(self, user: str) -> dict[str, str]:
        """The credentials that a worker is started with."""
        return {"user": user, "password": PASSWORDS[user], "ca": str(self.trusted)}

    def admit(self, bootstrap: str, topics: tuple[str, str], group: str) -> None:
        """Create the users, and grant each the rights of its role."""
        with Admin(bootstrap, settings=self.client_settings("operator")) as admin:
            for user in WORKERS:
                admin.users.set_password(user, SCRAM, PASSWORDS[user], ITERATIONS)
            admin.acls.create(list(rights(topics, group)))

    def connect(self, address: str, user: str) -> RawClient:
        context = ssl.create_default_context(cafile=str(self.trusted))
        return SecuredClient(address, user, context)


class SecuredClient(RawClient):
    """Over TLS, authenticated by PLAIN."""

    def __init__(self, address: str, user: str, context: ssl.SSLContext) -> None:
        super().__init__(address, user)
        try:
            self.socket = context.wrap_socket(self.socket, server_hostname=address.split(":")[0])
            self._authenticate(user)
        except BaseException:
            self.socket.close()
            raise

    def _authenticate(self, user: str) -> None:
        self.call("sasl_handshake", 1, mechanism="PLAIN")
        token = f"\0{user}\0{PASSWORDS[user]}".encode()
        answer = self.call("sasl_authenticate", 2, auth_bytes=token)
        if answer.error_code != NO_ERROR:
            raise ConnectionError(f"{user}: {answer.error_message}")


def rights(topics: tuple[str, str], group: str) -> Iterator[Acl]:
    read, write = AclOperation.READ, AclOperation.WRITE
    came_in, went_out = topics
    kinds = {
        "source": {came_in: write},
        "transform": {came_in: read, went_out: write},
        "observer": {came_in: read, went_out: read},
        "watch": dict.fromkeys((*topics, "__consumer_offsets", "__transaction_state"), read),
    }
    for user, of_topics in kinds.items():
        for topic, operation in of_topics.items():
            yield _allow(user, AclResource.TOPIC, topic, operation)
        if user in ("source", "transform"):
            yield _allow(user, AclResource.TRANSACTIONAL_ID, group, write)
        if user != "source":
            yield _allow(user, AclResource.GROUP, group, read)


def _allow(user: str, resource: AclResource, name: str, operation: AclOperation) -> Acl:
    whole = resource is AclResource.TOPIC
    pattern = AclPattern.LITERAL if whole else AclPattern.PREFIXED
    return Acl(resource, name, pattern, f"User:{user}", "*", operation, AclPermission.ALLOW)


def shown_certificate(port: int, context: ssl.SSLContext, timeout_s: float) -> bytes:
    """The certificate that a new connection sees; OSError if either side refuses the other.

    With TLS 1.3 a server refuses our certificate only after our handshake is complete, so this
    waits for the response to a first request.
    """
    address = ("127.0.0.1", port)
    with (
        socket.create_connection(address, timeout=timeout_s) as plain,
        context.wrap_socket(plain, server_hostname="127.0.0.1") as secured,
    ):
        request = RawClient.__new__(RawClient)
        request.socket, request.client_id = secured, "look"
        secured.sendall(request.frame("api_versions", 0))
        request.receive_frame()
        shown = secured.getpeercert(binary_form=True)
        assert shown is not None
        return shown


def refusals(log: str) -> list[str]:
    """Lines of a broker's log in which a client with all rights, or a certificate, was refused.

    Failed handshakes are allowed: the operator tests whether an authority is trusted, and brokers
    are killed during handshakes.
    """
    return [
        line
        for line in log.splitlines()
        if "is Denied" in line
        or "keeps its" in line
        or "Keeping the old security settings" in line
        or ("authentication with 127.0.0.1 (" in line and "SSL" not in line)
    ]


def bundle(authorities: Iterable[CertificateAuthority]) -> str:
    return "".join(authority.certificate.read_text() for authority in authorities)


def replace(path: Path, text: str) -> None:
    """Replace the file atomically, so that no reader gets a part of it."""
    fresh = path.with_name(f".{path.name}.new")
    fresh.write_text(text)
    fresh.replace(path)


def merged_settings(security: ClusterSecurity | None, user: str) -> Mapping[str, str]:
    """The client settings for a cluster that may be unsecured."""
    return {} if security is None else security.client_settings(user)
