"""Long work shows a spinner and a line on a terminal, and writes to the log elsewhere."""

from __future__ import annotations

import logging
import os
import pty
import re
import subprocess
import sys
import threading
from pathlib import Path
from typing import Final

import pytest

from ottla.progress import step

HOUSE: Final = Path(__file__).parent.parent
CODE: Final = """
import threading
from ottla.progress import step
with step("the long work"):
    pass
def hidden():
    with step("behind a prompt"):
        pass
thread = threading.Thread(target=hidden)
thread.start()
thread.join()
with step("asked to be quiet", shown=False):
    pass
"""


def test_a_terminal_has_a_line_for_each_step_of_the_main_thread() -> None:
    ours, theirs = pty.openpty()
    try:
        subprocess.run([sys.executable, "-c", CODE], stderr=theirs, check=True, timeout=60)
        shown = os.read(ours, 65536).decode()
    finally:
        os.close(ours)
        os.close(theirs)
    assert "the long work ..." in shown, "while it goes on"
    assert re.search(r"the long work: done in \d+\.\d s", shown)
    assert "behind a prompt" not in shown
    assert "asked to be quiet" not in shown


def test_elsewhere_steps_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    def work() -> None:
        with step("the long work"):
            pass

    with caplog.at_level(logging.INFO, "ottla.progress"):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    first, last = caplog.messages
    assert first == "the long work"
    assert re.fullmatch(r"the long work: done in \d+\.\d s", last)


@pytest.mark.parametrize(
    ("target", "steps"),
    [("nowhere/.ready", 4), ("nowhere/.spark", 5), ("nowhere/compiled/.ready", 8)],
)
def test_make_prints_what_it_sets_up(target: str, steps: int) -> None:
    """Steps of a minute or more are announced, and run without a quiet option."""
    command = ["make", "-n", "VENV=nowhere", "WHEEL=nowhere/wheel"]
    command += ["COMPILED=nowhere/compiled", target]
    done = subprocess.run(command, cwd=HOUSE, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    said = re.findall(r'^echo "== ', done.stdout, re.MULTILINE)
    assert len(said) == steps
    assert "uv pip install --quiet" not in done.stdout


def test_a_notebook_has_two_lines() -> None:
    kernel = (
        "import sys, types\n"
        "kernel = types.SimpleNamespace(initialized=lambda: True)\n"
        "sys.modules['ipykernel.kernelapp'] = types.SimpleNamespace(IPKernelApp=kernel)\n"
    )
    shown = subprocess.run(
        [sys.executable, "-c", kernel + CODE],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    ).stderr.splitlines()
    assert shown[0] == "the long work ..."
    assert re.fullmatch(r"the long work: done in \d+\.\d s", shown[1])
    assert not any("quiet" in line for line in shown)
