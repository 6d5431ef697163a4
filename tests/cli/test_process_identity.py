"""A reused pid is never signalled, and only recorded processes are found."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from local_services import WAIT_S_MAX, until

from ottla.cli.local.process_identity import ProcessIdentity, identity_of, own_identity
from ottla.cli.local.run_records import RunRecord, RunRecords


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    yield process
    process.kill()
    process.wait(WAIT_S_MAX)


def test_a_process_is_known_by_its_pid_and_start(child: subprocess.Popen[bytes]) -> None:
    identity = identity_of(child.pid)
    assert identity is not None
    assert identity.is_alive
    assert identity == identity_of(child.pid)
    assert own_identity().pid == os.getpid()
    assert own_identity().start != identity.start


def test_a_signal_reaches_the_process(child: subprocess.Popen[bytes]) -> None:
    identity = identity_of(child.pid)
    assert identity is not None
    assert identity.send(signal.SIGTERM)
    assert child.wait(WAIT_S_MAX) == -signal.SIGTERM
    assert not identity.send(signal.SIGTERM)


def test_a_stranger_with_the_same_pid_gets_no_signal(child: subprocess.Popen[bytes]) -> None:
    """As after the pid was reused."""
    identity = identity_of(child.pid)
    assert identity is not None
    before = ProcessIdentity(child.pid, identity.start + "1")
    assert not before.is_alive
    assert not before.send(signal.SIGKILL)
    assert child.poll() is None


def test_a_zombie_child_counts_as_ended(child: subprocess.Popen[bytes]) -> None:
    identity = identity_of(child.pid)
    assert identity is not None
    os.kill(child.pid, signal.SIGKILL)
    until(lambda: not identity.is_alive)
    assert Path(f"/proc/{child.pid}").exists()  # a zombie


def test_records_are_found_by_what_started_them(tmp_path: Path) -> None:
    records = RunRecords(tmp_path / "run")
    one = RunRecord("ottla up", "broker", own_identity(), "/a", command=("x", "y"), wave=0)
    records.write(one)
    records.write(replace(one, name="sql", wave=1))
    records.write(replace(one, folder="/b"))
    records.write(replace(one, started_by="ottla cluster up"))
    assert records.find("ottla up", "/a") == [one, replace(one, name="sql", wave=1)]
    assert [record.folder for record in records.find("ottla up")] == ["/a", "/a", "/b"]
    records.remove(one)
    assert [record.name for record in records.find("ottla up", "/a")] == ["sql"]


def test_only_running_processes_of_this_installation_are_alive(tmp_path: Path) -> None:
    records = RunRecords(tmp_path / "run")
    ours = RunRecord("kafka-server-start", "1", own_identity(), "/a")
    records.write(ours)
    records.write(replace(ours, name="2", installation="/usr/elsewhere"))
    records.write(replace(ours, name="3", process=ProcessIdentity(os.getpid(), "long ago")))
    (tmp_path / "run" / "broken.json").write_text("{")
    assert records.alive("kafka-server-start") == [ours]
    assert [record.name for record in records.find("kafka-server-start")] == ["1", "2"]


def test_records_of_another_machine_are_neither_used_nor_deleted(tmp_path: Path) -> None:
    """The home directory may be shared, and a pid of another machine says nothing here."""
    records = RunRecords(tmp_path / "run")
    ours = RunRecord("kafka-server-start", "1", own_identity(), "/a")
    theirs = replace(ours, process=ProcessIdentity(os.getpid(), "elsewhere 7"), host="elsewhere")
    records.write(ours)
    records.write(theirs)
    assert records.alive("kafka-server-start") == records.find("kafka-server-start") == [ours]
    assert len(list((tmp_path / "run").glob("*.json"))) == 2
    records.remove(ours)
    assert len(list((tmp_path / "run").glob("*.json"))) == 1


def test_a_process_of_this_machine_is_found_by_the_name_that_it_had_before(tmp_path: Path) -> None:
    records = RunRecords(tmp_path / "run")
    before = RunRecord("kafka-server-start", "1", own_identity(), "/a", host="laptop-at-home")
    records.write(before)
    assert records.alive("kafka-server-start") == [before]
