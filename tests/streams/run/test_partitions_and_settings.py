"""The counts of partitions and tasks, the tasks' labels in a shuffle, and the settings."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.cli.kafka.tool import ToolError
from ottla.cli.verbs import streams
from ottla.engine.failures import StreamsError
from ottla.engine.graph import Graph, RepartitionNode
from ottla.engine.labels import labels, place_of
from ottla.engine.partition_counts import partition_counts, task_count
from ottla.engine.subtopologies import subtopologies
from ottla.queries.application_topics import PreparedSubtopology, check_sources
from ottla.queries.cluster import KafkaCluster
from ottla.queries.launcher import TriggerPolicy
from ottla.queries.starting_positions import SubtopologyStart
from ottla.queries.task_runtime import TaskRuntime
from ottla.spark import session
from ottla.spark.sink.commit_log import OLDER
from ottla.streams import FailureKind, Long, String, Topology, TopologyError, log_and_continue
from ottla.streams.run import application
from ottla.streams.run.settings import StreamsConfigError, settings_of


def counted(graph: Graph, **partitions: int) -> dict[str, int]:
    counts = partition_counts(graph, lambda source: source.topics, partitions)
    names = {node.name: node for node in graph.nodes.values()}
    return {
        node.topic if isinstance(node, RepartitionNode) else name: counts[name]
        for name in counts
        for node in (names[name],)
    }


def test_a_replaced_instance_fails_in_the_words_of_streams() -> None:
    """And not in those of Spark's sink, which has no directory and no application."""
    cause = f"DeliveryError: batch 2 is to be written, but ...: {OLDER}. Use the ([PYTHON] thrown)"
    words = application.words_of(cause, "sales", Path("/state/sales"))
    assert words.startswith("/state/sales is behind the output of application sales")
    assert "another instance has taken over" in words
    assert "delete the directory" in words
    own = application.words_of("x.StreamsError: no store ([PYTHON] thrown)", "sales", Path("/s"))
    assert own == "no store"
    assert application.words_of("anything", "sales", Path("/s")) == "anything"


def test_state_of_an_earlier_version_is_refused_before_anything_runs(tmp_path: Path) -> None:
    topology = Topology(key=String(), value=String())
    topology.stream("words").group_by_key().count(store="counts")
    (found,) = subtopologies(topology.graph)
    cluster = KafkaCluster("nowhere:1", {})
    runtime = TaskRuntime(
        "app",
        lambda: pytest.fail("no Spark"),
        cluster,
        tmp_path,
        settings_of({}),
        TriggerPolicy(),
    )
    (tmp_path / "0/checkpoint/state").mkdir(parents=True)
    with pytest.raises(StreamsError, match=r"earlier version.*Delete the directory"):
        runtime.begin(PreparedSubtopology(found, 2, {"words": None}), SubtopologyStart(2, {}))


def test_all_missing_source_topics_are_named_at_once() -> None:
    topology = Topology(key=String(), value=String())
    sales, customers = topology.stream("sales"), topology.table("customers")
    sales.join(customers, lambda sale, customer: sale).to("named")
    topology.stream("there").to("copied")
    with pytest.raises(StreamsError, match=r"missing: sales, customers .*topics create sales"):
        check_sources(topology.graph, {"there", "named"})
    check_sources(topology.graph, {"there", "sales", "customers"})


def test_a_repartition_topic_has_as_many_as_the_largest_input_of_its_writer() -> None:
    topology = Topology(key=String(), value=String())
    merged = topology.stream("small").merge(topology.stream("large"))
    counts = merged.group_by(lambda value: value, key=String()).count()
    again = counts.group_by(lambda key, count: ("all", count), key=String(), value=Long())
    again.reduce(lambda a, b: a + b, lambda a, b: a - b)
    found = counted(topology.graph, small=2, large=5)
    assert {count for name, count in found.items() if name.endswith("repartition")} == {5}
    counts_by_name = partition_counts(topology.graph, lambda s: s.topics, {"small": 2, "large": 5})
    assert [
        task_count(subtopology, counts_by_name) for subtopology in subtopologies(topology.graph)
    ] == [5, 5]


def test_a_repartition_has_the_configured_count_and_so_have_those_downstream() -> None:
    topology = Topology(key=String(), value=String())
    split = topology.stream("in").repartition(partitions=7, name="wide")
    split.group_by(lambda value: value, key=String()).count()
    found = counted(topology.graph, **{"in": 2})
    assert found["wide-repartition"] == 7
    assert sorted(found.values()) == [2, 7, 7]


def test_topics_that_are_joined_must_have_equally_many() -> None:
    topology = Topology(key=String(), value=String())
    left, right = topology.stream("left"), topology.stream("right")
    topology.graph.copartitioned.append(left.sources | right.sources)
    assert counted(topology.graph, left=3, right=3)
    with pytest.raises(TopologyError, match=r"same number of partitions: \[{left=3, right=4}]"):
        counted(topology.graph, left=3, right=4)


@pytest.mark.parametrize(("tasks", "partitions"), [(1, 1), (2, 2), (4, 2), (7, 3), (16, 4)])
def test_every_partition_of_a_shuffle_has_as_many_tasks(tasks: int, partitions: int) -> None:
    found = labels(tasks, partitions)
    assert [partition % tasks for partition in found] == list(range(tasks))
    assert [place_of(partition, partitions) for partition in found] == [
        n % partitions for n in range(tasks)
    ]


def test_settings_have_kafkas_names() -> None:
    found = settings_of(
        {
            "application.id": "a",
            "auto.offset.reset": "latest",
            "processing.guarantee": "at_least_once",
            "commit.interval.ms": 500,
            "statestore.cache.max.bytes": 0,
            "statestore.local.dir": "/fast",
            "statestore.memory.max.bytes": "1000",
            "state.dir": "s3://bucket/state",
            "deserialization.exception.handler": (
                "org.apache.kafka.streams.errors.LogAndContinueExceptionHandler"
            ),
            "num.stream.threads": 4,
            "security.protocol": "SSL",
        }
    )
    assert (found.earliest, found.exactly_once, found.caching) == (False, False, False)
    assert (found.interval_ms, found.memory_bytes_max) == (500, 1000)
    assert (found.local_folder, found.state_folder) == ("/fast", "s3://bucket/state")
    assert found.on_failure == {FailureKind.DESERIALIZATION: log_and_continue}
    assert found.client == {"security.protocol": "SSL"}


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"procesing.guarantee": "x"}, "did you mean processing.guarantee?"),
        ({"processing.guarantee": "twice"}, "one of exactly_once_v2, at_least_once"),
        ({"commit.interval.ms": "soon"}, "must be a number"),
        ({"production.exception.handler": "shrug"}, "a function, 'fail' or 'continue'"),
    ],
)
def test_a_wrong_setting_is_reported(config: dict[str, str], words: str) -> None:
    with pytest.raises(StreamsConfigError, match=words):
        settings_of(config)


def test_an_application_uses_the_jvm_of_its_verb(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With the same arguments, or the JVM that was started ahead is not used."""
    asked: list[dict[str, object]] = []
    monkeypatch.setattr(session, "start", lambda **words: asked.append(words))
    monkeypatch.setattr(session, "launch_ahead", lambda **words: asked.append(words))
    application._started("counts", "local[2]", None, {})
    with pytest.raises(ToolError, match="there is no file"):
        streams.run(Path("/no/such/job.py"), master="local[2]", config=[])
    start, ahead = asked
    assert start["java_options"] == ahead["java_options"] == session.FIRST_COMPILER
    assert start["master"] == ahead["master"]
