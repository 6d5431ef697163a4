"""Kafka's properties for TLS, SASL and authorization, which Ottla only accepts so far."""

from __future__ import annotations

from ottla.config.definition import (
    BOOLEAN,
    CLASS,
    DAY_MS,
    DOUBLE,
    INT,
    LIST,
    LONG,
    PASSWORD,
    PER_BROKER,
    SHORT,
    STRING,
    between,
    list_of,
    one_of,
)
from ottla.config.tables.accepted_cluster import ONE, Row

EACH = PER_BROKER
ANY = list_of()
AUTH = one_of("required", "requested", "none")
TLS = ("TLSv1.2", "TLSv1.3")

ACCESS: list[Row] = [
    ("authorizer.class.name", STRING, "", None),
    ("principal.builder.class", CLASS, None, None, EACH),
    ("security.providers", STRING, None, None),
    ("connections.max.reauth.ms", LONG, 0, None),
    ("delegation.token.secret.key", PASSWORD, None, None),
    ("delegation.token.max.lifetime.ms", LONG, 7 * DAY_MS, ONE),
    ("delegation.token.expiry.time.ms", LONG, DAY_MS, ONE),
    ("delegation.token.expiry.check.interval.ms", LONG, 3600000, ONE),
]

SSL: list[Row] = [
    ("ssl.client.auth", STRING, "none", AUTH, EACH),
    ("ssl.principal.mapping.rules", STRING, "DEFAULT", None),
    ("ssl.allow.dn.changes", BOOLEAN, False, None),
    ("ssl.allow.san.changes", BOOLEAN, False, None),
    ("ssl.protocol", STRING, "TLSv1.3", None, EACH),
    ("ssl.provider", STRING, None, None, EACH),
    ("ssl.enabled.protocols", LIST, TLS, ANY, EACH),
    ("ssl.keystore.type", STRING, "JKS", None, EACH),
    ("ssl.keystore.location", STRING, None, None, EACH),
    ("ssl.keystore.password", PASSWORD, None, None, EACH),
    ("ssl.key.password", PASSWORD, None, None, EACH),
    ("ssl.keystore.key", PASSWORD, None, None, EACH),
    ("ssl.keystore.certificate.chain", PASSWORD, None, None, EACH),
    ("ssl.truststore.type", STRING, "JKS", None, EACH),
    ("ssl.truststore.location", STRING, None, None, EACH),
    ("ssl.truststore.password", PASSWORD, None, None, EACH),
    ("ssl.truststore.certificates", PASSWORD, None, None, EACH),
    ("ssl.keymanager.algorithm", STRING, "SunX509", None, EACH),
    ("ssl.trustmanager.algorithm", STRING, "PKIX", None, EACH),
    ("ssl.endpoint.identification.algorithm", STRING, "https", None, EACH),
    ("ssl.secure.random.implementation", STRING, None, None, EACH),
    ("ssl.cipher.suites", LIST, (), ANY, EACH),
    ("ssl.engine.factory.class", CLASS, None, None, EACH),
]

SASL: list[Row] = [
    ("sasl.enabled.mechanisms", LIST, ("GSSAPI",), ANY, EACH),
    ("sasl.mechanism.inter.broker.protocol", STRING, "GSSAPI", None, EACH),
    ("sasl.jaas.config", PASSWORD, None, None, EACH),
    ("sasl.server.callback.handler.class", CLASS, None, None),
    ("sasl.client.callback.handler.class", CLASS, None, None),
    ("sasl.login.class", CLASS, None, None),
    ("sasl.login.callback.handler.class", CLASS, None, None),
    ("sasl.server.max.receive.size", INT, 524288, None),
    ("sasl.kerberos.service.name", STRING, None, None, EACH),
    ("sasl.kerberos.kinit.cmd", STRING, "/usr/bin/kinit", None, EACH),
    ("sasl.kerberos.ticket.renew.window.factor", DOUBLE, 0.8, None, EACH),
    ("sasl.kerberos.ticket.renew.jitter", DOUBLE, 0.05, None, EACH),
    ("sasl.kerberos.min.time.before.relogin", LONG, 60000, None, EACH),
    ("sasl.kerberos.principal.to.local.rules", LIST, ("DEFAULT",), ANY, EACH),
    ("sasl.login.refresh.window.factor", DOUBLE, 0.8, None, EACH),
    ("sasl.login.refresh.window.jitter", DOUBLE, 0.05, None, EACH),
    ("sasl.login.refresh.min.period.seconds", SHORT, 60, None, EACH),
    ("sasl.login.refresh.buffer.seconds", SHORT, 300, None, EACH),
    ("sasl.login.connect.timeout.ms", INT, None, None),
    ("sasl.login.read.timeout.ms", INT, None, None),
    ("sasl.login.retry.backoff.ms", LONG, 100, None),
    ("sasl.login.retry.backoff.max.ms", LONG, 10000, None),
]

OAUTH: list[Row] = [
    ("sasl.oauthbearer.jwt.retriever.class", CLASS, None, None),
    ("sasl.oauthbearer.jwt.validator.class", CLASS, None, None),
    ("sasl.oauthbearer.scope", STRING, None, None),
    ("sasl.oauthbearer.client.credentials.client.id", STRING, None, None),
    ("sasl.oauthbearer.client.credentials.client.secret", PASSWORD, None, None),
    (
        "sasl.oauthbearer.assertion.algorithm",
        STRING,
        "RS256",
        one_of("ES256", "RS256"),
    ),
    ("sasl.oauthbearer.assertion.claim.aud", STRING, None, None),
    (
        "sasl.oauthbearer.assertion.claim.exp.seconds",
        INT,
        300,
        between(0, 86400),
    ),
    ("sasl.oauthbearer.assertion.claim.iss", STRING, None, None),
    ("sasl.oauthbearer.assertion.claim.jti.include", BOOLEAN, False, None),
    (
        "sasl.oauthbearer.assertion.claim.nbf.seconds",
        INT,
        60,
        between(0, 3600),
    ),
    ("sasl.oauthbearer.assertion.claim.sub", STRING, None, None),
    ("sasl.oauthbearer.assertion.file", STRING, None, None),
    ("sasl.oauthbearer.assertion.private.key.file", STRING, None, None),
    ("sasl.oauthbearer.assertion.private.key.passphrase", PASSWORD, None, None),
    ("sasl.oauthbearer.assertion.template.file", STRING, None, None),
    ("sasl.oauthbearer.scope.claim.name", STRING, "scope", None),
    ("sasl.oauthbearer.sub.claim.name", STRING, "sub", None),
    ("sasl.oauthbearer.token.endpoint.url", STRING, None, None),
    ("sasl.oauthbearer.jwks.endpoint.url", STRING, None, None),
    ("sasl.oauthbearer.jwks.endpoint.refresh.ms", LONG, 3600000, None),
    ("sasl.oauthbearer.jwks.endpoint.retry.backoff.ms", LONG, 100, None),
    ("sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms", LONG, 10000, None),
    ("sasl.oauthbearer.clock.skew.seconds", INT, 30, None),
    ("sasl.oauthbearer.expected.audience", LIST, (), ANY),
    ("sasl.oauthbearer.allow.unverified.audience", BOOLEAN, False, None),
    ("sasl.oauthbearer.expected.issuer", STRING, None, None),
    ("sasl.oauthbearer.allow.unverified.issuer", BOOLEAN, False, None),
]

SECURITY = ACCESS + SSL + SASL + OAUTH
