"""Brokers that authenticate each other by OAUTHBEARER: a real cluster of two replicates.

The authorizer lets only User:fleet replicate, and only a token authenticates User:fleet.
"""

from __future__ import annotations

import base64
import http.server
import json
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ottla.broker.oauth import oauth_bearer_login
from ottla.config import ConfigError, ListenerSettings, ServerConfig
from ottla.testing.local_cluster import LocalCluster

PREFIX = "listener.name.sasl_plaintext.oauthbearer."
MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
SETTINGS = {
    "sasl.enabled.mechanisms": "PLAIN,OAUTHBEARER",
    "sasl.mechanism.inter.broker.protocol": "OAUTHBEARER",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:fleet;User:broker;User:admin",
}
UNSECURED = {"ottla.sasl.oauthbearer.unsecured": "true"}


def unsigned(subject: str, lifetime_s: int = 3600) -> str:
    now = int(time.time())
    parts = ({"alg": "none"}, {"sub": subject, "iat": now, "exp": now + lifetime_s})
    words = [base64.urlsafe_b64encode(json.dumps(part).encode()).decode() for part in parts]
    return ".".join(word.rstrip("=") for word in words) + "."


class Issuer:
    """A token endpoint that signs with keys in a file and counts its requests."""

    def __init__(self, folder: Path, lifetime_s: int) -> None:
        jwt = pytest.importorskip("jwt", reason="needs PyJWT and cryptography (make setup)")
        from cryptography.hazmat.primitives.asymmetric import ec

        key = ec.generate_private_key(ec.SECP256R1())
        public = json.loads(jwt.algorithms.ECAlgorithm.to_jwk(key.public_key()))
        self.keys = folder / "jwks.json"
        self.keys.write_text(json.dumps({"keys": [{**public, "kid": "k", "use": "sig"}]}))
        self.asked = 0
        issuer = self
        wanted = "Basic " + base64.b64encode(b"fleet-app:hunter2").decode()

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                issuer.asked += 1
                now = int(time.time())
                claims = {"sub": "fleet", "iat": now, "exp": now + lifetime_s}
                token = jwt.encode(claims, key, algorithm="ES256", headers={"kid": "k"})
                known = self.headers.get("Authorization") == wanted
                body = json.dumps({"access_token": token} if known else {"error": "no"}).encode()
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


@pytest.fixture
def issuer(tmp_path: Path) -> Iterator[Issuer]:
    made = Issuer(tmp_path, lifetime_s=8)
    yield made
    made.close()


def replicates(settings: dict[str, str], until: Callable[[], bool] = lambda: True) -> None:
    """Records that both brokers must have before they are acknowledged."""
    properties = {**SETTINGS, **settings}
    with LocalCluster(2, security="sasl_plaintext", each=lambda _: properties) as cluster:
        cluster.create_topic("both", 1)
        with cluster.producer(value=str) as producer:
            sent = 0
            while True:
                producer.send("both", f"record {sent}").result(60)
                sent += 1
                if sent >= 3 and until():
                    break
                time.sleep(0.05)


@pytest.mark.timeout(300)
def test_brokers_log_in_with_a_token_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "token.jwt"
    file.write_text(unsigned("fleet"))
    replicates({**UNSECURED, "sasl.oauthbearer.token.endpoint.url": file.as_uri()})


@pytest.mark.timeout(300)
def test_brokers_log_in_with_an_unsecured_token() -> None:
    module = f'{MODULE} unsecuredLoginStringClaim_sub="fleet";'
    replicates({**UNSECURED, f"{PREFIX}sasl.jaas.config": module})


@pytest.mark.timeout(300)
def test_brokers_fetch_signed_tokens_and_log_in_again_before_they_end(issuer: Issuer) -> None:
    """Tokens last 8 s: replication goes on over the third."""
    replicates(
        {
            "sasl.oauthbearer.jwks.endpoint.url": issuer.keys.as_uri(),
            "sasl.oauthbearer.token.endpoint.url": issuer.url,
            f"{PREFIX}sasl.jaas.config": f'{MODULE} clientId="fleet-app" clientSecret="hunter2";',
        },
        until=lambda: issuer.asked >= 3,
    )


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({}, "OAUTHBEARER needs sasl.oauthbearer.token.endpoint.url"),
        ({"sasl.oauthbearer.token.endpoint.url": "http://idp.example/token"}, "must be https"),
        ({"sasl.oauthbearer.token.endpoint.url": "https://idp.example/token"}, "client.id"),
    ],
)
def test_a_broker_without_its_own_token_does_not_start(more: dict[str, Any], said: str) -> None:
    config = ServerConfig(
        {
            "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
            "security.inter.broker.protocol": "SASL_PLAINTEXT",
            **SETTINGS,
            **UNSECURED,
            **more,
        }
    )
    with pytest.raises(ConfigError, match=said):
        oauth_bearer_login(ListenerSettings(config, "SASL_PLAINTEXT"))
