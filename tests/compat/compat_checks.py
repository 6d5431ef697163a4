"""Checks written in another language, each shown as a separate test.

A program (kafkajs, Java, Go) holds its checks as calls `check("name", ...)`, runs them all on a
broker in one process (a JVM a check would cost minutes) and prints TAP: `ok name` or `not ok name`,
with `# ` before each line of explanation. The names are read out of the source when tests are
collected, so a check that never reports is a failure and not a gap.
"""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

CHECK_NAME = re.compile(r"""\bcheck\(\s*(["'`])(.+?)\1""")
PROGRAM_TIMEOUT_S = 900.0


def names_in(*sources: Path) -> list[str]:
    """The names of the checks in these sources; a name with a `${variable}` stands for several."""
    return [found[1] for source in sources for found in CHECK_NAME.findall(source.read_text())]


@dataclass(slots=True)
class Results:
    """The results of the checks of one program."""

    passed: set[str] = field(default_factory=set)
    failed: dict[str, str] = field(default_factory=dict)
    output: str = ""

    def expect(self, name: str) -> None:
        pattern = re.compile(re.sub(r"\\\$\\\{\w+\\\}", ".+", re.escape(name)) + "$")
        bad = [text for check, text in self.failed.items() if pattern.match(check)]
        assert not bad, "\n".join(bad)
        good = [check for check in self.passed if pattern.match(check)]
        assert good, f"the check never reported; the program said:\n{self.output[-3000:]}"


def run_checks(command: list[str], timeout_s: float = PROGRAM_TIMEOUT_S) -> Results:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s)
        output, errors = done.stdout, done.stderr
    except subprocess.TimeoutExpired as late:
        output, errors = _text(late.stdout), _text(late.stderr) + "\n(killed: it took too long)"
    results = read_tap(output)
    results.output = output + errors
    return results


def read_tap(output: str) -> Results:
    results = Results()
    failing = ""
    for line in output.splitlines():
        name = line.split(" # ")[0]
        if name.startswith("ok "):
            results.passed.add(name.removeprefix("ok "))
            failing = ""
        elif name.startswith("not ok "):
            failing = name.removeprefix("not ok ")
            results.failed[failing] = ""
        elif failing and line.startswith("#"):
            results.failed[failing] += line[1:] + "\n"
    return results


def _text(output: bytes | str | None) -> str:
    return output.decode(errors="replace") if isinstance(output, bytes) else output or ""
