"""A Connect worker as the row `connect` starts it, controlled over REST; without Spark."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from pathlib import Path

import pytest
from benchmarks.connect_worker import Worker, ottla_command, properties
from benchmarks.processes import ToolError
from benchmarks.rows.connect import lines_in, write_lines

from ottla.testing import LocalCluster

pytestmark = pytest.mark.timeout(300)


def test_our_worker_starts_and_reports_a_failed_connector(
    kafka: LocalCluster, tmp_path: Path
) -> None:
    with ExitStack() as stack:
        worker = Worker(
            lambda file: ottla_command(sys.executable, file),
            tmp_path,
            kafka.bootstrap_servers,
            stack,
        )
        assert worker.cpu_s > 0
        with pytest.raises(ToolError, match="NobodyKnows"):
            worker.copy("bad", {"connector.class": "NobodyKnows"}, 1, lambda: 0)
    assert worker.cpu_s == 0.0


def test_a_worker_that_does_not_start_shows_the_end_of_its_log(tmp_path: Path) -> None:
    with ExitStack() as stack, pytest.raises(ToolError, match="sorry"):
        Worker(lambda _: ["sh", "-c", "echo sorry"], tmp_path, "127.0.0.1:1", stack)


def test_both_workers_are_given_the_same_properties() -> None:
    result = properties("127.0.0.1:9092", 8083, **{"plugin.path": "/there"})
    assert result["listeners"] == "http://127.0.0.1:8083"
    assert result["exactly.once.source.support"] == "enabled"
    assert result["offset.storage.topic"] == "connect-offset"
    assert result["plugin.path"] == "/there"


def test_lines_are_counted_by_the_size_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "lines.txt"
    assert lines_in(file, 100) == 0
    write_lines(file, 7)
    assert lines_in(file, 100) == 7
    assert {len(line) for line in file.read_text().splitlines(keepends=True)} == {100}
