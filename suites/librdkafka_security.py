"""The test.conf and environment for librdkafka's tests of TLS and SASL."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

from suites.security import ADMIN, OAUTHBEARER, PLAIN, SASL_SSL, SCRAM, SSL
from suites.suite import Run

Config = dict[str, str]
KEY_PASSWORD = "key-secret"
OPENSSL_S_MAX = 60

# 0097 verification of certificates, 0124 and 0134 engines and providers of OpenSSL, 0133 kinds of
# keys, 0136 names of brokers; 0135 new credentials, 0142 re-authentication; 0128 callbacks.
TLS_TESTS = ("0097", "0124", "0133", "0134", "0136")
SASL_TESTS = ("0097", "0135", "0142")
TOKEN_TESTS = ("0128", "0142")
PROVIDER_TESTS = ("0126", "0142")


def configurations(run: Run) -> Iterator[tuple[str, Config, tuple[str, ...]]]:
    """Name, test.conf, tests."""
    if run.provider:
        yield "OIDC", _oidc(run), PROVIDER_TESTS
        return
    yield "SSL", {**_tls(run), **_reach(run, SSL)}, TLS_TESTS
    for mechanism in (PLAIN, *SCRAM):
        yield mechanism, sasl_ssl(run, mechanism), SASL_TESTS
    yield OAUTHBEARER, sasl_ssl(run, OAUTHBEARER), TOKEN_TESTS


def sasl_ssl(run: Run, mechanism: str, user: tuple[str, str] = ADMIN) -> Config:
    config = {**_tls(run), **_reach(run, SASL_SSL), "sasl.mechanisms": mechanism}
    if mechanism == OAUTHBEARER:
        token = {
            "enable.sasl.oauthbearer.unsecure.jwt": "true",
            "sasl.oauthbearer.config": f"scope=requiredScope principal={ADMIN[0]}",
        }
        return {**config, **token}
    return {**config, "sasl.username": user[0], "sasl.password": user[1]}


def _oidc(run: Run) -> Config:
    assert run.provider is not None
    return {
        **_tls(run),
        **_reach(run, SASL_SSL),
        "sasl.mechanisms": OAUTHBEARER,
        "sasl.oauthbearer.method": "OIDC",
        "sasl.oauthbearer.client.id": "123",
        "sasl.oauthbearer.client.secret": "abc",
        "sasl.oauthbearer.extensions": "Extensioncluster=lkc123",
        "sasl.oauthbearer.scope": "test",
        "sasl.oauthbearer.token.endpoint.url": run.provider.environment()["VALID_OIDC_URL"],
    }


def environment(run: Run) -> dict[str, str]:
    """Files of the client in all formats, by the names that librdkafka's own harness gives them."""
    files = {name: run.certificates / name for name in ("client.der", "client.key.der", "ca.der")}
    if not files["client.der"].exists():
        _convert(run.certificates)
    return {
        "SSL_pkcs": str(run.certificates / "client.p12"),
        "SSL_pub_der": str(files["client.der"]),
        "SSL_pub_pem": str(run.certificates / "client.crt"),
        "SSL_priv_der": str(files["client.key.der"]),
        "SSL_priv_pem": str(run.certificates / "client.locked.key"),
        "SSL_ca_der": str(files["ca.der"]),
        "SSL_ca_pem": str(run.certificates / "ca.pem"),
        "SSL_all_cas_pem": str(run.certificates / "ca.pem"),
        "SSL_password": KEY_PASSWORD,
        "SSL_client_auth": "required",
        **(run.provider.environment() if run.provider else {}),
    }


def _tls(run: Run) -> Config:
    environment(run)
    return {
        "ssl.ca.location": str(run.certificates / "ca.pem"),
        "ssl.certificate.location": str(run.certificates / "client.crt"),
        "ssl.key.location": str(run.certificates / "client.locked.key"),
        "ssl.key.password": KEY_PASSWORD,
    }


def _reach(run: Run, protocol: str) -> Config:
    return {
        "bootstrap.servers": ",".join(run.secured[protocol]),
        "security.protocol": protocol,
        "test.timeout.multiplier": "2",
    }


def _convert(folder: Path) -> None:
    locked = f"pass:{KEY_PASSWORD}"
    for line in (
        "pkey -in client.key -aes256 -passout {locked} -out client.locked.key",
        "pkey -in client.key -outform DER -out client.key.der",
        "x509 -in client.crt -outform DER -out client.der",
        "x509 -in ca.pem -outform DER -out ca.der",
        "pkcs12 -export -in client.crt -inkey client.key -certfile ca.pem -passout {locked}"
        " -out client.p12",
    ):
        command = ["openssl", *line.format(locked=locked).split()]
        subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=OPENSSL_S_MAX)
