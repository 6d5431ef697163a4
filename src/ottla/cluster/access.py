"""Who may do what, and who is who, as the store keeps it: Kafka's own nodes and JSON.

/kafka-acl/<Type>/<name>                         rules for a resource of this name, or for * of them
/kafka-acl-extended/prefixed/<Type>/<name>       rules for all whose names start so
/config/users/<user>                             SCRAM credentials, beside the user's quotas
/delegation_token/tokens/<id>                    a delegation token

Brokers follow the whole store, so the nodes by which Kafka's brokers tell each other of a change
(/kafka-acl-changes, /delegation_token/token_changes) are not made.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from ottla.auth.acls import Acl, AclOperation, AclPattern, AclPermission, AclResource
from ottla.auth.principal import Principal
from ottla.auth.scram import HASHES, ScramCredential
from ottla.auth.scram_server import ScramShape
from ottla.auth.tokens import DelegationToken
from ottla.cluster.image import Image, QuotaEntity, StoredAcls, StoredToken
from ottla.cluster.layout import dump, load
from ottla.cluster.store import Create, Delete, Entry, Put, Write

LITERAL_ACLS: Final = "kafka-acl"
EXTENDED_ACLS: Final = "kafka-acl-extended"
PREFIXED: Final = "prefixed"
TOKENS: Final = "/delegation_token/tokens"
UNREADABLE: Final = (ValueError, KeyError, TypeError, AttributeError)

_TYPES: Final = {
    AclResource.TOPIC: "Topic",
    AclResource.GROUP: "Group",
    AclResource.CLUSTER: "Cluster",
    AclResource.TRANSACTIONAL_ID: "TransactionalId",
    AclResource.DELEGATION_TOKEN: "DelegationToken",
    AclResource.USER: "User",
}
_TYPE_NUMBERS: Final = {name: number for number, name in _TYPES.items()}
_OPERATION_NUMBERS: Final = {
    each.name.title().replace("_", ""): each for each in AclOperation if each > AclOperation.ANY
}
_OPERATIONS: Final = {number: name for name, number in _OPERATION_NUMBERS.items()}
_PERMISSION_NUMBERS: Final = {"Allow": AclPermission.ALLOW, "Deny": AclPermission.DENY}
_PERMISSIONS: Final = {number: name for name, number in _PERMISSION_NUMBERS.items()}


log = logging.getLogger("ottla.cluster")


class AclKey(NamedTuple):
    """A resource pattern: its rules lie under one key."""

    resource: int
    pattern: int
    name: str

    @property
    def path(self) -> str:
        kind = _TYPES[AclResource(self.resource)]
        if self.pattern == AclPattern.LITERAL:
            return f"/{LITERAL_ACLS}/{kind}/{self.name}"
        return f"/{EXTENDED_ACLS}/{PREFIXED}/{kind}/{self.name}"

    @classmethod
    def of(cls, acl: Acl) -> AclKey:
        return cls(acl.resource, acl.pattern, acl.name)

    @classmethod
    def of_parts(cls, parts: Sequence[str]) -> AclKey | None:
        """The pattern of a key's parts; None if they are not those of one."""
        match parts:
            case ["kafka-acl", kind, name] if kind in _TYPE_NUMBERS:
                return cls(_TYPE_NUMBERS[kind], AclPattern.LITERAL, name)
            case ["kafka-acl-extended", "prefixed", kind, name] if kind in _TYPE_NUMBERS:
                return cls(_TYPE_NUMBERS[kind], AclPattern.PREFIXED, name)
        return None


def dump_acls(acls: Iterable[Acl]) -> bytes:
    rules = [
        {
            "principal": acl.principal,
            "permissionType": _PERMISSIONS[AclPermission(acl.permission)],
            "operation": _OPERATIONS[AclOperation(acl.operation)],
            "host": acl.host,
        }
        for acl in sorted(acls)
    ]
    return dump({"version": 1, "acls": rules})


