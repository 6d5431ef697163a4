"""The suites, as data: where each comes from, what it assumes, how it is run, what is known of it.

A failure that is not listed here makes the exit code of a run 1. A reason says why the broker is
not at fault, or what is not built.
"""

from __future__ import annotations

from suites import (
    go_steps,
    ksql_suites,
    ksqldb_suite,
    librdkafka_steps,
    node_steps,
    python_steps,
    registry_steps,
    registry_suites,
)
from suites.registry_server import RegistryNeed
from suites.security import (
    OAUTHBEARER,
    ORDINARY,
    PLAIN,
    SASL_PLAINTEXT,
    SASL_SSL,
    SCRAM,
    SSL,
    SuiteSecurity,
)
from suites.sources import GoModule, Librdkafka, NodeCheckout, PyPISource, PythonCheckout
from suites.suite import HOUR_S, KnownFailure, Suite

MINUTE_S = 60
IN_SECURITY = "runs in `librdkafka, security`"
STARTS_BROKERS = "starts a broker with the keys it has made; tests/compat has the like of it"
GSSAPI = "Kerberos: tests/compat has a KDC of its own"
# For tests of ACLs. Resources without ACLs are open to everybody, also to brokers.
AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}
REMOVED_CONFIGS = "topic configs that Kafka 4.0 has removed"
KAFKAJS_NO_REBALANCE = (
    "the test joins with a rebalance timeout of 0, so that its member is gone before it syncs;"
    " Apache Kafka 4.3.1 answers the same"
)
KAFKA_GO_PANIC = (
    "the test calls a function that it has not set (getOffsets), and the panic ends all others"
)

LIBRDKAFKA_SETTINGS = {
    **AUTHORIZER,
    "auto.create.topics.enable": "true",
    "num.partitions": "4",
    "default.replication.factor": "3",
    "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
    "group.share.min.record.lock.duration.ms": "1000",
    # Kafka's default: 0118 wants two consumers that subscribe at once in the first generation.
    "group.initial.rebalance.delay.ms": "3000",
}
LIBRDKAFKA_LEFT_OUT = {
    "0097 0124 0126 0133 0134 0135 0136 0142": IN_SECURITY,
    "0066": "loads a plugin that is not compiled in",
    "0038 0055 0079 8000 8001": "measurements, fork, manual",
    "0131": "measures the time of a connection attempt to nobody",
}

LIBRDKAFKA_KNOWN = (
    KnownFailure("0098_|0101_|0103_", "creates topics with three replicas", frozenset({1})),
    KnownFailure(
        "do_test_DescribeConsumerGroups/0081_admin",
        "its static members have sessions of 6 s, which their last commit prolongs, and it deletes"
        " their groups 6 s after that: the last of them is empty by then, or in a millisecond",
        sometimes=True,
    ),
)

LIBRDKAFKA = Suite(
    name="librdkafka",
    source=Librdkafka(),
    steps=librdkafka_steps.classic,
    settings=LIBRDKAFKA_SETTINGS,
    racks=True,
    left_out=LIBRDKAFKA_LEFT_OUT,
    known=LIBRDKAFKA_KNOWN,
    limit_s=HOUR_S,
)

LIBRDKAFKA_CONSUMER = Suite(
    name="librdkafka, consumer protocol",
    source=Librdkafka(),
    steps=librdkafka_steps.consumer_protocol,
    settings=LIBRDKAFKA_SETTINGS,
    racks=True,
    left_out=LIBRDKAFKA_LEFT_OUT,
    known=(
        *LIBRDKAFKA_KNOWN,
        KnownFailure(
            "0118_commit_rebalance$",
            "two members subscribe at once, and it takes the second for the one that closes when"
            " it has to give up partitions; if that one came first, it still is a member; on Apache"
            " Kafka 4.3.1 alike",
            sometimes=True,
        ),
    ),
    limit_s=HOUR_S,
)

