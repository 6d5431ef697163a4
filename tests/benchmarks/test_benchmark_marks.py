"""Processes are found by a mark in their environment, also when their parent is gone."""

from __future__ import annotations

import time
from pathlib import Path

from benchmarks.marks import Mark

from benchmarks import processes

PATIENCE_S = 60.0
# A shell that works a little and leaves a process in a separate session.
LEAVING = "setsid sleep 600 & i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; echo done"


def test_a_mark_finds_orphaned_processes_and_ends_them(tmp_path: Path) -> None:
    mark = Mark()
    log = tmp_path / "log"
    started = processes.spawn(["sh", "-c", LEAVING], log=log, env=mark.environment)
    deadline = time.monotonic() + PATIENCE_S
    # "slee": between fork and exec the process is still a shell, or setsid
    while "done" not in log.read_text() or _shown(mark) != (1, True):
        assert time.monotonic() < deadline, list(mark.processes())
        time.sleep(0.01)
        started.alive()  # reap it, because a zombie has no environment
    (left,) = mark.processes()
    assert left != started.pid
    assert not mark.runs("sh")
    mark.end(grace_s=0.0)
    while list(mark.processes()):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    started.stop()


def _shown(mark: Mark) -> tuple[int, bool]:
    return len(list(mark.processes())), mark.runs("slee")


def test_the_cpu_time_of_a_mark_grows(tmp_path: Path) -> None:
    mark = Mark()
    busy = processes.spawn(
        ["sh", "-c", "while :; do :; done"], log=tmp_path / "log", env=mark.environment
    )
    deadline = time.monotonic() + PATIENCE_S
    while mark.cpu_s < 0.05:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    busy.stop(grace_s=5.0)
    assert mark.cpu_s == 0.0
    assert Mark().cpu_s == 0.0
