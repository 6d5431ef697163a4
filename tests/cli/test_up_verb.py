"""`ottla up`, `ottla status` and `ottla down`, as somebody would type them."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from local_services import foreground, ran, reserved_ports, status_of

from ottla.cli.kafka.tool import ToolError
from ottla.cli.local.process_identity import identity_of
from ottla.cli.local.run_records import FOLDER, RunRecords
from ottla.cli.local.stack import UP
from ottla.cli.verbs.up import _chosen
from ottla.client import Admin
from ottla.client.schema_registry import SchemaRegistry


@pytest.fixture(autouse=True)
def run_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(FOLDER, str(tmp_path / "run"))
    return tmp_path / "run"


@pytest.fixture
def ports() -> Iterator[list[int]]:
    with reserved_ports(4) as found:
        yield found


def words_of(ports: list[int], only: str = "broker,registry") -> list[str]:
    broker, registry, sql, connect = map(str, ports)
    return [
        *("up", "--only", only, "--port", broker, "--registry-port", registry),
        *("--sql-port", sql, "--connect-port", connect),
    ]


def has_ended(pid: int) -> bool:
    return identity_of(pid) is None


def test_one_command_starts_them_and_ctrl_c_ends_all(tmp_path: Path, ports: list[int]) -> None:
    with foreground(tmp_path, *words_of(ports), "--override", "num.partitions=3") as up:
        said = up.wait_for("Ctrl-C ends all of them")
        assert f"127.0.0.1:{ports[0]}" in said
        assert f"http://127.0.0.1:{ports[1]}" in said
        assert "Ready in" in said
        with Admin(f"127.0.0.1:{ports[0]}") as admin:
            admin.topics.create("orders")
            described = admin.topics.describe("orders")["orders"]
            assert not isinstance(described, Exception)
            assert len(described.partitions) == 3
        registry = SchemaRegistry(f"http://127.0.0.1:{ports[1]}")
        assert registry.subjects() == []
        registry.close()
        services = status_of(tmp_path)
        assert {name: each["state"] for name, each in services.items()} == {
            "broker": "ready",
            "registry": "ready",
        }
        assert up.end(signal.SIGINT) == 0
        assert up.output.endswith("all stopped\n")
    assert all(has_ended(each["pid"]) for each in services.values())
    assert RunRecords().find(UP) == []


def test_a_service_that_dies_is_reported_with_its_log(tmp_path: Path, ports: list[int]) -> None:
    with foreground(tmp_path, *words_of(ports)) as up:
        up.wait_for("Ctrl-C ends all of them")
        pid = status_of(tmp_path)["registry"]["pid"]
        os.kill(pid, signal.SIGKILL)
        said = up.wait_for("registry was ended by SIGKILL")
        assert "schema registry at http://127.0.0.1" in said.partition("SIGKILL")[2]
        services = status_of(tmp_path)
        assert services["registry"]["state"] == "ended"
        assert services["broker"]["state"] == "ready"
        assert ran(tmp_path, "status").returncode == 1
        assert up.end() == 0


def test_down_in_another_terminal_ends_them(tmp_path: Path, ports: list[int]) -> None:
    with foreground(tmp_path, *words_of(ports)) as up:
        up.wait_for("Ctrl-C ends all of them")
        services = status_of(tmp_path)
        elsewhere = tmp_path / "elsewhere"
        elsewhere.mkdir()
        done = ran(elsewhere, "down")
        assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "all stopped")
        assert up.process.wait(60) == 0
    assert all(has_ended(each["pid"]) for each in services.values())
    again = ran(tmp_path, "down")
    assert again.returncode == 1
    assert "nothing runs" in again.stderr


def test_what_outlives_its_terminal_is_found_and_ended(tmp_path: Path, ports: list[int]) -> None:
    with foreground(tmp_path, *words_of(ports, "broker")) as up:
        up.wait_for("Ctrl-C ends all of them")
        up.end(signal.SIGKILL)
    broker = status_of(tmp_path)["broker"]
    assert broker["state"] == "ready"
    second = ran(tmp_path, *words_of(ports, "broker"))
    assert second.returncode == 1
    assert "it runs already" in second.stderr
    assert ran(tmp_path, "down").returncode == 0
    assert has_ended(broker["pid"])


def test_detached_services_keep_their_data(tmp_path: Path, ports: list[int]) -> None:
    words = [*words_of(ports, "broker"), "--detach"]
    assert "`ottla down` ends them" in ran(tmp_path, *words).stdout
    with Admin(f"127.0.0.1:{ports[0]}") as admin:
        admin.topics.create("kept", 1)
    assert ran(tmp_path, "down", "--data", "ottla-data").returncode == 0
    assert ran(tmp_path, *words).returncode == 0
    with Admin(f"127.0.0.1:{ports[0]}") as admin:
        assert admin.topics.names(internal=False) == ["kept"]
    assert ran(tmp_path, "down").returncode == 0


def test_a_service_that_does_not_start_ends_the_others(tmp_path: Path, ports: list[int]) -> None:
    done = ran(tmp_path, *words_of(ports), "--override", "num.partitions=none")
    assert done.returncode == 1
    assert "broker has ended with exit code 1" in done.stdout
    assert "num.partitions" in done.stdout  # its log
    assert RunRecords().find(UP) == []


def test_a_port_that_is_taken_is_said_before_anything_starts(
    tmp_path: Path, ports: list[int]
) -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = ran(tmp_path, *words_of([ports[0], port, *ports[2:]]))
    assert done.returncode == 1
    assert f"registry can't listen on 127.0.0.1:{port}" in done.stderr
    assert "--registry-port chooses another" in done.stderr
    assert not (tmp_path / "ottla-data").exists()


@pytest.mark.spark
@pytest.mark.timeout(500)
def test_all_four_work_together(tmp_path: Path, ports: list[int]) -> None:
    """SQL registers a schema, reads what is produced, and finds the Connect worker."""
    everything = "broker,registry,sql,connect"
    with foreground(tmp_path, *words_of(ports, everything)) as up:
        up.wait_for("Ctrl-C ends all of them", 330.0)
        assert {each["state"] for each in status_of(tmp_path).values()} == {"ready"}
        server = f"http://127.0.0.1:{ports[2]}"
        statement = (
            "CREATE STREAM orders (id STRING KEY, amount INT)"
            " WITH (KAFKA_TOPIC='orders', VALUE_FORMAT='AVRO', PARTITIONS=1); SHOW CONNECTORS;"
        )
        shell = ran(tmp_path, "sql", "--server", server, "-e", statement)
        assert shell.returncode == 0, shell.stdout + shell.stderr
        registry = SchemaRegistry(f"http://127.0.0.1:{ports[1]}")
        assert registry.subjects() == ["orders-value"]
        registry.close()
        assert up.end(signal.SIGINT, 120.0) == 0


def test_what_is_not_installed_is_left_out(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def need(verb: str, extra: str) -> None:
        if extra == "spark":
            raise ToolError(f"`{verb}` needs no_such_module")

    monkeypatch.setattr("ottla.cli.verbs.up.need", need)
    assert _chosen("") == ["broker", "registry"]
    assert "without sql, connect: `ottla up` needs no_such_module" in capfd.readouterr().out
    with pytest.raises(ToolError, match="--only sql` needs no_such_module"):
        _chosen("broker,sql")


def test_what_nobody_knows_is_refused(tmp_path: Path, ports: list[int]) -> None:
    unknown = ran(tmp_path, "up", "--only", "kafka")
    assert "there are broker, registry, sql, connect" in unknown.stderr
    alone = ran(tmp_path, *words_of(ports, "registry"), "-b", f"127.0.0.1:{ports[0]}")
    assert alone.returncode == 1
    assert "Without `broker` in --only a cluster has to run" in alone.stderr
