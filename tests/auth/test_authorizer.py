"""Kafka's rules: deny first, patterns, hosts, implied operations, super users."""

from __future__ import annotations

import itertools
import json
import logging

import pytest

from ottla.auth.acls import (
    Acl,
    AclFilter,
    AclOperation,
    AclPattern,
    AclPermission,
    AclResource,
    acl_problem,
    normal_host,
)
from ottla.auth.audit import LOGGER, Audit
from ottla.auth.authorizer import AclIndex, Authorizer, Decision, parse_super_users
from ottla.auth.principal import user

READ, WRITE, DESCRIBE, ALL = (
    AclOperation.READ,
    AclOperation.WRITE,
    AclOperation.DESCRIBE,
    AclOperation.ALL,
)
TOPIC, GROUP, CLUSTER = AclResource.TOPIC, AclResource.GROUP, AclResource.CLUSTER
LITERAL, PREFIXED = AclPattern.LITERAL, AclPattern.PREFIXED
ALLOW, DENY = AclPermission.ALLOW, AclPermission.DENY
HOST = "10.0.0.1"
ALICE = user("alice")


def acl(
    name: str,
    operation: int = READ,
    permission: int = ALLOW,
    *,
    who: str = "User:alice",
    host: str = "*",
    pattern: int = LITERAL,
    resource: int = TOPIC,
) -> Acl:
    return Acl(resource, name, pattern, who, host, operation, permission)


def authorizer(*acls: Acl, supers: str = "", everyone: bool = False) -> Authorizer:
    made = Authorizer(super_users=parse_super_users(supers), allow_if_no_acl=everyone)
    made.use(AclIndex(acls))
    return made


def may(made: Authorizer, operation: int = READ, name: str = "orders", host: str = HOST) -> bool:
    return made.decide(ALICE, host, operation, TOPIC, name).allowed


def may_any(made: Authorizer, operation: int = WRITE) -> bool:
    return made.decide_any(ALICE, HOST, operation, TOPIC).allowed


def test_an_operation_without_a_rule_is_denied() -> None:
    assert not may(authorizer())
    assert not may(authorizer(acl("orders", who="User:bob")))
    assert not may(authorizer(acl("orders", resource=GROUP)))
    assert not may(authorizer(acl("orders", WRITE)))
    assert may(authorizer(acl("orders")))
    assert may(authorizer(acl("orders", ALL)))
    assert may(authorizer(acl("orders", who="User:*")))


def test_patterns_are_literal_prefixed_or_wildcards() -> None:
    assert may(authorizer(acl("*")))
    assert may(authorizer(acl("or", pattern=PREFIXED)))
    assert may(authorizer(acl("orders", pattern=PREFIXED)))
    assert not may(authorizer(acl("orders2", pattern=PREFIXED)))
    assert not may(authorizer(acl("or")))
    assert not may(authorizer(acl("*", pattern=PREFIXED)))  # a prefix like any other


def test_a_deny_overrides_every_allow() -> None:
    allows = (acl("orders"), acl("*"), acl("o", pattern=PREFIXED))
    for deny in (
        acl("orders", permission=DENY),
        acl("*", permission=DENY),
        acl("ord", permission=DENY, pattern=PREFIXED),
        acl("orders", ALL, DENY),
        acl("orders", permission=DENY, who="User:*"),
    ):
        found = authorizer(*allows, deny).decide(ALICE, HOST, READ, TOPIC, "orders")
        assert not found.allowed
        assert found.acl == deny
    assert may(authorizer(*allows, acl("orders", permission=DENY, who="User:bob")))
    assert may(authorizer(*allows, acl("orders", permission=DENY, host="10.0.0.2")))


@pytest.mark.parametrize(
    ("allowed", "implied"),
    [
        ("READ", "DESCRIBE"),
        ("WRITE", "DESCRIBE"),
        ("DELETE", "DESCRIBE"),
        ("ALTER", "DESCRIBE"),
        ("ALTER_CONFIGS", "DESCRIBE_CONFIGS"),
    ],
)
def test_an_allow_implies_describe(allowed: str, implied: str) -> None:
    made = authorizer(acl("orders", AclOperation[allowed]))
    assert may(made, AclOperation[implied])
    assert not may(made, AclOperation.CREATE)


def test_an_allow_implies_only_the_listed_operations() -> None:
    """Only the implications of the table above, and ALL."""
    implied = {("READ", "DESCRIBE"), ("WRITE", "DESCRIBE"), ("DELETE", "DESCRIBE")}
    implied |= {("ALTER", "DESCRIBE"), ("ALTER_CONFIGS", "DESCRIBE_CONFIGS")}
    real = [operation for operation in AclOperation if operation > ALL]
    for granted, asked in itertools.product(real, real):
        expected = granted == asked or (granted.name, asked.name) in implied
        assert may(authorizer(acl("orders", granted)), asked) is expected


