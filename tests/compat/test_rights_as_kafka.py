"""Every API without permissions, with all, with all but one, and with only one: as in Kafka.

`rights_answers.txt` has the answers of Apache Kafka 4.3.1. Ottla is compared with the file, which
takes seconds; the test of the marker `maven` compares Apache Kafka with it, and writes it with
OTTLA_REWRITE=1, to be read as a diff.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from compat_rights import (
    LOADING,
    ClosedError,
    RightsBroker,
    UserConnection,
    error_codes,
    shown,
)
from compat_rights_requests import (
    DOOMED,
    GROUP,
    OTHER,
    OWNER,
    TOPIC,
    TXN,
    UNKNOWN_ID,
    VARIANTS,
    Make,
    base,
    message,
)

from ottla.auth.acls import CLUSTER_NAME, OPERATIONS, Acl, AclOperation, AclPattern, AclResource
from ottla.broker.dispatch import ROUTES
from ottla.wire.apis import APIS, ApiKey

ANSWERS = Path(__file__).parent / "rights_answers.txt"
O, R = AclOperation, AclResource  # noqa: E741
ALLOW, DENY = 3, 2
Right = tuple[AclOperation, AclResource]

PATTERNS = {
    R.TOPIC: ("secret-", AclPattern.PREFIXED),
    R.GROUP: ("secret-", AclPattern.PREFIXED),
    R.TRANSACTIONAL_ID: ("secret-", AclPattern.PREFIXED),
    R.CLUSTER: (CLUSTER_NAME, AclPattern.LITERAL),
    R.DELEGATION_TOKEN: ("*", AclPattern.LITERAL),
    R.USER: (f"User:{OWNER}", AclPattern.LITERAL),
}
RIGHTS: list[Right] = [
    (operation, resource) for resource, operations in OPERATIONS.items() for operation in operations
]
TOKENS = {
    ApiKey.CREATE_DELEGATION_TOKEN,
    ApiKey.RENEW_DELEGATION_TOKEN,
    ApiKey.EXPIRE_DELEGATION_TOKEN,
    ApiKey.DESCRIBE_DELEGATION_TOKEN,
}
TOGETHER_MAX = 30  # users for sets of rights that an API needs together
# A connection is already authenticated; telemetry and versions need no permission.
WITHOUT_RIGHTS = {
    ApiKey.SASL_HANDSHAKE,
    ApiKey.SASL_AUTHENTICATE,
    ApiKey.API_VERSIONS,
    ApiKey.GET_TELEMETRY_SUBSCRIPTIONS,
    ApiKey.PUSH_TELEMETRY,
}
# Apache Kafka 4.3.1 has no later version of these.
KAFKAS_NEWEST = {ApiKey.TXN_OFFSET_COMMIT: 5, ApiKey.DELETE_GROUPS: 2}
# Responses that differ for reasons other than permissions: (request, Kafka's line) -> ours.
SHARE_DENIED = "id:other-topic partitions[0 TOPIC_AUTHORIZATION_FAILED current_leader=]"
OURS = {
    **{
        (f"DescribeQuorum v{version}", "  all rights: ok"): "  all rights: UNSUPPORTED_VERSION"
        for version in (0, 2)  # there is no quorum of KRaft here
    },
    **{
        (
            f"ShareFetch v{version}",
            f"  all rights: responses[{SHARE_DENIED}]",
        ): f"  all rights: responses[{SHARE_DENIED}, id:secret-topic partitions[0]]"
        for version in (1, 2)  # a partition without new records is named, empty
    },
    (  # no partition has this replica, which Kafka finds out first
        "Fetch of a follower v18",
        "  all rights: responses[id:other-topic partitions[0 NOT_LEADER_OR_FOLLOWER],"
        " id:secret-topic partitions[0 NOT_LEADER_OR_FOLLOWER],"
        " id:unknown partitions[0 UNKNOWN_TOPIC_ID]]",
    ): "  all rights: responses[id:other-topic partitions[0 UNKNOWN_LEADER_EPOCH],"
    " id:secret-topic partitions[0 OFFSET_OUT_OF_RANGE],"
    " id:unknown partitions[0 UNKNOWN_TOPIC_ID]]",
}
ONE_BY_ONE = {
    ApiKey.CREATE_ACLS,
    ApiKey.DELETE_ACLS,
    ApiKey.DELETE_TOPICS,
    ApiKey.INIT_PRODUCER_ID,
    ApiKey.PRODUCE,
    ApiKey.SHARE_FETCH,
    ApiKey.SHARE_ACKNOWLEDGE,
}
SESSIONS = {
    f"group_{kind}_{limit}session_timeout_ms": "600000"
    for kind in ("consumer", "share", "streams")
    for limit in ("", "max_")
}
pytestmark = [pytest.mark.timeout(600)]


def right_name(right: Right) -> str:
    return f"{right[0].name} {right[1].name}"


def rule(user: str, right: Right, permission: int = ALLOW) -> Acl:
    operation, resource = right
    name, pattern = PATTERNS[resource]
    return Acl(resource, name, pattern, f"User:{user}", "*", operation, permission)


def everything(user: str) -> list[Acl]:
    return [rule(user, (O.ALL, resource)) for resource in PATTERNS]


def single_rules() -> Iterator[Acl]:
    yield from everything("all")
    for number, right in enumerate(RIGHTS):
        yield from everything(f"without{number}")
        yield rule(f"without{number}", right, DENY)
        yield rule(f"only{number}", right)


class Question(NamedTuple):
    what: str
    key: ApiKey
    version: int
    make: Make
    old: bool = False


class Walk:
    """One broker, the connections of its users, and the recorded lines."""

    def __init__(self, broker: RightsBroker) -> None:
        self.lines: list[str] = []
        self._broker = broker
        self._connections: dict[str, UserConnection] = {}
        self.topics = {TOPIC: b"", OTHER: b"", DOOMED: b""}
        self._needed: dict[str, frozenset[Right]] = {}

    def prepare(self) -> None:
        """Topics, offsets, group members and a transaction, which may be visible or not."""
        for name in self.topics:
            self._create(name)
        self._broker.find_coordinators()
        for group in (GROUP, "other-group", "secret-kept"):
            for topic in (TOPIC, OTHER):
                self._operate(ApiKey.OFFSET_COMMIT, 9, _commit(group, topic))
        for key in (
            ApiKey.CONSUMER_GROUP_HEARTBEAT,
            ApiKey.SHARE_GROUP_HEARTBEAT,
            ApiKey.STREAMS_GROUP_HEARTBEAT,
        ):
            self._operate(key, APIS[key].version_max, base(key)(self.topics, 1))
        for name in (TXN, "other-txn"):
            begin = message("init_producer_id", "InitProducerIdRequest", name, 600_000, -1, -1)
            given = self._operate(ApiKey.INIT_PRODUCER_ID, 4, begin)
            parts = [message("add_partitions_to_txn", "AddPartitionsToTxnTopic", topic, [0])
                     for topic in (TOPIC, OTHER)]  # fmt: skip
            add = message(
                "add_partitions_to_txn",
                "AddPartitionsToTxnRequest",
                v3_and_below_transactional_id=name,
                v3_and_below_producer_id=given.producer_id,
                v3_and_below_producer_epoch=given.producer_epoch,
                v3_and_below_topics=parts,
            )
            self._operate(ApiKey.ADD_PARTITIONS_TO_TXN, 3, add)

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()

    def _create(self, name: str) -> None:
        new = message("create_topics", "CreatableTopic", name, 1, 1)
        request = message("create_topics", "CreateTopicsRequest", [new], 10_000)
        answer = self._broker.operator.ask(ApiKey.CREATE_TOPICS, request, 7)
        if answer.topics[0].error_code == 0:
            self.topics[name] = answer.topics[0].topic_id
        self._see(name)

    def _see(self, name: str) -> None:
        """Kafka's broker sees a topic a moment after its controller created it."""
        asked = message("metadata", "MetadataRequestTopic", name=name)
        request = message("metadata", "MetadataRequest", [asked])
        while self._broker.operator.ask(ApiKey.METADATA, request, 12).topics[0].error_code:
            pass

    def _operate(self, key: ApiKey, version: int, request: Any) -> Any:
        answer = self._broker.operator.ask(key, request, version)
        assert error_codes(answer) <= {0}, f"{key.name}: {answer}"
        return answer

    def ask(self, user: str, key: ApiKey, version: int, make: Make) -> str:
        return self.ask_all([user], key, version, make)[0]

    def ask_all(self, users: list[str], key: ApiKey, version: int, make: Make) -> list[str]:
        """All at once, unless one request changes the result of the next."""
        if key in ONE_BY_ONE and len(users) > 1:
            return [self.ask(user, key, version, make) for user in users]
        if key is ApiKey.DELETE_TOPICS:
            self._create(DOOMED)
            self._create(OTHER)
        request = make(self.topics, version)
        for user in users:
            if user not in self._connections:
                self._connections[user] = self._broker.connect(user)
            self._connections[user].send(key, request, version)
        return [self._answer(user, key, version, request) for user in users]

    def _answer(self, user: str, key: ApiKey, version: int, request: Any) -> str:
        connection = self._connections[user]
        try:
            answer = connection.receive()
            if error_codes(answer) & LOADING:
                answer = connection.ask(key, request, version)
        except ClosedError:
            self._connections.pop(user).close()
            return "closes"
        names = {topic_id: name for name, topic_id in self.topics.items()}
        return shown(answer, {**names, UNKNOWN_ID: "unknown"}) or "ok"

    def walk(self, what: str, key: ApiKey, version: int, make: Make, old: bool = False) -> None:
        """The responses without and with all permissions, and each permission that matters."""
        self.lines.append(f"{what} v{version}")
        nobody = self.ask("nobody", key, version, make)
        whole = self.ask("all", key, version, make)
        self.lines.append(f"  no rights: {nobody}")
        self.lines.append(f"  all rights: {'the same' if whole == nobody else whole}")
        if old:
            return  # an old version says the same in another form
        needed = self._differences("without", whole, {nobody: "as no rights"}, key, version, make)
        self._differences("only", nobody, {whole: "as all rights"}, key, version, make)
        if len(needed) > 1:
            self._needed[what] = frozenset(needed)

    def _differences(
        self, kind: str, usual: str, known: dict[str, str], key: ApiKey, version: int, make: Make
    ) -> set[Right]:
        """Writes a line for each unusual response; returns the permissions behind them."""
        found: dict[str, list[Right]] = {}
        asked = {
            f"{kind}{number}": right
            for number, right in enumerate(RIGHTS)
            if key in TOKENS or right[1] not in (R.DELEGATION_TOKEN, R.USER)
        }
        answers = self.ask_all(list(asked), key, version, make)
        for right, answer in zip(asked.values(), answers, strict=True):
            if answer != usual:
                found.setdefault(answer, []).append(right)
        for answer, rights in found.items():
            names = ", ".join(right_name(right) for right in rights)
            self.lines.append(f"  {kind} {names}: {known.get(answer, answer)}")
        return {right for rights in found.values() for right in rights}

    def walk_creation(self) -> None:
        """A Metadata request that would create a topic, without one of its two permissions."""
        name = "secret-auto"
        for user, what in {
            "nobody": "no rights",
            f"only{RIGHTS.index((O.DESCRIBE, R.TOPIC))}": "only DESCRIBE TOPIC",
            f"only{RIGHTS.index((O.CREATE, R.TOPIC))}": "only CREATE TOPIC",
            f"only{RIGHTS.index((O.CREATE, R.CLUSTER))}": "only CREATE CLUSTER",
        }.items():
            asked = [message("metadata", "MetadataRequestTopic", name=name)]
            request = message("metadata", "MetadataRequest", asked, allow_auto_topic_creation=True)
            answer = self.ask(user, ApiKey.METADATA, 12, lambda *_, request=request: request)
            self.lines.append(f"Metadata v12 that would create a topic, {what}: {answer}")

    def walk_together(self, asked: list[Question]) -> None:
        """Exactly the permissions that were needed, if there are several."""
        sets = sorted({tuple(sorted(entry)) for entry in self._needed.values()})
        assert len(sets) <= TOGETHER_MAX, len(sets)
        rules = [rule(f"exactly{sets.index(entry)}", right) for entry in sets for right in entry]
        self._broker.set_rules([*single_rules(), *rules])
        for what, key, version, make, old in asked:
            if what in self._needed and not old:
                rights = tuple(sorted(self._needed[what]))
                answer = self.ask(f"exactly{sets.index(rights)}", key, version, make)
                whole = self.ask("all", key, version, make)
                result = "as all rights" if answer == whole else answer
                names = " + ".join(right_name(entry) for entry in rights)
                self.lines.append(f"{what} v{version} with exactly {names}: {result}")


