"""Where Ottla's time goes: one row's load, and a sampling profiler on the broker meanwhile.

    python -m benchmarks.profile_broker                         one-record requests, 64 in flight
    python -m benchmarks.profile_broker produce --seconds 20    any row of --list
    python -m benchmarks.profile_broker both --native           C frames too (uvloop, mypyc modules)
    python -m benchmarks.profile_broker both --tool perf        the kernel's share, by perf

py-spy reads the broker's stacks from outside, so the broker runs as it always does and needs to
know nothing of it. `uvx py-spy` fetches it unless it is installed; it needs root or ptrace rights.
"""

from __future__ import annotations

import argparse
import re
import shlex
import shutil
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks import apache_kafka
from benchmarks.__main__ import WIDE_COLUMNS, end_on_signals, scratch_directory
from benchmarks.bench import Bench, SharedRow
from benchmarks.brokers import OTTLA, Broker, default_commands, start_broker
from benchmarks.figures import Figure
from benchmarks.processes import ToolError, finish_tool, run_tool, started_tool
from benchmarks.rows import shared_rows
from benchmarks.settings import FULL

SAMPLES_PER_S = 500
PROFILER_EXTRA_S = 60.0
# The load's own start-up (a JVM, a topic) is not what we want to see.
LOAD_LEAD_S = 2.5
_ROOT = re.compile(r"/src/|/site-packages/|/lib/python3\.\d+/")
DEFAULT_LOAD = "1 connection, 64 in flight"


def main() -> int:
    given = arguments()
    loads = {row.title: row for rows in shared_rows().values() for row in rows}
    console = Console(width=None if sys.stdout.isatty() else WIDE_COLUMNS)
    if given.list:
        console.print("\n".join(loads), highlight=False)
        return 0
    row = pick(loads, given.load)
    end_on_signals()
    apache_kafka.ensure_kafka()
    if given.tool == "py-spy":
        run_tool(
            [*py_spy_command(), "--version"], timeout_s=PROFILER_EXTRA_S
        )  # fetch it now, before the clock runs
    with scratch_directory(given.directory) as directory, ExitStack() as stack:
        bench = Bench(FULL, directory, default_commands(given.ottla))
        stack.enter_context(bench.after_row)
        broker = start_broker(OTTLA, directory / OTTLA, bench.commands)
        stack.callback(broker.remove)
        console.print(f"load: {row.title}; profiled for {given.seconds:.0f} s", highlight=False)
        load = Load(row, bench, broker)
        load.start()
        time.sleep(LOAD_LEAD_S)
        try:
            if given.tool == "perf":
                console.print(perf_report(broker.pid, given.seconds, directory, given.top))
            else:
                stacks = py_spy_stacks(
                    broker.pid, given.seconds, directory, native=given.native, idle=given.idle
                )
                if given.stacks:
                    given.stacks.write_text(stacks)
                print_profile(console, stacks, top=given.top)
        finally:
            load.stop()
        for figure in load.figures:
            console.print(f"{figure.name}: {figure.value:,.6g} {figure.unit}", highlight=False)
    return 0


class Load(threading.Thread):
    """Repeats the row until it is stopped."""

    def __init__(self, row: SharedRow, bench: Bench, broker: Broker) -> None:
        super().__init__(daemon=True)
        self.row, self.bench, self.broker = row, bench, broker
        self.stopping = threading.Event()
        self.figures: list[Figure] = []
        self.failure: Exception | None = None

    def run(self) -> None:
        while not self.stopping.is_set():
            try:
                self.figures = self.row.measure(self.bench, self.broker)
            except Exception as error:
                self.failure = error
                return

    def stop(self) -> None:
        self.stopping.set()
        self.join()
        if self.failure is not None:
            raise ToolError(f"the load failed: {self.failure}")


def pick(loads: dict[str, SharedRow], text: str) -> SharedRow:
    """A title, or the first one that contains the words."""
    if text in loads:
        return loads[text]
    for title, row in loads.items():
        if text in title:
            return row
    raise SystemExit(f"no load called {text!r}; there are: {'; '.join(loads)}")


