"""What a killed host leaves behind."""

from __future__ import annotations

from collections import Counter
from multiprocessing.context import ForkServerContext
from typing import Any

import host_child

from ottla.engine.task_files import TaskFiles


def exit_code(processes: ForkServerContext, *given: Any) -> int | None:
    """Of a process that runs `host_child.run_batches`."""
    process = processes.Process(target=host_child.run_batches, args=given)
    process.start()
    process.join()
    return process.exitcode


def in_files(files: TaskFiles, batch: int) -> Counter[str]:
    """The state after a batch, according to the files."""
    found: dict[bytes, bytes | None] = {}
    for store, key, value in files.read(files.before(batch + 1)):
        if store == "counts":
            found[key] = value
    return Counter(
        {key.decode(): int.from_bytes(value[8:], "big") for key, value in found.items() if value}
    )