def test_a_deny_implies_nothing() -> None:
    made = authorizer(acl("orders", READ, DENY), acl("orders", DESCRIBE))
    assert may(made, DESCRIBE)
    assert not may(made, READ)
    # Denying DESCRIBE alone leaves what READ allows, apart from DESCRIBE itself.
    made = authorizer(acl("orders", DESCRIBE, DENY), acl("orders", READ))
    assert may(made, READ)
    assert not may(made, DESCRIBE)


def test_hosts_are_addresses_or_a_wildcard() -> None:
    made = authorizer(acl("orders", host=HOST))
    assert may(made)
    assert not may(made, host="10.0.0.2")
    assert not may(authorizer(acl("orders", host="10.0.0.0/8")))
    for written in ("0:0:0:0:0:0:0:1", "::1"):
        for coming in ("0:0:0:0:0:0:0:1", "::1"):
            assert may(authorizer(acl("orders", host=written)), host=coming)
    assert may(made, host=f"::ffff:{HOST}")
    assert normal_host("fe80::1%eth0") == "fe80::1"


def test_super_users_ignore_denies() -> None:
    made = authorizer(acl("*", ALL, DENY, who="User:*"), supers="User:bob;User:alice")
    assert may(made)
    assert made.decide(ALICE, HOST, READ, TOPIC, "x").rule == "SuperUser"
    assert not may(authorizer(supers="User:Alice; User:CN=a,O=b ;"))
    assert parse_super_users("User:CN=a,O=b; User:c ;") == {"User:CN=a,O=b", "User:c"}
    with pytest.raises(ValueError):
        parse_super_users("alice")


def test_allow_everyone_applies_only_to_resources_without_rules() -> None:
    assert may(authorizer(everyone=True))
    assert may(authorizer(acl("other", who="User:bob"), everyone=True))
    for rule in (
        acl("orders", who="User:bob"),
        acl("*", who="User:bob"),
        acl("or", who="User:bob", pattern=PREFIXED),
        acl("orders", WRITE),
    ):
        assert not may(authorizer(rule, everyone=True))


def test_any_topic() -> None:
    """authorizeByResourceType: for producers that are idempotent."""
    assert not may_any(authorizer())
    assert may_any(authorizer(acl("x", WRITE)))
    assert may_any(authorizer(acl("x", ALL, pattern=PREFIXED)))
    assert not may_any(authorizer(acl("x", READ)))
    assert not may_any(authorizer(acl("x", WRITE, host="10.0.0.9")))
    assert may_any(authorizer(everyone=True))
    assert may_any(authorizer(supers="User:alice"))


@pytest.mark.parametrize(
    ("allow", "deny", "expected"),
    [
        (acl("x", WRITE), acl("x", WRITE, DENY), False),
        (acl("x", WRITE), acl("*", WRITE, DENY), False),
        (acl("xy", WRITE), acl("x", WRITE, DENY, pattern=PREFIXED), False),
        (acl("x", WRITE), acl("xy", WRITE, DENY, pattern=PREFIXED), True),
        (acl("*", WRITE), acl("x", WRITE, DENY, pattern=PREFIXED), True),
        (acl("*", WRITE), acl("*", WRITE, DENY), False),
        (acl("xy", WRITE, pattern=PREFIXED), acl("x", WRITE, DENY, pattern=PREFIXED), False),
        (acl("x", WRITE, pattern=PREFIXED), acl("x", WRITE, DENY), True),
        (acl("x", WRITE), acl("x", READ, DENY), True),
        (acl("x", WRITE), acl("x", WRITE, DENY, who="User:bob"), True),
    ],
)
def test_any_topic_unless_it_is_denied(allow: Acl, deny: Acl, expected: bool) -> None:
    assert may_any(authorizer(allow, deny)) is expected


def test_decisions_are_cached_until_the_rules_change() -> None:
    made = authorizer(acl("orders"))
    rights = made.rights(ALICE, HOST)
    assert rights is made.rights(ALICE, HOST)
    first = rights.decision(READ, TOPIC, "orders")
    assert first.allowed
    assert rights.decision(READ, TOPIC, "orders") is first
    made.use(AclIndex())
    assert rights.index is not made.index
    assert not made.rights(ALICE, HOST).decision(READ, TOPIC, "orders").allowed


def test_long_client_names_are_not_cached() -> None:
    rights = authorizer(acl("orders")).rights(ALICE, HOST)
    long = "x" * 2000
    assert not rights.decision(READ, TOPIC, long).allowed
    assert rights._decisions == {}


def test_cve_2024_27309_deleting_one_of_several_rules_keeps_the_others() -> None:
    """What remains on a resource when its rules are removed one by one."""
    rules = [acl("orders", operation) for operation in (READ, WRITE, AclOperation.ALTER)]
    rules.append(acl("orders", who="User:bob"))
    for count in range(len(rules) + 1):
        made = authorizer(*rules[count:], everyone=True)
        assert may(made, READ) is (count == 0 or count == len(rules))
        assert may(made, WRITE) is (count <= 1 or count == len(rules))
        assert may(made, AclOperation.ALTER) is (count <= 2 or count == len(rules))


