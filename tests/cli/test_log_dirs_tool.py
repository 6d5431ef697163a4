"""kafka-log-dirs, kafka-metadata-quorum and kafka-client-metrics, as Kafka 4.3.1 has them."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from ottla.cli.kafka import client_metrics, log_dirs, metadata_quorum
from ottla.cli.kafka.metadata_quorum import print_replication, print_status
from ottla.client.quorum import Quorum, QuorumReplica

Run = Callable[..., Any]


def test_log_dirs_lists_the_partitions(run: Run, bootstrap: str, five: str) -> None:
    server = ("--bootstrap-server", bootstrap)
    done = run(log_dirs.main, *server, "--describe", "--topic-list", five)
    assert done.lines[:2] == [
        "Querying brokers for log directories information",
        "Received log directory information from brokers 0",
    ]
    found = json.loads(done.lines[2])
    assert found["version"] == 1
    (directory,) = found["brokers"][0]["logDirs"]
    (partition,) = directory["partitions"]
    assert partition.pop("size") > 0
    assert partition == {"partition": f"{five}-0", "offsetLag": 0, "isFuture": False}
    assert directory["error"] is None


def test_unknown_brokers_are_refused(run: Run, bootstrap: str) -> None:
    server = ("--bootstrap-server", bootstrap)
    done = run(log_dirs.main, *server, "--describe", "--broker-list", "0,9")
    assert done.code == 1
    assert done.err == (
        "ERROR: The given brokers do not exist from --broker-list: 9. Current existent brokers: 0\n"
    )
    assert 'Missing required argument "[describe]"' in run(log_dirs.main, *server).err
    assert "ids of brokers" in run(log_dirs.main, *server, "--describe", "--broker-list", "x").err


def test_the_tool_says_that_there_is_no_quorum(run: Run, bootstrap: str) -> None:
    server = ("--bootstrap-server", bootstrap)
    for words in (("--status",), ("--replication", "--human-readable")):
        done = run(metadata_quorum.main, *server, "describe", *words)
        assert done.code == 1
        assert "This cluster has no KRaft quorum: its metadata is kept in" in done.err
    assert "One of --status" in run(metadata_quorum.main, *server, "describe").err
    assert "Ottla has none" in run(metadata_quorum.main, *server, "add-controller").err


def test_a_quorum_of_kafka_is_shown_as_kafka_shows_it(capsys: Any) -> None:
    endpoint = ("CONTROLLER://controller-1:9093",)
    leader = QuorumReplica(1, bytes(15) + b"\1", 100, 5000, 5000, endpoint)
    follower = QuorumReplica(2, bytes(16), 90, 4900, 4800)
    quorum = Quorum(1, 7, 95, (leader, follower), (QuorumReplica(3, bytes(16), 80, -1, -1),))
    print_status("abc", quorum)
    assert capsys.readouterr().out == (
        "ClusterId:              abc\n"
        "LeaderId:               1\n"
        "LeaderEpoch:            7\n"
        "HighWatermark:          95\n"
        "MaxFollowerLag:         10\n"
        "MaxFollowerLagTimeMs:   200\n"
        'CurrentVoters:          [{"id": 1, "directoryId": "AAAAAAAAAAAAAAAAAAAAAQ",'
        ' "endpoints": ["CONTROLLER://controller-1:9093"]}, {"id": 2, "directoryId": null}]\n'
        'CurrentObservers:       [{"id": 3, "directoryId": null}]\n'
    )
    print_replication(quorum, human=False)
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert rows[1] == ["1", "AAAAAAAAAAAAAAAAAAAAAQ", "100", "0", "5000", "5000", "Leader"]
    assert rows[3][-1] == "Observer"


def test_client_metrics(run: Run, bootstrap: str, topic: str) -> None:
    server = ("--bootstrap-server", bootstrap)
    words = ("--alter", "--name", topic, "--interval", "1000", "--metrics", "org.apache,x")
    done = run(client_metrics.main, *server, *words)
    assert done.out == f"Altered client metrics config for {topic}.\n"
    described = run(client_metrics.main, *server, "--describe", "--name", topic)
    assert described.lines == [
        f"Client metrics configs for {topic} are:",
        "  interval.ms=1000",
        "  match=",
        "  metrics=org.apache,x",
    ]
    assert topic in run(client_metrics.main, *server, "--list").lines
    deleted = run(client_metrics.main, *server, "--delete", "--name", topic)
    assert deleted.out == f"Deleted client metrics config for {topic}.\n"
    assert topic not in run(client_metrics.main, *server, "--list").lines
    generated = run(client_metrics.main, *server, "--alter", "--generate-name", "--interval", "100")
    name = generated.out.split()[-1].rstrip(".")
    assert len(name) == 22
    assert run(client_metrics.main, *server, "--delete", "--name", name).code == 0


def test_client_metrics_refuses_invalid_options(run: Run, bootstrap: str) -> None:
    server = ("--bootstrap-server", bootstrap)
    assert "exactly one action" in run(client_metrics.main, *server).err
    assert "One of --name or" in run(client_metrics.main, *server, "--alter").err
    assert "resource name must be" in run(client_metrics.main, *server, "--delete").err
    wrong = run(client_metrics.main, *server, "--alter", "--name", "x", "--interval", "-1")
    assert wrong.code == 1
    assert "Error while executing client metrics command : " in wrong.out
