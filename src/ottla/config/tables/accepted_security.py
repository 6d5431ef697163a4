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
    ("authorizer.class.name", STRING, "", None, "The class that decides who may do what."),
    ("principal.builder.class", CLASS, None, None, "Makes a principal of a login.", EACH),
    ("security.providers", STRING, None, None, "Classes with security algorithms."),
    ("connections.max.reauth.ms", LONG, 0, None, "A login is repeated after so long."),
    ("delegation.token.secret.key", PASSWORD, None, None, "The key of delegation tokens."),
    ("delegation.token.max.lifetime.ms", LONG, 7 * DAY_MS, ONE, "A token's longest life."),
    ("delegation.token.expiry.time.ms", LONG, DAY_MS, ONE, "A token's life until renewed."),
    ("delegation.token.expiry.check.interval.ms", LONG, 3600000, ONE, "When they are swept."),
]

SSL: list[Row] = [
    ("ssl.client.auth", STRING, "none", AUTH, "Whether clients show a certificate.", EACH),
    ("ssl.principal.mapping.rules", STRING, "DEFAULT", None, "A certificate's name, made short."),
    ("ssl.allow.dn.changes", BOOLEAN, False, None, "Let a new certificate have another name."),
    ("ssl.allow.san.changes", BOOLEAN, False, None, "Let it have other alternative names."),
    ("ssl.protocol", STRING, "TLSv1.3", None, "The protocol preferred.", EACH),
    ("ssl.provider", STRING, None, None, "The provider of TLS.", EACH),
    ("ssl.enabled.protocols", LIST, TLS, ANY, "The protocols allowed.", EACH),
    ("ssl.keystore.type", STRING, "JKS", None, "The key store's format.", EACH),
    ("ssl.keystore.location", STRING, None, None, "The key store's file.", EACH),
    ("ssl.keystore.password", PASSWORD, None, None, "The key store's password.", EACH),
    ("ssl.key.password", PASSWORD, None, None, "The private key's password.", EACH),
    ("ssl.keystore.key", PASSWORD, None, None, "The private key itself, as PEM.", EACH),
    ("ssl.keystore.certificate.chain", PASSWORD, None, None, "Its certificates, as PEM.", EACH),
    ("ssl.truststore.type", STRING, "JKS", None, "The trust store's format.", EACH),
    ("ssl.truststore.location", STRING, None, None, "The trust store's file.", EACH),
    ("ssl.truststore.password", PASSWORD, None, None, "The trust store's password.", EACH),
    ("ssl.truststore.certificates", PASSWORD, None, None, "Trusted certificates, as PEM.", EACH),
    ("ssl.keymanager.algorithm", STRING, "SunX509", None, "Java's key manager.", EACH),
    ("ssl.trustmanager.algorithm", STRING, "PKIX", None, "Java's trust manager.", EACH),
    ("ssl.endpoint.identification.algorithm", STRING, "https", None, "Check names.", EACH),
    ("ssl.secure.random.implementation", STRING, None, None, "Java's random source.", EACH),
    ("ssl.cipher.suites", LIST, (), ANY, "The cipher suites allowed.", EACH),
    ("ssl.engine.factory.class", CLASS, None, None, "A class that makes TLS engines.", EACH),
]

SASL: list[Row] = [
    ("sasl.enabled.mechanisms", LIST, ("GSSAPI",), ANY, "The mechanisms offered.", EACH),
    ("sasl.mechanism.inter.broker.protocol", STRING, "GSSAPI", None, "Between brokers.", EACH),
    ("sasl.jaas.config", PASSWORD, None, None, "Logins, in JAAS's notation.", EACH),
    ("sasl.server.callback.handler.class", CLASS, None, None, "A class that checks logins."),
    ("sasl.client.callback.handler.class", CLASS, None, None, "A class that gives logins."),
    ("sasl.login.class", CLASS, None, None, "A class that logs in."),
    ("sasl.login.callback.handler.class", CLASS, None, None, "A class that helps it."),
    ("sasl.server.max.receive.size", INT, 524288, None, "Bytes read before a login is done."),
    ("sasl.kerberos.service.name", STRING, None, None, "Kerberos: our name.", EACH),
    ("sasl.kerberos.kinit.cmd", STRING, "/usr/bin/kinit", None, "Kerberos: kinit.", EACH),
    ("sasl.kerberos.ticket.renew.window.factor", DOUBLE, 0.8, None, "Kerberos: renewal.", EACH),
    ("sasl.kerberos.ticket.renew.jitter", DOUBLE, 0.05, None, "Kerberos: its spread.", EACH),
    ("sasl.kerberos.min.time.before.relogin", LONG, 60000, None, "Kerberos: pause.", EACH),
    ("sasl.kerberos.principal.to.local.rules", LIST, ("DEFAULT",), ANY, "Kerberos names.", EACH),
    ("sasl.login.refresh.window.factor", DOUBLE, 0.8, None, "When a login is renewed.", EACH),
    ("sasl.login.refresh.window.jitter", DOUBLE, 0.05, None, "The spread of that.", EACH),
    ("sasl.login.refresh.min.period.seconds", SHORT, 60, None, "Not more often.", EACH),
    ("sasl.login.refresh.buffer.seconds", SHORT, 300, None, "Time left before its end.", EACH),
    ("sasl.login.connect.timeout.ms", INT, None, None, "Wait to reach the provider."),
    ("sasl.login.read.timeout.ms", INT, None, None, "Wait for the provider's answer."),
    ("sasl.login.retry.backoff.ms", LONG, 100, None, "Pause before trying again."),
    ("sasl.login.retry.backoff.max.ms", LONG, 10000, None, "The longest such pause."),
]

