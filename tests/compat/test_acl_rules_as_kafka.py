"""ACLs: random rules and filters by fixed seeds, compared with Apache Kafka's decisions.

`acl_rules_answers.txt` has the answers of Apache Kafka 4.3.1: see test_rights_as_kafka.py.
"""

from __future__ import annotations

import os
import random
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import pytest
from compat_raw import batch
from compat_rights import RightsBroker, UserConnection, rules_of
from compat_rights_requests import message

from ottla.auth.acls import (
    OPERATIONS,
    Acl,
    AclFilter,
    AclOperation,
    AclPattern,
    AclPermission,
    AclResource,
)
from ottla.errors import ErrorCode
from ottla.wire.apis import ApiKey

ANSWERS = Path(__file__).parent / "acl_rules_answers.txt"
WORLDS, OPEN_WORLDS = 40, 12
NAMES = ["a", "aa", "ab", "abc", "abd", "b", "ba", "hardcode", "c"]
PREFIXES = ["a", "ab", "abc", "b", "h", "*"]
USERS = ["alice", "bob"]
PRINCIPALS = ["User:alice"] * 4 + ["User:*"] * 3 + ["User:bob", "Group:alice"]
HOSTS = ["*"] * 4 + ["127.0.0.1", "10.0.0.1"]
RULES_MAX = 14
FILTERS = 5
K, O, R = ApiKey, AclOperation, AclResource  # noqa: E741
DENIED = {29, 30, 31, 53}
pytestmark = [pytest.mark.timeout(600)]


def random_rule(dice: random.Random) -> Acl:
    resource = dice.choice([R.TOPIC, R.TOPIC, R.TOPIC, R.GROUP, R.TRANSACTIONAL_ID])
    pattern = dice.choice([AclPattern.LITERAL, AclPattern.LITERAL, AclPattern.PREFIXED])
    names = PREFIXES if pattern is AclPattern.PREFIXED else [*NAMES, "*", "*"]
    permission = dice.choice([AclPermission.ALLOW, AclPermission.ALLOW, AclPermission.DENY])
    operation = dice.choice([*OPERATIONS[resource], O.ALL, O.WRITE])
    return Acl(
        resource, dice.choice(names), pattern, dice.choice(PRINCIPALS), dice.choice(HOSTS),
        operation, permission,
    )  # fmt: skip


def random_filter(dice: random.Random) -> AclFilter:
    return AclFilter(
        dice.choice([R.ANY, R.TOPIC, R.TOPIC, R.GROUP]),
        dice.choice([None, None, "a", "abc", "b", "*", "ab"]),
        dice.choice([AclPattern.ANY, AclPattern.MATCH, AclPattern.LITERAL, AclPattern.PREFIXED]),
        dice.choice([None, None, None, None, "User:alice", "User:*"]),
        dice.choice([None, None, None, None, None, "*", "127.0.0.1"]),
        dice.choice([O.ANY, O.ANY, O.ANY, O.ANY, O.ANY, O.READ, O.WRITE, O.ALL]),
        dice.choice([AclPermission.ANY, AclPermission.ANY, AclPermission.ALLOW]),
    )


def _configs(key: ApiKey, kind: int) -> Any:
    if key is K.DESCRIBE_CONFIGS:
        module, request, piece = "describe_configs", "DescribeConfigsRequest", "DescribeConfigs"
        resources = [message(module, f"{piece}Resource", kind, name) for name in NAMES]
        return message(module, request, resources)
    module, request = "incremental_alter_configs", "IncrementalAlterConfigsRequest"
    resources = [message(module, "AlterConfigsResource", kind, name, []) for name in NAMES]
    return message(module, request, resources, validate_only=True)


def _topics(module: str, request: str, piece: str, *fields: Any, **more: Any) -> Any:
    return message(module, request, [message(module, piece, name, *fields) for name in NAMES],
                   **more)  # fmt: skip