def load_acls(key: AclKey, entry: Entry) -> StoredAcls:
    """The rules of a pattern. One that can't be read may be a DENY, so it counts as one for
    everybody: an operator sees it among the rules (`kafka-acls --list`), and by removing it there
    removes what can't be read. The other rules stay, as most of them may be DENYs, too."""
    rules: set[Acl] = set()
    try:
        stored = list(load(entry)["acls"])
    except UNREADABLE as error:
        stored = [None]
        log.error("The rules at %s can't be read: %r", key.path, error)
    for rule in stored:
        try:
            rules.add(_load_acl(key, rule))
        except UNREADABLE as error:
            log.error("A rule at %s can't be read and denies everything: %r", key.path, error)
            everybody = ("User:*", "*", AclOperation.ALL, AclPermission.DENY)
            rules.add(Acl(key.resource, key.name, key.pattern, *everybody))
    return StoredAcls(frozenset(rules), entry.version)


def _load_acl(key: AclKey, rule: Any) -> Acl:
    principal, host = rule["principal"], rule["host"]
    Principal.parse(principal)
    if not isinstance(host, str):
        raise ValueError(f"host {host!r}")
    operation = _OPERATION_NUMBERS[rule["operation"]]
    permission = _PERMISSION_NUMBERS[rule["permissionType"]]
    return Acl(key.resource, key.name, key.pattern, principal, host, operation, permission)


def write_acls(image: Image, key: AclKey, acls: frozenset[Acl]) -> list[Write]:
    """Make these the rules of a pattern; without any the key goes."""
    present = image.acls.get(key)
    if present is None:
        return [Create(key.path, dump_acls(acls))] if acls else []
    if acls == present.acls:
        return []
    if not acls:
        return [Delete(key.path, present.version)]
    return [Put(key.path, dump_acls(acls), present.version)]


def token_key(token_id: str) -> str:
    return f"{TOKENS}/{token_id}"


def dump_token(token: DelegationToken) -> bytes:
    return dump(
        {
            "version": 3,
            "owner": str(token.owner),
            "tokenRequester": str(token.requester),
            "renewers": [str(renewer) for renewer in token.renewers],
            "issueTimestamp": token.issued_ms,
            "maxTimestamp": token.max_ms,
            "expiryTimestamp": token.expires_ms,
            "tokenId": token.id,
        }
    )


def load_token(entry: Entry) -> StoredToken:
    value = load(entry)
    owner = Principal.parse(value["owner"])
    requester = value.get("tokenRequester")  # Kafka's older versions have none
    token = DelegationToken(
        id=value["tokenId"],
        owner=owner,
        requester=Principal.parse(requester) if requester else owner,
        renewers=tuple(Principal.parse(renewer) for renewer in value["renewers"]),
        issued_ms=value["issueTimestamp"],
        expires_ms=value["expiryTimestamp"],
        max_ms=value["maxTimestamp"],
    )
    return StoredToken(token, entry.version)


def user_entity(name: str) -> QuotaEntity:
    """Where a user's credentials lie: in the node of its quotas."""
    return (("user", name),)


def scram_credential(image: Image, mechanism: str, name: str) -> ScramCredential | None:
    config = image.quotas.get(user_entity(name))
    text = config.values.get(mechanism) if config is not None else None
    if text is None:
        return None
    try:
        return ScramCredential.parse(text)
    except ValueError:
        return None


def scram_shapes(image: Image) -> dict[str, frozenset[ScramShape]]:
    """For each mechanism, what its users' credentials look like to a client."""
    shapes: dict[str, set[ScramShape]] = {mechanism: set() for mechanism in HASHES}
    for user, mechanisms in scram_users(image).items():
        for mechanism in mechanisms:
            found = scram_credential(image, mechanism, user)
            if found is not None:
                shapes[mechanism].add(ScramShape(len(found.salt), found.iterations))
    return {mechanism: frozenset(found) for mechanism, found in shapes.items()}


def scram_users(image: Image) -> dict[str, dict[str, int]]:
    """Every user that has a credential: its mechanisms, with their iterations."""
    users: dict[str, dict[str, int]] = {}
    for entity, config in image.quotas.items():
        if len(entity) != 1 or entity[0][0] != "user" or entity[0][1] is None:
            continue
        for mechanism in without_quotas(config.values):
            credential = scram_credential(image, mechanism, entity[0][1])
            if credential is not None:
                users.setdefault(entity[0][1], {})[mechanism] = credential.iterations
    return users


def without_quotas(values: Mapping[str, str]) -> dict[str, str]:
    return {name: text for name, text in values.items() if name in HASHES}


def expired_tokens(image: Image, now_ms: int) -> list[str]:
    return [
        token_id
        for token_id, stored in image.tokens.items()
        if min(stored.token.expires_ms, stored.token.max_ms) < now_ms
    ]
