"""Where the shell keeps what it keeps: in the user's state directory."""

from __future__ import annotations

import os
from pathlib import Path


def history_file() -> Path:
    return _home() / "sql_history"


def log_file() -> Path:
    """Of the server in the shell's own process."""
    return _home() / "sql.log"


def spark_log_file() -> Path:
    """Of its Spark."""
    return _home() / "spark.log"


def _home() -> Path:
    state = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    return Path(state).expanduser() / "ottla"
