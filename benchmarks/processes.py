"""Processes that are always stopped, and their CPU seconds and memory from /proc."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

STOP_GRACE_S = 30.0
OUTPUT_TAIL_CHARS = 2000
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


class ToolError(Exception):
    """A load generator failed; the message carries the end of its output."""


@dataclass(frozen=True, slots=True)
class ToolRun:
    output: str
    ended_at: float
    """time.time() when the process was gone."""


def spawn(
    command: Sequence[str], *, log: Path, env: Mapping[str, str] | None = None
) -> SpawnedServer:
    """Starts a server in its own session: a Ctrl-C on the terminal reaches only us, and we
    stop it in order."""
    with log.open("ab") as out:
        process = subprocess.Popen(
            list(command),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env=None if env is None else {**os.environ, **env},
        )
    return SpawnedServer(process, log)


class SpawnedServer:
    """A running server process with everything it may have started."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self.process = process
        self.pid = process.pid
        self.log = log

    def alive(self) -> bool:
        return self.process.poll() is None

    def stop(self, *, grace_s: float = STOP_GRACE_S) -> None:
        """Sends SIGTERM, then kills; the session's other processes end with it."""
        if self.alive():
            self.process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(grace_s)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self.process.wait()

    def log_tail(self) -> str:
        return self.log.read_text(errors="replace")[-OUTPUT_TAIL_CHARS:]


def run_tool(
    command: Sequence[str], *, timeout_s: float, env: Mapping[str, str] | None = None
) -> ToolRun:
    """Runs a load generator to its end and returns what it printed."""
    with started_tool(command, env=env) as process:
        return finish_tool(process, timeout_s=timeout_s)


@contextlib.contextmanager
def started_tool(
    command: Sequence[str], *, env: Mapping[str, str] | None = None, stdin: int | None = None
) -> Generator[subprocess.Popen[str], None, None]:
    """A load generator that runs in the background until the block ends."""
    process = subprocess.Popen(
        list(command),
        stdin=subprocess.DEVNULL if stdin is None else stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        env=None if env is None else {**os.environ, **env},
    )
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()


def finish_tool(process: subprocess.Popen[str], *, timeout_s: float) -> ToolRun:
    try:
        output, _ = process.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        raise ToolError(f"no end after {timeout_s:.0f} s: {_name(process)}") from None
    ended_at = time.time()
    if process.returncode != 0:
        tail = output[-OUTPUT_TAIL_CHARS:].strip()
        raise ToolError(f"exit code {process.returncode} of {_name(process)}:\n{tail}")
    return ToolRun(output, ended_at)


def _name(process: subprocess.Popen[str]) -> str:
    command = process.args
    if isinstance(command, str | bytes | os.PathLike):
        command = [command]
    words = [os.fsdecode(word) for word in command]
    return " ".join(word for word in words if not word.startswith("-X"))[:300]


@dataclass(frozen=True, slots=True)
class Memory:
    rss_bytes: int
    pss_bytes: int


def process_tree(pid: int) -> list[int]:
    """The process and all its live descendants."""
    found, open_pids = [], [pid]
    while open_pids:
        parent = open_pids.pop()
        found.append(parent)
        with contextlib.suppress(OSError):
            for task in Path(f"/proc/{parent}/task").iterdir():
                open_pids += [int(child) for child in (task / "children").read_text().split()]
    return found


def cpu_seconds(pid: int) -> float:
    """User and system time of the whole tree."""
    return sum(cpu_seconds_of_one(member) for member in process_tree(pid))


def cpu_seconds_of_one(pid: int) -> float:
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return 0.0
    return parse_stat_ticks(text) / _TICKS_PER_S


def parse_stat_ticks(text: str) -> int:
    """utime + stime of /proc/<pid>/stat, its own and those of the children that it has outlived.

    The name may hold blanks and brackets itself.
    """
    fields = text[text.rindex(")") + 2 :].split()
    return sum(int(field) for field in fields[11:15])


def memory(pid: int) -> Memory:
    """RSS and PSS of the whole tree (PSS divides shared pages among those who share them)."""
    rss = pss = 0
    for member in process_tree(pid):
        with contextlib.suppress(OSError):
            values = parse_kb_lines(Path(f"/proc/{member}/smaps_rollup").read_text())
            rss += values.get("Rss", 0)
            pss += values.get("Pss", 0)
    return Memory(rss_bytes=rss * 1024, pss_bytes=pss * 1024)


def reset_peak_memory(pid: int) -> None:
    """Resets the kernel's peak, so that nothing need be sampled during a load."""
    for member in process_tree(pid):
        with contextlib.suppress(OSError):
            Path(f"/proc/{member}/clear_refs").write_text("5")


def peak_memory_bytes(pid: int) -> int:
    """The highest RSS since the reset, summed over the tree."""
    peak = 0
    for member in process_tree(pid):
        with contextlib.suppress(OSError):
            peak += parse_kb_lines(Path(f"/proc/{member}/status").read_text()).get("VmHWM", 0)
    return peak * 1024


def parse_kb_lines(text: str) -> dict[str, int]:
    """`Name:   123 kB` lines of smaps_rollup and status."""
    values = {}
    for line in text.splitlines():
        name, _, rest = line.partition(":")
        words = rest.split()
        if len(words) == 2 and words[1] == "kB":
            values[name] = int(words[0])
    return values
