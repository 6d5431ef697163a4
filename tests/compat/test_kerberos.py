"""Clients that log in by GSSAPI, with tickets of a real KDC: kcat, the Java client and our own."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from compat_brokers import CACHE, SHORT_LIVED, ApacheBroker, Broker, free_port
from compat_checks import run_checks
from compat_kerberos import (
    ELSEWHERE,
    MODULE,
    REALM,
    SERVICE,
    KerberosRealm,
    client_settings,
    keytab_module,
)
from compat_security import escaped
from compat_tools import run

import page_readings as readings
from ottla.broker.kerberos import gssapi_mechanism
from ottla.client import Admin
from ottla.config import ConfigError, ListenerSettings, ServerConfig
from ottla.errors import ErrorCode, KafkaError
from ottla.net import gss_library
from ottla.testing.local_cluster import LocalCluster
from page_reader import PageReader

TIMEOUT_S = 90
REAUTHENTICATE_MS = 2000
JAVA_CLIENTS = ["java-client", pytest.param("java-client-newest", marks=pytest.mark.maven)]
REFUSED = "invalid credentials with SASL mechanism GSSAPI"
JAAS = "listener.name.sasl_plaintext.gssapi.sasl.jaas.config"
RULES = "RULE:[1:$1@$0](App-.*@OTTLA.TEST)s/App-(.*)@.*/$1/L,DEFAULT"

pytestmark = [pytest.mark.timeout(1000)]


class KerberosBroker:
    """PLAINTEXT is the operator's way in, `sasl` everybody's."""

    def __init__(self, directory: Path, keytab: Path, principal: str) -> None:
        apache = os.environ.get("OTTLA_COMPAT_BROKER") == "apache"
        self.process = (ApacheBroker if apache else Broker)(directory)
        self.sasl = f"localhost:{free_port()}"
        listeners = f"PLAINTEXT://{self.process.bootstrap},SASL_PLAINTEXT://{self.sasl}"
        self.settings = {
            "listeners": listeners,
            "advertised.listeners": listeners,
            "sasl.enabled.mechanisms": "GSSAPI",
            "sasl.kerberos.service.name": "kafka",
            JAAS: keytab_module(keytab, principal),
            "sasl.kerberos.principal.to.local.rules": RULES,
            "connections.max.reauth.ms": str(REAUTHENTICATE_MS),
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS;User:alice;User:reports",
        }
        if isinstance(self.process, ApacheBroker):
            names = ("PLAINTEXT", "SASL_PLAINTEXT")
            protocols = ",".join(f"{name}:{name}" for name in names)
            self.settings |= {
                "listeners": f"{listeners},CONTROLLER://127.0.0.1:{self.process.controller_port}",
                "listener.security.protocol.map": f"{protocols},CONTROLLER:PLAINTEXT",
                "inter.broker.listener.name": "PLAINTEXT",
            }
        self.process.settings |= self.settings

    def skip_if_it_says_nothing(self) -> None:
        if isinstance(self.process, ApacheBroker):
            pytest.skip("Kafka hangs up on a principal that no rule knows, without an answer")


@pytest.fixture(scope="module")
def realm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KerberosRealm]:
    made = KerberosRealm(tmp_path_factory.mktemp("realm"))
    with pytest.MonkeyPatch.context() as patch:
        for name, value in made.environment.items():
            patch.setenv(name, value)
        yield made
    made.close()


@pytest.fixture(scope="module")
def broker(
    realm: KerberosRealm, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[KerberosBroker]:
    keytab = realm.keytab(SERVICE)
    made = KerberosBroker(tmp_path_factory.mktemp("broker"), keytab, f"{SERVICE}@{REALM}")
    made.process.start()
    yield made
    made.process.kill()


@pytest.fixture(scope="module")
def alice(realm: KerberosRealm) -> Path:
    return realm.keytab("alice")


@pytest.fixture(scope="module")
def mallory(realm: KerberosRealm) -> Path:
    """A trusted realm issues tickets for our service, but no rule matches its users."""
    return realm.keytab(f"mallory@{ELSEWHERE}")


def kcat(
    broker: KerberosBroker, keytab: Path, principal: str, *arguments: str
) -> subprocess.Popen[str]:
    settings = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "GSSAPI",
        "sasl.kerberos.service.name": "kafka",
        "sasl.kerberos.keytab": str(keytab),
        "sasl.kerberos.principal": principal,
    }
    options = [word for name, value in settings.items() for word in ("-X", f"{name}={value}")]
    command = ["kcat", "-b", broker.sasl, *options, "-t", "kcat", "-p", "0", *arguments]
    pipe = subprocess.PIPE
    tickets = {**os.environ, "KRB5CCNAME": f"FILE:{keytab}.tickets"}
    return subprocess.Popen(command, env=tickets, stdin=pipe, stdout=pipe, stderr=pipe, text=True)


def test_kcat(broker: KerberosBroker, alice: Path) -> None:
    sender = kcat(broker, alice, "alice", "-P")
    _, errors = sender.communicate("one\ntwo\n", TIMEOUT_S)
    assert sender.returncode == 0, errors
    reader = kcat(broker, alice, "alice", "-C", "-q", "-e")
    assert reader.communicate(timeout=TIMEOUT_S)[0] == "one\ntwo\n"


def test_kcat_from_another_realm_is_refused(broker: KerberosBroker, mallory: Path) -> None:
    broker.skip_if_it_says_nothing()
    client = kcat(broker, mallory, f"mallory@{ELSEWHERE}", "-L", "-m", str(TIMEOUT_S))
    with client:
        assert client.stderr is not None
        assert any(REFUSED in line for line in client.stderr)
        client.kill()  # the client would retry
    assert f"No rules apply to 'mallory@{ELSEWHERE}'" in broker.process.log_tail()


@pytest.mark.parametrize("folder", JAVA_CLIENTS)
def test_java_client(
    realm: KerberosRealm, broker: KerberosBroker, alice: Path, mallory: Path, folder: str,
    tmp_path: Path,
) -> None:  # fmt: skip
    jars, classes = CACHE / folder, CACHE / "java-client" / "classes"
    assert (classes / "SecuredClient.class").exists(), "run tools/setup_test_clients.sh first"
    mapped = realm.folder / "App-Reports.keytab"
    users = {
        "alice": (alice, f"alice@{REALM}"),
        "mapped": (mapped if mapped.exists() else realm.keytab("App-Reports"), "App-Reports"),
        "mallory": (mallory, f"mallory@{ELSEWHERE}"),
    }
    files = []
    for name, (keytab, principal) in users.items():
        lines = client_settings(keytab, principal) | {"bootstrap.servers": broker.sasl}
        files.append(tmp_path / f"{folder}-{name}.properties")
        files[-1].write_text("".join(f"{key}={escaped(text)}\n" for key, text in lines.items()))
    path = f"{jars}/*:{classes}"
    java = ["java", "-Xmx256M", *SHORT_LIVED, "-cp", path, "SecuredClient"]
    results = run_checks([*java, *map(str, files)])
    results.expect(f"{folder}-alice")
    results.expect(f"{folder}-mapped")
    broker.skip_if_it_says_nothing()
    assert REFUSED in results.failed[f"{folder}-mallory"]


@pytest.mark.maven
def test_kafka_console_tools(broker: KerberosBroker, alice: Path, tmp_path: Path) -> None:
    lines = client_settings(alice, f"alice@{REALM}")
    file = tmp_path / "client.properties"
    file.write_text("".join(f"{key}={escaped(text)}\n" for key, text in lines.items()))
    topic = ("--bootstrap-server", broker.sasl, "--topic", "console")
    run("ConsoleProducer", *topic, "--command-config", str(file), stdin="one\ntwo\n")
    limit = ("--from-beginning", "--max-messages", "2", "--timeout-ms", "60000")
    read = run("consumer.ConsoleConsumer", *topic, *limit, "--command-config", str(file))
    assert sorted(read.output.split()) == ["one", "two"]


def ask(broker: KerberosBroker, settings: dict[str, str]) -> None:
    """Through our own client's connection."""
    with Admin(broker.sasl, settings=settings) as admin:
        assert admin.features.describe().finalized


