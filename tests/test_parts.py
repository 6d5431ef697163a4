"""tools/parts.sh: a part that fails in any way never counts as passed."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "tools" / "parts.sh"
PATIENCE_S = 120.0

# The lane is the shell that make was started by.
MAKEFILE = """
fine:
\t@echo fine
endless:
\t@echo $$$$ >>started; exec sleep 1000
daemon:
\t@setsid sh -c 'trap "" HUP; echo $$$$ >>started; exec sleep 1000' </dev/null >/dev/null 2>&1 &
stubborn:
\t@setsid sh -c 'trap "" TERM HUP; echo $$$$ >>started; while :; do sleep 1; done' \
		</dev/null >/dev/null 2>&1 &
later:
	@until test -s started; do sleep 0.05; done
half:
\t@echo 'failing: test_of_another_lane'; echo $$$$ >>started; exec sleep 1000
bad:
\t@exit 3
killed:
\t@kill -KILL $$PPID; sleep 1000
lane-killed:
\t@kill -KILL $$(ps -o ppid= -p $$PPID); exec sleep 1000
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "tools").mkdir()
    shutil.copy(SCRIPT, tmp_path / "tools")
    (tmp_path / "Makefile").write_text(MAKEFILE)
    return tmp_path


def run(folder: Path, *lanes: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [folder / "tools" / "parts.sh", *lanes],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


def started(folder: Path) -> list[int]:
    log = folder / "started"
    return [int(pid) for pid in log.read_text().split()] if log.exists() else []


def wait_until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def gone(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return True
    return state == "Z"


def test_a_run_succeeds_when_every_part_succeeds(folder: Path) -> None:
    done = run(folder, "fine", "fine")
    assert done.returncode == 0, done.stdout
    assert done.stdout.count("fine took") == 2


@pytest.mark.parametrize("part", ["bad", "killed", "lane-killed"])
def test_a_part_that_fails_ends_the_others(folder: Path, part: str) -> None:
    for lanes in ([f"fine {part}"], [f"later {part}", "endless"]):
        done = run(folder, *lanes)
        assert done.returncode == 1, done.stdout
        assert "FAILED: it is the first" in done.stdout
    wait_until(lambda: all(map(gone, started(folder))))


def test_failures_of_a_part_that_is_ended_are_named(folder: Path) -> None:
    done = run(folder, "later bad", "half")
    assert "failing: test_of_another_lane" in done.stdout


@pytest.mark.parametrize("part", ["daemon", "stubborn"])
def test_a_process_that_left_its_lane_ends_with_it(folder: Path, part: str) -> None:
    done = run(folder, f"{part} later endless", f"{part} later bad")
    assert done.returncode == 1, done.stdout
    assert len(started(folder)) >= 2
    wait_until(lambda: all(map(gone, started(folder))))


def test_a_signal_ends_all_lanes(folder: Path) -> None:
    process = subprocess.Popen([folder / "tools" / "parts.sh", "endless", "endless"])
    try:
        wait_until(lambda: len(started(folder)) == 2)
        process.terminate()
        assert process.wait(PATIENCE_S) == 130
        wait_until(lambda: all(map(gone, started(folder))))
    finally:
        process.kill()
        process.wait()
