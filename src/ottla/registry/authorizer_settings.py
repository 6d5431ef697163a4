"""Authorization of subjects, enabled by the broker's settings or by Confluent's.

authorizer.class.name                        as on the broker: either of Kafka's classes
confluent.schema.registry.authorizer.class   Confluent's SchemaRegistryAclAuthorizer, the same here
confluent.schema.registry.acl.topic          the topic of the ACLs: kafkastore.topic and _acl
super.users, allow.everyone.if.no.acl.found  as on the broker
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ottla.auth.authorizer import Authorizer, parse_super_users
from ottla.client.tls import wrong
from ottla.rest.settings import METHOD, AccessSettings

CLASS: Final = "authorizer.class.name"
KAFKA: Final = (
    "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "kafka.security.authorizer.AclAuthorizer",
)
CONFLUENT_CLASS: Final = "confluent.schema.registry.authorizer.class"
CONFLUENT: Final = (
    "io.confluent.kafka.schemaregistry.security.authorizer.schemaregistryacl"
    ".SchemaRegistryAclAuthorizer"
)
TOPIC: Final = "confluent.schema.registry.acl.topic"
SUPER_USERS: Final = "super.users"
OPEN_IF_NO_ACL: Final = "allow.everyone.if.no.acl.found"
EXTENSIONS: Final = ("resource.extension.class", "schema.registry.resource.extension.class")


@dataclass(frozen=True, slots=True)
class AuthorizerSettings:
    super_users: frozenset[str] = frozenset()
    allow_if_no_acl: bool = False
    topic: str = ""

    def authorizer(self) -> Authorizer:
        return Authorizer(super_users=self.super_users, allow_if_no_acl=self.allow_if_no_acl)


def authorizer_of(
    properties: Mapping[str, str], access: AccessSettings
) -> AuthorizerSettings | None:
    """None: every caller may do everything. KafkaError(INVALID_CONFIG) for settings that ask for
    more than there is."""
    required = [
        (name, properties.get(name, "").strip(), known)
        for name, known in ((CLASS, KAFKA), (CONFLUENT_CLASS, (CONFLUENT,)))
    ]
    for name, value, known in required:
        if value and value not in known:
            raise wrong(f"{name}: the authorizer is built in: {known[0]}")
    if not any(value for _, value, _ in required):
        for name in EXTENSIONS:
            if properties.get(name, "").strip():
                raise wrong(f"{name} is a Java class; {CLASS}={KAFKA[0]} is built in")
        return None
    if access.is_open:
        raise wrong(f"{CLASS} needs authenticated callers: set {METHOD} to BASIC or BEARER")
    return authorizer_settings(properties)


def authorizer_settings(properties: Mapping[str, str]) -> AuthorizerSettings:
    try:
        super_users = parse_super_users(properties.get(SUPER_USERS, ""))
    except ValueError as error:
        raise wrong(f"{SUPER_USERS}: {error}") from None
    allow = properties.get(OPEN_IF_NO_ACL, "false").strip().lower()
    if allow not in ("true", "false"):
        raise wrong(f"{OPEN_IF_NO_ACL} is true or false, not {allow}")
    return AuthorizerSettings(super_users, allow == "true", properties.get(TOPIC, "").strip())
