"""A client's security settings: Kafka's names, read strictly, for librdkafka and our client."""

from __future__ import annotations

import base64
import json
import subprocess
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest

from ottla.auth.sasl_client import SaslLogin
from ottla.client import oauth
from ottla.client.security import for_librdkafka, login_of
from ottla.client.settings import client_with, librdkafka_settings
from ottla.client.tls import client_context
from ottla.errors import ErrorCode, KafkaError

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
BEARER = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
KERBEROS = "com.sun.security.auth.module.Krb5LoginModule"


def _sasl(mechanism: str, jaas: str, **more: str) -> dict[str, str]:
    protocol = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": mechanism}
    return {**protocol, "sasl.jaas.config": jaas, **more}


@pytest.mark.parametrize(
    ("written", "password"),
    [
        ('password="two words"', "two words"),
        ('password="semi;colon"', "semi;colon"),
        ('password="a\\"b\\\\c"', 'a"b\\c'),
        ("password=bare", "bare"),
        ('password=" spaces "', " spaces "),
        ('password="username=\\"mallory\\""', 'username="mallory"'),
    ],
)
def test_a_password_is_the_text_between_the_quotes(written: str, password: str) -> None:
    settings = _sasl("PLAIN", f'{PLAIN} required username="alice" {written};')
    assert login_of(settings) == SaslLogin("PLAIN", "alice", password)
    assert for_librdkafka(settings)["sasl.password"] == password


@pytest.mark.parametrize(
    ("mechanism", "jaas", "why"),
    [
        (
            "PLAIN",
            "com.sun.security.auth.module.JndiLoginModule required a=b;",
            "unknown login module",
        ),
        ("PLAIN", f'{PLAIN} required username="alice"', "semi-colon"),
        ("PLAIN", f'{SCRAM} required username="a" password="hunter2";', "login module of SCRAM"),
        ("PLAIN", f'{PLAIN} required username="alice";', "a user and a password"),
        ("DIGEST-MD5", f"{PLAIN} required;", "sasl.mechanism is one of PLAIN"),
        ("GSSAPI", f"{PLAIN} required;", "login module of PLAIN"),
        ("GSSAPI", f"{KERBEROS} required useTicketCache=true;", "No serviceName defined"),
        ("OAUTHBEARER", f"{BEARER} required;", "token.endpoint.url"),
    ],
)
def test_a_wrong_login_is_refused_without_its_secret(mechanism: str, jaas: str, why: str) -> None:
    with pytest.raises(KafkaError, match=why) as caught:
        login_of(_sasl(mechanism, jaas))
    assert "hunter2" not in str(caught.value)


def test_a_login_never_shows_its_password() -> None:
    assert "hunter2" not in repr(SaslLogin("PLAIN", "alice", "hunter2"))
    settings = oauth.OAuthTokenSettings("https://idp/token", "app", "hunter2")
    assert "hunter2" not in repr(settings)
    assert "hunter2" not in repr(SaslLogin("OAUTHBEARER", source=oauth.source_of(settings)))


def test_delegation_tokens_are_refused_because_librdkafka_lacks_them() -> None:
    token = f'{SCRAM} required username="id" password="hmac" tokenauth="true";'
    settings = _sasl("SCRAM-SHA-256", token)
    login = login_of(settings)
    assert login is not None
    assert login.is_token
    first = next(login.exchange())
    assert first.startswith(b"n,,n=id,r=")
    assert first.endswith(b",tokenauth=true")
    with pytest.raises(KafkaError, match="delegation tokens"):
        for_librdkafka(settings)


def test_librdkafka_gets_a_keytab_and_nothing_that_a_shell_would_run() -> None:
    def settings(**options: str) -> dict[str, Any]:
        words = " ".join(f'{name}="{value}"' for name, value in options.items())
        said = _sasl("GSSAPI", f"{KERBEROS} required {words};")
        return {**said, "sasl.kerberos.service.name": "kafka", "sasl.kerberos.kinit.cmd": "reboot"}

    good = settings(useKeyTab="true", keyTab="/etc/a-b.keytab", principal="alice/x@OTTLA.TEST")
    assert for_librdkafka(good) == {
        "security.protocol": "sasl_plaintext",
        "sasl.mechanism": "GSSAPI",
        "sasl.kerberos.service.name": "kafka",
        "sasl.kerberos.keytab": "/etc/a-b.keytab",
        "sasl.kerberos.principal": "alice/x@OTTLA.TEST",
    }
    for principal in ("a; reboot", "a$(reboot)", "-x", "a\\nb", "`a`", "a b"):
        bad = settings(useKeyTab="true", keyTab="/etc/k", principal=principal)
        with pytest.raises(KafkaError, match="a shell would read"):
            for_librdkafka(bad)
    assert for_librdkafka(settings(useTicketCache="true"))["sasl.kerberos.kinit.cmd"] == ":"


