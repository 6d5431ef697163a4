"""What a verb needs beyond the plain installation; said before anything is imported."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from typing import Final

from ottla.cli.kafka.tool import ToolError

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


def need_spark(verb: str) -> None:
    """Every verb of the pipeline calls this first."""
    need(verb, "spark")


def need(verb: str, extra: str) -> None:
    missing = [name for name in EXTRAS[extra] if not _is_there(name)]
    if missing:
        raise ToolError(
            f"`{verb}` needs {', '.join(missing)}, which {'is' if len(missing) == 1 else 'are'}"
            f" not installed: pip install 'ottla[{extra}]'"
        )


def _is_there(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:  # of a package within a package that is not there
        return False
