"""Which processes were started here: one small file for each, in a folder of this user.

Whatever ends processes looks here, and nowhere else: a process without a record is a stranger's.
A record has the process's start time beside its pid, so that a pid which another process has got
meanwhile is never hit.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from ottla.cli.local.process_identity import ProcessIdentity

FOLDER: Final = "OTTLA_RUN_DIR"
SUPERVISOR: Final = "supervisor"  # the record of `ottla up` itself


@dataclass(frozen=True, slots=True)
class RunRecord:
    """One process. `folder` tells several `ottla up` apart; `wave` says when it starts."""

    started_by: str
    name: str
    process: ProcessIdentity
    folder: str
    command: tuple[str, ...] = ()
    address: str = ""
    probe: str = ""
    log: str = ""
    wave: int = 0
    installation: str = sys.prefix
    note: str = ""  # why it has ended, if somebody ended it
    details: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_alive(self) -> bool:
        return self.process.is_alive


class RunRecords:
    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder or _default_folder()

    def write(self, record: RunRecord) -> None:
        """In the place of the last one of this name; nobody sees half of it."""
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        path = self._path(record)
        beside = path.with_suffix(f".{os.getpid()}.new")
        beside.touch(0o600)  # the command may have a password in it
        beside.write_text(json.dumps(asdict(record), indent=2) + "\n")
        beside.replace(path)

    def remove(self, record: RunRecord) -> None:
        self._path(record).unlink(missing_ok=True)

    def find(self, started_by: str, folder: str | None = None) -> list[RunRecord]:
        """By wave and name, those of processes that have ended, too."""
        found = [
            record
            for record in map(_read, self.folder.glob("*.json"))
            if record is not None and record.started_by == started_by
        ]
        chosen = [each for each in found if folder in (None, each.folder)]
        return sorted(chosen, key=lambda each: (each.folder, each.wave, each.name))

    def alive(self, started_by: str) -> list[RunRecord]:
        """Those of this installation that run; records of others that have ended are removed."""
        running = []
        for record in self.find(started_by):
            if not record.is_alive:
                self.remove(record)
            elif record.installation == sys.prefix:
                running.append(record)
        return running

    def _path(self, record: RunRecord) -> Path:
        place = hashlib.sha256(record.folder.encode()).hexdigest()[:12]
        words = f"{record.started_by.replace(' ', '-')}-{place}-{record.name}"
        return self.folder / f"{words}.json"


def _default_folder() -> Path:
    """OTTLA_RUN_DIR, or where this user's programs keep their state."""
    given = os.environ.get(FOLDER)
    if given:
        return Path(given)
    state = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    return Path(state).expanduser() / "ottla" / "run"


def _read(path: Path) -> RunRecord | None:
    """None for a file that is gone by now, or that another version has written."""
    try:
        fields: dict[str, Any] = json.loads(path.read_text())
        process = ProcessIdentity(**fields.pop("process"))
        command = tuple(fields.pop("command"))
        return RunRecord(process=process, command=command, **fields)
    except (OSError, ValueError, TypeError, KeyError):
        return None
