"""Services that do not do as they are asked: what a stack of processes does with them."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from local_services import reserved_ports, until

from ottla.cli.kafka.tool import ToolError
from ottla.cli.local.local_service import LocalService, launch, tail
from ottla.cli.local.run_records import FOLDER, RunRecord, RunRecords
from ottla.cli.local.stack import UP, ServiceEnded, Stack, stack_of
from ottla.cli.local.stop_signals import StopSignals

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


def test_a_second_signal_ends_what_does_not_listen(stack: Stack) -> None:
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
    assert [each.name for each in ended] == ["deaf"]
    assert stack.services == []


def test_the_last_wave_ends_first(stack: Stack) -> None:
    waits = "import time" + WAITS
    for name, wave in (("broker", 0), ("registry", 1), ("sql", 1)):
        stack.launch(service(stack, name, waits, wave=wave))
    ended: list[RunRecord] = []
    stack.end(ended.append)
    assert ended[-1].name == "broker"
    assert {each.name for each in ended[:2]} == {"registry", "sql"}


def test_a_service_that_ends_while_it_starts_says_how(stack: Stack) -> None:
    with reserved_ports(1) as (port,), StopSignals() as signals:
        record = stack.launch(service(stack, "short", "print('no'); raise SystemExit(3)", port))
        with pytest.raises(ServiceEnded, match="short has ended with exit code 3"):
            stack.wait_until_ready([record], lambda *_: None, signals)
    assert tail(Path(record.log)) == "no"


def test_a_log_shows_its_last_run_only(tmp_path: Path) -> None:
    log = tmp_path / "x.log"
    for word in ("before", "now"):
        launch((sys.executable, "-c", f"print('{word}')"), log).wait(60)
    assert tail(log) == "now"
    assert "before" in log.read_text()
    assert tail(tmp_path / "none") == ""


def test_one_of_several_is_chosen_by_its_folder(
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
    assert [each.folder for each in RunRecords().find(UP)] == [str(stack.folder)]