def test_our_own_client_logs_in_and_again_before_its_session_ends(
    broker: KerberosBroker, alice: Path
) -> None:
    settings = client_settings(alice, f"alice@{REALM}")
    end = time.monotonic() + 1.5 * REAUTHENTICATE_MS / 1000
    with Admin(broker.sasl, settings=settings) as admin:
        while time.monotonic() < end:
            assert admin.features.describe().finalized
            time.sleep(0.1)


def test_our_own_client_uses_the_tickets_that_kinit_fetched(
    realm: KerberosRealm, broker: KerberosBroker, alice: Path
) -> None:
    settings = client_settings(alice, "") | {"sasl.jaas.config": f"{MODULE} useTicketCache=true;"}
    with pytest.raises(KafkaError, match=r"no ticket for kafka@localhost") as caught:
        ask(broker, settings)
    assert caught.value.code is ErrorCode.SASL_AUTHENTICATION_FAILED
    subprocess.run(["kinit", "-k", "-t", str(alice), "alice"], check=True)
    ask(broker, settings)


def test_our_own_client_from_another_realm_is_refused(
    broker: KerberosBroker, mallory: Path
) -> None:
    broker.skip_if_it_says_nothing()
    name = f"mallory@{ELSEWHERE}"
    said = f"^authentication as {name} by GSSAPI failed at {broker.sasl}$"
    with pytest.raises(KafkaError, match=said) as caught:
        ask(broker, client_settings(mallory, name))
    assert caught.value.code is ErrorCode.SASL_AUTHENTICATION_FAILED


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({JAAS: f"{MODULE} useTicketCache=true;"}, "a broker needs useKeyTab=true"),
        ({JAAS: keytab_module(Path("/none"), SERVICE)}, "Key table file '/none'"),
        ({JAAS: MODULE.replace("Krb5", "Plain") + ";"}, "unknown login module"),
        ({"sasl.kerberos.service.name": ""}, "No serviceName defined in either JAAS or Kafka"),
        ({"sasl.kerberos.principal.to.local.rules": "RULE:[1:$2]"}, r"Invalid rule: RULE:[1:$2]"),
    ],
)
def test_a_broker_names_missing_kerberos_settings_at_its_start(
    broker: KerberosBroker, changed: dict[str, str], said: str
) -> None:
    config = ServerConfig({**broker.settings, **changed})
    settings = ListenerSettings(config, "SASL_PLAINTEXT")
    with pytest.raises(ConfigError, match=re.escape(said)):
        gssapi_mechanism(settings, 0)


