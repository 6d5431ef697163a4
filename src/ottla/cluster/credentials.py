"""SCRAM credentials and delegation tokens in the store: Kafka's own znodes and JSON.

/config/users/<user>                             SCRAM credentials, beside the user's quotas
/delegation_token/tokens/<id>                    a delegation token

Brokers follow the whole store, so they need no znodes to notify each other of changes
(/delegation_token/token_changes).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ottla.auth.principal import Principal
from ottla.auth.scram import HASHES, ScramCredential
from ottla.auth.scram_server import ScramShape
from ottla.auth.tokens import DelegationToken
from ottla.cluster.image import MetadataImage, QuotaEntity, StoredToken
from ottla.cluster.layout import dump, load
from ottla.cluster.store import VersionedValue

TOKENS: Final = "/delegation_token/tokens"


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


def load_token(entry: VersionedValue) -> StoredToken:
    value = load(entry)
    owner = Principal.parse(value["owner"])
    requester = value.get("tokenRequester")  # older versions of Kafka store none
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
    """The quota entity of a user, whose znode also has the user's credentials."""
    return (("user", name),)


def scram_credential(image: MetadataImage, mechanism: str, name: str) -> ScramCredential | None:
    config = image.quotas.get(user_entity(name))
    text = config.values.get(mechanism) if config is not None else None
    if text is None:
        return None
    try:
        return ScramCredential.parse(text)
    except ValueError:
        return None


def scram_shapes(image: MetadataImage) -> dict[str, frozenset[ScramShape]]:
    """For each mechanism, the salt lengths and iterations that its users have."""
    shapes: dict[str, set[ScramShape]] = {mechanism: set() for mechanism in HASHES}
    for user, mechanisms in scram_users(image).items():
        for mechanism in mechanisms:
            found = scram_credential(image, mechanism, user)
            if found is not None:
                shapes[mechanism].add(ScramShape(len(found.salt), found.iterations))
    return {mechanism: frozenset(found) for mechanism, found in shapes.items()}


def scram_users(image: MetadataImage) -> dict[str, dict[str, int]]:
    """Every user with a credential: iterations by mechanism."""
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


def expired_tokens(image: MetadataImage, now_ms: int) -> list[str]:
    return [
        token_id
        for token_id, stored in image.tokens.items()
        if min(stored.token.expires_ms, stored.token.max_ms) < now_ms
    ]
