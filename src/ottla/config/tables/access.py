"""Broker properties: who is let in (SASL), what they may do (authorizer), delegation tokens."""

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
    Definition,
    Value,
    at_least,
    list_of,
    one_of,
)

D = Definition

AUTHORIZERS = (
    "kafka.security.authorizer.AclAuthorizer",
    "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
)


def authorizer(value: Value) -> str | None:
    """Both of Kafka's names mean the one that is here; empty is none."""
    if value in ("", *AUTHORIZERS):
        return None
    return f"the authorizer is built in: {AUTHORIZERS[1]} (or {AUTHORIZERS[0]})"


def super_users(value: Value) -> str | None:
    for part in filter(None, (each.strip() for each in str(value).split(";"))):
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
        "Either of Kafka's authorizers turns authorization on; empty: everybody may everything.",
    ),
    D(
        "super.users",
        STRING,
        "",
        super_users,
        "Principals that may do everything, as User:a;User:b. Brokers have to be among them, or"
        " to have CLUSTER_ACTION on the cluster.",
    ),
    D(
        "allow.everyone.if.no.acl.found",
        BOOLEAN,
        False,
        None,
        "Whether everybody may use a resource for which there is no ACL at all.",
    ),
    D(
        "ottla.authorizer.audit.format",
        STRING,
        "text",
        one_of("text", "json"),
        "How kafka.authorizer.logger writes decisions: in Kafka's sentence, or as lines of JSON.",
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
        "A login module: the users of PLAIN, the keytab of GSSAPI, and our own name for other"
        " brokers.",
        PER_BROKER,
    ),
    D(
        "connections.max.reauth.ms",
        LONG,
        0,
        None,
        "How long a client may go on before it has to authenticate again; 0 is without end.",
    ),
]

TLS_CLIENTS = [
    D(
        "ssl.principal.mapping.rules",
        STRING,
        "DEFAULT",
        None,
        "How the subject of a client's certificate becomes the name of a user.",
    ),
]

OAUTH = [
    D(
        "sasl.oauthbearer.jwks.endpoint.url",
        STRING,
        None,
        None,
        "Where the keys of the identity provider are: https://..., or file:///... on this machine."
        " OAUTHBEARER does not start without.",
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
        "How long to wait at first when the keys can't be fetched; each time twice as long.",
    ),
    D(
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms",
        LONG,
        10000,
        None,
        "How long to wait at most when the keys can't be fetched.",
    ),
    D(
        "sasl.oauthbearer.expected.audience",
        LIST,
        (),
        list_of(),
        "Tokens must be for one of these; not set: for anybody.",
    ),
    D(
        "sasl.oauthbearer.expected.issuer",
        STRING,
        None,
        None,
        "Tokens must be from this issuer; not set: from anybody whose key is known.",
    ),
    D(
        "sasl.oauthbearer.clock.skew.seconds",
        INT,
        30,
        at_least(0),
        "How far the provider's clock may be from ours.",
    ),
    D(
        "sasl.oauthbearer.sub.claim.name",
        STRING,
        "sub",
        None,
        "The claim that has the name of the user.",
    ),
    D(
        "sasl.oauthbearer.scope.claim.name",
        STRING,
        "scope",
        None,
        "The claim that has the scope.",
    ),
    D(
        "ottla.sasl.oauthbearer.unsecured",
        BOOLEAN,
        False,
        None,
        "Accept tokens that nobody has signed: for tests of clients only.",
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
        "Who this broker is to the token endpoint.",
    ),
    D(
        "sasl.oauthbearer.client.credentials.client.secret",
        PASSWORD,
        None,
        None,
        "This broker's secret for the token endpoint.",
    ),
    D(
        "sasl.oauthbearer.scope",
        STRING,
        None,
        None,
        "The scope that this broker asks the token endpoint for.",
    ),
    D(
        "sasl.login.read.timeout.ms",
        INT,
        None,
        None,
        "How long the token endpoint may take to answer; not set: 10 s.",
    ),
]

KERBEROS = [
    D(
        "sasl.kerberos.service.name",
        STRING,
        None,
        None,
        "The service's name in its Kerberos principal, which clients and brokers ask tickets for.",
        PER_BROKER,
    ),
    D(
        "sasl.kerberos.principal.to.local.rules",
        LIST,
        ("DEFAULT",),
        list_of(),
        "How a Kerberos principal becomes the name of a user.",
        PER_BROKER,
    ),
]

TOKENS = [
    D(
        "delegation.token.secret.key",
        PASSWORD,
        None,
        None,
        "The secret of delegation tokens, the same on all brokers; without it there are none.",
    ),
    D(
        "delegation.token.max.lifetime.ms",
        LONG,
        7 * DAY_MS,
        at_least(1),
        "How long a token lives at most, however often it is renewed.",
    ),
    D(
        "delegation.token.expiry.time.ms",
        LONG,
        DAY_MS,
        at_least(1),
        "How long a token is valid before it has to be renewed.",
    ),
    D(
        "delegation.token.expiry.check.interval.ms",
        LONG,
        3600000,
        at_least(1),
        "How often tokens that have expired are removed.",
    ),
]

ACCESS = [*AUTHORIZATION, *SASL, *TLS_CLIENTS, *OAUTH, *KERBEROS, *TOKENS]
