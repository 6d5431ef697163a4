"""Kafka's own shell tools (Maven Central) against the broker: kafka-topics.sh and its family."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from compat_confluent import consumer, make_topic, produce, read_all, take
from compat_raw import KEYS, RawClient
from compat_tools import attempt, run
from confluent_kafka import Producer

pytestmark = [pytest.mark.maven, pytest.mark.timeout(1000)]


def test_topics(bootstrap: str, topic_name: str) -> None:
    def topics(*arguments: str) -> str:
        return run("TopicCommand", "--bootstrap-server", bootstrap, *arguments).output

    name = ("--topic", topic_name)
    created = topics("--create", *name, "--partitions", "3", "--config", "retention.ms=86400000")
    assert f"Created topic {topic_name}." in created
    assert topic_name in topics("--list").split()
    described = topics("--describe", *name)
    assert re.search(rf"Topic: {topic_name}\s+TopicId: \S{{22}}\s+PartitionCount: 3", described)
    assert "ReplicationFactor: 1" in described
    assert "retention.ms=86400000" in described
    assert described.count("Leader: 0\tReplicas: 0\tIsr: 0") == 3
    topics("--alter", *name, "--partitions", "5")
    assert "PartitionCount: 5" in topics("--describe", *name)
    assert topics("--describe", "--under-replicated-partitions", *name) == ""
    again = attempt(
        "TopicCommand", "--bootstrap-server", bootstrap, "--create", *name, "--partitions", "3"
    )
    assert again.code != 0
    assert "already exists" in again.output + again.errors
    topics("--create", "--if-not-exists", *name)
    topics("--delete", *name)
    assert topic_name not in topics("--list").split()


def test_features(bootstrap: str) -> None:
    server = ("--bootstrap-server", bootstrap)
    described = run("FeatureCommand", *server, "describe").lines
    levels = dict(re.match(r"Feature: (\S+) .*Level: (\S+)", line).groups() for line in described)
    assert levels["transaction.version"] == "2"
    assert levels["group.version"] == "1"
    down = ("downgrade", "--feature", "transaction.version=1", "--dry-run")
    assert run("FeatureCommand", *server, *down).lines == [
        "transaction.version can be downgraded to 1."
    ]
    refused = attempt("FeatureCommand", *server, "upgrade", "--feature", "group.version=9")
    assert refused.code == 1
    assert "Invalid update version 9 for feature group.version. Local controller" in refused.output
    off = attempt("FeatureCommand", *server, "disable", "--feature", "group.version", "--dry-run")
    assert off.output == "group.version can be disabled.\n"


def test_console_producer_and_consumer(bootstrap: str, topic_name: str, group_name: str) -> None:
    server = ("--bootstrap-server", bootstrap, "--topic", topic_name)
    keyed = ("--property", "parse.key=true", "--property", "key.separator=:")
    run("ConsoleProducer", *server, *keyed, "--compression-codec", "lz4", stdin="a:1\nb:2\nc:3\n")
    shown = ("--property", "print.key=true", "--property", "print.offset=true")
    limit = ("--from-beginning", "--max-messages", "3", "--timeout-ms", "60000")
    read = run("consumer.ConsoleConsumer", *server, *shown, *limit, "--group", group_name)
    values = sorted(line.split("\t")[1:] for line in read.lines if "\t" in line)
    assert values == [["a", "1"], ["b", "2"], ["c", "3"]]
    place = ("--partition", "0", "--offset", "1", "--max-messages", "1", "--timeout-ms", "60000")
    make_topic(bootstrap, f"{topic_name}-one")
    one = ("--bootstrap-server", bootstrap, "--topic", f"{topic_name}-one")
    run("ConsoleProducer", *one, stdin="first\nsecond\n")
    assert run("consumer.ConsoleConsumer", *one, *place).output.split() == ["second"]


def test_consumer_groups(bootstrap: str, topic_name: str, group_name: str) -> None:
    make_topic(bootstrap, topic_name)
    produce(bootstrap, topic_name, [{"value": str(i)} for i in range(10)])
    server = ("--bootstrap-server", bootstrap)

    def groups(*arguments: str) -> str:
        return run("consumer.group.ConsumerGroupCommand", *server, *arguments).output

    named = ("--group", group_name)
    reader = consumer(bootstrap, group_id=group_name, client_id="reader")
    reader.subscribe([topic_name])
    reader.commit(message=take(reader, 4)[-1], asynchronous=False)
    assert group_name in groups("--list").split()
    described = groups("--describe", *named)
    row = next(line.split() for line in described.splitlines() if topic_name in line)
    assert row[:6] == [group_name, topic_name, "0", "4", "10", "6"]
    members = groups("--describe", *named, "--members", "--verbose")
    assert "reader" in members
    assert f"{topic_name}" in members
    assert "Stable" in groups("--describe", *named, "--state")
    reader.close()
    reset = ("--reset-offsets", "--topic", topic_name, "--execute")
    assert re.search(rf"{topic_name}\s+0\s+0\b", groups(*reset, *named, "--to-earliest"))
    assert re.search(rf"{topic_name}\s+0\s+10\b", groups(*reset, *named, "--to-latest"))
    assert re.search(rf"{topic_name}\s+0\s+7\b", groups(*reset, *named, "--shift-by", "-3"))
    assert "Empty" in groups("--describe", *named, "--state")
    deleted = groups("--delete-offsets", *named, "--topic", topic_name)
    assert "Successful" in deleted
    assert "was successful" in groups("--delete", *named)
    assert group_name not in groups("--list").split()


def test_transactions(bootstrap: str, topic_name: str) -> None:
    make_topic(bootstrap, topic_name)
    server = ("--bootstrap-server", bootstrap)

    def transactions(*arguments: str) -> str:
        return run("TransactionsCommand", *server, *arguments).output

    def row(table: str, word: str) -> dict[str, str]:
        header, *lines = (line.rstrip("\t").split("\t") for line in table.splitlines())
        (found,) = (line for line in lines if word in map(str.strip, line))
        cells = dict(zip(header, found, strict=False))
        return {name.strip(): cell.strip() for name, cell in cells.items()}

    name = f"tx-{topic_name}"
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": name})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic_name, b"x", partition=0)
    producer.flush(30)
    assert row(transactions("list"), name)["TransactionState"] == "Ongoing"
    described = row(transactions("describe", "--transactional-id", name), name)
    assert described["TopicPartitions"] == f"{topic_name}-0"
    place = ("--topic", topic_name, "--partition", "0")
    producer_id = described["ProducerId"]
    active = row(transactions("describe-producers", *place), producer_id)
    assert active["CurrentTransactionStartOffset"] == "0"
    hanging = ("find-hanging", "--broker-id", "0", "--max-transaction-timeout", "0")
    assert topic_name not in transactions(*hanging)
    transactions("abort", *place, "--start-offset", "0")
    active = row(transactions("describe-producers", *place), producer_id)
    assert active["CurrentTransactionStartOffset"] == "None"
    transactions("forceTerminateTransaction", "--transactionalId", name)
    matched = transactions("list", "--transactional-id-pattern", f"{name}.*")
    assert row(matched, name)["TransactionState"] in ("Empty", "CompleteAbort")
    unknown = attempt("TransactionsCommand", *server, "describe", "--transactional-id", "nobody")
    assert unknown.code == 1
    assert "the ID could not be found" in unknown.errors


def test_groups_of_every_type(bootstrap: str, topic_name: str, group_name: str) -> None:
    make_topic(bootstrap, topic_name)
    produce(bootstrap, topic_name, [{"value": "x"}])
    server = ("--bootstrap-server", bootstrap)
    reader = consumer(bootstrap, group_id=group_name)
    reader.subscribe([topic_name])
    reader.commit(message=take(reader, 1)[-1], asynchronous=False)
    reader.close()
    share_name = f"{group_name}-share"
    reset = ("--reset-offsets", "--to-earliest", "--topic", topic_name, "--execute")
    run("consumer.group.ShareGroupCommand", *server, *reset, "--group", share_name)

    def groups(*arguments: str) -> dict[str, list[str]]:
        _, *lines = run("GroupsCommand", *server, "--list", *arguments).lines
        return {name: rest for name, *rest in map(str.split, lines)}

    listed = groups()
    assert listed[group_name] == ["Classic", "consumer"]
    assert listed[share_name] == ["Share", "share"]
    assert share_name not in groups("--consumer")
    assert set(groups("--share")) & {group_name, share_name} == {share_name}


def test_share_groups(bootstrap: str, topic_name: str, group_name: str) -> None:
    make_topic(bootstrap, topic_name)
    produce(bootstrap, topic_name, [{"value": str(i)} for i in range(10)])
    server = ("--bootstrap-server", bootstrap)
    named = ("--group", group_name)

    def shares(*arguments: str) -> str:
        return run("consumer.group.ShareGroupCommand", *server, *arguments).output

    def start(table: str) -> str:
        return next(line.split()[3] for line in table.splitlines() if topic_name in line)

    reset = ("--reset-offsets", *named, "--topic", topic_name, "--execute")
    assert start(shares(*reset, "--to-latest")) == "10"
    assert start(shares(*reset, "--to-earliest")) == "0"
    assert start(shares("--describe", *named)) == "0"
    limit = ("--max-messages", "4", "--timeout-ms", "30000")
    topic = ("--topic", topic_name)
    read = run("consumer.ConsoleShareConsumer", *server, *topic, *named, *limit)
    assert read.lines == ["0", "1", "2", "3"]
    assert f"{group_name}" in shares("--list").split()
    assert "Empty" in shares("--describe", *named, "--state")
    assert "Successful" in shares("--delete-offsets", *named, *topic)
    assert "was successful" in shares("--delete", *named)
    assert group_name not in shares("--list").split()


def test_configs(bootstrap: str, topic_name: str) -> None:
    make_topic(bootstrap, topic_name)
    server = ("--bootstrap-server", bootstrap)
    target = ("--entity-type", "topics", "--entity-name", topic_name)

    def configs(*arguments: str) -> str:
        return run("kafka.admin.ConfigCommand", *server, *arguments).output

    configs(*target, "--alter", "--add-config", "retention.ms=1000,cleanup.policy=[delete,compact]")
    described = configs(*target, "--describe")
    assert "retention.ms=1000 sensitive=false" in described
    assert "cleanup.policy=delete,compact" in described
    assert "DYNAMIC_TOPIC_CONFIG:retention.ms=1000" in described
    configs(*target, "--alter", "--delete-config", "retention.ms")
    assert "retention.ms=1000" not in configs(*target, "--describe")
    everything = configs(*target, "--describe", "--all")
    assert "segment.bytes=1073741824" in everything
    broker = configs("--entity-type", "brokers", "--entity-name", "0", "--describe", "--all")
    assert "num.partitions=2" in broker
    wrong = ("--alter", "--add-config", "no.such=1")
    refused = attempt("kafka.admin.ConfigCommand", *server, *target, *wrong)
    assert refused.code != 0
    assert "no.such" in refused.output + refused.errors


def test_get_offsets(bootstrap: str, topic_name: str) -> None:
    make_topic(bootstrap, topic_name, partitions=2)
    start_ms = 1_700_000_000_000
    records = [{"value": "v", "partition": 1, "timestamp": start_ms + i} for i in range(7)]
    produce(bootstrap, topic_name, records)
    server = ("--bootstrap-server", bootstrap, "--topic", topic_name)
    for time_spec, expected in (("latest", "0 7"), ("earliest", "0 0"), ("-3", "-1 6")):
        lines = run("GetOffsetShell", *server, "--time", time_spec).lines
        found = dict(line.removeprefix(f"{topic_name}:").split(":") for line in lines)
        wanted = dict(zip(("0", "1"), expected.split(), strict=True))
        # An empty partition has no record with a largest timestamp, and the tool leaves it out.
        assert found == {place: offset for place, offset in wanted.items() if offset != "-1"}


def test_delete_records(bootstrap: str, topic_name: str, tmp_path: Path) -> None:
    make_topic(bootstrap, topic_name)
    produce(bootstrap, topic_name, [{"value": str(i)} for i in range(10)])
    request = tmp_path / "request.json"
    entry = {"topic": topic_name, "partition": 0, "offset": 6}
    request.write_text(json.dumps({"partitions": [entry], "version": 1}))
    server = ("--bootstrap-server", bootstrap, "--offset-json-file", str(request))
    assert "low_watermark: 6" in run("DeleteRecordsCommand", *server).output
    assert [m.offset() for m in read_all(bootstrap, topic_name, 4)] == [6, 7, 8, 9]


def test_log_dirs(bootstrap: str, topic_name: str) -> None:
    make_topic(bootstrap, topic_name, partitions=2)
    produce(bootstrap, topic_name, [{"value": b"x" * 1000, "partition": 0}])
    server = ("--bootstrap-server", bootstrap, "--describe", "--topic-list", topic_name)
    output = run("LogDirsCommand", *server).output
    described = json.loads(next(line for line in output.splitlines() if line.startswith("{")))
    (directory,) = described["brokers"][0]["logDirs"]
    assert directory["error"] is None
    sizes = {entry["partition"]: entry["size"] for entry in directory["partitions"]}
    assert sizes[f"{topic_name}-1"] == 0
    assert sizes[f"{topic_name}-0"] > 1000


def test_broker_api_versions(bootstrap: str) -> None:
    output = run("BrokerApiVersionsCommand", "--bootstrap-server", bootstrap).output
    assert f"{bootstrap} (id: 0 rack: null" in output
    assert re.search(r"Produce\(0\): 0 to 13 \[usable: 13\]", output)
    assert re.search(r"Fetch\(1\): 4 to 18 \[usable: 18\]", output)
    assert "DescribeTopicPartitions(75): 0 [usable: 0]" in output


def test_cluster_tools(bootstrap: str) -> None:
    assert "Cluster ID:" in run("ClusterTool", "cluster-id", "--bootstrap-server", bootstrap).output
    run("GroupsCommand", "--bootstrap-server", bootstrap, "--list")
    run("FeatureCommand", "--bootstrap-server", bootstrap, "describe")


def test_verifiable_producer_and_consumer(bootstrap: str, topic_name: str, group_name: str) -> None:
    make_topic(bootstrap, topic_name, partitions=2)
    server = ("--bootstrap-server", bootstrap, "--topic", topic_name, "--max-messages", "500")
    produced = run("VerifiableProducer", *server, "--acks", "-1")
    events = [json.loads(line) for line in produced.lines]
    assert sum(event["name"] == "producer_send_success" for event in events) == 500
    assert not [event for event in events if event["name"] == "producer_send_error"]
    reset = ("--group-id", group_name, "--reset-policy", "earliest")
    consumed = run("VerifiableConsumer", *server, *reset, "--verbose")
    events = [json.loads(line) for line in consumed.lines if line.startswith("{")]
    values = [int(event["value"]) for event in events if event["name"] == "record_data"]
    assert sorted(values) == list(range(500))
    commits = [event for event in events if event["name"] == "offsets_committed"]
    assert all(event["success"] for event in commits)


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_producer_and_consumer_performance(
    bootstrap: str, topic_name: str, group_name: str, codec: str
) -> None:
    make_topic(bootstrap, topic_name)
    load = ("--topic", topic_name, "--num-records", "20000", "--record-size", "200")
    settings = (f"bootstrap.servers={bootstrap}", "acks=all", f"compression.type={codec}")
    produced = run(
        "ProducerPerformance", *load, "--throughput", "-1", "--command-property", *settings
    )
    assert "20000 records sent" in produced.output
    server = ("--bootstrap-server", bootstrap, "--topic", topic_name, "--group", group_name)
    consumed = run("ConsumerPerformance", *server, "--num-records", "20000", "--timeout", "60000")
    row = [part.strip() for part in consumed.lines[-1].split(",")]
    assert int(row[4]) >= 20000


def test_end_to_end_latency(bootstrap: str, topic_name: str) -> None:
    make_topic(bootstrap, topic_name)
    measured = run(
        "EndToEndLatency", "--bootstrap-server", bootstrap, "--topic", topic_name,
        "--num-records", "200", "--producer-acks", "all", "--record-size", "100",
    )  # fmt: skip
    assert "Percentiles: 50th" in measured.output


def test_kafkas_own_client_compatibility_test(bootstrap: str, topic_name: str) -> None:
    """The tool with which Kafka tests its client against other versions of its broker."""
    make_topic(bootstrap, topic_name)
    with RawClient(bootstrap) as raw:
        keys = {api.api_key for api in raw.call("api_versions", 0).api_keys}
    has_acls = KEYS["describe_acls"] in keys
    supported = {
        "--offsets-for-times-supported": "true",
        "--cluster-id-supported": "true",
        "--create-topics-supported": "true",
        "--describe-acls-supported": str(has_acls).lower(),
        "--describe-configs-supported": "true",
        "--idempotent-producer-supported": "true",
        "--expect-record-too-large-exception": "false",
        "--num-cluster-nodes": "1",
    }
    flags = [part for pair in supported.items() for part in pair]
    server = ("--bootstrap-server", bootstrap, "--topic", topic_name)
    run("ClientCompatibilityTest", *server, *flags)


def test_unsupported_requests_fail_cleanly(bootstrap: str) -> None:
    """Tools for features that this broker lacks report an error and exit; none of them hangs."""
    server = ("--bootstrap-server", bootstrap)
    for tool, arguments in (
        ("AclCommand", ("--list",)),
        ("MetadataQuorumCommand", ("describe", "--status")),
    ):
        outcome = attempt(tool, *server, *arguments)
        if outcome.code != 0:
            text = outcome.output + outcome.errors
            assert re.search(r"[Uu]nsupported|does not support|[Dd]isabled|No Authorizer", text), (
                text
            )
