"""A ZOOKEEPER_HOME without ZooKeeper is an error before Java starts."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from ottla.cli.kafka.zookeeper_server_start import main
from ottla.testing.zookeeper import ZooKeeperNotFound, java_command


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that ZOOKEEPER_HOME names; it is not there yet."""
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setenv("ZOOKEEPER_HOME", str(tmp_path / "zk"))
    return tmp_path / "zk"


def test_an_absent_folder_is_refused(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(ZooKeeperNotFound, match=f"ZOOKEEPER_HOME is {home}: there is no such fold"):
        java_command()
    file = tmp_path / "zookeeper.properties"
    file.write_text("clientPort=2181\n")
    assert main([str(file)]) == 1
    said = capsys.readouterr().err
    assert said.startswith(f"zookeeper-server-start: ZOOKEEPER_HOME is {home}")
    assert "Debian's package" in said


def test_a_folder_without_zookeeper(home: Path) -> None:
    home.mkdir()
    with pytest.raises(
        ZooKeeperNotFound, match=rf"no zookeeper\*\.jar lies in {home} or {home}/lib"
    ):
        java_command()


@pytest.mark.parametrize("folder", ["", "lib"])
def test_an_unpacked_zookeeper(home: Path, folder: str) -> None:
    (home / folder).mkdir(parents=True)
    (home / folder / "zookeeper-3.9.3.jar").touch()
    assert f"{home}/lib/*:{home}/*" in java_command()
