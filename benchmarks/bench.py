"""What every row needs: how much to measure, where the files go, how brokers are started."""

from __future__ import annotations

import json
import random
import string
import sys
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from benchmarks.brokers import Broker, Commands
from benchmarks.figures import Figure
from benchmarks.processes import ToolError
from benchmarks.settings import Settings

PAYLOAD_LINES = 500


@dataclass(slots=True)
class Bench:
    settings: Settings
    directory: Path
    """On the disk that is measured; removed at the end."""
    commands: Commands
    after_row: ExitStack = field(default_factory=ExitStack)
    """What a row leaves behind for its next round is cleared away when its last one is over."""
    _payloads: dict[int, Path] = field(default_factory=dict)

    def payloads(self, size: int) -> Path:
        """A file of records for ProducerPerformance, one per line, the same for both brokers."""
        if size not in self._payloads:
            letters = random.Random(size)
            path = self.directory / f"payloads-{size}.txt"
            lines = [
                "".join(letters.choices(string.ascii_letters, k=size)) for _ in range(PAYLOAD_LINES)
            ]
            path.write_text("\n".join(lines))
            self._payloads[size] = path
        return self._payloads[size]


class SharedRow(Protocol):
    """A row that is measured on running, warm brokers, in alternating rounds."""

    @property
    def title(self) -> str: ...

    def measure(self, bench: Bench, broker: Broker) -> list[Figure]: ...


class OwnRow(Protocol):
    """Starts its own brokers, one at a time, while no others run."""

    @property
    def title(self) -> str: ...

    def rounds(self, settings: Settings) -> tuple[int, int]:
        """Discarded and measured rounds."""
        ...

    def measure(self, bench: Bench, name: str) -> list[Figure]: ...


def python_module(module: str, *arguments: str) -> list[str]:
    """The command of a load generator of this package, in its own process."""
    return [sys.executable, "-m", module, *arguments]


def last_json(output: str) -> dict[str, Any]:
    """The result of such a process, between lines that a client library may have logged."""
    for line in reversed(output.splitlines()):
        if line.startswith("{"):
            result: dict[str, Any] = json.loads(line)
            return result
    raise ToolError(f"no result in the output:\n{output[-2000:]}")
