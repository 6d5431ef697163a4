"""deploy/: sample properties start real servers, and its commands work."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from ottla.cli.local.health import PROBES
from ottla.cli.local.health import main as health
from ottla.client import Admin
from ottla.config import ServerConfig, parse_properties
from ottla.testing import LocalCluster
from ottla.testing.ports import reserve_port

DEPLOY = Path(__file__).parents[1] / "deploy"
CONFIG = DEPLOY / "config"
BIN = Path(sys.executable).parent
WAIT_S_MAX = 60.0


@contextmanager
def port() -> Iterator[int]:
    with reserve_port() as reserved:
        yield reserved.getsockname()[1]


@contextmanager
def running(kind: str, address: str, *words: str, **variables: str) -> Iterator[None]:
    """A process, from when its health check says that it is ready until SIGTERM."""
    process = subprocess.Popen(
        words,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}", **variables},
    )
    try:
        deadline = time.monotonic() + WAIT_S_MAX
        while not PROBES[kind](address).ready:
            assert process.poll() is None, "it has ended"
            assert time.monotonic() < deadline, "it is not ready"
            time.sleep(0.05)
        yield
    finally:
        process.terminate()
        process.wait(WAIT_S_MAX)


def changed(path: Path, folder: Path, **changes: str) -> Path:
    """The file with some of its lines changed: ports and folders of a test."""
    text = path.read_text()
    for name, value in changes.items():
        text, count = re.subn(
            rf"^{re.escape(name.replace('_', '.'))}=.*$",
            f"{name.replace('_', '.')}={value}",
            text,
            flags=re.MULTILINE,
        )
        assert count == 1, f"{path.name} has {name} once"
    copy = folder / path.name
    copy.write_text(text)
    return copy


def documents(name: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((DEPLOY / name).read_text()))


def test_server_properties_start_a_broker(tmp_path: Path) -> None:
    assert not ServerConfig.load(str(CONFIG / "server.properties"), {}).unknown
    with port() as kafka, port() as metrics:
        path = changed(
            CONFIG / "server.properties",
            tmp_path,
            listeners=f"PLAINTEXT://:{kafka}",
            advertised_listeners=f"PLAINTEXT://localhost:{kafka}",
            log_dirs=str(tmp_path / "data"),
            metrics_port=str(metrics),
        )
        address = f"127.0.0.1:{kafka}"
        with running("broker", address, "kafka-server-start", str(path), OTTLA_RUN_DIR="/dev/null"):
            with Admin(address) as admin:
                assert [str(node) for node in admin.cluster().nodes] == [f"localhost:{kafka}"]
            with urllib.request.urlopen(f"http://127.0.0.1:{metrics}/metrics") as answer:
                assert answer.status == 200
            assert health(["broker", address]) == 0
        assert health(["broker", address]) == 1


@pytest.mark.zookeeper
def test_zookeeper_properties_start_zookeeper_and_the_pods_command_a_broker(
    tmp_path: Path,
) -> None:
    with port() as zookeeper, port() as kafka, port() as metrics:
        path = changed(
            CONFIG / "zookeeper.properties",
            tmp_path,
            dataDir=str(tmp_path / "zookeeper"),
            clientPort=str(zookeeper),
        )
        place = f"127.0.0.1:{zookeeper}"
        start = ("zookeeper-server-start", str(path))
        with running("zookeeper", place, *start, OTTLA_RUN_DIR=str(tmp_path / "run")):
            found = {document["kind"]: document for document in documents("kubernetes/ottla.yaml")}
            pod = found["StatefulSet"]["spec"]["template"]["spec"]["containers"][0]
            properties = tmp_path / "server.properties"
            properties.write_text(found["ConfigMap"]["data"]["server.properties"])
            changed(
                properties,
                tmp_path,
                listeners=f"PLAINTEXT://:{kafka}",
                log_dirs=str(tmp_path / "data"),
                zookeeper_connect=f"{place}/ottla",
                metrics_port=str(metrics),
            )
            script = pod["args"][0].replace("/etc/ottla/server.properties", str(properties))
            names = {"POD_NAME": "ottla-2", "POD_NAMESPACE": "shop", "NODE_NAME": "machine-1"}
            assert {variable["name"] for variable in pod["env"]} == set(names)
            address = f"127.0.0.1:{kafka}"
            command = ("/bin/sh", "-c", script)
            with running("broker", address, *command, **names), Admin(address) as admin:
                (node,) = admin.cluster().nodes
    assert (node.id, node.rack) == (2, "machine-1")
    assert str(node) == "ottla-2.ottla-brokers.shop.svc:9092"


@pytest.mark.spark
@pytest.mark.timeout(300)
def test_connect_distributed_properties_start_a_worker(tmp_path: Path) -> None:
    with LocalCluster(process=True) as cluster, port() as rest:
        path = changed(
            CONFIG / "connect-distributed.properties",
            tmp_path,
            bootstrap_servers=cluster.bootstrap_servers,
            listeners=f"http://127.0.0.1:{rest}",
        )
        with (
            running("connect", f"http://127.0.0.1:{rest}", "connect-distributed", str(path)),
            urllib.request.urlopen(f"http://127.0.0.1:{rest}/connectors") as answer,
        ):
            assert answer.read() == b"[]"


def test_ensembles_name_the_same_servers() -> None:
    zookeeper = documents("kubernetes/zookeeper.yaml")[-1]["spec"]
    (config,) = (
        document
        for document in documents("kubernetes/ottla.yaml")
        if document["kind"] == "ConfigMap"
    )
    connect = parse_properties(config["data"]["server.properties"])["zookeeper.connect"]
    assert len(connect.split(",")) == zookeeper["replicas"]
    servers = zookeeper["template"]["spec"]["containers"][0]["env"][0]["value"]
    hosts = [address.split(":")[0] for address in connect.partition("/")[0].split(",")]
    assert re.findall(r"=([^:]+):2888", servers) == hosts


def test_compose_has_commands_and_checks_that_exist() -> None:
    services = documents("docker-compose.yaml")[0]["services"]
    for name, service in services.items():
        done = subprocess.run(
            [sys.executable, "-m", "ottla.cli", *verb_of(service["command"]), "--help"],
            capture_output=True,
            text=True,
            timeout=WAIT_S_MAX,
        )
        assert done.returncode == 0, done.stderr
        for option in (argument for argument in service["command"] if argument.startswith("--")):
            assert option in done.stdout, f"{name}: {option}"
        if name != "broker":
            *_, module, kind, url = service["healthcheck"]["test"]
            assert (module, kind) == ("ottla.cli.local.health", name)
            assert url.startswith("http://127.0.0.1:")


def verb_of(command: list[str]) -> list[str]:
    return command[:2] if command[0] == "connect" else command[:1]


def test_the_image_does_not_run_as_root_and_has_a_health_check() -> None:
    lines = (DEPLOY / "Dockerfile").read_text().replace("\\\n", " ").splitlines()
    words = {line.split()[0]: line for line in lines if line and not line.startswith("#")}
    assert words["USER"] == "USER 10001:10001"
    assert words["VOLUME"] == "VOLUME /var/lib/ottla"
    check = shlex.split(words["HEALTHCHECK"].partition("CMD")[2].strip(" []").replace(",", " "))
    assert check[:3] == ["python", "-m", "ottla.cli.local.health"]
    assert check[3] in PROBES
    config = ServerConfig.load(str(CONFIG / "server.properties"), {})
    assert [log_dir.startswith("/var/lib/ottla/") for log_dir in config.log_dirs] == [True]


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not here")
def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    text = (DEPLOY / "systemd" / "ottla.service").read_text()
    (program,) = re.findall(r"^ExecStart=(\S+)", text, flags=re.MULTILINE)
    unit = tmp_path / "ottla.service"
    unit.write_text(text.replace(program, str(BIN / "ottla")))
    done = subprocess.run(
        ["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, timeout=WAIT_S_MAX
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_the_health_check_prints_its_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert health(["kafka", "localhost:1"]) == 2
    assert "USAGE" in capsys.readouterr().err
