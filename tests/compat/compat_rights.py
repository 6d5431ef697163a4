"""A broker with an authorizer, users with exactly the given ACLs, and responses as lines of text.

The operator comes by PLAINTEXT (User:ANONYMOUS is a super user), users by SASL_PLAINTEXT with
PLAIN. Settings and requests are the same for Ottla and for Apache Kafka.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from compat_brokers import ApacheBroker, Broker, free_port
from compat_security import jaas

from ottla.auth.acls import Acl
from ottla.errors import ErrorCode
from ottla.slices import FileSlice
from ottla.wire.apis import ApiKey
from ottla.wire.messages.create_acls import AclCreation, CreateAclsRequest
from ottla.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from ottla.wire.messages.describe_acls import DescribeAclsRequest
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest
from ottla.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from ottla.wire.messages.sasl_handshake import SaslHandshakeRequest
from ottla.wire.peer import Peer

TIMEOUT_S = 30.0
ANYTHING = (1, None, 1, None, None, 1, 1)  # the filter that means every rule
MEMBER = "AAAAAAAAAAAAAAAAAAAAAQ"  # share groups want ids of Kafka's form
LOADING = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
}


class RightsBroker:
    """Ottla or Apache Kafka, with these users and no rules."""

    def __init__(
        self, directory: Path, users: Iterable[str], *, apache: bool, **settings: str
    ) -> None:
        self.broker = (ApacheBroker if apache else Broker)(directory)
        self.users_at = f"127.0.0.1:{free_port()}"
        places = {"PLAINTEXT": self.broker.bootstrap, "SASL_PLAINTEXT": self.users_at}
        named = ",".join(f"{name}://{place}" for name, place in places.items())
        passwords = {f"user_{name}": name for name in users}
        protocols = ",".join(f"{name}:{name}" for name in places)
        self.broker.settings |= {
            "listeners": named,
            "advertised.listeners": named,
            "listener.security.protocol.map": protocols,
            "inter.broker.listener.name": "PLAINTEXT",
            "sasl.enabled.mechanisms": "PLAIN",
            "listener.name.sasl_plaintext.plain.sasl.jaas.config": jaas(
                "Plain", username="x", password="x", **passwords
            ),
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
            "delegation.token.secret.key": "secret",
            **{name.replace("_", "."): value for name, value in settings.items()},
        }
        self._controller = self.broker.bootstrap
        if isinstance(self.broker, ApacheBroker):
            self._controller = f"127.0.0.1:{self.broker.controller_port}"
            self.broker.settings["listeners"] += f",CONTROLLER://{self._controller}"
            self.broker.settings["listener.security.protocol.map"] += ",CONTROLLER:PLAINTEXT"

    def __enter__(self) -> RightsBroker:
        self.broker.start()
        self.operator = UserConnection(self.broker.bootstrap)
        self._watched = [self.operator, UserConnection(self._controller)]
        return self

    def __exit__(self, *exception: object) -> None:
        for cluster in self._watched:
            cluster.close()
        self.broker.kill()

    def connect(self, user: str) -> UserConnection:
        return UserConnection(self.users_at, user)

    def find_coordinators(self) -> None:
        """Creates the internal topics: without them coordinators return only errors."""
        for kind, name in enumerate(("g", "t", f"g:{MEMBER}:0")):
            request = FindCoordinatorRequest(name, kind, [name])
            found = self.operator.ask(ApiKey.FIND_COORDINATOR, request, 6).coordinators
            assert found[0].error_code == 0, found

    def set_rules(self, acls: Iterable[Acl]) -> None:
        """Grants exactly these; Kafka's broker and controller apply them a moment later."""
        wanted, there = set(acls), rules_of(self.operator)
        gone = DeleteAclsRequest([DeleteAclsFilter(*acl) for acl in sorted(there - wanted)])
        for deleted in self.operator.ask(ApiKey.DELETE_ACLS, gone, 3).filter_results:
            assert deleted.error_code == 0, deleted
        made = CreateAclsRequest([AclCreation(*acl) for acl in sorted(wanted - there)])
        for created in self.operator.ask(ApiKey.CREATE_ACLS, made, 3).results:
            assert created.error_code == 0, created
        deadline = time.monotonic() + TIMEOUT_S
        while not all(rules_of(cluster) == wanted for cluster in self._watched):
            assert time.monotonic() < deadline, "the rules did not arrive"
            time.sleep(0.02)


def rules_of(connection: UserConnection, wanted: tuple[Any, ...] = ANYTHING) -> set[Acl]:
    answer = connection.ask(ApiKey.DESCRIBE_ACLS, DescribeAclsRequest(*wanted), 3)
    assert answer.error_code == 0, answer
    return {
        Acl(
            resource.resource_type, resource.resource_name, resource.pattern_type,
            rule.principal, rule.host, rule.operation, rule.permission_type,
        )
        for resource in answer.resources
        for rule in resource.acls
    }  # fmt: skip


