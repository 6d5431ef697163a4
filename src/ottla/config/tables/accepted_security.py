"""Kafka's properties for TLS and SASL that Ottla ignores so far."""

from __future__ import annotations

from ottla.config.definition import (
    BOOLEAN,
    CLASS,
    DOUBLE,
    INT,
    LONG,
    PASSWORD,
    PER_BROKER,
    SHORT,
    STRING,
    between,
    one_of,
)
from ottla.config.tables.accepted_cluster import Row

EACH = PER_BROKER

ACCESS: list[Row] = [
    ("principal.builder.class", CLASS, None, None, EACH),
    ("security.providers", STRING, None, None),
]

SSL: list[Row] = [
    ("ssl.protocol", STRING, "TLSv1.3", None, EACH),
    ("ssl.provider", STRING, None, None, EACH),
    ("ssl.keymanager.algorithm", STRING, "SunX509", None, EACH),
    ("ssl.trustmanager.algorithm", STRING, "PKIX", None, EACH),
    ("ssl.secure.random.implementation", STRING, None, None, EACH),
    ("ssl.engine.factory.class", CLASS, None, None, EACH),
]

SASL: list[Row] = [
    ("sasl.server.callback.handler.class", CLASS, None, None),
    ("sasl.client.callback.handler.class", CLASS, None, None),
    ("sasl.login.class", CLASS, None, None),
    ("sasl.login.callback.handler.class", CLASS, None, None),
    ("sasl.kerberos.kinit.cmd", STRING, "/usr/bin/kinit", None, EACH),
    ("sasl.kerberos.ticket.renew.window.factor", DOUBLE, 0.8, None, EACH),
    ("sasl.kerberos.ticket.renew.jitter", DOUBLE, 0.05, None, EACH),
    ("sasl.kerberos.min.time.before.relogin", LONG, 60000, None, EACH),
    ("sasl.login.refresh.window.factor", DOUBLE, 0.8, None, EACH),
    ("sasl.login.refresh.window.jitter", DOUBLE, 0.05, None, EACH),
    ("sasl.login.refresh.min.period.seconds", SHORT, 60, None, EACH),
    ("sasl.login.refresh.buffer.seconds", SHORT, 300, None, EACH),
    ("sasl.login.connect.timeout.ms", INT, None, None),
    ("sasl.login.retry.backoff.ms", LONG, 100, None),
    ("sasl.login.retry.backoff.max.ms", LONG, 10000, None),
]

OAUTH: list[Row] = [
    ("sasl.oauthbearer.jwt.retriever.class", CLASS, None, None),
    ("sasl.oauthbearer.jwt.validator.class", CLASS, None, None),
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
    ("sasl.oauthbearer.allow.unverified.audience", BOOLEAN, False, None),
    ("sasl.oauthbearer.allow.unverified.issuer", BOOLEAN, False, None),
]

ACCEPTED_SECURITY = ACCESS + SSL + SASL + OAUTH