LIBRDKAFKA_SECURITY = Suite(
    name="librdkafka, security",
    source=Librdkafka(),
    steps=librdkafka_steps.security,
    brokers=(3,),  # 0126 and 0142 create topics with three replicas
    # As in librdkafka's own harness: 0142 wants sessions with an end, 0097 a handshake that fails
    # while the client still shakes hands, which one of TLS 1.3 does not.
    settings={
        **LIBRDKAFKA_SETTINGS,
        "connections.max.reauth.ms": "10000",
        "ssl.enabled.protocols": "TLSv1.2",
    },
    racks=True,
    secured=SuiteSecurity((SSL, SASL_SSL), mechanisms=(PLAIN, *SCRAM, OAUTHBEARER)),
    known=(
        KnownFailure(
            "SSL/0097_ssl_verify$",
            "expects the alert that Java sends for a certificate of an unknown authority"
            " (bad_certificate); OpenSSL sends the one that TLS has for it, unknown_ca",
        ),
        KnownFailure(
            "(PLAIN|SCRAM-SHA-...)/0097_ssl_verify$",
            "the client reports a failed check of its own as a lost connection if the socket can be"
            " written to just then; on Apache Kafka 4.3.1 alike",
            sometimes=True,
        ),
        KnownFailure(
            "OAUTHBEARER/0142_reauthentication$",
            "on a busy machine the token has less than a second left when the client authenticates"
            " again, and the next time comes within a second, which Kafka refuses as well",
            sometimes=True,
        ),
    ),
    limit_s=HOUR_S,
)

LIBRDKAFKA_OIDC = Suite(
    name="librdkafka, OIDC",
    source=Librdkafka(),
    steps=librdkafka_steps.security,
    brokers=LIBRDKAFKA_SECURITY.brokers,
    settings=LIBRDKAFKA_SECURITY.settings,
    racks=True,
    secured=SuiteSecurity((SASL_SSL,), mechanisms=(OAUTHBEARER,), provider=True),
    limit_s=HOUR_S,
)

LIBRDKAFKA_SASL_SSL = Suite(
    name="librdkafka, SASL_SSL",
    source=Librdkafka(),
    steps=librdkafka_steps.over_sasl_ssl,
    settings=LIBRDKAFKA_SETTINGS,
    racks=True,
    secured=SuiteSecurity((SASL_SSL,), scram_users=((ORDINARY[0], SCRAM[1], ORDINARY[1]),)),
    left_out=LIBRDKAFKA_LEFT_OUT,
    known=LIBRDKAFKA_KNOWN,
    limit_s=2 * HOUR_S,
)

FRANZ_GO = Suite(
    name="franz-go",
    source=GoModule("github.com/twmb/franz-go", "v1.22.2", packages=("./pkg/kgo",)),
    steps=go_steps.franz_go,
    secured=SuiteSecurity((SASL_PLAINTEXT,)),
    limit_s=40 * MINUTE_S,
)

FRANZ_GO_SSL = Suite(
    name="franz-go, SSL",
    source=FRANZ_GO.source,
    steps=go_steps.franz_go_over_tls,
    secured=SuiteSecurity((SSL, SASL_PLAINTEXT)),
    left_out={
        "TestIssue769": "brings a dialer of its own, which the client refuses beside TLS, and the"
        " panic ends all others",
    },
    limit_s=40 * MINUTE_S,
)

SARAMA = Suite(
    name="sarama",
    source=GoModule(
        "github.com/IBM/sarama",
        "v1.61.1",
        tags="functional",
        programs=("github.com/Shopify/toxiproxy/v2/cmd/server@v2.5.0",),
    ),
    steps=go_steps.sarama,
    settings={
        "auto.create.topics.enable": "false",
        "default.replication.factor": "2",
        "offsets.topic.replication.factor": "2",
        "transaction.state.log.replication.factor": "2",
        "transaction.state.log.min.isr": "1",
        "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
    },
    brokers=(5,),
    ports=(29091, 29092, 29093, 29094, 29095),
    racks=True,
    proxied=True,
    limit_s=40 * MINUTE_S,
)