def _commit(group: str, topic: str) -> Any:
    partition = message("offset_commit", "OffsetCommitRequestPartition", 0, 1)
    named = message("offset_commit", "OffsetCommitRequestTopic", topic, partitions=[partition])
    return message("offset_commit", "OffsetCommitRequest", group, topics=[named])


def questions(served: dict[int, tuple[int, int]]) -> list[Question]:
    """The newest version that both have, and the oldest; then the variants."""
    found = []
    for key, route in ROUTES.items():
        api = ApiKey(key)
        if api in WITHOUT_RIGHTS or key not in served:
            continue
        newest = min(route.version_max, served[key][1], KAFKAS_NEWEST.get(api, route.version_max))
        oldest = max(route.version_min, served[key][0])
        if api is ApiKey.METADATA:
            oldest = 4  # earlier versions create missing topics
        for version in dict.fromkeys((newest, oldest)):
            old = version != newest
            found.append(Question(APIS[key].name, api, version, base(api), old))
    for name, (api, version_wanted, make) in VARIANTS.items():
        version = version_wanted or min(ROUTES[api].version_max, served[api][1])
        found.append(Question(name, api, version, make))
    # Deletions come last.
    return sorted(found, key=lambda request: request.key is ApiKey.DELETE_TOPICS)


def served_by(operator: UserConnection) -> dict[int, tuple[int, int]]:
    request = message("api_versions", "ApiVersionsRequest", "rights", "1")
    answer = operator.ask(ApiKey.API_VERSIONS, request, 3)
    return {
        api_key.api_key: (api_key.min_version, api_key.max_version) for api_key in answer.api_keys
    }