def _produce() -> Any:
    partition = message("produce", "PartitionProduceData", index=0, records=batch([b"v"]))
    topics = [
        message("produce", "TopicProduceData", name, partition_data=[partition]) for name in NAMES
    ]
    return message("produce", "ProduceRequest", acks=1, timeout=1000, topic_data=topics)


def _list_offsets() -> Any:
    partition = message("list_offsets", "ListOffsetsPartition", 0)
    topics = [message("list_offsets", "ListOffsetsTopic", name, [partition]) for name in NAMES]
    return message("list_offsets", "ListOffsetsRequest", -1, topics=topics)


def questions() -> Iterator[tuple[str, ApiKey, int, Any, str, str]]:
    """Right, request, and where its answer has the pieces and their names; no topic exists."""
    produced = ("responses", "name")
    yield "READ TOPIC", K.DESCRIBE_PRODUCERS, 0, _topics(
        "describe_producers", "DescribeProducersRequest", "TopicRequest", [0]
    ), "topics", "name"  # fmt: skip
    yield "WRITE TOPIC", K.PRODUCE, 9, _produce(), *produced
    yield "CREATE TOPIC", K.CREATE_TOPICS, 7, _topics(
        "create_topics", "CreateTopicsRequest", "CreatableTopic", 1, 1, validate_only=True
    ), "topics", "name"  # fmt: skip
    deleted = message("delete_records", "DeleteRecordsPartition", 0, 1)
    yield "DELETE TOPIC", K.DELETE_RECORDS, 2, _topics(
        "delete_records", "DeleteRecordsRequest", "DeleteRecordsTopic", [deleted]
    ), "topics", "name"  # fmt: skip
    yield "DESCRIBE TOPIC", K.LIST_OFFSETS, 7, _list_offsets(), "topics", "name"
    for kind, resource in ((2, "TOPIC"), (32, "GROUP")):
        for key, into in (
            (K.DESCRIBE_CONFIGS, "results"),
            (K.INCREMENTAL_ALTER_CONFIGS, "responses"),
        ):
            operation = "DESCRIBE_CONFIGS" if key is K.DESCRIBE_CONFIGS else "ALTER_CONFIGS"
            version = 4 if key is K.DESCRIBE_CONFIGS else 1
            yield (
                f"{operation} {resource}",
                key,
                version,
                _configs(key, kind),
                into,
                ("resource_name"),
            )
    describe = message("describe_groups", "DescribeGroupsRequest", NAMES)
    yield "DESCRIBE GROUP", K.DESCRIBE_GROUPS, 5, describe, "groups", "group_id"
    delete = message("delete_groups", "DeleteGroupsRequest", NAMES)
    yield "DELETE GROUP", K.DELETE_GROUPS, 2, delete, "results", "group_id"
    transactions = message("describe_transactions", "DescribeTransactionsRequest", NAMES)
    yield (
        "DESCRIBE TRANSACTIONAL_ID",
        K.DESCRIBE_TRANSACTIONS,
        0,
        transactions,
        ("transaction_states"),
        "transactional_id",
    )
    produces = message("init_producer_id", "InitProducerIdRequest", None, 1000, -1, -1)
    yield "InitProducerId", K.INIT_PRODUCER_ID, 4, produces, "", ""


def may(connections: Collection[UserConnection]) -> list[str]:
    """The permissions of each user; all are requested at once."""
    found: list[list[str]] = [[] for _ in connections]
    for right, key, version, request, into, name in questions():
        for connection in connections:
            connection.send(key, request, version)
        for connection, rights in zip(connections, found, strict=True):
            answer = connection.receive()
            pieces = getattr(answer, into) if into else [answer]
            assert not into or len(pieces) == len(NAMES), f"{right}: {answer}"
            names = sorted(getattr(piece, name, "") for piece in pieces if not denied(piece))
            if names:
                everything = len(names) == len(NAMES)
                rights.append(f"{right} {'everywhere' if everything else ' '.join(names)}".rstrip())
    return [", ".join(rights) or "nothing" for rights in found]


