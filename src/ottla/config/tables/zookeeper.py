"""Broker properties: the ZooKeeper ensemble of a cluster."""

from __future__ import annotations

from typing import Final

from ottla.config.definition import (
    BOOLEAN,
    INT,
    PASSWORD,
    STRING,
    ConfigDefinition,
    at_least,
    one_of,
)

D = ConfigDefinition

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
        "The ZooKeeper ensemble (host:port,... with an optional /chroot) of this broker's "
        "cluster. If unset, the broker is alone and keeps its metadata in its first log "
        "directory.",
    ),
    D(
        "zookeeper.session.timeout.ms",
        INT,
        6000,
        at_least(1),
        "A broker that ZooKeeper has not heard of for this long is considered dead. Kafka's "
        "default is 18000.",
    ),
    D(
        "zookeeper.connection.timeout.ms",
        INT,
        None,
        None,
        "How long a starting broker waits for ZooKeeper; if unset, zookeeper.session.timeout.ms.",
    ),
    D(
        "zookeeper.set.acl",
        BOOLEAN,
        False,
        None,
        "Write ACLs in ZooKeeper, so that only brokers that authenticate to it can change its "
        "data.",
    ),
    D(
        "zookeeper.ssl.client.enable",
        BOOLEAN,
        False,
        None,
        "Use TLS for connections to ZooKeeper.",
    ),
    D(
        "zookeeper.ssl.keystore.location",
        STRING,
        None,
        None,
        "A PEM file with this broker's certificate and private key, if ZooKeeper requires one.",
    ),
    D(
        "zookeeper.ssl.keystore.password",
        PASSWORD,
        None,
        None,
        "The password of the private key.",
    ),
    D("zookeeper.ssl.keystore.type", STRING, "PEM", one_of("PEM"), "PEM is the only type."),
    D(
        "zookeeper.ssl.truststore.location",
        STRING,
        None,
        None,
        "A PEM file with the certificates that ZooKeeper's is verified by; if unset, the system's.",
    ),
    D("zookeeper.ssl.truststore.type", STRING, "PEM", one_of("PEM"), "PEM is the only type."),
    D(
        "zookeeper.ssl.endpoint.identification.algorithm",
        STRING,
        "HTTPS",
        one_of("HTTPS", ""),
        "HTTPS: check a server's host name against its certificate; empty: no check.",
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
