"""The commands as processes: pipes that break, Ctrl-C, what `serve` imports, installed names."""

from __future__ import annotations

import contextlib
import importlib
import os
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import pytest

import ottla
from ottla import build
from ottla.client import Admin, Consumer

ROOT = Path(ottla.__file__).parents[2]
TOOLS = {
    "kafka-server-start": "server_start",
    "kafka-server-stop": "server_stop",
    "zookeeper-server-start": "zookeeper_server_start",
    "zookeeper-server-stop": "zookeeper_server_stop",
    "zookeeper-shell": "zookeeper_shell",
    "kafka-storage": "storage",
    "kafka-log-dirs": "log_dirs",
    "kafka-metadata-quorum": "metadata_quorum",
    "kafka-client-metrics": "client_metrics",
    "kafka-verifiable-producer": "verifiable_producer",
    "kafka-verifiable-consumer": "verifiable_consumer",
    "kafka-verifiable-share-consumer": "verifiable_share_consumer",
    "kafka-e2e-latency": "e2e_latency",
    "kafka-topics": "topics",
    "kafka-console-producer": "console_producer",
    "kafka-console-consumer": "console_consumer",
    "kafka-console-share-consumer": "console_share_consumer",
    "kafka-consumer-groups": "consumer_groups",
    "kafka-groups": "groups",
    "kafka-share-groups": "share_groups",
    "kafka-streams-groups": "streams_groups",
    "kafka-transactions": "transactions",
    "kafka-configs": "configs",
    "kafka-get-offsets": "get_offsets",
    "kafka-delete-records": "delete_records",
    "kafka-broker-api-versions": "broker_api_versions",
    "kafka-dump-log": "dump_log",
    "kafka-producer-perf-test": "producer_perf_test",
    "kafka-consumer-perf-test": "consumer_perf_test",
    "kafka-share-consumer-perf-test": "share_consumer_perf_test",
    "kafka-replica-verification": "replica_verification",
}


def start(*words: str, **options: object) -> subprocess.Popen[str]:
    pipes: dict[str, object] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(  # type: ignore[call-overload, no-any-return]
        [sys.executable, *words], text=True, **{**pipes, **options}
    )


def wait_until_listening(process: subprocess.Popen[str]) -> str:
    assert process.stderr is not None
    for line in process.stderr:
        if "started in" in line:
            return line
    pytest.fail("the broker did not start")


def test_a_broken_pipe_is_not_an_error(bootstrap: str, five: str) -> None:
    tool = start(
        "-m",
        "ottla.cli.kafka.broker_api_versions",
        "--bootstrap-server",
        bootstrap,
    )
    assert tool.stdout is not None
    tool.stdout.readline()
    tool.stdout.close()
    assert tool.stderr is not None
    errors = tool.stderr.read()
    tool.stderr.close()
    tool.wait(60)
    assert "Traceback" not in errors


def test_ctrl_c_ends_a_consumer_cleanly(bootstrap: str, five: str, group: str) -> None:
    words = ("--bootstrap-server", bootstrap, "--topic", five, "--group", group)
    tool = start("-u", "-m", "ottla.cli.kafka.console_consumer", *words, "--from-beginning")
    assert tool.stdout is not None
    assert [tool.stdout.readline() for _ in range(5)] == [f"{number}\n" for number in range(5)]
    tool.send_signal(signal.SIGINT)
    _, errors = tool.communicate(timeout=60)
    assert errors.endswith("Processed a total of 5 messages\n")
    assert tool.returncode == 0
    with Consumer(bootstrap, five, group=group, auto_offset_reset="earliest") as consumer:
        again = consumer.poll(1)  # at most the one that was being printed when Ctrl-C came
        assert again is None or again.offset == 4


def test_ctrl_c_while_modules_are_imported_shows_no_stack_trace() -> None:
    code = """
import sys

class CtrlC:
    def find_spec(self, name, path, target=None):
        if name == "ottla.cli.verbs.status":
            raise KeyboardInterrupt

sys.meta_path.insert(0, CtrlC())
from ottla.cli.main import main
sys.exit(main(["status"]))
"""
    command = start("-c", code)
    assert command.communicate(timeout=60) == ("", "")
    assert command.returncode == 130


