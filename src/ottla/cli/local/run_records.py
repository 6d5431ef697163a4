"""Records of the processes started here: one small file for each, in this user's state folder.

Commands that stop processes look here and nowhere else: a process without a record is not ours. A
record has the process's start time beside its pid, so that another process with a reused pid is
never hit. Machines may share a home directory: each uses the records with its own host name.
"""

from __future__ import annotations

import hashlib
import json
import os
import socket
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
    """One process. `folder` tells several `ottla up` apart; `wave` is its place in the order."""

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
    note: str = ""  # why it ended, if a command stopped it
    restarter: ProcessIdentity | None = None  # the command that stops it and starts it again
    host: str = field(default_factory=socket.gethostname)
    details: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_alive(self) -> bool:
        return self.process.is_alive

    @property
    def is_restarting(self) -> bool:
        return self.restarter is not None and self.restarter.is_alive

    @property
    def is_here(self) -> bool:
        """False for a process of another machine: whether that runs can't be said from here."""
        return self.host == socket.gethostname() or self.is_alive  # a laptop's name may change


class RunRecords:
    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder or _default_folder()

    def write(self, record: RunRecord) -> None:
        """Replace the record of this name, atomically."""
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        path = self._path(record)
        beside = path.with_suffix(f".{os.getpid()}.new")
        try:
            beside.touch(0o600)  # the command may contain a password
            beside.write_text(json.dumps(asdict(record), indent=2) + "\n")
            beside.replace(path)
        except OSError:  # a full disk
            beside.unlink(missing_ok=True)
            raise

    def remove(self, record: RunRecord) -> None:
        self._path(record).unlink(missing_ok=True)

    def find(self, started_by: str, folder: str | None = None) -> list[RunRecord]:
        """This machine's, by wave and name, with processes that have ended."""
        found = [
            record
            for record in map(_read, self.folder.glob("*.json"))
            if record is not None and record.started_by == started_by and record.is_here
        ]
        chosen = [record for record in found if folder in (None, record.folder)]
        return sorted(chosen, key=lambda record: (record.folder, record.wave, record.name))

    def alive(self, started_by: str) -> list[RunRecord]:
        """The running ones of this installation; removes records of other ended processes."""
        running = []
        for record in self.find(started_by):
            if not record.is_alive:
                self.remove(record)
            elif record.installation == sys.prefix:
                running.append(record)
        return running

    def _path(self, record: RunRecord) -> Path:
        digest = hashlib.sha256(f"{record.host}:{record.folder}".encode()).hexdigest()[:12]
        words = f"{record.started_by.replace(' ', '-')}-{digest}-{record.name}"
        return self.folder / f"{words}.json"


def _default_folder() -> Path:
    """OTTLA_RUN_DIR, or this user's state directory. OSError if the user has no home directory,
    such as a random user id in a container."""
    folder = os.environ.get(FOLDER)
    if folder:
        return Path(folder)
    state = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    try:
        return Path(state).expanduser() / "ottla" / "run"
    except RuntimeError:
        raise OSError(
            f"there is no home directory for run records: set {FOLDER} to a folder"
        ) from None


def _read(path: Path) -> RunRecord | None:
    """None if the file is gone, or from another version."""
    try:
        fields: dict[str, Any] = json.loads(path.read_text())
        process = ProcessIdentity(**fields.pop("process"))
        command = tuple(fields.pop("command"))
        if (restarter := fields.pop("restarter", None)) is not None:
            fields["restarter"] = ProcessIdentity(**restarter)
        return RunRecord(process=process, command=command, **fields)
    except (OSError, ValueError, TypeError, KeyError):
        return None