KAFKA_GO = Suite(
    name="kafka-go",
    source=GoModule(
        "github.com/segmentio/kafka-go", "v0.4.51", packages=(".", "./topics", "./sasl")
    ),
    steps=go_steps.kafka_go,
    # Its tests write to whichever broker port 9092 is, and expect that its id is 1.
    brokers=(1,),
    settings={
        **AUTHORIZER,
        "auto.create.topics.enable": "true",
        "message.max.bytes": "200000000",
    },
    ports=(9092,),
    host="localhost",
    left_out={
        "TestReaderConsumerGroup/verify_offset_committed": KAFKA_GO_PANIC,
        "TestReaderConsumerGroup/consumer_group_commits_on_close": KAFKA_GO_PANIC,
    },
    secured=SuiteSecurity(
        (SASL_PLAINTEXT,),
        users={"adminplain": "admin-secret"},
        scram_users=(
            ("adminscram", "SCRAM-SHA-256", "admin-secret-256"),
            ("adminscram", "SCRAM-SHA-512", "admin-secret-512"),
        ),
        ports={SASL_PLAINTEXT: (9093,)},
    ),
    known=(
        KnownFailure(
            "TestReaderReadCompactedMessage", "segments of 200 bytes, which Kafka 4.0 refuses"
        ),
        KnownFailure(
            "TestConn/test_delete_topics",
            "asks for the metadata of a deleted topic, which creates it again; Kafka answers"
            " before the new topic has partitions, Ottla after",
            sometimes=True,
        ),
        KnownFailure(
            "TestReaderConsumerGroup/consumer_group_rebalance$",
            "expects as many records of two readers that have one partition and two; Apache Kafka"
            " 4.3.1 fails it alike",
            sometimes=True,
        ),
    ),
    limit_s=30 * MINUTE_S,
)

KAFKA_PYTHON = Suite(
    name="kafka-python",
    source=PyPISource(
        "kafka-python",
        "3.0.12",
        requirements=("pytest", "pytest-timeout", "lz4", "python-snappy", "zstandard", "crc32c"),
        adopt=python_steps.adopt_kafka_python,
    ),
    steps=python_steps.kafka_python,
    settings={
        **AUTHORIZER,
        "auto.create.topics.enable": "true",
        "num.partitions": "4",
        "group.min.session.timeout.ms": "1000",
    },
    first_id=0,
    left_out={
        "test_describe_metadata_quorum": "KRaft's quorum: there is none here",
        "TestSSLConnection": STARTS_BROKERS,
        "test_sasl_integration": STARTS_BROKERS,
    },
    known=(
        KnownFailure(
            "test_delete_records$",
            "expects the records of three brokers in one poll",
            frozenset({3}),
            sometimes=True,
        ),
        KnownFailure(
            "test_alter_replica_log_dirs$",
            "asks broker 0, which does not always have the replica",
            frozenset({3}),
            sometimes=True,
        ),
    ),
    limit_s=40 * MINUTE_S,
)

