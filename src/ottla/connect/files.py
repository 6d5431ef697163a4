"""Connectors in files: Java's properties, or JSON, alone or as REST takes it.

name=lines                            {"name": "lines",          {"name": "lines",
connector.class=FileStreamSource       "connector.class": ...,    "config": {...},
file=/tmp/in.txt                       "file": "/tmp/in.txt"}     "initial_state": "PAUSED"}
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ottla.config import parse_properties
from ottla.connect.errors import ConfigException
from ottla.connect.run.states import Target

INITIAL: Final = {
    "RUNNING": Target.STARTED,
    "PAUSED": Target.PAUSED,
    "STOPPED": Target.STOPPED,
}


@dataclass(frozen=True, slots=True)
class Wanted:
    path: Path
    name: str
    config: Mapping[str, str]
    target: Target | None = None


def wanted_of(path: Path) -> Wanted:
    """The connector that a file asks for; ConfigException says what is wrong with the file."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigException(f"Can't read {path}: {error.strerror or error}") from None
    if path.suffix == ".json" or text.lstrip().startswith("{"):
        fields = _json(path, text)
    else:
        fields = dict(parse_properties(text))
    inner = fields.get("config")
    config = inner if isinstance(inner, dict) else fields
    name = str(fields.get("name") or config.get("name") or "").strip()
    if not name:
        raise ConfigException(f"{path}: a connector has a `name`")
    texts = {str(key): _text(value) for key, value in config.items()}
    return Wanted(path, name, {**texts, "name": name}, initial_target(fields, inner))


def initial_target(fields: Mapping[str, Any], inner: Any = None) -> Target | None:
    """KIP-980: a connector may be created paused or stopped."""
    state = fields.get("initial_state") if isinstance(inner, dict) else None
    if state is None:
        return None
    found = INITIAL.get(str(state).upper())
    if found is None:
        raise ConfigException(f"initial_state {state}: one of {', '.join(INITIAL)}")
    return found


def _json(path: Path, text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError as error:
        raise ConfigException(f"{path} is no JSON: {error}") from None
    if not isinstance(found, dict):
        raise ConfigException(f"{path} is not a JSON object")
    return found


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
