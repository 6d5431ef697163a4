"""Broker properties of SASL, the authorizer and delegation tokens."""

from __future__ import annotations

from ottla.config.definition import (
    BOOLEAN,
    DAY_MS,
    INT,
    LIST,
    LONG,
    PASSWORD,
    PER_BROKER,
    STRING,
    ConfigDefinition,
    Value,
    at_least,
    list_of,
    one_of,
)

D = ConfigDefinition

AUTHORIZERS = (
    "kafka.security.authorizer.AclAuthorizer",
    "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
)


def authorizer(value: Value) -> str | None:
    """Both of Kafka's authorizers mean Ottla's; empty means none."""
    if value in ("", *AUTHORIZERS):
        return None
    return f"the authorizer is built in: {AUTHORIZERS[1]} (or {AUTHORIZERS[0]})"


def super_users(value: Value) -> str | None:
    for part in filter(None, (name.strip() for name in str(value).split(";"))):
        kind, colon, name = part.partition(":")
        if not (kind and colon and name):
            return f"'{part}' is not of the form User:name"
    return None


AUTHORIZATION = [
    D(
        "authorizer.class.name",
        STRING,
        "",
        authorizer,
        "Either of Kafka's authorizers enables authorization; if empty, everybody may do "
        "everything.",
    ),
    D(
        "super.users",
        STRING,
        "",
        super_users,
        "Principals that may do everything, as User:a;User:b. Brokers must be among them, or "
        "have CLUSTER_ACTION on the cluster.",
    ),
    D(
        "allow.everyone.if.no.acl.found",
        BOOLEAN,
        False,
        None,
        "Whether everybody may use a resource that has no ACL.",
    ),
    D(
        "ottla.authorizer.audit.format",
        STRING,
        "text",
        one_of("text", "json"),
        "How kafka.authorizer.logger writes decisions: as text in Kafka's format, or as JSON.",
    ),
]

SASL = [
    D(
        "sasl.enabled.mechanisms",
        LIST,
        ("GSSAPI",),
        list_of(),
        "The mechanisms of SASL listeners: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER,"
        " GSSAPI.",
        PER_BROKER,
    ),
    D(
        "sasl.jaas.config",
        PASSWORD,
        None,
        None,
        "A login module: PLAIN's users, GSSAPI's keytab, and the broker's own login to other "
        "brokers.",
        PER_BROKER,
    ),
    D(
        "connections.max.reauth.ms",
        LONG,
        0,
        None,
        "How long a session lasts before the client must re-authenticate; 0 means no limit.",
    ),
]

TLS_CLIENTS = [
    D(
        "ssl.principal.mapping.rules",
        STRING,
        "DEFAULT",
        None,
        "How the subject of a client's certificate becomes a user name.",
    ),
]

OAUTH = [
    D(
        "sasl.oauthbearer.jwks.endpoint.url",
        STRING,
        None,
        None,
        "Where the identity provider's keys are: https://..., or file:///... on this machine. "
        "OAUTHBEARER requires it.",
    ),
    D(
        "sasl.oauthbearer.jwks.endpoint.refresh.ms",
        LONG,
        3600000,
        None,
        "How often the keys are fetched again.",
    ),
    D(
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms",
        LONG,
        100,
        None,
        "How long to wait after a failed fetch of the keys, at first; doubled each time.",
    ),
    D(
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms",
        LONG,
        10000,
        None,
        "How long to wait at most after a failed fetch of the keys.",
    ),
    D(
        "sasl.oauthbearer.expected.audience",
        LIST,
        (),
        list_of(),
        "Tokens must be for one of these audiences; if unset, for any.",
    ),
    D(
        "sasl.oauthbearer.expected.issuer",
        STRING,
        None,
        None,
        "Tokens must be from this issuer; if unset, from any whose key is known.",
    ),
    D(
        "sasl.oauthbearer.clock.skew.seconds",
        INT,
        30,
        at_least(0),
        "How far the provider's clock may differ from the broker's.",
    ),
    D(
        "sasl.oauthbearer.sub.claim.name",
        STRING,
        "sub",
        None,
        "The claim with the user's name.",
    ),
    D(
        "sasl.oauthbearer.scope.claim.name",
        STRING,
        "scope",
        None,
        "The claim with the scope.",
    ),
    D(
        "ottla.sasl.oauthbearer.unsecured",
        BOOLEAN,
        False,
        None,
        "Accept unsigned tokens: for tests of clients only.",
    ),
    D(
        "sasl.oauthbearer.token.endpoint.url",
        STRING,
        None,
        None,
        "Where this broker's own token for other brokers comes from: https://... for client"
        " credentials, or file:///... on this machine.",
    ),
    D(
        "sasl.oauthbearer.client.credentials.client.id",
        STRING,
        None,
        None,
        "This broker's client id at the token endpoint.",
    ),
    D(
        "sasl.oauthbearer.client.credentials.client.secret",
        PASSWORD,
        None,
        None,
        "This broker's client secret at the token endpoint.",
    ),
    D(
        "sasl.oauthbearer.scope",
        STRING,
        None,
        None,
        "The scope that this broker requests from the token endpoint.",
    ),
    D(
        "sasl.login.read.timeout.ms",
        INT,
        None,
        None,
        "How long the token endpoint may take to answer; 10 s if unset.",
    ),
]

KERBEROS = [
    D(
        "sasl.kerberos.service.name",
        STRING,
        None,
        None,
        "The service's name in its Kerberos principal, for which clients and brokers request "
        "tickets.",
        PER_BROKER,
    ),
    D(
        "sasl.kerberos.principal.to.local.rules",
        LIST,
        ("DEFAULT",),
        list_of(),
        "How a Kerberos principal becomes a user name.",
        PER_BROKER,
    ),
]

TOKENS = [
    D(
        "delegation.token.secret.key",
        PASSWORD,
        None,
        None,
        "The secret of delegation tokens, the same on all brokers; without it there are no tokens.",
    ),
    D(
        "delegation.token.max.lifetime.ms",
        LONG,
        7 * DAY_MS,
        at_least(1),
        "How long a token can live, however often it is renewed.",
    ),
    D(
        "delegation.token.expiry.time.ms",
        LONG,
        DAY_MS,
        at_least(1),
        "How long a token is valid before it must be renewed.",
    ),
    D(
        "delegation.token.expiry.check.interval.ms",
        LONG,
        3600000,
        at_least(1),
        "How often expired tokens are removed.",
    ),
]

ACCESS = [*AUTHORIZATION, *SASL, *TLS_CLIENTS, *OAUTH, *KERBEROS, *TOKENS]
