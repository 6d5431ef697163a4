"""A broker with secured listeners, certificates created by the test, and an issuer of tokens.

PLAINTEXT on loopback is the operator's way in (User:ANONYMOUS is a super user), SASL_SSL and SSL
are everybody's. The words are Kafka's, so the same settings start Ottla and Apache Kafka.
"""

from __future__ import annotations

import base64
import http.server
import json
import os
import subprocess
import threading
import time
import uuid
from pathlib import Path
from urllib.parse import parse_qs

from compat_brokers import ApacheBroker, Broker, free_port

from ottla.client import Admin

PASSWORD = 'al;ice "se\\cret" ='  # every character that a careless parser mishandles
KEY_PASSWORD = "key-secret"
STORE_PASSWORD = "store-secret"
SCRAM = "SCRAM-SHA-256"
MODULES = "org.apache.kafka.common.security"
CA_EXTENSIONS = "basicConstraints=critical,CA:TRUE"
REAUTHENTICATE_MS = 4000


def jaas(module: str, **options: str) -> str:
    """`PlainLoginModule required username="...";`, quoted as Kafka reads it."""
    package = {"Plain": "plain", "Scram": "scram", "OAuthBearer": "oauthbearer"}[module]
    quoted = [
        '{}="{}"'.format(name, value.replace("\\", "\\\\").replace('"', '\\"'))
        for name, value in options.items()
    ]
    return " ".join([f"{MODULES}.{package}.{module}LoginModule required", *quoted]) + ";"


def escaped(value: str) -> str:
    """For a line of a properties file."""
    return value.replace("\\", "\\\\").replace("\n", "\\n")


