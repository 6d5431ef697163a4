"""`ottla.client` against a broker with TLS, SASL and an authorizer."""

from __future__ import annotations

import base64
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from compat_security import (
    KEY_PASSWORD,
    PASSWORD,
    REAUTHENTICATE_MS,
    SCRAM,
    STORE_PASSWORD,
    SecureBroker,
    TokenEndpoint,
    jaas,
    unsecured_token,
)

from ottla.client import Admin, Consumer, Producer
from ottla.client.acls import Acl, AclResource
from ottla.client.configs import ResourceType
from ottla.client.delivery import Setting
from ottla.client.protocol.connection import BrokerConnection
from ottla.errors import ErrorCode, KafkaError
from ottla.wire.apis import ApiKey
from ottla.wire.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from ottla.wire.messages.metadata import MetadataRequest, MetadataResponse

Settings = dict[str, Setting]
LITERAL, ALL, ALLOW = 3, 2, 3


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureBroker]:
    broker = SecureBroker(tmp_path_factory.mktemp("secure"))
    try:
        yield broker.start()
    finally:
        broker.close()


def _plain(secure: SecureBroker, **changes: str) -> Settings:
    return {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": jaas("Plain", username="alice", password=PASSWORD),
        **secure.trust(),
        **changes,
    }


def _oauth(secure: SecureBroker, **changes: str) -> Settings:
    return {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.jaas.config": jaas("OAuthBearer", unsecuredLoginStringClaim_sub="robot"),
        **secure.trust(),
        **changes,
    }


def _inline(secure: SecureBroker) -> Settings:
    """KIP-651, with spaces where the lines of a PEM file ended."""
    folder = secure.certificates.directory
    return {
        "security.protocol": "SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": " ".join(secure.certificates.ca.read_text().split("\n")),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.key": (folder / "client-locked.key").read_text(),
        "ssl.keystore.certificate.chain": (folder / "client.crt").read_text(),
        "ssl.key.password": KEY_PASSWORD,
    }


def _locked_file(secure: SecureBroker) -> Settings:
    return {
        "security.protocol": "SSL",
        **secure.trust(),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(secure.certificates.client_locked),
        "ssl.key.password": KEY_PASSWORD,
    }


