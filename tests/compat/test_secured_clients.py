"""More third-party clients, over SASL_SSL with SCRAM and with client certificates.

kcat, kafkajs, the Java client, franz-go and sarama; test_secured_listeners.py has librdkafka,
kafka-python and aiokafka. One broker, whose certificates are made here.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from compat_brokers import CACHE, REPOSITORY, SHORT_LIVED
from compat_checks import Results, names_in, run_checks
from compat_security import PASSWORD, SecureBroker, escaped, jaas

SECURED_JS = REPOSITORY / "tools/clients/kafkajs/secured.js"
SECURED_GO = REPOSITORY / "tools/clients/franz-go/secured/main.go"
SARAMA_GO = REPOSITORY / "tools/clients/sarama/main.go"
JAVA_CLIENTS = [
    "java-client",
    pytest.param("java-client-newest", marks=pytest.mark.maven),
    pytest.param("kafka-4.3.1", marks=pytest.mark.maven),
]
TIMEOUT_S = 90

pytestmark = [pytest.mark.timeout(1000)]


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureBroker]:
    broker = SecureBroker(tmp_path_factory.mktemp("secure"))
    try:
        yield broker.start()
    finally:
        broker.close()


def kcat_settings(secure: SecureBroker, way: str) -> tuple[str, dict[str, str]]:
    files = secure.certificates
    trust = {"ssl.ca.location": str(files.ca)}
    if way == "certificate":
        return secure.ssl, {
            **trust,
            "security.protocol": "SSL",
            "ssl.certificate.location": str(files.directory / "client.crt"),
            "ssl.key.location": str(files.directory / "client.key"),
        }
    return secure.sasl, {
        **trust,
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "alice",
        "sasl.password": PASSWORD,
    }


@pytest.mark.parametrize("way", ["password", "certificate"])
def test_kcat(secure: SecureBroker, way: str) -> None:
    """Not by SCRAM: Debian's librdkafka (before 2.6.1) repeats its nonce, and is refused."""
    bootstrap, settings = kcat_settings(secure, way)
    options = [word for name, value in settings.items() for word in ("-X", f"{name}={value}")]

    def kcat(*arguments: str, stdin: str = "") -> str:
        command = ["kcat", "-b", bootstrap, *options, "-t", f"kcat-{way}", "-p", "0", *arguments]
        done = subprocess.run(
            command, input=stdin, capture_output=True, text=True, timeout=TIMEOUT_S
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    kcat("-P", stdin="one\ntwo\n")
    assert kcat("-C", "-q", "-e") == "one\ntwo\n"


@pytest.fixture(scope="module")
def by_kafkajs(secure: SecureBroker, tmp_path_factory: pytest.TempPathFactory) -> Results:
    assert (CACHE / "kafkajs" / "node_modules").exists(), "run tools/setup_test_clients.sh first"
    files = secure.certificates
    settings = tmp_path_factory.mktemp("kafkajs") / "settings.json"
    config = {
        "ca": str(files.ca),
        "certificate": str(files.directory / "client.crt"),
        "key": str(files.directory / "client.key"),
        "sasl": secure.sasl,
        "ssl": secure.ssl,
        "user": "alice",
        "password": PASSWORD,
    }
    settings.write_text(json.dumps(config))
    return run_checks(["node", str(SECURED_JS), str(settings)])


@pytest.mark.parametrize("name", names_in(SECURED_JS))
def test_kafkajs(by_kafkajs: Results, name: str) -> None:
    by_kafkajs.expect(name)


def java_settings(secure: SecureBroker) -> dict[str, dict[str, str]]:
    return {
        "scram-sha-256": secure.scram(),
        "scram-sha-512": secure.scram(mechanism="SCRAM-SHA-512"),
        "certificate": {
            **secure.trust(),
            "security.protocol": "SSL",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(secure.certificates.client),
        },
        "token": {
            **secure.trust(),
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.jaas.config": jaas("OAuthBearer", unsecuredLoginStringClaim_sub="alice"),
        },
    }


@pytest.mark.parametrize("folder", JAVA_CLIENTS)
def test_java_client(secure: SecureBroker, folder: str, tmp_path: Path) -> None:
    """By SCRAM, with a certificate, and with an unsecured token where there is a JSON library."""
    jars = CACHE / folder
    classes = CACHE / "java-client" / "classes"
    assert (classes / "SecuredClient.class").exists(), "run tools/setup_test_clients.sh first"
    assert any(jars.glob("kafka-clients-*.jar")), "run tools/setup_test_clients.sh --maven first"
    json_jars = [str(jar) for jar in CACHE.glob("kafka-4.*/jackson-*.jar")]
    files = []
    for way, settings in java_settings(secure).items():
        if way == "token" and folder == "java-client":
            continue
        place = secure.ssl if way == "certificate" else secure.sasl
        lines = {**settings, "bootstrap.servers": place}
        files.append(tmp_path / f"{folder}-{way}.properties")
        files[-1].write_text("".join(f"{key}={escaped(text)}\n" for key, text in lines.items()))
    path = ":".join([f"{jars}/*", str(classes), *json_jars])
    java = ["java", "-Xmx256M", *SHORT_LIVED, "-cp", path, "SecuredClient"]
    results = run_checks([*java, *map(str, files)])
    for file in files:
        results.expect(file.stem)


@pytest.fixture(scope="module")
def by_franz_go(secure: SecureBroker) -> Results:
    program = CACHE / "franz-go" / "secured"
    assert program.exists(), "run tools/setup_test_clients.sh --maven first"
    return run_checks([str(program), secure.sasl, str(secure.certificates.ca), "alice", PASSWORD])


@pytest.mark.maven
@pytest.mark.parametrize("name", names_in(SECURED_GO))
def test_franz_go_admin(by_franz_go: Results, name: str) -> None:
    by_franz_go.expect(name)


@pytest.mark.maven
def test_franz_go_own_suite(secure: SecureBroker, tmp_path: Path) -> None:
    """One of its chains of groups with a certificate; its SCRAM tests, which speak no TLS."""
    program = CACHE / "franz-go" / "kgo.test"
    assert program.exists(), "run tools/setup_test_clients.sh --maven first"
    folder = secure.certificates.directory
    environment = {
        **os.environ,
        "KGO_SEEDS": secure.ssl,
        "KGO_TEST_TLS": f"ca:{folder}/ca.pem,cert:{folder}/client.crt,key:{folder}/client.key",
        "KGO_TEST_SCRAM": f"alice:{PASSWORD}:256",
        "KGO_TEST_SCRAM_SEEDS": secure.clear_sasl,
        "KGO_TEST_RF": "1",
        "KGO_TEST_RECORDS": "2000",
    }
    done = subprocess.run(
        [str(program), "-test.v", "-test.timeout=120s", "-test.run=TestGroupETL|SCRAM/^range$"],
        cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=150,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    for name in ("TestGroupETL/range", "TestSCRAMAuth", "TestSCRAMAuthBadCredentials"):
        assert re.search(rf"--- PASS: {name} ", done.stdout), f"{name}\n{done.stdout[-2000:]}"


@pytest.fixture(scope="module")
def by_sarama(secure: SecureBroker) -> Results:
    program = CACHE / "sarama" / "secured"
    assert program.exists(), "run tools/setup_test_clients.sh --maven first"
    files = [
        secure.certificates.directory / name for name in ("ca.pem", "client.crt", "client.key")
    ]
    return run_checks([str(program), secure.sasl, secure.ssl, *map(str, files), "alice", PASSWORD])


@pytest.mark.maven
@pytest.mark.parametrize("name", names_in(SARAMA_GO))
def test_sarama(by_sarama: Results, name: str) -> None:
    by_sarama.expect(name)