def py_spy_stacks(pid: int, seconds: float, directory: Path, *, native: bool, idle: bool) -> str:
    """Collapsed stacks, one per line: `outer;inner count`."""
    out = directory / "stacks.txt"
    command = [
        *py_spy_command(),
        "record",
        *("--pid", str(pid), "--duration", str(int(seconds)), "--rate", str(SAMPLES_PER_S)),
        *("--format", "raw", "--output", str(out), "--full-filenames"),
        *(["--native"] if native else []),
        *(["--idle"] if idle else []),
    ]
    run_tool(command, timeout_s=seconds + PROFILER_EXTRA_S)
    return out.read_text()


def py_spy_command() -> list[str]:
    bin_directory = Path(sys.executable).parent
    for place in (bin_directory / "py-spy", shutil.which("py-spy")):
        if place is not None and Path(place).exists():
            return [str(place)]
    uvx = bin_directory / "uvx"
    return [str(uvx) if uvx.exists() else "uvx", "py-spy"]


def perf_report(pid: int, seconds: float, directory: Path, top: int) -> str:
    data = directory / "perf.data"
    record = ["perf", "record", "-F", str(SAMPLES_PER_S), "-g", "-p", str(pid), "-o", str(data)]
    with started_tool([*record, "--", "sleep", str(seconds)]) as process:
        finish_tool(process, timeout_s=seconds + PROFILER_EXTRA_S)
    show = ["perf", "report", "-i", str(data), "--stdio", "--no-children", "-g", "none"]
    output = run_tool(show, timeout_s=PROFILER_EXTRA_S).output
    lines = [line for line in output.splitlines() if line.strip() and not line.startswith("#")]
    return "\n".join(lines[:top])


def print_profile(console: Console, stacks: str, *, top: int) -> None:
    own, total, samples = by_function(stacks.splitlines())
    console.print(f"{samples} samples of the broker at work", highlight=False)
    for heading, counts in (("own time", own), ("with all it calls", total)):
        table = Table(title=heading, title_justify="left")
        table.add_column("%", justify="right")
        table.add_column("function")
        for function, count in counts.most_common(top):
            table.add_row(f"{count / max(1, samples) * 100:.1f}", function)
        console.print(table)


def by_function(stacks: Iterable[str]) -> tuple[Counter[str], Counter[str], int]:
    """Samples per function: itself on top of the stack, and anywhere in it."""
    own: Counter[str] = Counter()
    total: Counter[str] = Counter()
    samples = 0
    for line in stacks:
        text, _, count_text = line.rpartition(" ")
        if not text:
            continue
        count = int(count_text)
        functions = [short_frame(frame) for frame in text.split(";")]
        samples += count
        own[functions[-1]] += count
        for function in set(functions):
            total[function] += count
    return own, total, samples


def short_frame(frame: str) -> str:
    """`append (/x/src/ottla/storage/log.py:120)` as `ottla/storage/log.py append`."""
    name, bracket, place = frame.partition(" (")
    if not bracket:
        return frame
    path = place.rstrip(")").rsplit(":", 1)[0]
    return f"{_ROOT.split(path)[-1]} {name}"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.profile_broker")
    add = parser.add_argument
    add("load", nargs="?", default=DEFAULT_LOAD, help="title of a row, or a part of it")
    add("--list", action="store_true", help="show the loads")
    add("--seconds", type=float, default=8.0)
    add("--top", type=int, default=30)
    add("--tool", choices=["py-spy", "perf"], default="py-spy")
    add("--native", action="store_true", help="show C frames as well (py-spy)")
    add("--idle", action="store_true", help="count waiting threads too (py-spy)")
    add("--stacks", type=Path, help="keep the collapsed stacks, for a flame graph")
    add("--ottla", type=shlex.split, help="command that is Ottla, in place of this venv's own")
    add("--directory", type=Path, default=apache_kafka.REPOSITORY / ".cache")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
