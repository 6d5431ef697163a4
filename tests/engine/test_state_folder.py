"""Files of state in folders of this machine."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from ottla.engine.state_folder import state_folder


def test_a_late_file_does_not_restore_deleted_state(tmp_path: Path) -> None:
    """Tasks of a dropped query may still be running a batch."""
    tasks = tmp_path / "queries" / "q" / "tasks"
    folder = state_folder(str(tasks))
    folder.make()
    folder.make()
    of_task = folder.child("query").child("0")
    of_task.put("0-1", lambda file: None)
    assert of_task.names() == ["0-1"]
    shutil.rmtree(tmp_path / "queries" / "q")
    with pytest.raises(FileNotFoundError):
        of_task.put("0-2", lambda file: None)
    assert list((tmp_path / "queries").iterdir()) == []
