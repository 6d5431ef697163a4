"""Connector files: Java properties, or JSON, as a plain config or as a REST request.

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
from ottla.connect.run.connector_status import TargetState

INITIAL_STATES: Final = {
    "RUNNING": TargetState.STARTED,
    "PAUSED": TargetState.PAUSED,
    "STOPPED": TargetState.STOPPED,
}


@dataclass(frozen=True, slots=True)
class ConnectorFile:
    path: Path
    name: str
    config: Mapping[str, str]
    target: TargetState | None = None


def read_connector_file(path: Path) -> ConnectorFile:
    """The connector that a file describes. Raises ConfigException if the file is invalid."""
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
    return ConnectorFile(path, name, {**texts, "name": name}, initial_target(fields, inner))


def initial_target(fields: Mapping[str, Any], inner: Any = None) -> TargetState | None:
    """KIP-980: a connector may be created paused or stopped."""
    state = fields.get("initial_state") if isinstance(inner, dict) else None
    if state is None:
        return None
    found = INITIAL_STATES.get(str(state).upper())
    if found is None:
        raise ConfigException(f"initial_state {state}: one of {', '.join(INITIAL_STATES)}")
    return found


def _json(path: Path, text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError as error:
        raise ConfigException(f"{path} is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise ConfigException(f"{path} is not a JSON object")
    return found


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