def test_operations_that_are_authorized() -> None:
    made = authorizer(acl("orders", READ), acl("orders", AclOperation.ALTER_CONFIGS))
    bits = made.rights(ALICE, HOST).operations(TOPIC, "orders")
    expected = (READ, DESCRIBE, AclOperation.ALTER_CONFIGS, AclOperation.DESCRIBE_CONFIGS)
    assert bits == sum(1 << operation for operation in expected)


FILTERED = [
    acl("orders"),
    acl("*"),
    acl("or", pattern=PREFIXED),
    acl("orders", WRITE, DENY, who="User:bob", host=HOST),
    acl("orders", resource=GROUP),
]


@pytest.mark.parametrize(
    ("wanted", "places"),
    [
        (AclFilter(), [0, 1, 2, 3, 4]),
        (AclFilter(TOPIC), [0, 1, 2, 3]),
        (AclFilter(TOPIC, "orders"), [0, 3]),
        (AclFilter(TOPIC, "orders", AclPattern.MATCH), [0, 1, 2, 3]),
        (AclFilter(TOPIC, "or", AclPattern.MATCH), [1, 2]),
        (AclFilter(TOPIC, "o", AclPattern.MATCH), [1]),
        (AclFilter(TOPIC, "or"), [2]),
        (AclFilter(TOPIC, "or", LITERAL), []),
        (AclFilter(TOPIC, None, PREFIXED), [2]),
        (AclFilter(TOPIC, "*", LITERAL), [1]),
        (AclFilter(name="orders"), [0, 3, 4]),
        (AclFilter(principal="User:bob"), [3]),
        (AclFilter(host=HOST), [3]),
        (AclFilter(host="*", operation=READ, permission=ALLOW), [0, 1, 2, 4]),
        (AclFilter(operation=ALL), []),
        (AclFilter(permission=DENY), [3]),
    ],
)
def test_filters(wanted: AclFilter, places: list[int]) -> None:
    assert [place for place, rule in enumerate(FILTERED) if wanted.matches(rule)] == places


def test_invalid_rules_are_refused() -> None:
    assert acl_problem(acl("orders")) is None
    assert acl_problem(acl("kafka-cluster", resource=CLUSTER)) is None
    for wrong in (
        acl(""),
        acl("a/b"),
        acl("other", resource=CLUSTER),
        acl("orders", pattern=AclPattern.MATCH),
        acl("orders", pattern=AclPattern.ANY),
        acl("orders", AclOperation.ANY),
        acl("orders", AclOperation.UNKNOWN),
        acl("orders", 99),
        acl("orders", permission=AclPermission.ANY),
        acl("orders", resource=AclResource.ANY),
        acl("orders", resource=77),
        acl("orders", who="alice"),
        acl("orders", who="User:"),
        acl("orders", host=""),
    ):
        assert acl_problem(wrong)
    assert AclFilter().problem() is None
    assert AclFilter(resource=0).problem()
    assert AclFilter(operation=99).problem()


def test_denials_are_logged_as_kafka_logs_them(caplog: pytest.LogCaptureFixture) -> None:
    made = authorizer(acl("orders"))
    rights = made.rights(ALICE, HOST)
    result = {"request": "Produce", "connection": "c-1", "client_id": "app"}
    with caplog.at_level(logging.INFO, LOGGER):
        for operation in (READ, WRITE):
            decision = rights.decision(operation, TOPIC, "orders")
            Audit().write(rights, decision, operation, TOPIC, "orders", **result)
    assert [record.getMessage() for record in caplog.records] == [
        "Principal = User:alice is Denied operation = WRITE from host = 10.0.0.1 on resource ="
        " Topic:LITERAL:orders for request = Produce with resourceRefCount = 1 based on rule"
        " DefaultDeny"
    ]


def test_a_line_break_in_a_name_starts_no_log_line(
    caplog: pytest.LogCaptureFixture,
) -> None:
    rights = authorizer().rights(ALICE, HOST)
    name = "x\nPrincipal = User:alice is Allowed"
    result = {"request": "Produce", "connection": "c-1", "client_id": "app"}
    with caplog.at_level(logging.INFO, LOGGER):
        Audit().write(rights, rights.decision(READ, TOPIC, name), READ, TOPIC, name, **result)
    (record,) = caplog.records
    assert "\n" not in record.getMessage()


def test_audit_events_are_json_lines(caplog: pytest.LogCaptureFixture) -> None:
    made = authorizer(acl("orders"))
    rights = made.rights(ALICE, HOST)
    decision = Decision(True, "", acl("orders"))
    with caplog.at_level(logging.DEBUG, LOGGER):
        Audit("json").write(
            rights,
            decision,
            READ,
            TOPIC,
            "orders",
            request="Fetch",
            connection="c-1",
            client_id=None,
        )
    line = json.loads(caplog.records[0].getMessage())
    assert line["principal"] == "User:alice"
    assert line["allowed"] is True
    assert (line["connection"], line["client_id"]) == ("c-1", None)
    assert line["rule"].startswith("MatchingAcl")