class ClosedError(ConnectionError):
    """The broker closed the connection instead of an answer."""


class UserConnection:
    """One connection; with a user it authenticates by PLAIN, the password is the name."""

    def __init__(self, place: str, user: str | None = None) -> None:
        host, port = place.rsplit(":", 1)
        self.user = user
        self._socket = socket.create_connection((host, int(port)), timeout=TIMEOUT_S)
        self._peer = Peer()
        if user is not None:
            self.ask(ApiKey.SASL_HANDSHAKE, SaslHandshakeRequest("PLAIN"), 1)
            token = f"\0{user}\0{user}".encode()
            answer = self.ask(ApiKey.SASL_AUTHENTICATE, SaslAuthenticateRequest(token), 2)
            assert answer.error_code == 0, answer

    def close(self) -> None:
        self._socket.close()

    def ask(self, key: ApiKey, request: Any, version: int) -> Any:
        """The response, once coordinators have loaded."""
        deadline = time.monotonic() + TIMEOUT_S
        while True:
            answer = self._ask(key, request, version)
            if not error_codes(answer) & LOADING:
                return answer
            assert time.monotonic() < deadline, answer
            time.sleep(0.05)

    def _ask(self, key: ApiKey, request: Any, version: int) -> Any:
        self.send(key, request, version)
        return self.receive()

    def send(self, key: ApiKey, request: Any, version: int) -> None:
        parts = self._peer.request(request, key, version, client_id="rights")
        self._socket.sendall(
            b"".join(part.read() if isinstance(part, FileSlice) else part for part in parts)
        )

    def receive(self) -> Any:
        (size,) = struct.unpack(">i", self._receive(4))
        return self._peer.response(self._receive(size)).body

    def _receive(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            try:
                chunk = self._socket.recv(size - len(data))
            except ConnectionError:
                chunk = b""
            if not chunk:
                raise ClosedError(self.user)
            data += chunk
        return data


def error_codes(message: Any) -> set[int]:
    """Every error code of a response, at any depth."""
    found: set[int] = set()
    for name in message.__match_args__:
        value = getattr(message, name)
        if name.endswith("error_code"):
            found.add(value)
        for entry in value if isinstance(value, list) else [value]:
            if hasattr(entry, "__match_args__"):
                found |= error_codes(entry)
    return found


KEYS = {
    "name", "topic", "topic_name", "topic_id", "group_id", "key", "transactional_id", "index",
    "resource_name", "resource_type", "partition", "partition_index",
    "error_code", "protocol_type", "entity_name",
}  # fmt: skip
# Counts, times and texts that differ from run to run; lists that have nothing to do with rights.
LEFT_OUT = {
    "throttle_time", "throttle_time_ms", "error_message", "configs", "cluster_id", "brokers",
    "node_endpoints", "member_id", "nodes", "features", "supported_features", "api_keys",
    "finalized_features", "zk_migration_ready", "subscription_id", "client_instance_id",
    "tokens", "log_dir", "records", "status", "active_tasks", "standby_tasks",
    "warmup_tasks", "token_requester_principal_name", "user",
}  # fmt: skip
DENIED = {29, 30, 31, 53, 65}


def shown(message: Any, topics: Mapping[bytes, str]) -> str:
    """Names, errors and authorized operations; of what is denied, everything else as well."""
    fields = {name: getattr(message, name) for name in message.__match_args__}
    denied = any(name.endswith("error_code") and fields[name] in DENIED for name in fields)
    parts = []
    for name, value in fields.items():
        if name in LEFT_OUT or value in (None, "", b""):
            continue
        if name == "topic_id" and (
            value not in topics or fields.get("name") or fields.get("topic_name")
        ):
            continue  # none, that of a topic which was not made, or told by the name
        if name.endswith("error_code"):
            if value:
                label = "" if name == "error_code" else f"{name}="
                parts.append(label + ErrorCode(value).name)
        elif isinstance(value, list):
            inner = sorted(_shown_value(entry, topics) for entry in value)
            if inner and (hasattr(value[0], "__match_args__") or denied):
                parts.append(f"{name}[{', '.join(inner)}]")
        elif name.endswith("authorized_operations"):
            if value != -(1 << 31):
                bits = [str(bit) for bit in range(16) if value >> bit & 1]
                parts.append(f"may={'+'.join(bits) or 'nothing'}")
        elif name in KEYS or denied:
            label = "" if name in KEYS else f"{name}="
            parts.append(label + _shown_value(value, topics))
    return " ".join(parts)


def _shown_value(value: Any, topics: Mapping[bytes, str]) -> str:
    if hasattr(value, "__match_args__"):
        return shown(value, topics)
    if isinstance(value, bytes) and len(value) == 16:
        return "id:" + topics[value]
    return str(value)