WAYS = {
    "plain": lambda secure: (secure.sasl, _plain(secure)),
    "scram-256": lambda secure: (secure.sasl, secure.scram()),
    "scram-512": lambda secure: (secure.sasl, secure.scram(mechanism="SCRAM-SHA-512")),
    "oauthbearer": lambda secure: (secure.sasl, _oauth(secure)),
    "certificate as text": lambda secure: (secure.ssl, _inline(secure)),
    "certificate in a file": lambda secure: (secure.ssl, _locked_file(secure)),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_client_produces_consumes_and_administers(secure: SecureBroker, way: str) -> None:
    place, settings = WAYS[way](secure)
    topic = f"door-{uuid.uuid4().hex}"
    with Admin(place, settings=settings) as admin:
        assert admin.cluster().nodes  # a line of ours
        admin.topics.create(topic)  # librdkafka
    with Producer(place, value=str, settings=settings) as producer:
        assert producer.send(topic, "hello").result(60).topic == topic
    with Consumer(
        place, topic, group=topic, value=str, auto_offset_reset="earliest", settings=settings
    ) as consumer:
        assert [record.value for record in consumer.take(1)] == ["hello"]


def test_client_credentials_are_exchanged_for_a_token_once(secure: SecureBroker) -> None:
    endpoint = TokenEndpoint("app", "app-secret", "robot")
    settings = _oauth(
        secure,
        **{
            "sasl.jaas.config": jaas("OAuthBearer"),
            "sasl.oauthbearer.token.endpoint.url": endpoint.url,
            "sasl.oauthbearer.client.credentials.client.id": "app",
            "sasl.oauthbearer.client.credentials.client.secret": "app-secret",
            "sasl.oauthbearer.scope": "kafka",
        },
    )
    try:
        with Admin(secure.sasl, settings=settings) as admin:
            admin.cluster()
            admin.topics.names()
        with Producer(secure.sasl, value=str, settings=settings) as producer:
            producer.send("door-credentials", "hello").result(60)
    finally:
        endpoint.close()
    assert endpoint.asked == [{"grant_type": "client_credentials", "scope": "kafka"}]


def test_a_token_comes_from_a_file(secure: SecureBroker, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(unsecured_token("robot") + "\n")
    settings = _oauth(
        secure,
        **{
            "sasl.jaas.config": jaas("OAuthBearer"),
            "sasl.oauthbearer.token.endpoint.url": file.as_uri(),
        },
    )
    with Admin(secure.sasl, settings=settings) as admin:
        assert admin.cluster().nodes


def test_a_wrong_secret_is_refused_in_one_sentence(secure: SecureBroker) -> None:
    for mechanism, module in (("PLAIN", "Plain"), (SCRAM, "Scram")):
        settings = _plain(secure) | {
            "sasl.mechanism": mechanism,
            "sasl.jaas.config": jaas(module, username="alice", password="wrong"),
        }
        with Admin(secure.sasl, settings=settings) as admin:
            for ask in (admin.cluster, admin.topics.names):
                with pytest.raises(KafkaError) as caught:
                    ask()
                assert caught.value.code == ErrorCode.SASL_AUTHENTICATION_FAILED
                assert str(caught.value) == (
                    f"authentication as User:alice by {mechanism} failed at {secure.sasl}"
                )


def test_an_expired_token_is_refused_with_the_brokers_message(secure: SecureBroker) -> None:
    expired = jaas(
        "OAuthBearer", unsecuredLoginStringClaim_sub="robot", unsecuredLoginLifetimeSeconds="-100"
    )
    with (
        Admin(secure.sasl, settings=_oauth(secure, **{"sasl.jaas.config": expired})) as admin,
        pytest.raises(KafkaError, match=r"User:robot by OAUTHBEARER failed at .*: invalid_token"),
    ):
        admin.cluster()


def test_a_connection_reauthenticates_before_its_session_ends(secure: SecureBroker) -> None:
    host, port = secure.sasl.split(":")
    for settings in (_plain(secure), secure.scram(), _oauth(secure)):
        line = BrokerConnection(host, int(port), settings=settings, timeout_s=60)
        try:
            end = time.monotonic() + 1.6 * REAUTHENTICATE_MS / 1000
            while time.monotonic() < end:
                line.call(MetadataRequest(topics=[]), ApiKey.METADATA, MetadataResponse)
                time.sleep(0.3)
        finally:
            line.close()


def test_a_broker_is_known_by_its_certificate(secure: SecureBroker, tmp_path: Path) -> None:
    other = tmp_path / "other.pem"
    other.write_text(secure.certificates.elsewhere.read_text())
    cases = {
        r"unable to get local issuer|self-signed": {"ssl.truststore.location": str(other)},
        r"security\.protocol .*may be wrong": {"security.protocol": "SASL_SSL"},
    }
    for words, changes in cases.items():
        place = secure.operator if "protocol" in words else secure.sasl
        with (
            Admin(place, settings=_plain(secure) | changes) as admin,
            pytest.raises(KafkaError, match=words) as caught,
        ):
            admin.cluster()
        assert "SSL handshake with" in str(caught.value)


def test_a_host_name_that_the_certificate_lacks_is_refused(secure: SecureBroker) -> None:
    place = f"127.0.0.2:{secure.sasl_port}"
    with Admin(place, settings=_plain(secure)) as admin, pytest.raises(KafkaError):
        admin.cluster()


def test_a_client_without_a_certificate_is_refused(secure: SecureBroker) -> None:
    settings = {"security.protocol": "SSL", **secure.trust()}
    with (
        Admin(secure.ssl, settings=settings) as admin,
        pytest.raises(KafkaError, match=r"SSL handshake with .* failed"),
    ):
        admin.cluster()


def test_a_denial_names_the_acl_to_ask_for(secure: SecureBroker) -> None:
    topic = f"door-{uuid.uuid4().hex}"
    with Admin(secure.operator) as operator:
        operator.topics.create(topic)
        group, owner = AclResource.GROUP, "User:nobody"
        operator.acls.create([Acl(group, "*", LITERAL, owner, "*", ALL, ALLOW)])
    settings = secure.scram("nobody")
    group_name = "door-group"
    with Admin(secure.sasl, settings=settings) as admin:
        asks: dict[str, Callable[[], object]] = {
            f"Create on Topic:{topic}-2": lambda: admin.topics.create(f"{topic}-2"),
            f"DescribeConfigs on Topic:{topic}": lambda: admin.configs.describe(
                ResourceType.TOPIC, topic
            ),
            f"AlterConfigs on Topic:{topic}": lambda: admin.configs.alter(
                ResourceType.TOPIC, topic, set={"retention.ms": "1"}
            ),
            "Describe on Cluster:kafka-cluster": lambda: admin.acls.describe(AclResource.TOPIC),
            "DescribeConfigs on Cluster:kafka-cluster": lambda: admin.quotas.describe({}),
            "Describe on TransactionalId:door": lambda: admin.transactions.terminate("door"),
        }
        for words, ask in asks.items():
            with pytest.raises(KafkaError, match="is not authorized: it needs the ACL") as caught:
                ask()
            assert words in str(caught.value)
        refused = admin.topics.delete(topic)[topic]
        assert f"Delete on Topic:{topic}" in str(refused)
    with (
        Producer(secure.sasl, value=str, settings=settings) as producer,
        pytest.raises(KafkaError, match=f"Write on Topic:{topic}"),
    ):
        producer.send(topic, "hello").result(60)
    with (
        Consumer(secure.sasl, topic, group=group_name, settings=settings) as consumer,
        pytest.raises(KafkaError, match=f"Read on Topic:{topic}"),
    ):
        consumer.take(1)


def test_a_certificate_in_pkcs12_is_shown(secure: SecureBroker) -> None:
    pytest.importorskip("cryptography", reason="PKCS12 needs the extra security")
    settings: Settings = {
        "security.protocol": "SSL",
        **secure.trust(),
        "ssl.keystore.type": "PKCS12",
        "ssl.keystore.location": str(secure.certificates.client_p12),
        "ssl.keystore.password": STORE_PASSWORD,
    }
    topic = f"door-{uuid.uuid4().hex}"
    with Admin(secure.ssl, settings=settings) as admin:
        assert admin.cluster().nodes
        admin.topics.create(topic)
    with Producer(secure.ssl, value=str, settings=settings) as producer:
        producer.send(topic, "hello").result(60)


def test_a_delegation_token_logs_in(secure: SecureBroker) -> None:
    """KIP-48: by SCRAM, with tokenauth=true."""
    host, port = secure.sasl.split(":")
    line = BrokerConnection(host, int(port), settings=secure.scram(), timeout_s=60)
    try:
        made = line.call(
            CreateDelegationTokenRequest(),
            ApiKey.CREATE_DELEGATION_TOKEN,
            CreateDelegationTokenResponse,
        )
    finally:
        line.close()
    assert made.error_code == 0
    secret = base64.b64encode(bytes(made.hmac)).decode()
    token = jaas("Scram", username=made.token_id, password=secret, tokenauth="true")
    with Admin(secure.sasl, settings={**secure.scram(), "sasl.jaas.config": token}) as admin:
        # A new token may take a moment to reach the broker's cache.
        deadline = time.monotonic() + 60
        while True:
            try:
                assert admin.cluster().nodes
                break
            except KafkaError:
                assert time.monotonic() < deadline
                time.sleep(0.2)
