"""Broker properties: TLS, and what a connection may do before it has authenticated."""

from __future__ import annotations

from ottla.config.definition import (
    BOOLEAN,
    INT,
    LIST,
    LONG,
    PASSWORD,
    PER_BROKER,
    STRING,
    Definition,
    at_least,
    list_of,
    one_of,
)

D = Definition

PROTOCOLS = ("TLSv1.2", "TLSv1.3")
SECURITY_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")

KEYSTORE = [
    D(
        "ssl.keystore.type",
        STRING,
        "JKS",
        None,
        "PEM, or PKCS12 with the extra [security]. A file that holds PEM needs no type here; JKS is"
        " refused with the command that converts it.",
        PER_BROKER,
    ),
    D(
        "ssl.keystore.location",
        STRING,
        None,
        None,
        "A file with the private key and the certificate chain.",
        PER_BROKER,
    ),
    D(
        "ssl.keystore.password",
        PASSWORD,
        None,
        None,
        "The password of a PKCS12 keystore; PEM files have none.",
        PER_BROKER,
    ),
    D("ssl.key.password", PASSWORD, None, None, "The password of the private key.", PER_BROKER),
    D(
        "ssl.keystore.key",
        PASSWORD,
        None,
        None,
        "The private key itself, as PEM (KIP-651), instead of a file.",
        PER_BROKER,
    ),
    D(
        "ssl.keystore.certificate.chain",
        PASSWORD,
        None,
        None,
        "The certificate chain itself, as PEM, the server's own first.",
        PER_BROKER,
    ),
]

TRUSTSTORE = [
    D("ssl.truststore.type", STRING, "JKS", None, "As ssl.keystore.type.", PER_BROKER),
    D(
        "ssl.truststore.location",
        STRING,
        None,
        None,
        "A file with the certificates of trusted authorities; without one the system's count.",
        PER_BROKER,
    ),
    D(
        "ssl.truststore.password",
        PASSWORD,
        None,
        None,
        "The password of a PKCS12 truststore.",
        PER_BROKER,
    ),
    D(
        "ssl.truststore.certificates",
        PASSWORD,
        None,
        None,
        "Certificates of trusted authorities, as PEM, instead of a file.",
        PER_BROKER,
    ),
]

HANDSHAKE = [
    D(
        "ssl.client.auth",
        STRING,
        "none",
        one_of("required", "requested", "none"),
        "Whether clients must, may or need not have a certificate. For SASL_SSL it counts only as"
        " listener.name.<name>.ssl.client.auth.",
        PER_BROKER,
    ),
    D(
        "ssl.principal.mapping.rules",
        STRING,
        "DEFAULT",
        None,
        "How the subject of a client's certificate becomes a user name; the first rule that"
        " matches counts.",
    ),
    D(
        "ssl.enabled.protocols",
        LIST,
        PROTOCOLS,
        list_of(*PROTOCOLS, empty=False),
        "TLSv1.2, TLSv1.3, or both.",
        PER_BROKER,
    ),
    D(
        "ssl.cipher.suites",
        LIST,
        (),
        list_of(),
        "The suites that may be used, by Java's names or by OpenSSL's; empty for all good ones.",
        PER_BROKER,
    ),
    D(
        "ssl.endpoint.identification.algorithm",
        STRING,
        "https",
        one_of("https", ""),
        "https: a broker that connects to another one checks its host name against the"
        " certificate; empty: it does not.",
        PER_BROKER,
    ),
    D(
        "ssl.allow.dn.changes",
        BOOLEAN,
        False,
        None,
        "Whether a certificate may be exchanged for one with another subject (KIP-978).",
    ),
    D(
        "ssl.allow.san.changes",
        BOOLEAN,
        False,
        None,
        "Whether a certificate may be exchanged for one that lacks an alternative name (KIP-978).",
    ),
    D(
        "ottla.ssl.files.check.interval.ms",
        LONG,
        10_000,
        at_least(10),
        "How often to look whether a keystore or truststore file has changed; a changed one is"
        " used for new connections.",
    ),
    D(
        "ottla.ssl.ktls.enable",
        BOOLEAN,
        False,
        None,
        "Let the kernel encrypt what is sent, where its module `tls` is loaded, so that sendfile"
        " serves fetches over TLS as well.",
    ),
]

BETWEEN_BROKERS = [
    D(
        "security.inter.broker.protocol",
        STRING,
        "PLAINTEXT",
        one_of(*SECURITY_PROTOCOLS),
        "The protocol between brokers, whose listener has the same name; not beside"
        " inter.broker.listener.name.",
    ),
    D(
        "sasl.mechanism.inter.broker.protocol",
        STRING,
        "GSSAPI",
        None,
        "The SASL mechanism by which brokers authenticate to each other.",
        PER_BROKER,
    ),
    D(
        "sasl.server.max.receive.size",
        INT,
        524288,
        at_least(1),
        "The largest request before a client has authenticated.",
    ),
]

TLS = KEYSTORE + TRUSTSTORE + HANDSHAKE + BETWEEN_BROKERS
