"""`ottla registry` and `ottla serve --registry`, as processes."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ottla.testing import LocalCluster

OTTLA = str(Path(sys.executable).parent / "ottla")
WAIT_S_MAX = 60.0


@contextmanager
def served(directory: Path, *arguments: str) -> Iterator[str]:
    """The URL that the process prints; a signal ends the process."""
    log = directory / "log"
    with log.open("wb") as out:
        process = subprocess.Popen([OTTLA, *arguments], stdout=out, stderr=out, cwd=directory)
    try:
        deadline = time.monotonic() + WAIT_S_MAX
        while (found := re.search(r"http://\S+:\d+", log.read_text())) is None:
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.02)
        yield found[0]
        process.terminate()
        assert process.wait(WAIT_S_MAX) == 0, log.read_text()
    finally:
        process.kill()
        process.wait()


def subjects(url: str) -> list[str]:
    with urllib.request.urlopen(f"{url}/subjects", timeout=WAIT_S_MAX) as answer:
        found: list[str] = json.load(answer)
    return found


def register(url: str, subject: str) -> None:
    body = json.dumps({"schema": '"string"'}).encode()
    urllib.request.urlopen(f"{url}/subjects/{subject}/versions", body, timeout=WAIT_S_MAX).close()


def test_a_registry_serves_a_running_cluster(tmp_path: Path) -> None:
    with LocalCluster(registry=True) as cluster:
        register(cluster.registry_url, "one")
        properties = tmp_path / "registry.properties"
        properties.write_text("listeners=http://127.0.0.1:0\n")
        server = ("registry", str(properties), "-b", cluster.bootstrap_servers)
        with served(tmp_path, *server) as url:
            assert subjects(url) == ["one"]
            register(url, "two")
        assert subjects(cluster.registry_url) == ["one", "two"]


def test_a_registry_in_the_brokers_process_keeps_its_schemas(tmp_path: Path) -> None:
    properties = tmp_path / "registry.properties"
    properties.write_text("listeners=http://127.0.0.1:0\n")
    listeners = "listeners=PLAINTEXT://127.0.0.1:0"
    server = ("serve", "--registry", str(properties), "--override", listeners)
    with served(tmp_path, *server) as url:
        register(url, "kept")
    with served(tmp_path, *server) as url:
        assert subjects(url) == ["kept"]


def test_a_port_that_is_taken_is_an_error_in_one_line(tmp_path: Path) -> None:
    with LocalCluster(registry=True) as cluster:
        port = cluster.registry_url.rpartition(":")[2]
        done = subprocess.run(
            [OTTLA, "registry", "-b", cluster.bootstrap_servers, "--port", port],
            capture_output=True,
            text=True,
            timeout=WAIT_S_MAX,
        )
    assert done.returncode == 1
    assert f"cannot listen on 127.0.0.1:{port}" in done.stderr
    assert "Traceback" not in done.stderr