AIOKAFKA = Suite(
    name="aiokafka",
    source=PythonCheckout(
        "aiokafka",
        "aiokafka",
        version_in="aiokafka/__init__.py",
        copied=("tests", "pyproject.toml"),
        requirements=(
            "pytest==9.0.2", "pytest-timeout", "pytest-asyncio==1.3.0", "pytest-mock", "docker>=7",
            "async-timeout", "cramjam",
        ),
    ),
    steps=python_steps.aiokafka,
    settings={**AUTHORIZER, "auto.create.topics.enable": "true", "num.partitions": "2"},
    secured=SuiteSecurity(
        (SSL, SASL_PLAINTEXT, SASL_SSL), users={"test": "test", "test2": "test2"}
    ),
    first_id=0,
    left_out={"gssapi": GSSAPI},
    known=(
        KnownFailure(
            "test_coordinator__heartbeat_routine",
            "counts the calls of a mock within hundredths of a second, which a busy machine misses",
            sometimes=True,
        ),
        KnownFailure(
            r"TestAdmin::test_(describe_cluster|describe_configs_broker|metadata)$",
            "expects exactly one broker",
            brokers=frozenset({3}),
        ),
        KnownFailure(
            r"TestKafkaClientIntegration::test_(bootstrap|no_concurrent_send_on_connection"
            r"|concurrent_send_on_different_connection_groups|set_topics_trigger_metadata_update)$",
            "asks any broker for a topic that was created a moment ago, and expects its leader",
            brokers=frozenset({3}),
            sometimes=True,
        ),
    ),
    limit_s=HOUR_S,
)  # fmt: skip

CONFLUENT_SOURCE = PythonCheckout(
    "confluent-kafka-python",
    "confluent-kafka[avro,json,protobuf,rules,schemaregistry]",
    version_in="pyproject.toml",
    copied=("tests", "pyproject.toml"),
    requirements=(
        "pytest", "pytest-timeout", "pytest-asyncio", "requests-mock", "respx", "async-timeout",
        "trivup",
    ),
)  # fmt: skip
CONFLUENT_SETTINGS = {
    **AUTHORIZER,
    "auto.create.topics.enable": "true",
    "group.share.record.lock.duration.ms": "1000",
    "group.share.min.record.lock.duration.ms": "1000",
    "listener.name.sasl_plaintext.oauthbearer.connections.max.reauth.ms": "5000",
}
CONFLUENT_LEFT_OUT = {
    "schema_registry": "runs in `confluent-kafka-python, registry`",
}
CONFLUENT_SECURED = SuiteSecurity(
    (SASL_PLAINTEXT,), mechanisms=(PLAIN, *SCRAM, OAUTHBEARER), users={"sasl_user": "sasl_user"}
)
CONFLUENT_KNOWN = (
    KnownFailure(
        "test_incremental_alter_configs",
        "the source of a topic's min.insync.replicas is DEFAULT_CONFIG here, and that of a dynamic"
        " default of brokers in Kafka",
    ),
    KnownFailure(
        "test_partition_max_record_locks_caps_in_flight",
        "whole batches are acquired, beyond the cap; Apache Kafka 4.3.1 fails it alike",
    ),
    KnownFailure(
        "test_sync_commit_releases_gil",
        "counts what another thread does during a commit, which is over too soon",
        sometimes=True,
    ),
)

CONFLUENT = Suite(
    name="confluent-kafka-python",
    source=CONFLUENT_SOURCE,
    steps=python_steps.confluent,
    settings=CONFLUENT_SETTINGS,
    secured=CONFLUENT_SECURED,
    left_out=CONFLUENT_LEFT_OUT,
    known=CONFLUENT_KNOWN,
    limit_s=40 * MINUTE_S,
)

CONFLUENT_CONSUMER = Suite(
    name="confluent-kafka-python, consumer protocol",
    source=CONFLUENT_SOURCE,
    steps=python_steps.confluent_consumer_protocol,
    settings=CONFLUENT_SETTINGS,
    secured=CONFLUENT_SECURED,
    left_out=CONFLUENT_LEFT_OUT,
    known=CONFLUENT_KNOWN,
    limit_s=40 * MINUTE_S,
)

CONFLUENT_REGISTRY = Suite(
    name="confluent-kafka-python, registry",
    source=CONFLUENT_SOURCE,
    steps=registry_steps.confluent_registry,
    brokers=(1,),
    settings={"auto.create.topics.enable": "true"},
    registry=RegistryNeed(),
    left_out={"cp_7_0_1": "starts a registry of Confluent Platform 7.0.1"},
    limit_s=20 * MINUTE_S,
)

