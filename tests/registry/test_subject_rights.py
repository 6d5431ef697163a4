"""Rights per subject: every route, with each right alone and with each one missing."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from registry_records import INT, INT_AND_DEFAULT
from secured_registry import SecuredRegistry, rule, rules, secured_registry

from ottla.auth.acls import AclOperation
from ottla.cli.app import main as ottla
from ottla.registry.rest import route_rights
from ottla.registry.rest.routes import ROUTES

OP = AclOperation
DENIED = 40301
SUBJECT = "secret-value"
OF_SUBJECT = (OP.DESCRIBE, OP.READ, OP.WRITE, OP.DELETE, OP.DESCRIBE_CONFIGS, OP.ALTER_CONFIGS)
OF_REGISTRY = (OP.DELETE, OP.DESCRIBE_CONFIGS, OP.ALTER_CONFIGS)
IMPLY = {OP.DESCRIBE: {OP.READ, OP.WRITE, OP.DELETE}, OP.DESCRIBE_CONFIGS: {OP.ALTER_CONFIGS}}
BODY = {"schema": INT}
LEVEL = {"compatibility": "NONE"}
ABSENT = "absent-value"  # so that permitted changes change nothing

NEEDED: list[tuple[str, str, Any, AclOperation]] = [
    ("POST", f"/subjects/{SUBJECT}", BODY, OP.DESCRIBE),
    ("GET", f"/subjects/{SUBJECT}/versions", None, OP.DESCRIBE),
    ("GET", f"/subjects/{SUBJECT}/versions/1", None, OP.READ),
    ("GET", f"/subjects/{SUBJECT}/versions/latest/schema", None, OP.READ),
    ("GET", f"/subjects/{SUBJECT}/versions/1/referencedby", None, OP.READ),
    ("GET", f"/subjects/{SUBJECT}/metadata?key=a&value=b", None, OP.READ),
    ("GET", "/schemas/ids/1", None, OP.READ),
    ("GET", "/schemas/ids/1/schema", None, OP.READ),
    ("GET", "/schemas/ids/1/subjects", None, OP.READ),
    ("GET", "/schemas/ids/1/versions", None, OP.READ),
    ("POST", f"/subjects/{SUBJECT}/versions", BODY, OP.WRITE),
    ("POST", f"/compatibility/subjects/{SUBJECT}/versions", BODY, OP.WRITE),
    ("POST", f"/compatibility/subjects/{SUBJECT}/versions/1", BODY, OP.WRITE),
    ("DELETE", f"/subjects/{ABSENT}", None, OP.DELETE),
    ("DELETE", f"/subjects/{ABSENT}/versions/1", None, OP.DELETE),
    ("DELETE", "/contexts/absent", None, OP.DELETE),
    ("GET", f"/config/{SUBJECT}", None, OP.DESCRIBE_CONFIGS),
    ("PUT", f"/config/{SUBJECT}", LEVEL, OP.ALTER_CONFIGS),
    ("DELETE", f"/config/{ABSENT}", None, OP.ALTER_CONFIGS),
    ("GET", f"/mode/{SUBJECT}", None, OP.DESCRIBE_CONFIGS),
    ("PUT", f"/mode/{SUBJECT}", {"mode": "READWRITE"}, OP.ALTER_CONFIGS),
    ("DELETE", f"/mode/{ABSENT}", None, OP.ALTER_CONFIGS),
]
NEEDED_OF_REGISTRY: list[tuple[str, str, Any, AclOperation]] = [
    ("GET", "/config", None, OP.DESCRIBE_CONFIGS),
    ("PUT", "/config", LEVEL, OP.ALTER_CONFIGS),
    ("DELETE", "/config", None, OP.ALTER_CONFIGS),
    ("GET", "/mode", None, OP.DESCRIBE_CONFIGS),
    ("PUT", "/mode", {"mode": "READWRITE"}, OP.ALTER_CONFIGS),
    ("DELETE", "/mode", None, OP.ALTER_CONFIGS),
    ("GET", "/config/:.__GLOBAL:", None, OP.DESCRIBE_CONFIGS),
    ("PUT", "/mode/:.__GLOBAL:", {"mode": "READWRITE"}, OP.ALTER_CONFIGS),
]


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredRegistry]:
    with secured_registry(tmp_path_factory.mktemp("rights")) as registry:
        ask = registry.ask
        assert ask("ann", "POST", f"/subjects/{SUBJECT}/versions", BODY).status == 200
        assert ask("ann", "POST", "/subjects/:.sales:secret/versions", BODY).status == 200
        yield registry


def test_a_user_without_rights_finds_every_route_denied_or_empty(
    registry: SecuredRegistry,
) -> None:
    registry.allow()
    guid = registry.ask("ann", "GET", "/schemas/ids/1").body["guid"]
    words = {"subject": SUBJECT, "version": "1", "id": "1", "guid": guid, "context": "sales"}
    for method, path, _, right in ROUTES:
        place = re.sub(r"{(\w+)}", lambda found: words.get(found[1], "secret"), path)
        body = {**BODY, **LEVEL, "mode": "READWRITE"} if method in ("POST", "PUT") else None
        assert registry.ask(None, method, place, body).code == 40101, place
        answer = registry.ask("bob", method, place, body)
        if right is route_rights.nothing:
            assert answer.status == 200, place
        elif right is route_rights.filtered:
            assert answer.body in ([], ["."]) or answer.code in (DENIED, 40403), place
        else:
            assert (answer.status, answer.code) == (403, DENIED), place
        assert "secret" not in str(answer.body).replace(SUBJECT, "", answer.code == DENIED), place
    everything = registry.ask("ann", "GET", "/subjects?subjectPrefix=:*:").body
    assert everything == [":.sales:secret", SUBJECT]


@pytest.mark.parametrize("operation", OF_SUBJECT, ids=lambda operation: operation.name)
def test_each_permission_on_a_subject_allows_exactly_its_operations(
    registry: SecuredRegistry, operation: AclOperation
) -> None:
    registry.allow(rule(operation))
    for method, path, body, wanted in NEEDED:
        allowed = operation in {wanted, *IMPLY.get(wanted, ())}
        assert (registry.ask("bob", method, path, body).code != DENIED) == allowed, path
    for method, path, body, _ in NEEDED_OF_REGISTRY:
        assert registry.ask("bob", method, path, body).code == DENIED, path


@pytest.mark.parametrize("missing", OF_SUBJECT, ids=lambda operation: operation.name)
def test_each_missing_permission_on_a_subject_is_noticed(
    registry: SecuredRegistry, missing: AclOperation
) -> None:
    others = set(OF_SUBJECT) - {missing} - IMPLY.get(missing, set())
    registry.allow(*rules(others))
    for method, path, body, wanted in NEEDED:
        denied = registry.ask("bob", method, path, body).code == DENIED
        assert denied == (not others & {wanted, *IMPLY.get(wanted, ())}), path


@pytest.mark.parametrize("operation", OF_REGISTRY, ids=lambda operation: operation.name)
def test_each_permission_on_the_registry_is_checked(
    registry: SecuredRegistry, operation: AclOperation
) -> None:
    registry.allow(rule(operation, "registry"), *rules(OF_SUBJECT, ABSENT))
    for method, path, body, wanted in NEEDED_OF_REGISTRY:
        allowed = operation in {wanted, *IMPLY.get(wanted, ())}
        assert (registry.ask("bob", method, path, body).code != DENIED) == allowed, path


def test_literal_prefix_wildcard_host_and_deny(registry: SecuredRegistry) -> None:
    ask = registry.ask

    def sees() -> list[str]:
        found: list[str] = ask("bob", "GET", "/subjects?subjectPrefix=:*:").body
        return found

    for allowed, seen in (
        ([rule(OP.READ, SUBJECT)], [SUBJECT]),
        ([rule(OP.READ, "secret", prefix=True)], [SUBJECT]),
        ([rule(OP.READ, ":.sales:", prefix=True)], [":.sales:secret"]),
        ([rule(OP.READ)], [":.sales:secret", SUBJECT]),
        ([rule(OP.ALL)], [":.sales:secret", SUBJECT]),
        ([rule(OP.READ, host="192.0.2.1")], []),
        ([rule(OP.READ, who="User:carol")], []),
        ([rule(OP.READ, who="User:*")], [":.sales:secret", SUBJECT]),
        ([rule(OP.READ), rule(OP.DESCRIBE, SUBJECT, deny=True)], [":.sales:secret"]),
        ([rule(OP.ALL), rule(OP.ALL, ":.sales:", prefix=True, deny=True)], [SUBJECT]),
    ):
        registry.allow(*allowed)
        assert sees() == seen, allowed
    contexts = ask("bob", "GET", "/contexts").body
    assert contexts == ["."]
    assert len(ask("bob", "GET", "/schemas?subjectPrefix=:*:").body) == 1


def test_a_guid_is_found_by_those_who_may_read_it(registry: SecuredRegistry) -> None:
    guid = registry.ask("ann", "GET", "/schemas/ids/1").body["guid"]
    registry.allow(rule(OP.READ, ":.sales:", prefix=True))
    found = registry.ask("bob", "GET", f"/schemas/guids/{guid}").body
    assert found["subject"] == ":.sales:secret"
    ids = registry.ask("bob", "GET", f"/schemas/guids/{guid}/ids").body
    assert ids == [{"context": ".sales", "id": 1}]
    assert registry.ask("bob", "GET", "/schemas/ids/1").code == DENIED


def test_another_context_is_not_reached_by_the_name_alone(registry: SecuredRegistry) -> None:
    """A subject without a context is looked up in all of them."""
    path = "/subjects/secret/versions/1"
    assert registry.ask("ann", "GET", path).body["subject"] == ":.sales:secret"
    registry.allow(rule(OP.READ, "secret"))
    assert registry.ask("bob", "GET", path).code == 40401
    assert registry.ask("bob", "POST", "/subjects/secret", BODY).code == 40401
    registry.allow(rule(OP.READ, "secret"), rule(OP.READ, ":.sales:", prefix=True))
    assert registry.ask("bob", "GET", path).body["subject"] == ":.sales:secret"
    assert registry.ask("bob", "POST", "/subjects/secret", BODY).status == 200


def test_a_request_may_reach_other_subjects(registry: SecuredRegistry) -> None:
    ask = registry.ask
    mine = ("mine-value", "nick-value")
    registry.allow(*(entry for name in mine for entry in rules((OP.READ, OP.WRITE), name)))
    refers = {
        "schema": '{"type":"record","name":"Holder","fields":[{"name":"r","type":"R"}]}',
        "references": [{"name": "R", "subject": SUBJECT, "version": 1}],
    }
    for path in ("/subjects/mine-value/versions", "/subjects/mine-value"):
        answer = ask("bob", "POST", path, refers)
        assert answer.body["message"] == f"User is denied operation Read on Subject: {SUBJECT}"
    path = "/compatibility/subjects/mine-value/versions?verbose=true"
    assert ask("bob", "POST", path, refers).code == DENIED
    assert ask("ann", "PUT", "/config/nick-value", {"alias": SUBJECT}).status == 200
    assert ask("bob", "GET", "/subjects/nick-value/versions/1").code == DENIED
    assert ask("bob", "POST", "/subjects/mine-value/versions", BODY).status == 200
    forced = "/subjects/mine-value/versions?force=true"
    assert ask("bob", "POST", forced, {"schema": INT_AND_DEFAULT}).code == DENIED
    registry.allow(rule(OP.WRITE, "mine-value"), rule(OP.ALTER_CONFIGS, "mine-value"))
    assert ask("bob", "POST", "/subjects/mine-value/versions", {"schema": ""}).code == DENIED
    assert ask("bob", "POST", "/subjects/mine-value/versions/1/tags", {}).code == DENIED
    assert ask("bob", "PUT", "/mode/mine-value", {"mode": "import"}).code == DENIED
    assert ask("bob", "DELETE", "/mode/mine-value?recursive=true").code == DENIED
    assert ask("bob", "POST", forced, {"schema": INT_AND_DEFAULT}).status == 200


def test_an_unreadable_rule_denies_everything(registry: SecuredRegistry) -> None:
    from ottla.client import Producer

    registry.allow(rule(OP.READ))
    with Producer(registry.rules.bootstrap_servers) as producer:
        key = b'{"keytype":"ACL","resource":"SUBJECT","name":"s","pattern":"REGEX"}'
        producer.send("_schemas_acl", b"{}", key=key).result(timeout=60)
    access = registry.server._registry.access
    assert access is not None
    while registry.ask("bob", "GET", f"/subjects/{SUBJECT}/versions").code != DENIED:
        pass
    assert registry.ask("ann", "GET", f"/subjects/{SUBJECT}/versions").status == 200
    registry.allow(rule(OP.READ))  # which deletes the others first
    assert registry.ask("bob", "GET", f"/subjects/{SUBJECT}/versions").status == 200


def test_ottla_acls_adds_lists_explains_and_removes(
    registry: SecuredRegistry, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    registry.allow()
    servers = ["--bootstrap-server", registry.rules.bootstrap_servers]
    assert ottla(["acls", "add", "bob", "READ", "subject:orders-*", *servers]) == 0
    assert ottla(["acls", "add", "bob", "ALTER_CONFIGS", "registry", *servers]) == 0
    assert ottla(["acls", "add", "bob", "CREATE", "subject:orders-*", *servers]) == 1
    capsys.readouterr()
    assert ottla(["acls", "list", "--json", *servers]) == 0
    found = [
        (entry["operation"], entry["resource"]) for entry in json.loads(capsys.readouterr().out)
    ]
    assert found == [("READ", "subject:orders-*"), ("ALTER_CONFIGS", "registry")]
    why = ["acls", "why", "bob", "DESCRIBE"]
    assert ottla([*why, "subject:orders-value", *servers]) == 0
    assert "ALLOW User:bob from * READ on SUBJECT PREFIXED orders-" in capsys.readouterr().out
    assert ottla([*why, "subject:bills-value", *servers]) == 1
    assert "no ACL allows it; --registry-config" in capsys.readouterr().out
    config = tmp_path / "registry.properties"
    config.write_text("super.users=User:ann;User:bob\n")
    ours = ["--registry-config", str(config), *servers]
    assert ottla([*why, "subject:bills-value", *ours]) == 0
    assert "User:bob is one of super.users" in capsys.readouterr().out
    assert ottla(["acls", "remove", "bob", "READ", "subject:orders-*", *servers]) == 0
    assert ottla(["acls", "remove", "bob", "READ", "subject:orders-*", *servers]) == 1
    assert ottla(["acls", "remove", "bob", "ALTER_CONFIGS", "registry", *servers]) == 0
