"""A broker whose disk can be slowed and whose clock can be set while it runs.

    python chaos_broker.py CONTROL FAULT serve --override ...

CONTROL is a file of JSON: {"clock_ms": -2000, "sync_s": 0.5}. FAULT is `none`, or a fault of
tests/delivery/broken_broker.py. Both are put in here, from outside; the project's source has no
switch for them.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from pathlib import Path

from ottla.cli.main import main
from ottla.clock import SystemClock
from ottla.storage.files import Data, DiskFile, DiskFiles

LOOK_S = 0.05


class Control:
    """The content of the file, read repeatedly."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.clock_ms = 0
        self.sync_s = 0.0

    def follow(self) -> None:
        while True:
            try:
                said = json.loads(self._path.read_text())
            except (OSError, ValueError):
                said = {}
            self.clock_ms = int(said.get("clock_ms", 0))
            self.sync_s = float(said.get("sync_s", 0.0))
            time.sleep(LOOK_S)


def take_control(control: Control) -> None:
    """Delays each sync by `sync_s`, and each write, which goes to the page cache, by 1 % of it."""
    now_ms, pwrite = SystemClock.now_ms, DiskFile.pwrite
    sync_file, sync_path = DiskFile.sync, DiskFiles.sync

    def slow_pwrite(self: DiskFile, data: Data, position: int) -> int:
        time.sleep(control.sync_s / 100)
        return pwrite(self, data, position)

    def slow_sync(self: DiskFile) -> None:
        time.sleep(control.sync_s)
        sync_file(self)

    def slow_sync_path(self: DiskFiles, path: str) -> None:
        time.sleep(control.sync_s)
        sync_path(self, path)

    def later_ms(self: SystemClock) -> int:
        return now_ms(self) + control.clock_ms

    for owner, name, replacement in (
        (SystemClock, "now_ms", later_ms),
        (DiskFile, "pwrite", slow_pwrite),
        (DiskFile, "sync", slow_sync),
        (DiskFiles, "sync", slow_sync_path),
    ):
        setattr(owner, name, replacement)


if __name__ == "__main__":
    control, fault = Control(Path(sys.argv.pop(1))), sys.argv.pop(1)
    take_control(control)
    if fault != "none":
        sys.path.append(str(Path(__file__).parent.parent / "delivery"))
        from broken_broker import break_it

        break_it(fault)
    threading.Thread(target=control.follow, daemon=True).start()
    sys.exit(main())