def test_serve_starts_and_stops(tmp_path: Path) -> None:
    properties = tmp_path / "server.properties"
    properties.write_text(f"listeners=PLAINTEXT://127.0.0.1:0\nlog.dirs={tmp_path}/data\n")
    for module in ("ottla.cli", "ottla.cli.kafka.server_start"):
        verb = ["serve"] if module == "ottla.cli" else []
        words = [*verb, str(properties), "--override", "num.partitions=3"]
        server = start("-m", module, *words)
        assert server.stderr is not None
        assert f"Ottla {ottla.__version__}, {build.BUILD_NAME} build" in server.stderr.readline()
        assert "PLAINTEXT://127.0.0.1:" in wait_until_listening(server)
        server.send_signal(signal.SIGTERM)
        server.communicate(timeout=60)
        assert server.returncode == 0


def test_a_wrong_property_refuses_to_start(tmp_path: Path) -> None:
    server = start("-m", "ottla.cli", "serve", "--override", "num.partitions=none")
    _, errors = server.communicate(timeout=60)
    assert "num.partitions" in errors
    assert server.returncode == 1


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    server = start("-m", "ottla.cli", "serve", str(tmp_path / "none"))
    _, errors = server.communicate(timeout=60)
    assert errors == f"ottla serve: there is no file {tmp_path / 'none'}\n"
    assert server.returncode == 1


def test_an_unknown_option_of_serve_shows_how_a_port_is_given() -> None:
    server = start("-m", "ottla.cli", "serve", "--port", "9093")
    _, errors = server.communicate(timeout=60)
    assert "unrecognized arguments: --port" in errors
    assert "--override listeners=PLAINTEXT://" in errors
    assert server.returncode == 2


def test_server_start_in_the_background(tmp_path: Path) -> None:
    properties = tmp_path / "server.properties"
    properties.write_text(f"listeners=PLAINTEXT://127.0.0.1:0\nlog.dirs={tmp_path}/data\n")
    words = ("-daemon", str(properties))
    starter = start("-m", "ottla.cli.kafka.server_start", *words, cwd=tmp_path)
    assert starter.communicate(timeout=60) == ("", "")
    log = tmp_path / "logs" / "kafkaServer.out"
    deadline = time.monotonic() + 60
    while not log.exists() or "started in" not in log.read_text():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    address = log.read_text().partition("PLAINTEXT://")[2].split()[0]
    (pid,) = running_with(str(properties))
    try:
        with Admin(address) as admin:
            assert admin.cluster().nodes
    finally:
        os.kill(pid, signal.SIGTERM)
    while running_with(str(properties)):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert "Shut down completed" in log.read_text()


def running_with(word: str) -> list[int]:
    """The processes with this word in their command lines."""
    found = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):  # it ended meanwhile
            if word.encode() in file.read_bytes().split(b"\0"):
                found.append(int(file.parent.name))
    return found


def test_server_start_needs_a_file() -> None:
    server = start("-m", "ottla.cli.kafka.server_start")
    out, _ = server.communicate(timeout=60)
    assert out.startswith("USAGE: kafka-server-start")
    assert server.returncode == 1


def test_serve_imports_nothing_that_a_broker_does_not_need() -> None:
    code = (
        "import sys, ottla.cli.main, ottla.cli.serve, ottla.broker.process;"
        "print(*sorted({name.split('.')[0] for name in sys.modules}))"
    )
    out, _ = start("-c", code).communicate(timeout=60)
    assert set(out.split()).isdisjoint({"typer", "rich", "confluent_kafka", "click"})


@pytest.mark.parametrize("module", sorted(TOOLS.values()))
def test_every_tool_has_a_main(module: str) -> None:
    assert callable(importlib.import_module(f"ottla.cli.kafka.{module}").main)


@pytest.mark.parametrize("name", sorted(TOOLS))
def test_every_tool_is_installed_with_and_without_sh(name: str) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    target = f"ottla.cli.kafka.{TOOLS[name]}:main"
    assert project["scripts"].get(name) == target
    assert project["scripts"].get(f"{name}.sh") == target
