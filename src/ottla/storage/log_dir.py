"""One directory of `log.dirs`: whether it is offline, and the files in it that wait for deletion.

    OSError                       what happens
    no room, no descriptors       the call fails; the files are sound and a later call may succeed
    anything else                 the directory goes offline: its logs answer KAFKA_STORAGE_ERROR
                                  until the next start, logs in other directories go on

After a failed write or sync the state of the disk is unknown, and the kernel reports it only once:
going on could acknowledge records that are lost. Hence the second line.
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
        self.has_new_names = False  # logs were created or deleted since the directory was synced
        self.offline = False
        self.on_offline: Callable[[LogDir], None] | None = None
        self._deletions: deque[tuple[int, str]] = deque()

    def __repr__(self) -> str:
        return f"LogDir({self.path}{', offline' if self.offline else ''})"

    def failed(self, error: OSError, what: str) -> KafkaError:
        """The KafkaError to raise for an OSError, which may take this directory offline."""
        if error.errno in PASSING_ERRNOS:
            _log.error("%s: %s: %s", self.path, what, error)
        elif not self.offline:
            self.offline = True
            _log.error("%s goes offline: %s: %s", self.path, what, error)
            if self.on_offline is not None:
                self.on_offline(self)
        return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{what}: {error}")

    def offline_error(self) -> KafkaError:
        return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"log directory {self.path} is offline")

    def space(self) -> tuple[int, int]:
        """Total bytes and free bytes of the volume that the directory is on."""
        try:
            return self.files.space(self.path)
        except OSError as error:
            raise self.failed(error, "read the volume's size") from error

    # Deleting

    def remove_later(self, path: str, due_ms: int) -> None:
        """Delete a path at `due_ms`. It has been renamed, so a restart finds and deletes it too."""
        self._deletions.append((due_ms, path))

    def take_due(self, now_ms: int) -> list[str]:
        """The paths that are due; deleting them is now up to the caller."""
        due = [path for due_ms, path in self._deletions if due_ms <= now_ms]
        if due:
            self._deletions = deque(entry for entry in self._deletions if entry[0] > now_ms)
        return due


class RemoveJob:
    """Deletes files; may run in a helper thread, because nothing else refers to them any more."""

    __slots__ = ("_due",)

    def __init__(self, due: list[tuple[LogDir, str]]) -> None:
        self._due = due

    def run(self) -> int:
        """Returns how many were deleted. An error costs disk space only: the next start retries."""
        removed = 0
        for directory, path in self._due:
            try:
                if path.endswith(("-delete", "-stray")):
                    directory.files.remove_tree(path)
                else:
                    directory.files.remove(path)
                removed += 1
            except OSError as error:
                _log.error("Failed to delete %s: %s", path, error)
        return removed
