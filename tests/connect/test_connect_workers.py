"""Workers as users run them: connectors on Spark, a killed worker, altered offsets."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

sys.path.insert(0, str(Path(__file__).parent / "rest"))
from workers import Answer, ask, until

from ottla.connect.connector_files import read_connector_file
from ottla.connect.run.connect_worker import ConnectWorker
from ottla.testing import LocalCluster

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]

STRINGS = "org.apache.kafka.connect.storage.StringConverter"
COMMON = {
    "listeners": "http://127.0.0.1:0",
    "key.converter": STRINGS,
    "value.converter": STRINGS,
    "heartbeat.interval.ms": "500",
    "ottla.connect.spark.master": "local[2]",
    "ottla.connect.spark.heap": "512m",
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(config={"group.initial.rebalance.delay.ms": "0"}) as found:
        yield found


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def write(path: Path, first: int, last: int) -> None:
    with path.open("a") as file:
        file.writelines(f"line {number}\n" for number in range(first, last))


def patiently(url: str, method: str, path: str, body: Any = None) -> Answer:
    """Retries during rebalances, as every client of Connect must."""
    answers: list[Answer] = []

    def done() -> bool:
        answers.append(ask(url, method, path, body))
        return answers[-1].status != 409

    until(done)
    return answers[-1]


def stands(url: str, name: str) -> tuple[str, str, list[str]]:
    """Its worker, its state, those of its tasks."""
    status, body, _ = ask(url, "GET", f"/connectors/{name}/status")
    if status != 200:
        return "", "", []
    about = body["connector"]
    return about["worker_id"], about["state"], [task["state"] for task in body["tasks"]]


def process(cluster: LocalCluster, folder: Path) -> subprocess.Popen[bytes]:
    file = folder / "worker.properties"
    properties = {"bootstrap.servers": cluster.bootstrap_servers, **COMMON}
    file.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
    command = [sys.executable, "-m", "ottla.cli.kafka.connect_distributed", str(file)]
    with (folder / "worker.log").open("wb") as log:
        return subprocess.Popen(command, stdout=log, stderr=log)


def test_a_killed_workers_connectors_resume_on_another_worker(
    spark: SparkSession, cluster: LocalCluster, tmp_path: Path
) -> None:
    here = {"bootstrap.servers": cluster.bootstrap_servers, **COMMON}
    there, out = tmp_path / "in.txt", tmp_path / "out.txt"
    source = {"connector.class": "FileStreamSource", "file": str(there), "topic": "lines"}
    sink = {"connector.class": "FileStreamSink", "file": str(out), "topics": "lines"}
    write(there, 0, 50)
    killed = process(cluster, tmp_path)
    try:
        with ConnectWorker(here, spark=lambda: spark) as worker:
            rest, mine = worker.url, worker.worker.id
            until(lambda: worker.herder.ready)
            assert patiently(rest, "PUT", "/connectors/source/config", source).status == 201
            assert patiently(rest, "PUT", "/connectors/sink/config", sink).status == 201
            names = ("source", "sink")
            running = ("RUNNING", ["RUNNING"])
            until(lambda: all(stands(rest, name)[1:] == running for name in names))
            until(lambda: len({stands(rest, name)[0] for name in names}) == 2)
            until(lambda: set(lines(out)) == {f"line {number}" for number in range(50)})
            killed.send_signal(signal.SIGKILL)
            killed.wait()
            write(there, 50, 100)
            until(lambda: all(stands(rest, name) == (mine, *running) for name in names))
            until(lambda: set(lines(out)) == {f"line {number}" for number in range(100)})

            found = ask(rest, "GET", "/connectors/source/offsets").body["offsets"]
            position = {"position": there.stat().st_size}
            assert found == [{"partition": {"filename": str(there)}, "offset": position}]
            assert patiently(rest, "PUT", "/connectors/sink/stop").status == 204
            until(lambda: stands(rest, "sink") == (mine, "STOPPED", []))
            entry = {
                "partition": {"kafka_topic": "lines", "kafka_partition": 0},
                "offset": {"kafka_offset": 0},
            }
            altered = patiently(rest, "PATCH", "/connectors/sink/offsets", {"offsets": [entry]})
            words = "The offsets for this connector have been altered successfully"
            assert altered.body == {"message": words}
            assert ask(rest, "GET", "/connectors/sink/offsets").body == {"offsets": [entry]}
            out.unlink()
            assert ask(rest, "PUT", "/connectors/sink/resume").status == 202
            until(lambda: lines(out) == [f"line {number}" for number in range(100)])
            used = {"sink": {"topics": ["lines"]}}  # sent after the records themselves
            until(lambda: ask(rest, "GET", "/connectors/sink/topics").body == used)
            for name in names:
                assert patiently(rest, "DELETE", f"/connectors/{name}").status == 204
            until(lambda: not worker.herder.owned())
    finally:
        if killed.poll() is None:
            os.kill(killed.pid, signal.SIGKILL)
            killed.wait()


def test_a_standalone_worker_resumes_from_its_offsets(
    spark: SparkSession, cluster: LocalCluster, tmp_path: Path
) -> None:
    offsets = {"offset.storage.file.filename": str(tmp_path / "offsets")}
    given = {"bootstrap.servers": cluster.bootstrap_servers, **COMMON, **offsets}
    there, out = tmp_path / "in.txt", tmp_path / "out.txt"
    file = tmp_path / "source.properties"
    file.write_text(f"name=alone\nconnector.class=FileStreamSource\nfile={there}\ntopic=alone\n")
    sink = {"connector.class": "FileStreamSink", "file": str(out), "topics": "alone"}
    for first in (0, 10):
        write(there, first, first + 10)
        wanted = read_connector_file(file)
        with ConnectWorker(given, alone=True, spark=lambda: spark) as worker:
            worker.requests.put_config(wanted.name, wanted.config)
            worker.requests.put_config("copy", {**sink, "name": "copy"})
            expected = [f"line {number}" for number in range(first + 10)]
            until(lambda expected=expected: lines(out) == expected)  # type: ignore[misc]


def test_lines_go_from_standard_input_to_standard_output(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    """A quickstart: a standalone worker, and two connectors without a file."""
    properties = {
        "bootstrap.servers": cluster.bootstrap_servers,
        **COMMON,
        "offset.storage.file.filename": str(tmp_path / "offsets"),
    }
    files = {
        "worker": properties,
        "in": {"name": "in", "connector.class": "FileStreamSource", "topic": "typed"},
        "out": {"name": "out", "connector.class": "FileStreamSink", "topics": "typed"},
    }
    for name, settings in files.items():
        lines_ = [f"{key}={value}\n" for key, value in settings.items()]
        (tmp_path / f"{name}.properties").write_text("".join(lines_))
    names = [str(tmp_path / f"{name}.properties") for name in files]
    command = [sys.executable, "-m", "ottla.cli.kafka.connect_standalone", *names]
    shown = tmp_path / "shown.txt"
    with shown.open("wb") as output, (tmp_path / "worker.log").open("wb") as log:
        worker = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=output, stderr=log)
    try:
        assert worker.stdin is not None
        worker.stdin.write(b"one\ntwo\n")
        worker.stdin.flush()
        until(lambda: lines(shown) == ["one", "two"])
        worker.stdin.write(b"three\n")
        worker.stdin.flush()
        until(lambda: lines(shown) == ["one", "two", "three"])
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(240) == 0
    finally:
        worker.kill()
        worker.communicate()
