"""The registry's own login to a closed broker, with exactly the ACLs that docs/registry.md names,
and bearer tokens of its clients."""

from __future__ import annotations

import json
import time
from pathlib import Path

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from registry_records import INT, INT_AND_DEFAULT
from secured_registry import STANDARD, SecuredRegistry, access_properties, rule

from ottla.auth.acls import Acl, AclFilter, AclOperation, AclPattern, AclPermission, AclResource
from ottla.cli.verbs.subject_rules import SubjectRules
from ottla.errors import KafkaError
from ottla.registry.settings import settings_of
from ottla.testing import LocalCluster

OP = AclOperation
SCHEMAS, RULES, WRITER = "_schemas", "_schemas_acl", "schema-registry-writer"
DOCUMENTED = [
    (AclResource.TOPIC, SCHEMAS, (OP.READ, OP.WRITE, OP.CREATE, OP.DESCRIBE_CONFIGS)),
    (AclResource.TOPIC, RULES, (OP.READ, OP.CREATE, OP.DESCRIBE_CONFIGS)),
    (AclResource.TRANSACTIONAL_ID, WRITER, (OP.WRITE,)),
]


def acls(without: tuple[str, AclOperation] | None = None) -> list[Acl]:
    return [
        Acl(
            resource,
            name,
            AclPattern.LITERAL,
            "User:registry",
            "*",
            operation,
            AclPermission.ALLOW,
        )
        for resource, name, operations in DOCUMENTED
        for operation in operations
        if (name, operation) != without
    ]


def test_the_documented_acls_are_necessary_and_sufficient_over_sasl_ssl(tmp_path: Path) -> None:
    users = {"admin": "admin-secret", "registry": "registry-secret"}
    authorizer = {"authorizer.class.name": STANDARD, "super.users": "User:admin;User:broker"}
    with LocalCluster(security="sasl_ssl", users=users, config=authorizer) as cluster:
        client = cluster.client_settings("registry")
        properties = access_properties(tmp_path, cluster.bootstrap_servers)
        with cluster.admin() as admin:
            admin.acls.create(acls(without=(SCHEMAS, OP.CREATE)))
            with pytest.raises(KafkaError, match="Create"):
                settings_of(properties, client).server().start()
            admin.acls.create(acls())
            rules = SubjectRules(
                cluster.bootstrap_servers,
                cluster.client_settings("admin"),
                RULES,
                "schema-registry",
            )
            with settings_of(properties, client).server() as server:
                registry = SecuredRegistry(server, rules)
                path = "/subjects/orders-value/versions"
                assert registry.ask("bob", "POST", path, {"schema": INT}).code == 40301
                registry.allow(rule(OP.WRITE, "orders-", prefix=True))
                assert registry.ask("bob", "POST", path, {"schema": INT}).status == 200
                registry.close()
            admin.acls.delete([AclFilter(AclResource.TRANSACTIONAL_ID, WRITER)])
            with settings_of(properties, client).server() as server:
                registry = SecuredRegistry(server, rules)
                answer = registry.ask("ann", "POST", path, {"schema": INT_AND_DEFAULT})
                assert (answer.status, answer.code) == (500, 50001)
                assert "on TransactionalId:schema-registry-writer" in answer.body["message"]
                registry.close()


def test_bearer_tokens_authenticate_users_with_permissions(tmp_path: Path) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    public = json.loads(jwt.algorithms.ECAlgorithm.to_jwk(key.public_key()))
    (tmp_path / "keys.json").write_text(json.dumps({"keys": [public | {"kid": "k"}]}))
    now = int(time.time())

    def bearer(name: str, **more: object) -> dict[str, str]:
        claims = {"sub": name, "aud": "registry", "iss": "idp", "iat": now, "exp": now + 600}
        token = jwt.encode({**claims, **more}, key, "ES256", headers={"kid": "k"})
        return {"Authorization": f"Bearer {token}"}

    with LocalCluster() as cluster:
        properties = access_properties(tmp_path, cluster.bootstrap_servers) | {
            "authentication.method": "BEARER",
            "sasl.oauthbearer.jwks.endpoint.url": (tmp_path / "keys.json").as_uri(),
            "sasl.oauthbearer.expected.audience": "registry",
            "sasl.oauthbearer.expected.issuer": "idp",
        }
        rules = SubjectRules(cluster.bootstrap_servers, {}, RULES, "schema-registry")
        with settings_of(properties, {}).server() as server:
            registry = SecuredRegistry(server, rules)
            registry.allow(rule(OP.WRITE, "orders-value", who="User:svc-orders"))
            path, body = "/subjects/orders-value/versions", {"schema": INT}
            assert registry.send("POST", path, bearer("svc-orders"), body).status == 200
            assert registry.send("POST", path, bearer("svc-bills"), body).code == 40301
            assert registry.send("POST", path, bearer("svc-orders", aud="x"), body).code == 40101
            assert registry.send("POST", path, {}, body).code == 40101
            assert registry.ask("ann", "GET", "/subjects").code == 40101  # BASIC is off
            registry.close()


@pytest.mark.parametrize(
    "wrong",
    [
        {"authorizer.class.name": "com.example.MyAuthorizer"},
        {"authentication.method": "NONE"},
        {"super.users": "ann"},
        {"allow.everyone.if.no.acl.found": "perhaps"},
        {"confluent.schema.registry.authorizer.class": "io.confluent.TopicAclAuthorizer"},
        {"authorizer.class.name": "", "resource.extension.class": "io.confluent.Security"},
    ],
)
def test_an_unavailable_security_setting_prevents_the_start(
    tmp_path: Path, wrong: dict[str, str]
) -> None:
    with pytest.raises(KafkaError):
        settings_of(access_properties(tmp_path, "localhost:1") | wrong, {})
