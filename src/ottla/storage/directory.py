"""One directory of `log.dirs`: its lock, its fate, and the files in it that wait to be removed.

an error of the system        what happens
no room, no descriptors       the caller is told; what is on disk is sound; it may work later
anything else                 the directory goes offline: its logs answer KAFKA_STORAGE_ERROR until
                              the next start, the logs of other directories go on
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable

from ottla.errors import ErrorCode, KafkaError
from ottla.storage.files import PASSING_ERRNOS, Files

_log = logging.getLogger("ottla.storage")


class LogDir:
    __slots__ = (
        "_deletions",
        "directory_id",
        "files",
        "has_new_names",
        "log_count",
        "offline",
        "on_offline",
        "path",
    )

    def __init__(self, files: Files, path: str) -> None:
        self.files = files
        self.path = path
        self.directory_id: str | None = None
        self.log_count = 0
        self.has_new_names = False  # logs were made or deleted since the directory was synced
        self.offline = False
        self.on_offline: Callable[[LogDir], None] | None = None
        self._deletions: deque[tuple[int, str]] = deque()

    def __repr__(self) -> str:
        return f"LogDir({self.path}{', offline' if self.offline else ''})"

    def failed(self, error: OSError, what: str) -> KafkaError:
        """What to raise for an error of the system; it may be the end of this directory."""
        if error.errno in PASSING_ERRNOS:
            _log.error("%s: %s: %s", self.path, what, error)
        elif not self.offline:
            self.offline = True
            _log.error("%s goes offline: %s: %s", self.path, what, error)
            if self.on_offline is not None:
                self.on_offline(self)
        return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{what}: {error}")

    def refusal(self) -> KafkaError:
        return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"log directory {self.path} is offline")

    def space(self) -> tuple[int, int]:
        """Bytes in all and bytes free, of the volume that the directory is on."""
        try:
            return self.files.space(self.path)
        except OSError as error:
            raise self.failed(error, "asking for the volume's size") from error

    # Removing

    def remove_later(self, path: str, due_ms: int) -> None:
        """A file or a directory that is renamed already, so that a restart finds it as well."""
        self._deletions.append((due_ms, path))

    def take_due(self, now_ms: int) -> list[str]:
        """What is due is the caller's to remove, and no longer known here."""
        due = [path for due_ms, path in self._deletions if due_ms <= now_ms]
        if due:
            self._deletions = deque(entry for entry in self._deletions if entry[0] > now_ms)
        return due


class RemoveJob:
    """Removes files; may run in a helper thread, since nobody else knows them any more."""

    __slots__ = ("_due",)

    def __init__(self, due: list[tuple[LogDir, str]]) -> None:
        self._due = due

    def run(self) -> int:
        """How many were removed. An error costs disk space only: the next start tries again."""
        removed = 0
        for directory, path in self._due:
            try:
                if path.endswith(("-delete", "-stray")):
                    directory.files.remove_tree(path)
                else:
                    directory.files.remove(path)
                removed += 1
            except OSError as error:
                _log.error("%s was not removed: %s", path, error)
        return removed
