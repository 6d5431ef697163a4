"""`ottla up`, `ottla status` and `ottla down`, as typed by a user."""

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


def test_one_command_starts_all_services_and_ctrl_c_ends_them(
    tmp_path: Path, ports: list[int]
) -> None:
    with foreground(tmp_path, *words_of(ports), "--override", "num.partitions=3") as up:
        said = up.wait_for("Ctrl-C stops all of them")
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
        assert {name: service["state"] for name, service in services.items()} == {
            "broker": "ready",
            "registry": "ready",
        }
        assert up.end(signal.SIGINT) == 0
        assert up.output.endswith("all stopped\n")
    assert all(has_ended(service["pid"]) for service in services.values())
    assert RunRecords().find(UP) == []


def test_a_service_that_dies_is_reported_with_its_log(tmp_path: Path, ports: list[int]) -> None:
    with foreground(tmp_path, *words_of(ports)) as up:
        up.wait_for("Ctrl-C stops all of them")
        pid = status_of(tmp_path)["registry"]["pid"]
        os.kill(pid, signal.SIGKILL)
        said = up.wait_for("registry was ended by SIGKILL")
        assert "schema registry at http://127.0.0.1" in said.partition("SIGKILL")[2]
        services = status_of(tmp_path)
        assert services["registry"]["state"] == "ended"
        assert services["broker"]["state"] == "ready"
        assert ran(tmp_path, "status").returncode == 1
        assert up.end() == 0


def test_down_in_another_terminal_ends_all_services(tmp_path: Path, ports: list[int]) -> None:
    with foreground(tmp_path, *words_of(ports)) as up:
        up.wait_for("Ctrl-C stops all of them")
        services = status_of(tmp_path)
        elsewhere = tmp_path / "elsewhere"
        elsewhere.mkdir()
        done = ran(elsewhere, "down")
        assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "all stopped")
        assert up.process.wait(60) == 0
    assert all(has_ended(service["pid"]) for service in services.values())
    again = ran(tmp_path, "down")
    assert again.returncode == 1
    assert "nothing runs" in again.stderr


def test_services_that_outlive_their_terminal_are_found_and_ended(
    tmp_path: Path, ports: list[int]
) -> None:
    with foreground(tmp_path, *words_of(ports, "broker")) as up:
        up.wait_for("Ctrl-C stops all of them")
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
    assert "`ottla down` stops them" in ran(tmp_path, *words).stdout
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


def test_a_taken_port_is_reported_before_anything_starts(tmp_path: Path, ports: list[int]) -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = ran(tmp_path, *words_of([ports[0], port, *ports[2:]]))
    assert done.returncode == 1
    assert f"registry can't listen on 127.0.0.1:{port}" in done.stderr
    assert "--registry-port chooses another" in done.stderr
    assert not (tmp_path / "ottla-data").exists()


def test_a_port_that_two_services_want_is_reported(tmp_path: Path, ports: list[int]) -> None:
    done = ran(tmp_path, *words_of([ports[0], ports[0], *ports[2:]]))
    assert done.returncode == 1
    assert f"broker and registry can't both listen on 127.0.0.1:{ports[0]}" in done.stderr
    assert "--registry-port chooses another" in done.stderr


@pytest.mark.parametrize("port", ["0", "65536"])
def test_an_impossible_port_is_refused(tmp_path: Path, port: str) -> None:
    done = ran(tmp_path, "up", "--only", "broker", "--port", port)
    assert done.returncode == 2
    assert "Invalid value for '--port'" in done.stderr


def test_a_data_folder_that_can_not_be_made_is_reported(tmp_path: Path, ports: list[int]) -> None:
    (tmp_path / "file").touch()
    done = ran(tmp_path, *words_of(ports, "broker"), "--data", str(tmp_path / "file/data"))
    assert done.returncode == 1
    assert f"error can't write {tmp_path / 'file/data'}: Not a directory." in done.stderr
    assert "--data chooses another" in done.stderr
    assert RunRecords().find(UP) == []


def test_a_run_folder_that_can_not_be_made_is_reported(
    tmp_path: Path, ports: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv(FOLDER, str(tmp_path / "file/run"))
    done = ran(tmp_path, *words_of(ports, "broker"))
    assert done.returncode == 1
    assert f"error can't write {tmp_path / 'file/run'}: Not a directory." in done.stderr
    assert FOLDER in done.stderr
    assert not (tmp_path / "ottla-data").exists()


@pytest.mark.spark
@pytest.mark.timeout(500)
def test_all_four_work_together(tmp_path: Path, ports: list[int]) -> None:
    """SQL registers a schema, reads what is produced, and finds the Connect worker."""
    everything = "broker,registry,sql,connect"
    with foreground(tmp_path, *words_of(ports, everything)) as up:
        up.wait_for("Ctrl-C stops all of them", 330.0)
        assert {service["state"] for service in status_of(tmp_path).values()} == {"ready"}
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


def test_services_that_are_not_installed_are_left_out(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def need(verb: str, extra: str) -> None:
        if extra == "spark":
            raise ToolError(f"`{verb}` needs no_such_module")

    monkeypatch.setattr("ottla.cli.verbs.up.require_extra", need)
    assert _chosen("") == ["broker", "registry"]
    assert "without sql, connect: `ottla up` needs no_such_module" in capfd.readouterr().out
    with pytest.raises(ToolError, match="--only sql` needs no_such_module"):
        _chosen("broker,sql")


def test_an_unknown_service_is_refused(tmp_path: Path, ports: list[int]) -> None:
    unknown = ran(tmp_path, "up", "--only", "kafka")
    assert "choose from broker, registry, sql, connect" in unknown.stderr
    alone = ran(tmp_path, *words_of(ports, "registry"), "-b", f"127.0.0.1:{ports[0]}")
    assert alone.returncode == 1
    assert "Without `broker` in --only, a cluster must run" in alone.stderr
