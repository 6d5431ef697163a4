"""The shell's files, in the user's state directory."""

from __future__ import annotations

import os
from pathlib import Path


def history_file() -> Path:
    return _home() / "sql_history"


def log_file() -> Path:
    """The log of the embedded server."""
    return _home() / "sql.log"


def spark_log_file() -> Path:
    """The log of the embedded server's Spark."""
    return _home() / "spark.log"


def _home() -> Path:
    state = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    return Path(state).expanduser() / "ottla"
