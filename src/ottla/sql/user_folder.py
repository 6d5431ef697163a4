"""user_folder: where this user's state, history and logs are."""

from __future__ import annotations

import os
from pathlib import Path


def user_folder() -> Path:
    state = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    return Path(state).expanduser() / "ottla"