def denied(piece: Any) -> bool:
    """Of a topic or a group, or of its only partition."""
    for name in piece.__match_args__:
        value = getattr(piece, name)
        if name == "error_code":
            return value in DENIED
        if isinstance(value, list) and value and hasattr(value[0], "error_code"):
            return denied(value[0])
    raise AssertionError(piece)


def world(broker: RightsBroker, seed: int, connections: dict[str, UserConnection]) -> list[str]:
    dice = random.Random(seed)
    rules = sorted({random_rule(dice) for _ in range(dice.randint(1, RULES_MAX))})
    broker.set_rules(rules)
    lines = [f"rules of seed {seed}"]
    lines += [f"  {number}: {rule}" for number, rule in enumerate(rules)]
    for user, rights in zip(connections, may(connections.values()), strict=True):
        lines.append(f"  {user} may {rights}")
    filters = [random_filter(dice) for _ in range(FILTERS)]
    for wanted in filters:
        lines.append(f"  {filter_text(wanted)} finds {numbers(described(broker, wanted), rules)}")
    gone = deleted(broker, filters[:2])
    lines.append(f"  the first two of them delete {gone and [numbers(g, rules) for g in gone]}")
    return lines


def filter_text(wanted: AclFilter) -> str:
    return (
        f"{R(wanted.resource).name} {AclPattern(wanted.pattern).name} {wanted.name} of"
        f" {wanted.principal} from {wanted.host} {O(wanted.operation).name}"
        f" {AclPermission(wanted.permission).name}"
    )


def numbers(found: set[Acl], rules: list[Acl]) -> list[int]:
    return sorted(rules.index(entry) for entry in found)


def _fields(wanted: AclFilter) -> tuple[Any, ...]:
    return (
        wanted.resource, wanted.name, wanted.pattern, wanted.principal, wanted.host,
        wanted.operation, wanted.permission,
    )  # fmt: skip


def described(broker: RightsBroker, wanted: AclFilter) -> set[Acl]:
    return rules_of(broker.operator, _fields(wanted))


def deleted(broker: RightsBroker, filters: list[AclFilter]) -> list[set[Acl]]:
    pieces = [
        message("delete_acls", "DeleteAclsFilter", *_fields(acl_filter)) for acl_filter in filters
    ]
    request = message("delete_acls", "DeleteAclsRequest", pieces)
    results = broker.operator.ask(K.DELETE_ACLS, request, 3).filter_results
    return [
        {
            Acl(
                acl.resource_type, acl.resource_name, acl.pattern_type, acl.principal, acl.host,
                acl.operation, acl.permission_type,
            )
            for acl in result.matching_acls
        }
        for result in results
    ]  # fmt: skip


GOOD = {
    "resource_type": 2, "resource_name": "t", "resource_pattern_type": 3,
    "principal": "User:alice", "host": "*", "operation": 3, "permission_type": 3,
}  # fmt: skip
BAD_CREATIONS: list[dict[str, Any]] = [
    {},
    {"resource_type": 0},
    {"resource_type": 1},
    {"resource_type": 99},
    {"resource_type": 4},
    {"resource_type": 4, "resource_name": "kafka-cluster"},
    {"resource_type": 4, "resource_name": "*"},
    {"resource_type": 4, "resource_name": "kafka-cluster", "resource_pattern_type": 4},
    {"resource_type": 6},
    {"resource_type": 7, "resource_name": "User:x", "operation": 13},
    {"resource_type": 7, "resource_name": "nocolon", "operation": 13},
    {"resource_name": ""},
    {"resource_name": "*", "resource_pattern_type": 4},
    {"resource_name": "a b!"},
    {"resource_pattern_type": 0},
    {"resource_pattern_type": 1},
    {"resource_pattern_type": 2},
    {"resource_pattern_type": 77},
    {"principal": ""},
    {"principal": "alice"},
    {"principal": "User:"},
    {"principal": ":alice"},
    {"principal": "User:a:b"},
    {"principal": "*"},
    {"host": ""},
    {"host": "not an address"},
    {"operation": 0},
    {"operation": 1},
    {"operation": 2},
    {"operation": 12},
    {"operation": 99},
    {"permission_type": 0},
    {"permission_type": 1},
    {"permission_type": 99},
]  # fmt: skip
REFUSED_HERE = {
    "CreateAcls {'principal': 'User:'}: NONE",
    "CreateAcls {'principal': ':alice'}: NONE",
    "CreateAcls {'host': ''}: NONE",
    "DescribeAcls (99, None, 1, None, None, 1, 1): NONE",
    "DescribeAcls (1, None, 99, None, None, 1, 1): NONE",
}
BAD_FILTERS: list[tuple[Any, ...]] = [
    (0, None, 1, None, None, 1, 1),
    (1, None, 0, None, None, 1, 1),
    (1, None, 1, None, None, 0, 1),
    (1, None, 1, None, None, 1, 0),
    (99, None, 1, None, None, 1, 1),
    (1, None, 99, None, None, 1, 1),
    (1, "", 1, None, None, 1, 1),
    (2, "x", 2, "no colon", "", 1, 1),
]