KAFKAJS_SOURCE = NodeCheckout(
    "kafkajs",
    copied=(
        "src", "testHelpers", "scripts", "types", "index.js", "jest.config.js", "package.json",
        "yarn.lock",
    ),
)  # fmt: skip
KAFKAJS_SETTINGS = {
    "auto.create.topics.enable": "true",
    "default.replication.factor": "2",
    "num.partitions": "2",
}
KAFKAJS_PORTS = {SSL: (9093, 9096, 9099), SASL_SSL: (9094, 9097, 9100)}

KAFKAJS = Suite(
    name="kafkajs",
    source=KAFKAJS_SOURCE,
    steps=node_steps.kafkajs,
    brokers=(3,),
    settings={**AUTHORIZER, **KAFKAJS_SETTINGS},
    ports=(9092, 9095, 9098),
    host="localhost",
    first_id=0,
    secured=SuiteSecurity(
        (SSL, SASL_SSL),
        users={"test": "testtest", "bob": "bobbob", "alice": "alicealice"},
        scram_users=(
            ("testscram", "SCRAM-SHA-256", "testtestscram=256"),
            ("testscram", "SCRAM-SHA-512", "testtestscram=512"),
        ),
        ports=KAFKAJS_PORTS,
        client_auth="none",
    ),
    known=(
        KnownFailure("TxnOffsetCommit ignores invalid", "transactions are verified since KIP-890"),
        KnownFailure(
            "Connection #connect PLAINTEXT rejects the Promise",
            "wants a name server that knows that there is no host kafkajs.test",
            sometimes=True,
        ),
        KnownFailure("max timestamp difference configured", REMOVED_CONFIGS),
        KnownFailure("describeConfigs request without config names returns all", REMOVED_CONFIGS),
        KnownFailure("ListOffsets v0", "a version that Kafka 4.0 has removed"),
        KnownFailure(
            "Broker > (Heartbeat|OffsetCommit|OffsetFetch) |Consumer recovers from offset",
            KAFKAJS_NO_REBALANCE,
        ),
        KnownFailure(
            "Produce > v2 request with gzip", "compares bytes with another version of zlib"
        ),
        KnownFailure(
            "Producer emits the request timeout event",
            "expects that no broker answers within a millisecond",
            sometimes=True,
        ),
        KnownFailure(
            "Broker > alterPartitionReassignments request",
            "asks for a reassignment that it began a moment ago, of no records, and expects that it"
            " is not over",
            sometimes=True,
        ),
    ),
    limit_s=40 * MINUTE_S,
)

KAFKAJS_OAUTHBEARER = Suite(
    name="kafkajs, OAUTHBEARER",
    source=KAFKAJS_SOURCE,
    steps=node_steps.kafkajs_oauthbearer,
    brokers=(3,),
    settings={**KAFKAJS_SETTINGS, "connections.max.reauth.ms": "15000"},
    ports=KAFKAJS.ports,
    host=KAFKAJS.host,
    first_id=0,
    secured=SuiteSecurity(
        (SSL, SASL_SSL), mechanisms=(OAUTHBEARER,), ports=KAFKAJS_PORTS, client_auth="none"
    ),
    limit_s=20 * MINUTE_S,
)

SUITES = (
    LIBRDKAFKA,
    LIBRDKAFKA_CONSUMER,
    LIBRDKAFKA_SECURITY,
    LIBRDKAFKA_OIDC,
    LIBRDKAFKA_SASL_SSL,
    FRANZ_GO,
    FRANZ_GO_SSL,
    SARAMA,
    KAFKA_GO,
    KAFKA_PYTHON,
    AIOKAFKA,
    CONFLUENT,
    CONFLUENT_CONSUMER,
    KAFKAJS,
    KAFKAJS_OAUTHBEARER,
    CONFLUENT_REGISTRY,
    *registry_suites.SUITES,
    *ksql_suites.SUITES,
    *ksqldb_suite.SUITES,
)
