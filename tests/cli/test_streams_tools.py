"""ottla streams describe, and kafka-streams-application-reset."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.cli.app import main as ottla
from ottla.cli.kafka.streams_application_reset import main as reset
from ottla.client import TopicPartition
from ottla.testing import LocalCluster

JOB = """
from ottla.streams import String, Topology


def topology():
    made = Topology(key=String(), value=String())
    made.stream("in").map_values(str.upper).to("out")
    return made
"""


def test_a_job_is_described_as_kafka_does(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "shouting_job.py"
    path.write_text(JOB)
    assert ottla(["streams", "describe", str(path)]) == 0
    shown = capsys.readouterr().out
    assert "Source: KSTREAM-SOURCE-0000000000 (topics: [in])" in shown
    assert "Sink: KSTREAM-SINK-0000000002 (topic: out)" in shown


@pytest.mark.parametrize(
    ("text", "words"),
    [("x = 1", "has no topology"), ("config = 3", "config is a mapping"), (None, "no file")],
)
def test_a_file_without_a_job_is_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str | None, words: str
) -> None:
    path = tmp_path / "no_job.py"
    if text is not None:
        path.write_text(text)
    assert ottla(["streams", "describe", str(path)]) == 1
    assert words in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("import json\njson.loads('{')", "line 2", "JSONDecodeError: Expecting property name"),
        ("def topology():\n    return 1 / 0", "line 2, in topology", "ZeroDivisionError: division"),
        ("x = (", "line 1", "SyntaxError: '(' was never closed"),
    ],
)
def test_errors_in_a_job_show_only_the_authors_frames(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, line: str, words: str
) -> None:
    path = tmp_path / "wrong_job.py"
    path.write_text(text)
    assert ottla(["streams", "describe", str(path)]) == 1
    shown = capsys.readouterr().err
    assert f"{path} can't be read" in shown
    assert f'File "{path}", {line}' in shown
    assert words in shown
    assert "importlib" not in shown
    assert "typer" not in shown


@pytest.fixture
def stopped() -> Iterator[LocalCluster]:
    """What an application leaves behind."""
    with LocalCluster() as cluster, cluster.admin() as admin:
        admin.topics.create("orders", 2)
        for name in ("app-counts-changelog", "app-k-repartition", "app-notes", "apple-k-changelog"):
            admin.topics.create(name)
        admin.groups.alter_offsets("app", {TopicPartition("orders", 0): 5})
        yield cluster


def test_a_reset_sets_offsets_and_deletes_internal_topics(
    stopped: LocalCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--bootstrap-server", stopped.bootstrap_servers, "--application-id", "app"]
    words += ["--input-topics", "orders"]
    assert reset([*words, "--dry-run"]) == 0
    assert "app-counts-changelog" in capsys.readouterr().out
    with stopped.admin() as admin:
        assert "app-counts-changelog" in admin.topics.names(), "a dry run changes nothing"
        assert admin.groups.offsets("app")[TopicPartition("orders", 0)].offset == 5
    assert reset(words) == 0
    shown = capsys.readouterr().out
    assert "Reset-offsets for input topics [orders]" in shown
    assert "Topic: orders Partition: 1 Offset: 0" in shown
    with stopped.admin() as admin:
        left = {name for name in admin.topics.names() if name.startswith("app")}
        assert left == {"app-notes", "apple-k-changelog"}
        assert {offset.offset for offset in admin.groups.offsets("app").values()} == {0}


def test_a_reset_reports_unsupported_options(
    stopped: LocalCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--bootstrap-server", stopped.bootstrap_servers, "--application-id", "app"]
    assert reset([*words, "--input-topics", "nothing"]) == 1
    assert "not found, skipping them: [nothing]" in capsys.readouterr().out
    assert reset([*words, "--internal-topics", "app-notes"]) != 0
    assert "Invalid topic specified in the --internal-topics option" in capsys.readouterr().err
    assert reset([*words, "--to-latest", "--to-earliest"]) != 0