def test_a_librdkafka_without_kerberos_is_reported() -> None:
    """The wheels of confluent-kafka are built without Kerberos."""
    settings = _sasl("GSSAPI", f"{KERBEROS} required useTicketCache=true;")
    settings["sasl.kerberos.service.name"] = "kafka"
    with pytest.raises(KafkaError, match="built without Kerberos") as caught:
        client_with(confluent_kafka.Producer, librdkafka_settings(settings))
    assert caught.value.code is ErrorCode.UNSUPPORTED_SASL_MECHANISM


def test_a_token_endpoint_is_https_or_on_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    for good in ("https://idp.example/token", "http://127.0.0.1:1/token", "file:///run/token"):
        oauth.check_url(good)
    for bad in ("http://idp.example/token", "ftp://idp.example/token", "/run/token"):
        with pytest.raises(KafkaError, match="https"):
            oauth.check_url(bad)
    monkeypatch.setenv(oauth.ALLOWED_URLS, "http://idp.example/token")
    oauth.check_url("http://idp.example/token")
    with pytest.raises(KafkaError, match=oauth.ALLOWED_URLS):
        oauth.check_url("https://idp.example/token")


def test_cve_2025_27817_a_file_that_holds_no_token_is_never_sent(tmp_path: Path) -> None:
    """CVE-2025-27817: a configuration must not read any file of this machine to a broker."""
    file = tmp_path / "passwd"
    file.write_text("root:x:0:0\n")
    source = oauth.source_of(oauth.OAuthTokenSettings(file.as_uri()))
    with pytest.raises(KafkaError, match="has no JWT"):
        source.token()


def test_a_token_is_fetched_again_when_most_of_its_life_is_over() -> None:
    fetched: list[int] = []
    now = 1000.0

    def fetch() -> tuple[str, float | None]:
        fetched.append(len(fetched))
        claims = base64.urlsafe_b64encode(json.dumps({"sub": "robot"}).encode()).decode()
        return f"e30.{claims}.s", 100.0

    source = oauth.TokenSource(fetch, clock=lambda: now)
    assert source.token().principal == "robot"
    now += 79
    assert source.token().expires_at == 1100.0
    assert len(fetched) == 1
    now += 22  # after its end: callers wait for the next token
    assert source.token().expires_at == 1201.0
    assert len(fetched) == 2


def test_a_file_that_is_not_on_this_machine_is_named_with_the_machine(tmp_path: Path) -> None:
    for name in ("ssl.truststore.location", "ssl.keystore.location", "ssl.ca.location"):
        settings = {"security.protocol": "SSL", name: str(tmp_path / "none.pem")}
        for read in (client_context, for_librdkafka):
            with pytest.raises(KafkaError, match=r"none.pem can't be used on .*No such file"):
                read(settings)


def test_a_jks_store_is_refused_with_the_command_that_converts_it(tmp_path: Path) -> None:
    store = tmp_path / "client.jks"
    store.write_bytes(bytes.fromhex("feedfeed00000002"))
    for name in ("truststore", "keystore"):
        settings = {"security.protocol": "SSL", f"ssl.{name}.location": str(store)}
        with pytest.raises(KafkaError, match="keytool -importkeystore"):
            client_context(settings)


def test_pkcs12_goes_to_librdkafka_as_it_is(tmp_path: Path) -> None:
    make = (
        "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=me -keyout key -out crt",
        "openssl pkcs12 -export -inkey key -in crt -out me.p12 -passout pass:store-secret",
    )
    for command in make:
        subprocess.run(command.split(), cwd=tmp_path, check=True, capture_output=True)
    store = str(tmp_path / "me.p12")
    settings = {
        "security.protocol": "SSL",
        "ssl.keystore.location": store,
        "ssl.keystore.password": "store-secret",
    }
    said = for_librdkafka(settings)
    assert (said["ssl.keystore.location"], said["ssl.keystore.password"]) == (store, "store-secret")


def test_an_empty_algorithm_means_that_no_host_name_is_checked() -> None:
    settings = {"security.protocol": "SSL", "ssl.endpoint.identification.algorithm": ""}
    assert client_context(settings).check_hostname is False
    assert for_librdkafka(settings)["ssl.endpoint.identification.algorithm"] == "none"
    assert client_context({"security.protocol": "SSL"}).check_hostname is True
