"""kafka-reassign-partitions, kafka-leader-election and kafka-cluster, on three brokers."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ottla.cli.kafka import cluster as cluster_tool
from ottla.cli.kafka import leader_election, reassign_partitions, topics
from ottla.client import Admin, TopicPartition
from ottla.client.configs import ResourceType
from ottla.client.reassignments import ElectionType
from ottla.errors import ErrorCode
from ottla.testing import LocalCluster

PATIENCE_S = 60.0

Tool = Callable[..., Any]


@pytest.fixture(scope="module")
def three() -> Iterator[LocalCluster]:
    config = {"auto.leader.rebalance.enable": "false", "replica.lag.time.max.ms": "2000"}
    with LocalCluster(brokers=3, config=config) as cluster:
        yield cluster


@pytest.fixture
def bootstrap(three: LocalCluster) -> str:
    return three.bootstrap_servers


@pytest.fixture
def reassign(run: Tool, bootstrap: str) -> Tool:
    return lambda *words: run(reassign_partitions.main, "--bootstrap-server", bootstrap, *words)


@pytest.fixture
def elect(run: Tool, bootstrap: str) -> Tool:
    return lambda *words: run(leader_election.main, "--bootstrap-server", bootstrap, *words)


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def replicas(admin: Admin, topic: str) -> list[tuple[int, ...]]:
    described = admin.topics.describe(topic)[topic]
    assert not isinstance(described, Exception)
    return [partition.replicas for partition in described.partitions]


def leader(admin: Admin, topic: str) -> int:
    described = admin.topics.describe(topic)[topic]
    assert not isinstance(described, Exception)
    return described.partitions[0].leader


def plan(path: Path, topic: str, *wanted: list[int]) -> str:
    file = path / "plan.json"
    partitions = [
        {"topic": topic, "partition": index, "replicas": entry}
        for index, entry in enumerate(wanted)
    ]
    file.write_text(json.dumps({"version": 1, "partitions": partitions}))
    return str(file)


def test_generate_execute_and_verify(
    three: LocalCluster, reassign: Tool, admin: Admin, topic: str, tmp_path: Path
) -> None:
    admin.topics.create(topic, replicas=[[0], [0]])
    move = tmp_path / "topics.json"
    move.write_text(json.dumps({"topics": [{"topic": topic}], "version": 1}))
    generated = reassign(
        "--generate", "--topics-to-move-json-file", str(move), "--broker-list", "1,2"
    )
    assert generated.code == 0
    title, present, empty, proposal_title, proposal = generated.lines
    assert (title, empty) == ("Current partition replica assignment", "")
    assert present == (
        '{"version":1,"partitions":['
        f'{{"topic":"{topic}","partition":0,"replicas":[0],"log_dirs":["any"]}},'
        f'{{"topic":"{topic}","partition":1,"replicas":[0],"log_dirs":["any"]}}]}}'
    )
    assert proposal_title == "Proposed partition reassignment configuration"
    (tmp_path / "plan.json").write_text(proposal)
    executed = reassign("--execute", "--reassignment-json-file", str(tmp_path / "plan.json"))
    assert (executed.code, executed.err) == (0, "")
    home = str(three.directory_of(0))
    assert executed.lines == [
        "Current partition replica assignment",
        "",
        present.replace('"any"', f'"{home}"'),
        "",
        "Save this to use as the --reassignment-json-file option during rollback",
        f"Successfully started partition reassignments for {topic}-0,{topic}-1",
    ]
    verify = ("--verify", "--reassignment-json-file", str(tmp_path / "plan.json"))
    until(lambda: "still in progress" not in reassign(*verify).out)
    assert reassign(*verify).lines == [
        "Status of partition reassignment:",
        f"Reassignment of partition {topic}-0 is completed.",
        f"Reassignment of partition {topic}-1 is completed.",
        "",
        "Clearing broker-level throttles on brokers 0,1,2",
        f"Clearing topic-level throttles on topic {topic}",
    ]
    assert {entry for found in replicas(admin, topic) for entry in found} == {1, 2}
    (tmp_path / "plan.json").write_text(executed.lines[2])  # back to the original replicas
    assert reassign("--execute", "--reassignment-json-file", str(tmp_path / "plan.json")).code == 0
    until(lambda: "still in progress" not in reassign(*verify).out)
    assert reassign(*verify).lines[1:5] == [
        f"Reassignment of partition {topic}-0 is completed.",
        f"Reassignment of partition {topic}-1 is completed.",
        f"Reassignment of replica {topic}-0-0 completed successfully.",
        f"Reassignment of replica {topic}-1-0 completed successfully.",
    ]


def test_a_move_that_goes_on_is_listed_throttled_and_cancelled(
    three: LocalCluster,
    reassign: Tool,
    run: Tool,
    bootstrap: str,
    admin: Admin,
    topic: str,
    tmp_path: Path,
) -> None:
    admin.topics.create(topic, replicas=[[2]])
    three.kill(2)  # so that no replica can catch up
    file = plan(tmp_path, topic, [0, 1])
    executed = reassign("--execute", "--reassignment-json-file", file, "--throttle", "1000")
    assert executed.code == 0
    assert executed.lines[5:] == [
        "Warning: You must run --verify periodically, until the reassignment completes, to ensure"
        " the throttle is removed.",
        "The inter-broker throttle limit was set to 1000 B/s",
        f"Successfully started partition reassignment for {topic}-0",
    ]
    assert own(admin, topic) == {
        "leader.replication.throttled.replicas": "0:2",
        "follower.replication.throttled.replicas": "0:0,0:1",
    }
    listed = reassign("--list")
    assert listed.lines == [
        "Current partition reassignments:",
        f"{topic}-0: replicas: 0,1,2. adding: 0,1. removing: 2.",
    ]
    described = run(
        topics.main, "--bootstrap-server", bootstrap, "--describe", "--topic", topic
    ).lines
    assert "\tReplicationFactor: 1\t" in described[0]
    assert "\tAdding Replicas: 0,1\tRemoving Replicas: 2\tElr: " in described[1]
    refused = reassign("--execute", "--reassignment-json-file", file)
    assert refused.code == 1
    assert refused.out.startswith("Cannot execute because there is an existing partition assignm")
    verified = reassign("--verify", "--reassignment-json-file", file)
    assert verified.lines[1] == f"Reassignment of partition {topic}-0 is still in progress."
    assert own(admin, topic)  # throttles stay while a reassignment is running
    cancelled = reassign("--cancel", "--reassignment-json-file", file)
    assert cancelled.lines == [
        f"Successfully cancelled partition reassignment for: {topic}-0",
        "None of the specified partition moves are active.",
        "Clearing broker-level throttles on brokers 0,1",
        f"Clearing topic-level throttles on topic {topic}",
    ]
    assert replicas(admin, topic) == [(2,)]
    assert own(admin, topic) == {}
    assert reassign("--list").lines == ["No partition reassignments found."]
    again = reassign("--cancel", "--reassignment-json-file", file, "--preserve-throttles")
    assert again.lines[0] == "None of the specified partition reassignments are active."
    verified = reassign("--verify", "--reassignment-json-file", file, "--preserve-throttles")
    assert verified.lines[1] == (
        f"There is no active reassignment of partition {topic}-0, but replica set is 2 rather"
        " than 0,1."
    )
    three.start_broker(2)


def test_brokers_choose_their_log_directories(
    three: LocalCluster, reassign: Tool, admin: Admin, topic: str, tmp_path: Path
) -> None:
    admin.topics.create(topic, replicas=[[0]])
    file = tmp_path / "plan.json"
    where = {"topic": topic, "partition": 0, "replicas": [0], "log_dirs": ["/a"]}
    file.write_text(json.dumps({"partitions": [where]}))
    refused = reassign("--execute", "--reassignment-json-file", str(file))
    assert (refused.code, refused.lines) == (
        1,
        [
            f"Error: {topic}-0: broker 0 chooses the log directory itself:"
            ' log_dirs must be "any", not /a'
        ],
    )
    words = ("--verify", "--reassignment-json-file", str(file), "--preserve-throttles")
    assert reassign(*words).lines[2] == (
        f"Partition {topic}-0 on broker 0 is not being moved from log dir"
        f" {three.directory_of(0)} to /a."
    )


def own(admin: Admin, topic: str) -> dict[str, str | None]:
    return {
        config.name: config.value
        for config in admin.configs.describe(ResourceType.TOPIC, topic)
        if config.source.name == "DYNAMIC_TOPIC_CONFIG"
    }


@pytest.mark.parametrize(
    ("partitions", "words"),
    [
        ([], "Error: Partition reassignment list cannot be empty"),
        ([("{t}", 0, [])], "Error: Partition replica list cannot be empty"),
        ([("{t}", 0, [9])], "Error: Unknown broker id 9"),
        ([("{t}", 5, [1])], "Error: Unable to find partition: {t}-5"),
        ([("nobody", 0, [1])], "Error: Topic nobody not found."),
        (
            [("{t}", 0, [1]), ("{t}", 0, [2])],
            "Error: Partition reassignment contains duplicate topic partitions: {t}-0",
        ),
        (
            [("{t}", 0, [1, 1])],
            "Error: Partition replica lists may not contain duplicate entries: {t}-0 contains"
            " multiple entries for 1",
        ),
    ],
)
def test_impossible_plans_are_refused(
    reassign: Tool,
    admin: Admin,
    topic: str,
    tmp_path: Path,
    partitions: list[tuple[str, int, list[int]]],
    words: str,
) -> None:
    admin.topics.create(topic, replicas=[[0]])
    file = tmp_path / "plan.json"
    fields = [
        {"topic": name.format(t=topic), "partition": index, "replicas": wanted}
        for name, index, wanted in partitions
    ]
    file.write_text(json.dumps({"version": 1, "partitions": fields}))
    ran = reassign("--execute", "--reassignment-json-file", str(file))
    assert (ran.code, ran.lines) == (1, [words.format(t=topic)])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "The input string is not a valid JSON"),
        ("[]", "Expected JSON object, received []"),
        ('{"version": 2}', "Not supported version field value 2"),
        ('{"partitions": [{}]}', "No such field exists: `topic`"),
        (
            '{"partitions": [{"topic": "t", "partition": 0, "replicas": [1], "log_dirs": []}]}',
            "Size of replicas list [1] is different from size of log dirs list [] for partition"
            " t-0",
        ),
    ],
)
def test_malformed_plan_files_are_refused(
    reassign: Tool, tmp_path: Path, text: str, words: str
) -> None:
    file = tmp_path / "plan.json"
    file.write_text(text)
    ran = reassign("--verify", "--reassignment-json-file", str(file))
    assert (ran.code, ran.lines) == (1, [f"Error: {words}"])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "Command must include exactly one action: --generate, --execute, --verify, --cancel"),
        (("--list", "--verify"), "Command must include exactly one action"),
        (("--execute",), 'Missing required argument "[reassignment-json-file]"'),
        (("--list", "--throttle", "1"), 'Option "[throttle]" can\'t be used with action "[list]"'),
        (("--help",), "kafka-reassign-partitions --bootstrap-server localhost:9092"),
    ],
)
def test_invalid_command_lines_are_refused(
    reassign: Tool, words: tuple[str, ...], said: str
) -> None:
    ran = reassign(*words)
    assert ran.code == 1
    assert said in ran.err


def test_broker_lists(reassign: Tool, tmp_path: Path) -> None:
    file = tmp_path / "topics.json"
    file.write_text('{"topics": [{"topic": "a"}, {"topic": "a"}]}')
    words = ("--generate", "--topics-to-move-json-file", str(file), "--broker-list")
    assert reassign(*words, "0,0").out == "Error: Broker list contains duplicate entries: [0]\n"
    assert reassign(*words, "x").out == "Error: Invalid broker list: x\n"
    assert reassign(*words, "0").out == (
        "Error: List of topics to reassign contains duplicate entries: [a]\n"
    )


def test_preferred_leaders_are_elected(
    three: LocalCluster, elect: Tool, admin: Admin, topic: str, tmp_path: Path
) -> None:
    admin.topics.create(topic, replicas=[[0, 1]])
    admin.reassignments.alter({TopicPartition(topic, 0): [1, 0]})
    until(lambda: replicas(admin, topic) == [(1, 0)])
    assert leader(admin, topic) == 0
    one = ("--election-type", "preferred", "--topic", topic, "--partition", "0")
    ran = elect(*one)
    assert (ran.code, ran.lines) == (
        0,
        [f"Successfully completed leader election (PREFERRED) for partitions {topic}-0"],
    )
    assert leader(admin, topic) == 1
    assert elect(*one).lines == [f"Valid replica already elected for partitions {topic}-0"]
    file = tmp_path / "elect.json"
    places = [{"topic": topic, "partition": 0}, {"topic": "nobody", "partition": 3}]
    file.write_text(json.dumps({"partitions": places}))
    ran = elect("--election-type", "PREFERRED", "--path-to-json-file", str(file))
    assert ran.code == 1
    assert ran.lines == [
        f"Valid replica already elected for partitions {topic}-0",
        "Error completing leader election (PREFERRED) for partition: nobody-3:"
        " org.apache.kafka.common.errors.UnknownTopicOrPartitionException: No such topic as nobody",
    ]
    assert ran.err == "1 replica(s) could not be elected\n"
    ran = elect("--election-type", "unclean", "--all-topic-partitions")
    assert (ran.code, ran.out) == (0, "")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--all-topic-partitions",), "Missing required option(s): election-type"),
        (
            ("--election-type", "preferred"),
            "One and only one of the following options is required: topic, all-topic-partitions,"
            " path-to-json-file",
        ),
        (
            ("--election-type", "preferred", "--topic", "t"),
            "Missing required option(s): partition",
        ),
        (
            ("--election-type", "preferred", "--all-topic-partitions", "--partition", "0"),
            "Option partition is only allowed if topic is used",
        ),
        (
            ("--election-type", "odd", "--all-topic-partitions"),
            "Cannot parse argument 'odd' of option election-type",
        ),
        (("--help",), "--election-type unclean --topic orders --partition 0"),
    ],
)
def test_invalid_elections_are_refused(elect: Tool, words: tuple[str, ...], said: str) -> None:
    ran = elect(*words)
    assert ran.code == 1
    assert said in ran.err


def test_the_clusters_id(run: Tool, bootstrap: str, admin: Admin) -> None:
    ran = run(cluster_tool.main, "cluster-id", "--bootstrap-server", bootstrap)
    assert (ran.code, ran.out) == (0, f"Cluster ID: {admin.cluster().cluster_id}\n")
    ran = run(cluster_tool.main, "cluster-id")
    assert (ran.code, ran.err) == (1, "Please specify --bootstrap-server.\n")
    assert "kafka-cluster unregister" in run(cluster_tool.main, "--help").out


def test_an_unknown_broker_is_not_unregistered(run: Tool, bootstrap: str) -> None:
    ran = run(cluster_tool.main, "unregister", "--bootstrap-server", bootstrap, "--id", "9")
    assert ran.code == 1
    assert re.search(r"BrokerIdNotRegisteredException: Broker ID 9 is not currently", ran.err)


def test_dead_brokers_show_in_reports_and_are_unregistered(
    three: LocalCluster, run: Tool, admin: Admin, topic: str
) -> None:
    admin.topics.create(topic, replicas=[[2, 0]])
    admin.topics.create(f"{topic}-alone", replicas=[[2]])
    three.kill(2)
    bootstrap = f"127.0.0.1:{three.port_of(0)}"
    describe = ("--bootstrap-server", bootstrap, "--describe", "--topic", f"{topic}.*")
    with Admin(bootstrap) as survivor:
        until(lambda: leader(survivor, topic) == 0)
    under = run(topics.main, *describe, "--under-replicated-partitions").lines
    assert under == [
        f"\tTopic: {topic}\tPartition: 0\tLeader: 0\tReplicas: 2,0\tIsr: 0\tElr: \tLastKnownElr: "
    ]
    unavailable = run(topics.main, *describe, "--unavailable-partitions").lines
    assert [line.split("\t")[1:4] for line in unavailable] == [
        [f"Topic: {topic}-alone", "Partition: 0", "Leader: none"]
    ]
    ran = run(cluster_tool.main, "unregister", "-b", bootstrap, "-i", "2")
    assert (ran.code, ran.out) == (0, "Broker 2 is no longer registered.\n")
    three.start_broker(2)
    with Admin(three.bootstrap_servers) as again:
        until(lambda: len(again.topics.describe(topic)) == 1)
        results = again.reassignments.elect(ElectionType.UNCLEAN, [TopicPartition(topic, 0)])
        error = results[TopicPartition(topic, 0)]
        assert error is not None
        assert error.code is ErrorCode.ELECTION_NOT_NEEDED