OAUTH: list[Row] = [
    ("sasl.oauthbearer.jwt.retriever.class", CLASS, None, None, "A class that gets tokens."),
    ("sasl.oauthbearer.jwt.validator.class", CLASS, None, None, "A class that checks tokens."),
    ("sasl.oauthbearer.scope", STRING, None, None, "The scope asked for."),
    ("sasl.oauthbearer.client.credentials.client.id", STRING, None, None, "Our client id."),
    ("sasl.oauthbearer.client.credentials.client.secret", PASSWORD, None, None, "Its secret."),
    (
        "sasl.oauthbearer.assertion.algorithm",
        STRING,
        "RS256",
        one_of("ES256", "RS256"),
        "How assertions are signed.",
    ),
    ("sasl.oauthbearer.assertion.claim.aud", STRING, None, None, "An assertion's audience."),
    (
        "sasl.oauthbearer.assertion.claim.exp.seconds",
        INT,
        300,
        between(0, 86400),
        "An assertion's life.",
    ),
    ("sasl.oauthbearer.assertion.claim.iss", STRING, None, None, "An assertion's issuer."),
    ("sasl.oauthbearer.assertion.claim.jti.include", BOOLEAN, False, None, "Give it an id."),
    (
        "sasl.oauthbearer.assertion.claim.nbf.seconds",
        INT,
        60,
        between(0, 3600),
        "How far back an assertion is valid.",
    ),
    ("sasl.oauthbearer.assertion.claim.sub", STRING, None, None, "An assertion's subject."),
    ("sasl.oauthbearer.assertion.file", STRING, None, None, "A file with an assertion."),
    ("sasl.oauthbearer.assertion.private.key.file", STRING, None, None, "The key to sign with."),
    ("sasl.oauthbearer.assertion.private.key.passphrase", PASSWORD, None, None, "Its password."),
    ("sasl.oauthbearer.assertion.template.file", STRING, None, None, "A pattern for assertions."),
    ("sasl.oauthbearer.scope.claim.name", STRING, "scope", None, "The scope claim's name."),
    ("sasl.oauthbearer.sub.claim.name", STRING, "sub", None, "The subject claim's name."),
    ("sasl.oauthbearer.token.endpoint.url", STRING, None, None, "Where tokens are got."),
    ("sasl.oauthbearer.jwks.endpoint.url", STRING, None, None, "Where their keys are got."),
    ("sasl.oauthbearer.jwks.endpoint.refresh.ms", LONG, 3600000, None, "How often."),
    ("sasl.oauthbearer.jwks.endpoint.retry.backoff.ms", LONG, 100, None, "Pause on failure."),
    ("sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms", LONG, 10000, None, "The longest."),
    ("sasl.oauthbearer.clock.skew.seconds", INT, 30, None, "How far clocks may differ."),
    ("sasl.oauthbearer.expected.audience", LIST, (), ANY, "Audiences accepted."),
    ("sasl.oauthbearer.allow.unverified.audience", BOOLEAN, False, None, "Accept any audience."),
    ("sasl.oauthbearer.expected.issuer", STRING, None, None, "The issuer accepted."),
    ("sasl.oauthbearer.allow.unverified.issuer", BOOLEAN, False, None, "Accept any issuer."),
]

SECURITY = ACCESS + SSL + SASL + OAUTH