class Certificates:
    """An authority, a broker's certificate and a client's, in every form that a client may have."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        directory.mkdir(parents=True, exist_ok=True)
        self.ca = directory / "ca.pem"
        self._openssl(
            "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=test-ca -keyout ca.key -out ca.pem"
            f" -addext {CA_EXTENSIONS}"
        )
        self.broker = self._issue("broker", "/CN=localhost", "DNS:localhost,IP:127.0.0.1")
        self.client = self._issue("client", "/CN=client/O=ottla", "DNS:client")
        self._openssl(
            f"pkcs8 -topk8 -in client.key -passout pass:{KEY_PASSWORD} -out client-locked.key"
        )
        locked = directory / "client-locked.pem"
        locked.write_text(self._read("client-locked.key") + self._read("client.crt"))
        self.client_locked = locked
        self.client_p12 = directory / "client.p12"
        self._openssl(
            "pkcs12 -export -inkey client.key -in client.crt -out client.p12"
            f" -passout pass:{STORE_PASSWORD}"
        )
        self.elsewhere = self._issue("elsewhere", "/CN=elsewhere", "DNS:elsewhere")

    def _issue(self, name: str, subject: str, names: str) -> Path:
        extensions = self.directory / f"{name}.ext"
        extensions.write_text(f"subjectAltName={names}\n")
        self._openssl(
            f"req -newkey rsa:2048 -nodes -subj {subject} -keyout {name}.key -out {name}.csr"
        )
        self._openssl(
            f"x509 -req -in {name}.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2"
            f" -extfile {name}.ext -out {name}.crt"
        )
        both = self.directory / f"{name}.pem"
        both.write_text(self._read(f"{name}.key") + self._read(f"{name}.crt"))
        return both

    def _read(self, name: str) -> str:
        return (self.directory / name).read_text()

    def _openssl(self, arguments: str) -> None:
        done = subprocess.run(
            ["openssl", *arguments.split()], cwd=self.directory, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr


class SecureBroker:
    """PLAINTEXT (operator), SASL_SSL, SSL and SASL_PLAINTEXT (SCRAM only), and an authorizer."""

    def __init__(self, directory: Path) -> None:
        self.certificates = Certificates(directory / "certificates")
        self.sasl_port, self.ssl_port = free_port(), free_port()
        apache = os.environ.get("OTTLA_COMPAT_BROKER") == "apache"
        kind = ApacheBroker if apache else Broker
        self.broker = kind(directory / "broker")
        self.operator = self.broker.bootstrap
        self.sasl = f"localhost:{self.sasl_port}"
        self.ssl = f"localhost:{self.ssl_port}"
        self.clear_sasl = f"localhost:{free_port()}"
        self.broker.settings |= self._settings(apache)

    def start(self) -> SecureBroker:
        self.broker.start()
        with Admin(self.operator) as admin:
            for user, mechanism in (
                ("alice", SCRAM),
                ("alice", "SCRAM-SHA-512"),
                ("nobody", SCRAM),
            ):
                admin.users.set_password(user, mechanism, PASSWORD, 4096)
        return self

    def close(self) -> None:
        if self.broker.process is not None:
            self.broker.kill()

    def trust(self) -> dict[str, str]:
        return {
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.certificates.ca),
        }

    def scram(self, user: str = "alice", mechanism: str = SCRAM) -> dict[str, str]:
        """A client's settings, as its properties file would have them."""
        return {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": mechanism,
            "sasl.jaas.config": jaas("Scram", username=user, password=PASSWORD),
            **self.trust(),
        }

    def _settings(self, apache: bool) -> dict[str, str]:
        listeners = {
            "PLAINTEXT": self.operator,
            "SASL_SSL": f"localhost:{self.sasl_port}",
            "SSL": f"localhost:{self.ssl_port}",
            "SASL_PLAINTEXT": self.clear_sasl,
        }
        named = ",".join(f"{name}://{place}" for name, place in listeners.items())
        protocols = ",".join(f"{name}:{name}" for name in listeners)
        users = jaas("Plain", username="admin", password="admin-secret", user_alice=PASSWORD)
        unsecured = jaas("OAuthBearer", unsecuredLoginStringClaim_sub="admin")
        found = {
            "listeners": named,
            "advertised.listeners": named,
            "listener.security.protocol.map": protocols,
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self.certificates.broker),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.certificates.ca),
            "listener.name.ssl.ssl.client.auth": "required",
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
            "listener.name.sasl_ssl.plain.sasl.jaas.config": users,
            "listener.name.sasl_ssl.scram-sha-256.sasl.jaas.config": jaas("Scram"),
            "listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config": jaas("Scram"),
            "listener.name.sasl_ssl.oauthbearer.sasl.jaas.config": unsecured,
            "listener.name.sasl_plaintext.sasl.enabled.mechanisms": SCRAM,
            "listener.name.sasl_plaintext.scram-sha-256.sasl.jaas.config": jaas("Scram"),
            "connections.max.reauth.ms": str(REAUTHENTICATE_MS),
            "delegation.token.secret.key": "delegation-secret",
            "super.users": "User:ANONYMOUS;User:admin;User:alice;User:robot;User:O=ottla,CN=client",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        }
        if apache:
            controller = f"127.0.0.1:{self.broker.controller_port}"  # type: ignore[attr-defined]
            found["listeners"] += f",CONTROLLER://{controller}"
            found["listener.security.protocol.map"] += ",CONTROLLER:PLAINTEXT"
            found["inter.broker.listener.name"] = "PLAINTEXT"
            return {name: escaped(value) for name, value in found.items()}
        return {**found, "ottla.sasl.oauthbearer.unsecured": "true"}


class TokenEndpoint:
    """RFC 6749's client credentials, with unsigned tokens; counts what it was asked."""

    def __init__(self, client_id: str, secret: str, subject: str, lifetime_s: float = 3600) -> None:
        self.asked: list[dict[str, str]] = []
        endpoint = self
        wanted = "Basic " + base64.b64encode(f"{client_id}:{secret}".encode()).decode()

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                size = int(self.headers.get("Content-Length", "0"))
                form = {
                    name: values[0]
                    for name, values in parse_qs(self.rfile.read(size).decode()).items()
                }
                endpoint.asked.append(form)
                known = self.headers.get("Authorization") == wanted
                result = (
                    {"access_token": unsecured_token(subject, lifetime_s), "expires_in": lifetime_s}
                    if known
                    else {"error": "invalid_client"}
                )
                body = json.dumps(result).encode()
                self.send_response(200 if known else 401)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *arguments: object) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/token"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def unsecured_token(subject: str, lifetime_s: float = 3600) -> str:
    now = int(time.time())
    claims = {"sub": subject, "iat": now, "exp": now + int(lifetime_s), "jti": str(uuid.uuid4())}
    parts = ({"alg": "none"}, claims)
    words = [
        base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts
    ]
    return ".".join(words) + "."
