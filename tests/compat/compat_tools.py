"""Runs Kafka's own shell tools: the classes behind kafka-topics.sh and the others."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass

from compat_brokers import SHORT_LIVED, kafka_jars

TOOL_TIMEOUT_S = 110
TOOLS = "org.apache.kafka.tools"


@dataclass(frozen=True, slots=True)
class Outcome:
    code: int
    output: str
    errors: str

    @property
    def lines(self) -> list[str]:
        return self.output.splitlines()


def attempt(tool: str, *arguments: str, stdin: str = "") -> Outcome:
    """Runs a tool, whether it succeeds or fails. `tool` is a class, without its package."""
    name = tool if tool.startswith("kafka.") else f"{TOOLS}.{tool}"
    command = ["java", "-Xmx256M", *SHORT_LIVED, "-cp", f"{kafka_jars()}/*", name]
    done = subprocess.run(
        [*command, *arguments], input=stdin, capture_output=True, text=True, timeout=TOOL_TIMEOUT_S
    )
    return Outcome(done.returncode, done.stdout, done.stderr)


def run(tool: str, *arguments: str, stdin: str = "") -> Outcome:
    outcome = attempt(tool, *arguments, stdin=stdin)
    assert outcome.code == 0, f"{tool} {arguments}\n{outcome.output}\n{outcome.errors}"
    return outcome
