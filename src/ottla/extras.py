"""Extras: which optional libraries are installed, and how to install the missing ones.

Every error about a missing library takes its words from here, so that all of them name the extra
and the command that works on this machine.
"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Iterable, Mapping
from typing import Final
from urllib.parse import unquote, urlsplit

EXTRAS: Final[Mapping[str, tuple[str, ...]]] = {
    "zookeeper": ("kazoo",),
    "registry": (
        *("fastavro", "google.protobuf", "httptools", "jsonschema_rs", "orjson"),
        *("starlette", "uvicorn"),
    ),
    "spark": (
        *("pyspark", "pyarrow", "pandas", "sqlglot", "orjson", "starlette", "hypercorn"),
        "prompt_toolkit",
    ),
}
"""The libraries that show whether an extra is installed."""


class MissingExtra(ModuleNotFoundError):
    """A library that is not installed, the extra that brings it, and how to install that."""


def require(room: str, extra: str, libraries: Iterable[str] = ()) -> None:
    """A room calls this before its imports; MissingExtra if a library is not installed.

    `libraries` are those that nothing in the room works without: a Spark worker does without the
    libraries of the shell.
    """
    missing = missing_of(libraries or EXTRAS[extra])
    if missing:
        raise MissingExtra(missing_words(room, missing, extra), name=missing[0])


def missing_of(libraries: Iterable[str]) -> list[str]:
    return [name for name in libraries if not _is_there(name)]


def missing_words(what: str, missing: Iterable[str], extra: str) -> str:
    names = list(missing)
    verb = "is" if len(names) == 1 else "are"
    return f"{what} needs {', '.join(names)}, which {verb} not installed: {install_command(extra)}"


def install_command(extra: str = "") -> str:
    """`pip install '/home/me/ottla[spark]'`, with the source that this Ottla was installed from."""
    return f"pip install '{requirement(_direct_url(), extra)}'"


def requirement(direct_url: str | None, extra: str) -> str:
    """The requirement for pip. `direct_url` is the text of direct_url.json, which installers write
    (PEP 610) unless the package came from an index."""
    extras = f"[{extra}]" if extra else ""
    if not direct_url:
        return f"ottla{extras}"
    about = json.loads(direct_url)
    url = str(about.get("url") or "")
    if "vcs_info" in about:
        commit = about["vcs_info"].get("commit_id", "")
        return f"ottla{extras} @ {about['vcs_info'].get('vcs', 'git')}+{url}@{commit}"
    parts = urlsplit(url)
    if parts.scheme == "file":
        return f"{unquote(parts.path)}{extras}"
    return f"ottla{extras} @ {url}"


def _direct_url() -> str | None:
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        return distribution("ottla").read_text("direct_url.json")
    except PackageNotFoundError:  # a folder on the path, never installed
        return None


def _is_there(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except (ModuleNotFoundError, ValueError):  # a package within a package that is not there
        return False
