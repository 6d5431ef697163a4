"""Host processes without Spark: discovery, authorized callers, and when they exit."""

from __future__ import annotations

import os
import select
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ottla.engine import host_process
from ottla.engine import host_sockets as places
from ottla.engine.host_process import (
    FinalAnswer,
    HostConnection,
    HostDisconnect,
    HostProcessStarter,
    connect_if_running,
    connect_or_start,
    fork_host,
    spawn_host,
)
from ottla.spark.fork_server_start import JVM

END_S_MAX = 240.0


@pytest.fixture(params=[True, False], ids=["linux", "elsewhere"])
def name(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """With both kinds of sockets: forked hosts inherit the kind that is set here."""
    monkeypatch.setattr(places, "ABSTRACT", request.param)
    monkeypatch.setattr(places, "LOOK_S", 0.05)
    folder = tempfile.mkdtemp()  # a socket's path has to be short
    monkeypatch.setattr(tempfile, "tempdir", folder)
    made = f"test-{os.urandom(6).hex()}"
    yield made
    line = connect_if_running(made)
    if line is not None:
        with line:
            line.ask("end")
    shutil.rmtree(folder)


def counting(name: str, *, owner: int | None = None) -> HostProcessStarter:
    """Responds with its pid and the number of requests; some requests are special."""
    asked = 0

    def answer(message: Any, line: HostConnection) -> Any:
        nonlocal asked
        asked += 1
        if message == "end":
            return FinalAnswer("the end")
        if message == "more":
            line.send("and")
        if message == "who":
            return os.getsid(0), os.listdir("/proc/self/fd")
        return (os.getpid(), asked, message)

    owner = os.getpid() if owner is None else owner
    return fork_host(lambda ready: host_process.serve(name, answer, owner=owner, ready=ready))


def ends(process: int) -> Callable[[], None]:
    """Opens the process before it exits, because it may have no parent that reaps it."""
    handle = os.pidfd_open(process)

    def wait() -> None:
        poll = select.poll()
        poll.register(handle, select.POLLIN)
        assert poll.poll(END_S_MAX * 1000), "it has not ended"
        os.close(handle)

    return wait


def test_the_next_caller_finds_the_process_of_the_first(name: str) -> None:
    with connect_or_start(name, counting(name)) as line:
        process, asked, said = line.ask("x" * 1_000_000)
        assert (asked, len(said)) == (1, 1_000_000)
        assert process == line.peer != os.getpid()
    with connect_or_start(name, counting(name)) as line:
        assert line.ask(None) == (process, 2, None)
        assert line.ask("more") == "and"
        assert line.receive() == (process, 3, "more")


def test_the_host_has_its_own_session_and_no_inherited_files(name: str) -> None:
    with open(os.devnull), connect_or_start(name, counting(name)) as line:
        session, files = line.ask("who")
        assert session != os.getsid(0)
        # 0 to 2, the socket, its lock, the connection, the owner (two for a pipe), the listing
        assert len(files) < 11


def test_a_silent_caller_is_replaced_by_the_next(name: str) -> None:
    with (
        connect_or_start(name, counting(name)) as silent,
        connect_or_start(name, counting(name)) as other,
    ):
        assert other.ask("me")[1:] == (1, "me")
        with pytest.raises(HostDisconnect, match="Connection reset"):
            silent.ask("me too")


def test_a_second_host_of_the_same_name_ends(name: str) -> None:
    with connect_or_start(name, counting(name)) as line:
        reading, writing = os.pipe()
        counting(name)(writing)
        os.close(writing)
        with open(reading, "rb") as reader:
            assert reader.read() == b"="
        assert line.ask(1)[1:] == (1, 1)


def test_after_its_last_answer_a_host_is_not_found(name: str) -> None:
    with connect_or_start(name, counting(name)) as line:
        wait = ends(line.peer)
        assert line.ask("end") == "the end"
        assert connect_if_running(name) is None
        wait()
    with connect_or_start(name, counting(name)) as line:
        assert line.ask(1)[1:] == (1, 1)


def test_a_killed_host_is_reported_and_replaced(name: str) -> None:
    with connect_or_start(name, counting(name)) as line:
        process = line.peer
        wait = ends(process)
        os.kill(process, signal.SIGKILL)
        with pytest.raises(HostDisconnect):
            line.ask(1)
    wait()  # it may have closed this connection before its listening socket
    with connect_or_start(name, counting(name)) as line:
        assert line.ask(2) == (line.peer, 1, 2)
        assert line.peer != process


def test_the_host_ends_with_its_keeper_even_during_a_call(name: str) -> None:
    owner_process = subprocess.Popen(["sleep", "600"])
    try:
        with connect_or_start(name, counting(name, owner=owner_process.pid)) as line:
            assert line.ask(1)[1:] == (1, 1)
            wait = ends(line.peer)
            owner_process.kill()
            owner_process.wait()
            wait()
            assert connect_if_running(name) is None
    finally:
        owner_process.kill()
        owner_process.wait()


def test_a_busy_host_ends_with_its_owner(name: str) -> None:
    owner = subprocess.Popen(["sleep", "600"])

    def serve(ready: int) -> None:
        host_process.exit_with(owner.pid)
        host_process.serve(name, lambda *_: signal.pause(), owner=owner.pid, ready=ready)

    try:
        with connect_or_start(name, fork_host(serve)) as line:
            wait = ends(line.peer)
            line.send("for ever")
            assert not line.has_message(within_s=0.1)
            owner.kill()
            owner.wait()
            wait()
    finally:
        owner.kill()
        owner.wait()


def test_an_idle_host_ends(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_process, "IDLE_S_MAX", 0.2)
    with connect_or_start(name, counting(name)) as line:
        ends(line.peer)()
    assert connect_if_running(name) is None


def test_hosts_of_other_users_are_not_called(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with connect_or_start(name, counting(name)), monkeypatch.context() as patch:
        patch.setattr(places, "is_same_user", lambda line: False)
        with pytest.raises(PermissionError, match="another user"):
            connect_if_running(name)


def test_callers_of_other_users_are_ignored(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    reading, writing = os.pipe()
    with monkeypatch.context() as patch:
        patch.setattr(places, "is_same_user", lambda line: False)
        counting(name)(writing)
    os.close(writing)
    with open(reading, "rb") as reader:
        assert reader.read() == b"+"
    line = connect_if_running(name)
    assert line is not None
    with line:
        wait = ends(line.peer)
        with pytest.raises(HostDisconnect):
            line.ask(1)
        os.kill(line.peer, signal.SIGKILL)
        wait()


def test_a_host_that_fails_to_start_is_not_waited_for(
    name: str, capfd: pytest.CaptureFixture[str]
) -> None:
    def broken(ready: int) -> None:
        raise ValueError("no host today")

    with pytest.raises(HostDisconnect, match="could not be started"):
        connect_or_start(name, fork_host(broken))
    assert "no host today" in capfd.readouterr().err
    with pytest.raises(HostDisconnect, match="could not be started"):
        connect_or_start(name, spawn_host("no_such_module", jvm=os.getpid()))
    assert "no_such_module" in capfd.readouterr().err


def test_hosts_end_with_the_jvm_though_it_is_not_among_their_parents(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Spark's workers are forked from the fork server (fork_server.py)."""
    monkeypatch.setenv(JVM, "1234")
    assert host_process.owner_pid() == 1234
    monkeypatch.delenv(JVM)
    assert host_process.owner_pid() != 1234


def test_a_socket_folder_open_to_others_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(places, "ABSTRACT", False)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    folder = tmp_path / f"ottla-{os.getuid()}"
    folder.mkdir(mode=0o750)
    with pytest.raises(PermissionError, match="only its user"):
        connect_if_running("one")