def bad_input(broker: RightsBroker) -> list[str]:
    """Each in its own request, because one of Kafka's errors fails the whole request."""
    broker.set_rules([])
    lines = []
    for change in BAD_CREATIONS:
        creation = message("create_acls", "AclCreation", **{**GOOD, **change})
        request = message("create_acls", "CreateAclsRequest", [creation])
        lines.append(f"CreateAcls {change}: {outcome(broker, K.CREATE_ACLS, request, 'results')}")
    for wanted in BAD_FILTERS:
        request = message("describe_acls", "DescribeAclsRequest", *wanted)
        lines.append(f"DescribeAcls {wanted}: {outcome(broker, K.DESCRIBE_ACLS, request, '')}")
        piece = message("delete_acls", "DeleteAclsFilter", *wanted)
        request = message("delete_acls", "DeleteAclsRequest", [piece])
        reply = outcome(broker, K.DELETE_ACLS, request, "filter_results")
        lines.append(f"DeleteAcls {wanted}: {reply}")
    return lines


def outcome(broker: RightsBroker, key: ApiKey, request: Any, into: str) -> str:
    connection = UserConnection(broker.broker.bootstrap)
    try:
        answer = connection.ask(key, request, 3)
    except ConnectionError:
        return "closes"
    finally:
        connection.close()
    piece = getattr(answer, into)[0] if into else answer
    return ErrorCode(piece.error_code).name


def answers_of(directory: Path, *, apache: bool) -> list[str]:
    lines: list[str] = []
    for open_to_all, count in ((False, WORLDS), (True, OPEN_WORLDS)):
        allow = str(open_to_all).lower()
        lines.append(f"allow.everyone.if.no.acl.found={allow}")
        place = directory / allow
        with RightsBroker(
            place, USERS, apache=apache, allow_everyone_if_no_acl_found=allow
        ) as broker:
            connections = {user: broker.connect(user) for user in USERS}
            broker.find_coordinators()
            for seed in range(count):
                lines += world(broker, seed, connections)
            if not open_to_all:
                lines += bad_input(broker)
            for connection in connections.values():
                connection.close()
    return lines


def ours(line: str) -> str:
    """INVALID_REQUEST where Kafka fails unexpectedly, or accepts a filter that matches nothing."""
    for end in (": closes", ": UNKNOWN_SERVER_ERROR"):
        if line.endswith(end):
            return line.removesuffix(end) + ": INVALID_REQUEST"
    if line in REFUSED_HERE:
        return line.removesuffix("NONE") + "INVALID_REQUEST"
    return line


@pytest.mark.parametrize(
    "apache", [False, pytest.param(True, marks=pytest.mark.maven)], ids=["ottla", "apache"]
)
def test_acls_mean_what_they_mean_in_kafka(tmp_path: Path, apache: bool) -> None:
    lines = answers_of(tmp_path, apache=apache)
    if apache and os.environ.get("OTTLA_REWRITE"):
        ANSWERS.write_text("\n".join(lines) + "\n")
    expected = ANSWERS.read_text().splitlines()
    assert lines == (expected if apache else [ours(line) for line in expected])
