"""A registry's messages about incompatible schemas, for people and for scripts."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from rich.markup import escape

from ottla.cli.console import print_line

_MESSAGE: Final = re.compile(
    r"\{errorType:['\"](?P<kind>\w+)['\"], description:['\"](?P<what>.*?)['\"],"
    r" additionalInfo:['\"](?P<sides>.*?)['\"](?:, remedy:['\"](?P<remedy>.*?)['\"])?\}",
    re.DOTALL,
)
_PATH: Final = re.compile(r"path '([^']*)'")
_VERSION: Final = re.compile(r"\{oldSchemaVersion: (\d+)\}")
_LEVEL: Final = re.compile(r"compatibility: '(\w+)'")
_COLORS: Final = {"+": "green", "-": "red", "@": "cyan"}


@dataclass(frozen=True, slots=True)
class Incompatibility:
    """One reason. Only Ottla's registry sends a remedy."""

    kind: str
    path: str
    what: str
    sides: str
    remedy: str


def read_incompatibilities(messages: Iterable[str]) -> list[Incompatibility]:
    found = []
    for message in messages:
        match = _MESSAGE.fullmatch(message.strip())
        if match is None:
            continue
        path = _PATH.search(match["what"])
        found.append(
            Incompatibility(
                match["kind"],
                path[1] if path else "",
                match["what"],
                match["sides"],
                match["remedy"] or "",
            )
        )
    return found


def against(messages: Iterable[str]) -> str:
    """`version 3, level BACKWARD`: what the registry compared with."""
    text = "\n".join(messages)
    version, level = _VERSION.search(text), _LEVEL.search(text)
    parts = [f"version {version[1]}" if version else "", f"level {level[1]}" if level else ""]
    return ", ".join(part for part in parts if part)


def print_incompatibilities(messages: Sequence[str]) -> None:
    found = read_incompatibilities(messages)
    for finding in found:
        print_line(f"[bold yellow]{escape(finding.path or '/')}[/]  [dim]{finding.kind}[/]")
        print_line(f"  {escape(finding.what)}")
        if finding.sides not in finding.what:  # often it repeats a name
            print_line(f"  sides:  {escape(finding.sides)}")
        if finding.remedy:
            print_line(f"  remedy: [green]{escape(finding.remedy)}[/]")
    for message in messages if not found else ():
        print_line(f"  {escape(message)}")


def pretty(kind: str, text: str) -> str:
    """Indented JSON; .proto text is unchanged."""
    if kind == "PROTOBUF":
        return text.rstrip("\n")
    try:
        return json.dumps(json.loads(text), indent=2, ensure_ascii=False)
    except ValueError:
        return text


def print_diff(old: Sequence[str], new: Sequence[str], names: tuple[str, str]) -> bool:
    """Returns True if there is a difference."""
    lines = list(difflib.unified_diff(old, new, *names, lineterm=""))
    for line in lines:
        color = _COLORS.get(line[:1], "")
        print_line(f"[{color}]{escape(line)}[/]" if color else escape(line))
    return bool(lines)


def as_plain(found: Iterable[Incompatibility]) -> list[dict[str, Any]]:
    return [
        {
            "type": incompatibility.kind,
            "path": incompatibility.path,
            "description": incompatibility.what,
            "sides": incompatibility.sides,
            "remedy": incompatibility.remedy,
        }
        for incompatibility in found
    ]
