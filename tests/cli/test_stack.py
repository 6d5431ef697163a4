"""Unresponsive services in a stack of processes."""

from __future__ import annotations

import errno
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from local_services import reserved_ports, until

from ottla.cli.kafka.tool import ToolError
from ottla.cli.local.local_service import LocalService, launch, tail
from ottla.cli.local.process_identity import own_identity
from ottla.cli.local.run_records import FOLDER, RunRecord, RunRecords
from ottla.cli.local.stack import UP, ServiceFailure, Stack, stack_of
from ottla.cli.local.status_view import _row
from ottla.cli.local.stop_signals import StopSignals
from ottla.cli.local.supervise import _report

STUBBORN = "import signal, time; signal.signal(15, signal.SIG_IGN); print('deaf', flush=True)"
WAITS = "; time.sleep(600)"


@pytest.fixture
def stack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stack]:
    monkeypatch.setenv(FOLDER, str(tmp_path / "run"))
    stack = Stack(UP, tmp_path / "data")
    yield stack
    stack.end(lambda _: None, lambda: True)


def service(stack: Stack, name: str, code: str, port: int = 1, wave: int = 0) -> LocalService:
    command = (sys.executable, "-c", code)
    return LocalService(name, command, port, "broker", stack.folder / f"{name}.log", wave)


def test_a_second_signal_kills_unresponsive_services(stack: Stack) -> None:
    record = stack.launch(service(stack, "deaf", STUBBORN + WAITS))
    until(lambda: "deaf" in Path(record.log).read_text())
    asked_twice = threading.Event()
    ended: list[RunRecord] = []
    ending = threading.Thread(target=stack.end, args=(ended.append, asked_twice.is_set))
    ending.start()
    until(lambda: ending.is_alive() and record.is_alive)
    asked_twice.set()
    ending.join(60)
    assert not record.is_alive
    assert [stopped.name for stopped in ended] == ["deaf"]
    assert stack.services == []


def test_the_last_wave_ends_first(stack: Stack) -> None:
    waits = "import time" + WAITS
    for name, wave in (("broker", 0), ("registry", 1), ("sql", 1)):
        stack.launch(service(stack, name, waits, wave=wave))
    ended: list[RunRecord] = []
    stack.end(ended.append)
    assert ended[-1].name == "broker"
    assert {record.name for record in ended[:2]} == {"registry", "sql"}


RESTART = """
import sys
from pathlib import Path
from ottla.cli.local.stack import UP, Stack
Stack(UP, Path(sys.argv[1])).restart(sys.argv[2], lambda *_: None)
"""


@contextmanager
def restart_in_another_terminal(stack: Stack, name: str) -> Iterator[subprocess.Popen[bytes]]:
    """Once the record names the command."""
    words = [sys.executable, "-c", RESTART, str(stack.folder), name]
    with subprocess.Popen(words) as restart:
        try:
            until(lambda: stack.service(name).is_restarting)
            yield restart
        finally:
            restart.kill()


def test_a_record_keeps_its_process_while_that_is_restarted(stack: Stack) -> None:
    record = stack.launch(service(stack, "deaf", STUBBORN + WAITS))
    until(lambda: "deaf" in Path(record.log).read_text())
    with restart_in_another_terminal(stack, "deaf") as restart:
        meanwhile = stack.service("deaf")
        assert (meanwhile.process, meanwhile.is_alive) == (record.process, True)
        with pytest.raises(ToolError, match="deaf is being restarted by the process"):
            stack.restart("deaf", lambda *_: None)
        stack.kill("deaf")
        until(lambda: stack.service("deaf").process != record.process)
        started = stack.service("deaf")
        assert started.is_alive
        assert not started.is_restarting
        assert restart.poll() is None, "kill did not hit the command"


def test_a_stack_ends_restarts_before_services(stack: Stack) -> None:
    record = stack.launch(service(stack, "deaf", STUBBORN + WAITS))
    until(lambda: "deaf" in Path(record.log).read_text())
    with restart_in_another_terminal(stack, "deaf") as restart:
        stack.end(lambda _: None, lambda: restart.poll() is not None)
        assert restart.poll() == -signal.SIGTERM
        assert not record.is_alive
        assert stack.services == []


def test_a_stack_runs_while_its_only_service_is_restarted(
    stack: Stack, capsys: pytest.CaptureFixture[str]
) -> None:
    record = stack.launch(service(stack, "broker", "pass"))
    until(lambda: not record.is_alive)
    assert not stack.is_alive
    restarted = replace(record, restarter=own_identity())
    stack.records.write(restarted)
    assert stack.is_alive
    assert stack_of(UP, None, Path("elsewhere")).services == [restarted]
    assert _row(restarted)["state"] == "starts"
    gone: set[str] = set()
    _report(stack, record, restarted, gone)
    assert (gone, capsys.readouterr().out) == (set(), "")
    _report(stack, restarted, record, gone)  # the command has died
    assert gone == {"broker"}


def test_a_service_that_ends_while_it_starts_says_how(stack: Stack) -> None:
    with reserved_ports(1) as (port,), StopSignals() as signals:
        record = stack.launch(service(stack, "short", "print('no'); raise SystemExit(3)", port))
        with pytest.raises(ServiceFailure, match="short has ended with exit code 3"):
            stack.wait_until_ready([record], lambda *_: None, signals)
    assert tail(Path(record.log)) == "no"


def test_a_process_that_can_not_be_recorded_is_ended(tmp_path: Path) -> None:
    class Unwritable(RunRecords):
        def write(self, record: RunRecord) -> None:
            written.append(record)
            raise OSError(errno.ENOSPC, "No space left on device")

    written: list[RunRecord] = []
    stack = Stack(UP, tmp_path / "data", Unwritable(tmp_path / "run"))
    with pytest.raises(OSError, match="No space left"):
        stack.launch(service(stack, "broker", "import time" + WAITS))
    assert len(written) == 1
    assert not written[0].is_alive


def test_a_log_shows_its_last_run_only(tmp_path: Path) -> None:
    log = tmp_path / "x.log"
    for word in ("before", "now"):
        launch((sys.executable, "-c", f"print('{word}')"), log).wait(60)
    assert tail(log) == "now"
    assert "before" in log.read_text()
    assert tail(tmp_path / "none") == ""


def test_a_stack_is_chosen_by_its_folder(
    stack: Stack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    default = Path("./default")
    with pytest.raises(ToolError, match="nothing runs; `ottla up` starts it"):
        stack_of(UP, None, default)
    waits = "import time" + WAITS
    stack.launch(service(stack, "broker", waits))
    assert stack_of(UP, None, default).folder == stack.folder
    other = Stack(UP, tmp_path / "default")
    other.launch(service(other, "broker", waits))
    assert stack_of(UP, None, default).folder == other.folder
    with pytest.raises(ToolError, match="several run, with data in"):
        stack_of(UP, None, Path("elsewhere"))
    assert stack_of(UP, stack.folder, default).folder == stack.folder
    other.end(lambda _: None)
    assert [record.folder for record in RunRecords().find(UP)] == [str(stack.folder)]