def users() -> list[str]:
    numbered = [f"{kind}{number}" for kind in ("without", "only") for number in range(len(RIGHTS))]
    return ["nobody", "all", *numbered, *(f"exactly{number}" for number in range(TOGETHER_MAX))]


def answers_of(directory: Path, *, apache: bool) -> list[str]:
    with RightsBroker(directory, users(), apache=apache, **SESSIONS) as broker:
        walk = Walk(broker)
        walk.prepare()
        broker.set_rules(single_rules())
        asked = questions(served_by(broker.operator))
        for question in asked:
            walk.walk(*question)
        walk.walk_creation()
        walk.walk_together(asked)
        walk.close()
        return walk.lines


def ours(lines: list[str]) -> list[str]:
    found, question = [], ""
    for line in lines:
        if not line.startswith(" "):
            question = line
        found.append(OURS.get((question, line), line))
    return found


@pytest.mark.parametrize(
    "apache", [False, pytest.param(True, marks=pytest.mark.maven)], ids=["ottla", "apache"]
)
def test_every_permission_is_checked_as_in_kafka(tmp_path: Path, apache: bool) -> None:
    lines = answers_of(tmp_path, apache=apache)
    if apache and os.environ.get("OTTLA_REWRITE"):
        ANSWERS.write_text("\n".join(lines) + "\n")
    expected = ANSWERS.read_text().splitlines()
    assert lines == (expected if apache else ours(expected))
