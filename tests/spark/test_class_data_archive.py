"""The process that creates the class-data archive ends with its parent."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from ottla.spark.class_data_archive import _clear_work, _descendants, _work_prefix

START = """
import time
from ottla.spark import class_data_archive
print(class_data_archive.start_background_process().pid, flush=True)
time.sleep(600)
"""
WAIT_S = 120.0


def is_alive(pid: int) -> bool:
    try:
        status = Path("/proc", str(pid), "stat").read_text()
    except OSError:
        return False
    return status.rpartition(")")[2].split()[0] != "Z"


def test_the_background_process_ends_with_its_parent(tmp_path: Path) -> None:
    environment = {**os.environ, "OTTLA_CACHE_DIR": str(tmp_path), "OTTLA_SPARK_ARCHIVE": "on"}
    with subprocess.Popen(
        [sys.executable, "-c", START], env=environment, stdout=subprocess.PIPE
    ) as starter:
        assert starter.stdout is not None
        maker = int(starter.stdout.readline())
        deadline = time.monotonic() + WAIT_S
        while not (java := _descendants(maker)):
            assert is_alive(maker)
            assert time.monotonic() < deadline
            time.sleep(0.05)
        starter.kill()
    while left := [pid for pid in (maker, *java) if is_alive(pid)]:
        assert time.monotonic() < deadline, left
        time.sleep(0.05)


def test_a_maker_deletes_only_what_an_earlier_one_of_its_archive_has_left(tmp_path: Path) -> None:
    """Environments with other jars have other archives, which may be in the making."""
    mine, other = tmp_path / "spark-java17-1.jsa", tmp_path / "spark-java17-2.jsa"
    for path in (mine, other):
        Path(tmp_path, f"{_work_prefix(path)}x", "part").mkdir(parents=True)
    _clear_work(mine)
    assert [left.name for left in tmp_path.iterdir()] == [f"{_work_prefix(other)}x"]
