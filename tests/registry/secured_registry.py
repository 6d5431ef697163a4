"""A registry with users and an authorizer, and the rules for its subjects."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, NamedTuple

from ottla.auth.acls import (
    Acl,
    AclFilter,
    AclOperation,
    AclPattern,
    AclPermission,
    RegistryResource,
)
from ottla.cli.verbs.subject_rules import SubjectRules
from ottla.registry.acl_records import REGISTRY_NAME, acl_record
from ottla.registry.registry_change import RegistryChange
from ottla.registry.server import RegistryServer
from ottla.registry.settings import settings_of
from ottla.registry.subject_acls import decide_deletion
from ottla.testing import LocalCluster

STANDARD = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
PASSWORDS = {"ann": "secret", "bob": "letmein"}  # ann is a super user


class RestAnswer(NamedTuple):
    status: int
    body: Any

    @property
    def code(self) -> int:
        return self.body.get("error_code", 0) if isinstance(self.body, dict) else 0


class SecuredRegistry:
    def __init__(self, server: RegistryServer, rules: SubjectRules) -> None:
        self.server = server
        self.rules = rules
        self._there = HTTPConnection("127.0.0.1", server.port, timeout=60)

    def ask(self, user: str | None, method: str, path: str, body: Any = None) -> RestAnswer:
        headers = {}
        if user is not None:
            login = f"{user}:{PASSWORDS[user]}".encode()
            headers["Authorization"] = "Basic " + base64.b64encode(login).decode()
        return self.send(method, path, headers, body)

    def send(self, method: str, path: str, headers: dict[str, str], body: Any = None) -> RestAnswer:
        data = None if body is None else json.dumps(body)
        self._there.request(method, path, data, headers)
        answer = self._there.getresponse()
        text = answer.read()
        raw = text.decode()
        return RestAnswer(answer.status, json.loads(raw) if raw.startswith(("{", "[")) else raw)

    def allow(self, *acls: Acl) -> None:
        """Sets exactly these rules; returns when the registry has them."""
        records = [acl_record(acl) for acl in acls]
        self.rules._write(
            lambda state: RegistryChange(
                None, [*decide_deletion(state, AclFilter()).records, *records]
            )
        )
        deadline = time.monotonic() + 60
        access = self.server._registry.access
        assert access is not None
        while access._log.state.index.acls != frozenset(acls):
            assert time.monotonic() < deadline
            time.sleep(0.005)

    def close(self) -> None:
        self._there.close()


def rule(
    operation: AclOperation,
    name: str = "*",
    *,
    prefix: bool = False,
    deny: bool = False,
    host: str = "*",
    who: str = "User:bob",
) -> Acl:
    """On a subject; the name "registry" is the registry itself."""
    of_registry = name == "registry"
    return Acl(
        RegistryResource.REGISTRY if of_registry else RegistryResource.SUBJECT,
        REGISTRY_NAME if of_registry else name,
        AclPattern.PREFIXED if prefix else AclPattern.LITERAL,
        who,
        host,
        operation,
        AclPermission.DENY if deny else AclPermission.ALLOW,
    )


def rules(operations: Iterable[AclOperation], name: str = "*") -> list[Acl]:
    return [rule(operation, name) for operation in operations]


def access_properties(folder: Path, servers: str) -> dict[str, str]:
    users = folder / "users.properties"
    users.write_text("".join(f"{name}: {word},admin\n" for name, word in PASSWORDS.items()))
    return {
        "listeners": "http://127.0.0.1:0",
        "authentication.method": "BASIC",
        "ottla.authentication.users.file": str(users),
        "authorizer.class.name": STANDARD,
        "super.users": "User:ann",
        "kafkastore.bootstrap.servers": servers,
    }


@contextmanager
def secured_registry(folder: Path, **more: str) -> Iterator[SecuredRegistry]:
    with LocalCluster() as cluster:
        properties = access_properties(folder, cluster.bootstrap_servers)
        properties |= {name.replace("_", "."): value for name, value in more.items()}
        subject_rules = SubjectRules(
            cluster.bootstrap_servers, {}, "_schemas_acl", "schema-registry"
        )
        with settings_of(properties, {}).server() as server:
            made = SecuredRegistry(server, subject_rules)
            yield made
            made.close()
