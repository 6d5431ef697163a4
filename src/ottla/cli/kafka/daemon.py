"""`-daemon` of Kafka's start scripts."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path


def start_daemon(command: Sequence[str], output: str) -> int:
    """Starts the command in the background, with its output in a file of $LOG_DIR, as Kafka's
    scripts do. Returns the pid."""
    folder = Path(os.environ.get("LOG_DIR", "logs"))
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / output).open("ab") as out:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    return process.pid