def test_without_the_library_the_error_names_the_install_command(
    broker: KerberosBroker, alice: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gss_library, "SONAME", "libnone.so.2")
    gss_library.gss_library.cache_clear()
    try:
        settings = ListenerSettings(ServerConfig(broker.settings), "SASL_PLAINTEXT")
        with pytest.raises(ConfigError, match="apt-get install libgssapi-krb5-2"):
            gssapi_mechanism(settings, 0)
        with pytest.raises(KafkaError, match="apt-get install libgssapi-krb5-2"):
            ask(broker, client_settings(alice, "alice"))
    finally:
        gss_library.gss_library.cache_clear()


@pytest.mark.maven  # a cluster needs longer
def test_brokers_log_in_to_each_other_and_fetch_new_tickets(realm: KerberosRealm) -> None:
    """Sessions last 2 s and tickets 6 s: replication goes on over the third ticket."""
    name = "kafka/127.0.0.1"
    keytab = realm.keytab(name, "-maxlife", "6 seconds")
    properties = {
        "sasl.enabled.mechanisms": "PLAIN,GSSAPI",
        "sasl.mechanism.inter.broker.protocol": "GSSAPI",
        "sasl.kerberos.service.name": "kafka",
        "listener.name.sasl_plaintext.gssapi.sasl.jaas.config": keytab_module(keytab, name),
        "connections.max.reauth.ms": "2000",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:kafka;User:broker;User:admin",
    }

    def tickets() -> int:
        asked = f"{name}@{REALM} for krbtgt/{REALM}@{REALM}"
        return sum("AS_REQ" in line and asked in line for line in realm.log().splitlines())

    with LocalCluster(2, security="sasl_plaintext", each=lambda _: properties) as cluster:
        cluster.create_topic("both", 1)
        with cluster.producer(value=str) as producer:
            sent = 0
            while sent < 3 or tickets() < 2 * 3:  # each broker fetches its own
                producer.send("both", f"record {sent}").result(60)
                sent += 1
                time.sleep(0.05)


def test_the_commands_of_the_page_about_security(realm: KerberosRealm, tmp_path: Path) -> None:
    ports = {"9292": free_port(), "8081": free_port()}
    somebody = PageReader(tmp_path, ports, realm.environment)
    try:
        assert somebody.read(readings.KERBEROS) == 8
    finally:
        somebody.close()
