"""Processes that stay, without Spark: who finds them, who may call, and when they end."""

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

from ottla.engine import host_sockets as places
from ottla.engine import hosts
from ottla.engine.hosts import HungUp, Last, Line, Start, called, forked, reached, spawned
from ottla.spark.planner_start import JVM

END_S_MAX = 240.0


@pytest.fixture(params=[True, False], ids=["linux", "elsewhere"])
def name(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """By both kinds of places: hosts that are forked have the one that is set here."""
    monkeypatch.setattr(places, "ABSTRACT", request.param)
    monkeypatch.setattr(places, "LOOK_S", 0.05)
    folder = tempfile.mkdtemp()  # a socket's path has to be short
    monkeypatch.setattr(tempfile, "tempdir", folder)
    made = f"test-{os.urandom(6).hex()}"
    yield made
    line = called(made)
    if line is not None:
        with line:
            line.ask("end")
    shutil.rmtree(folder)


def counting(name: str, *, keeper: int | None = None) -> Start:
    """Answers with its process and how often it was asked; some words are special."""
    asked = 0

    def answer(message: Any, line: Line) -> Any:
        nonlocal asked
        asked += 1
        if message == "end":
            return Last("the end")
        if message == "more":
            line.send("and")
        if message == "who":
            return os.getsid(0), os.listdir("/proc/self/fd")
        return (os.getpid(), asked, message)

    owner = os.getpid() if keeper is None else keeper
    return forked(lambda ready: hosts.serve(name, answer, keeper=owner, ready=ready))


def ends(process: int) -> Callable[[], None]:
    """To be called before what makes it end; the process may have no parent that waits for it."""
    handle = os.pidfd_open(process)

    def wait() -> None:
        poll = select.poll()
        poll.register(handle, select.POLLIN)
        assert poll.poll(END_S_MAX * 1000), "it has not ended"
        os.close(handle)

    return wait


def test_the_next_caller_finds_the_process_of_the_first(name: str) -> None:
    with reached(name, counting(name)) as line:
        process, asked, said = line.ask("x" * 1_000_000)
        assert (asked, len(said)) == (1, 1_000_000)
        assert process == line.peer != os.getpid()
    with reached(name, counting(name)) as line:
        assert line.ask(None) == (process, 2, None)
        assert line.ask("more") == "and"
        assert line.receive() == (process, 3, "more")


def test_it_belongs_to_nobodys_session_and_keeps_nobodys_files_open(name: str) -> None:
    with open(os.devnull), reached(name, counting(name)) as line:
        session, files = line.ask("who")
        assert session != os.getsid(0)
        # 0 to 2, the socket, its lock, the call, the keeper (two for a pipe), the listing itself
        assert len(files) < 11


def test_who_is_silent_is_replaced_by_the_next(name: str) -> None:
    with reached(name, counting(name)) as silent, reached(name, counting(name)) as other:
        assert other.ask("me")[1:] == (1, "me")
        with pytest.raises(HungUp, match="Connection reset"):
            silent.ask("me too")


def test_a_second_one_of_the_same_name_ends(name: str) -> None:
    with reached(name, counting(name)) as line:
        reading, writing = os.pipe()
        counting(name)(writing)
        os.close(writing)
        with open(reading, "rb") as told:
            assert told.read() == b"="
        assert line.ask(1)[1:] == (1, 1)


def test_behind_the_last_answer_nobody_is_found(name: str) -> None:
    with reached(name, counting(name)) as line:
        wait = ends(line.peer)
        assert line.ask("end") == "the end"
        assert called(name) is None
        wait()
    with reached(name, counting(name)) as line:
        assert line.ask(1)[1:] == (1, 1)


def test_one_that_was_killed_is_told_of_and_replaced(name: str) -> None:
    with reached(name, counting(name)) as line:
        process = line.peer
        wait = ends(process)
        os.kill(process, signal.SIGKILL)
        with pytest.raises(HungUp):
            line.ask(1)
    wait()  # it may have closed this line, and not the socket that it listened on
    with reached(name, counting(name)) as line:
        assert line.ask(2) == (line.peer, 1, 2)
        assert line.peer != process


def test_it_ends_with_its_keeper_also_while_somebody_has_called(name: str) -> None:
    keeper = subprocess.Popen(["sleep", "600"])
    try:
        with reached(name, counting(name, keeper=keeper.pid)) as line:
            assert line.ask(1)[1:] == (1, 1)
            wait = ends(line.peer)
            keeper.kill()
            keeper.wait()
            wait()
            assert called(name) is None
    finally:
        keeper.kill()
        keeper.wait()


def test_it_ends_when_nobody_calls_for_long(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hosts, "IDLE_S_MAX", 0.2)
    with reached(name, counting(name)) as line:
        ends(line.peer)()
    assert called(name) is None


def test_other_users_are_not_called(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with reached(name, counting(name)), monkeypatch.context() as patch:
        patch.setattr(places, "is_ours", lambda line: False)
        with pytest.raises(PermissionError, match="another user"):
            called(name)


def test_other_users_are_not_heard(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    reading, writing = os.pipe()
    with monkeypatch.context() as patch:
        patch.setattr(places, "is_ours", lambda line: False)
        counting(name)(writing)
    os.close(writing)
    with open(reading, "rb") as told:
        assert told.read() == b"+"
    line = called(name)
    assert line is not None
    with line:
        wait = ends(line.peer)
        with pytest.raises(HungUp):
            line.ask(1)
        os.kill(line.peer, signal.SIGKILL)
        wait()


def test_one_that_can_not_start_is_not_waited_for(
    name: str, capfd: pytest.CaptureFixture[str]
) -> None:
    def broken(ready: int) -> None:
        raise ValueError("no host today")

    with pytest.raises(HungUp, match="could be started"):
        reached(name, forked(broken))
    assert "no host today" in capfd.readouterr().err
    with pytest.raises(HungUp, match="could be started"):
        reached(name, spawned("no_such_module", jvm=os.getpid()))
    assert "no_such_module" in capfd.readouterr().err


def test_hosts_end_with_the_jvm_though_it_is_not_among_their_parents(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Spark's workers are forked from a process that was started beside it (planners.py)."""
    monkeypatch.setenv(JVM, "1234")
    assert hosts.keeper() == 1234
    monkeypatch.delenv(JVM)
    assert hosts.keeper() != 1234


def test_a_folder_of_sockets_that_others_may_enter_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(places, "ABSTRACT", False)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    folder = tmp_path / f"ottla-{os.getuid()}"
    folder.mkdir(mode=0o750)
    with pytest.raises(PermissionError, match="only its user"):
        called("one")
