"""Broker properties of TLS, and of connections before they have authenticated."""

from __future__ import annotations

from ottla.config.definition import (
    BOOLEAN,
    INT,
    LIST,
    LONG,
    PASSWORD,
    PER_BROKER,
    STRING,
    ConfigDefinition,
    at_least,
    list_of,
    one_of,
)

D = ConfigDefinition

PROTOCOLS = ("TLSv1.2", "TLSv1.3")
SECURITY_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")

KEYSTORE = [
    D(
        "ssl.keystore.type",
        STRING,
        "JKS",
        None,
        "PEM, or PKCS12 with the extra [security]. PEM files need no type; JKS is refused with "
        "the command that converts it.",
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
        "The private key as PEM text (KIP-651), instead of a file.",
        PER_BROKER,
    ),
    D(
        "ssl.keystore.certificate.chain",
        PASSWORD,
        None,
        None,
        "The certificate chain as PEM text, the server's own first.",
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
        "A file with the certificates of trusted authorities; without one the system's are "
        "trusted.",
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
        "The certificates of trusted authorities as PEM text, instead of a file.",
        PER_BROKER,
    ),
]

HANDSHAKE = [
    D(
        "ssl.client.auth",
        STRING,
        "none",
        one_of("required", "requested", "none"),
        "Whether clients must, may or need not present a certificate. For SASL_SSL only "
        "listener.name.<name>.ssl.client.auth applies.",
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
        "The allowed cipher suites, by Java's names or OpenSSL's; empty for OpenSSL's default.",
        PER_BROKER,
    ),
    D(
        "ssl.endpoint.identification.algorithm",
        STRING,
        "https",
        one_of("https", ""),
        "https: a broker that connects to another one checks its host name against the "
        "certificate; empty: no check.",
        PER_BROKER,
    ),
    D(
        "ssl.allow.dn.changes",
        BOOLEAN,
        False,
        None,
        "Whether a certificate may be replaced by one with another subject (KIP-978).",
    ),
    D(
        "ssl.allow.san.changes",
        BOOLEAN,
        False,
        None,
        "Whether a certificate may be replaced by one that lacks an alternative name (KIP-978).",
    ),
    D(
        "ottla.ssl.files.check.interval.ms",
        LONG,
        10_000,
        at_least(10),
        "How often to look for changed keystore and truststore files; new connections use the "
        "changed ones.",
    ),
    D(
        "ottla.ssl.ktls.enable",
        BOOLEAN,
        False,
        None,
        "Let the kernel encrypt what is sent, if its module `tls` is loaded, so that fetches "
        "over TLS use sendfile as well.",
    ),
]

BETWEEN_BROKERS = [
    D(
        "security.inter.broker.protocol",
        STRING,
        "PLAINTEXT",
        one_of(*SECURITY_PROTOCOLS),
        "The security protocol between brokers, which is also the name of its listener; not "
        "together with inter.broker.listener.name.",
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
