"""Broker properties: the ZooKeeper ensemble that makes a broker one of several."""

from __future__ import annotations

from typing import Final

from ottla.config.definition import BOOLEAN, INT, PASSWORD, STRING, Definition, at_least, one_of

D = Definition

# What a broker that is one of several takes for granted: Kafka's own defaults. One that is alone
# could not give three replicas, and has one.
CLUSTER_DEFAULTS: Final[dict[str, int]] = {
    "offsets.topic.replication.factor": 3,
    "transaction.state.log.replication.factor": 3,
    "transaction.state.log.min.isr": 2,
    "share.coordinator.state.topic.replication.factor": 3,
    "share.coordinator.state.topic.min.isr": 2,
}

ZOOKEEPER = [
    D(
        "zookeeper.connect",
        STRING,
        None,
        None,
        "The ZooKeeper ensemble (host:port,... with an optional /chroot) that makes this broker one"
        " of several. Unset, it is alone and keeps its metadata in its first log directory.",
    ),
    D(
        "zookeeper.session.timeout.ms",
        INT,
        6000,
        at_least(1),
        "A broker that ZooKeeper has not heard of for so long is gone. Kafka's default is 18000.",
    ),
    D(
        "zookeeper.connection.timeout.ms",
        INT,
        None,
        None,
        "How long a starting broker waits for ZooKeeper; unset, zookeeper.session.timeout.ms.",
    ),
    D(
        "zookeeper.set.acl",
        BOOLEAN,
        False,
        None,
        "Let only brokers that ZooKeeper knows by SASL or TLS change what they write there.",
    ),
    D(
        "zookeeper.ssl.client.enable",
        BOOLEAN,
        False,
        None,
        "Speak TLS with ZooKeeper.",
    ),
    D(
        "zookeeper.ssl.keystore.location",
        STRING,
        None,
        None,
        "A PEM file with this broker's certificate and its private key, if ZooKeeper asks for one.",
    ),
    D(
        "zookeeper.ssl.keystore.password",
        PASSWORD,
        None,
        None,
        "What the private key is encrypted with.",
    ),
    D("zookeeper.ssl.keystore.type", STRING, "PEM", one_of("PEM"), "PEM, the only one there is."),
    D(
        "zookeeper.ssl.truststore.location",
        STRING,
        None,
        None,
        "A PEM file with the certificates that vouch for ZooKeeper's; unset, those of the system.",
    ),
    D("zookeeper.ssl.truststore.type", STRING, "PEM", one_of("PEM"), "PEM, the only one there is."),
    D(
        "zookeeper.ssl.endpoint.identification.algorithm",
        STRING,
        "HTTPS",
        one_of("HTTPS", ""),
        "HTTPS compares a server's name with its certificate; empty, nobody does.",
    ),
    D(
        "ottla.zookeeper.sasl.username",
        STRING,
        None,
        None,
        "Log in to ZooKeeper with DIGEST-MD5 as this user (Kafka takes it from a JAAS file).",
    ),
    D(
        "ottla.zookeeper.sasl.password",
        PASSWORD,
        None,
        None,
        "The password of ottla.zookeeper.sasl.username.",
    ),
]
