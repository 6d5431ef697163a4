"""Settings whose values are kept elsewhere: `${file:/etc/secrets.properties:password}` (KIP-297).

    config.providers=file,env
    config.providers.file.class=org.apache.kafka.common.config.provider.FileConfigProvider
    config.providers.file.param.allowed.paths=/etc/secrets
    config.providers.env.class=org.apache.kafka.common.config.provider.EnvVarConfigProvider

A worker's own properties are resolved when it starts, a connector's when that starts: what is
written down and shown has the references. What nobody can resolve stays as it is, as in Kafka.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Collection, Mapping
from importlib import import_module
from pathlib import Path
from typing import Final, Protocol

from ottla.config import parse_properties
from ottla.connect.errors import ConfigException
from ottla.rows.java.regular_expressions import compile_java

log = logging.getLogger("ottla.connect")

PROVIDERS: Final = "config.providers"
PACKAGE: Final = "org.apache.kafka.common.config.provider."
REFERENCE: Final = re.compile(r"\$\{([^}]*?):(([^}]*?):)?([^}]*?)\}")
SECRET_CHARACTERS_MIN: Final = 4
"""A shorter value would be found everywhere: it is not looked for in texts."""


class ConfigProvider(Protocol):
    """Made without arguments; `module:Class` in `config.providers.<name>.class` names one."""

    def configure(self, params: Mapping[str, str]) -> None: ...

    def get(self, path: str, keys: Collection[str]) -> Mapping[str, str]:
        """Those that there are."""


class AllowedPaths:
    """`allowed.paths`: files in these folders, or these files, and no others."""

    def __init__(self, given: str) -> None:
        self._paths = [self._checked(each.strip()) for each in given.split(",") if each.strip()]

    def parse(self, path: str) -> Path | None:
        found = Path(os.path.normpath(path))
        if self._paths and not any(found.is_relative_to(each) for each in self._paths):
            log.warning("The path %s is not allowed to be accessed", path)
            return None
        return found

    def _checked(self, text: str) -> Path:
        if not Path(text).is_absolute():
            raise ConfigException(f"Path {text} is not absolute")
        if not Path(text).exists():
            raise ConfigException(f"Path {text} does not exist")
        return Path(os.path.normpath(text))


class FileConfigProvider:
    """Keys of a properties file: `${file:/path:key}`."""

    def configure(self, params: Mapping[str, str]) -> None:
        self._allowed = AllowedPaths(params.get("allowed.paths", ""))

    def get(self, path: str, keys: Collection[str]) -> Mapping[str, str]:
        found = self._allowed.parse(path) if path else None
        if found is None:
            return {}
        try:
            properties = dict(parse_properties(found.read_text(encoding="utf-8")))
        except (OSError, ValueError):
            raise ConfigException(f"Could not read properties from file {path}") from None
        return {key: properties[key] for key in keys if key in properties}


class DirectoryConfigProvider:
    """Files of a folder, each with one value: `${dir:/path:file}`."""

    def configure(self, params: Mapping[str, str]) -> None:
        self._allowed = AllowedPaths(params.get("allowed.paths", ""))

    def get(self, path: str, keys: Collection[str]) -> Mapping[str, str]:
        folder = self._allowed.parse(path) if path else None
        if folder is None:
            return {}
        if not folder.is_dir():
            log.warning("The path %s is not a directory", path)
            return {}
        return {key: self._text(folder, key) for key in keys if self._is_there(folder, key)}

    def _is_there(self, folder: Path, key: str) -> bool:
        """A file of this folder itself, whatever the key says."""
        return (folder / key).parent == folder and (folder / key).is_file()

    def _text(self, folder: Path, key: str) -> str:
        try:
            return (folder / key).read_text(encoding="utf-8")
        except (OSError, ValueError):
            raise ConfigException(
                f"Could not read file {folder / key} for property {key}"
            ) from None


class EnvVarConfigProvider:
    """Variables of the worker's environment: `${env:NAME}`."""

    def configure(self, params: Mapping[str, str]) -> None:
        text = params.get("allowlist.pattern", ".*")
        try:
            self._allowed = compile_java(text)
        except re.error as error:
            raise ConfigException.of("allowlist.pattern", text, str(error)) from None

    def get(self, path: str, keys: Collection[str]) -> Mapping[str, str]:
        if path:
            raise ConfigException("Path is not used for EnvVarConfigProvider and should be empty")
        names = [each for each in keys if self._allowed.fullmatch(each)]
        return {each: os.environ[each] for each in names if each in os.environ}


IN_THE_BOX: Final[Mapping[str, type[ConfigProvider]]] = {
    kind.__name__: kind
    for kind in (FileConfigProvider, DirectoryConfigProvider, EnvVarConfigProvider)
}


class Providers:
    """Those that a worker's properties name."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        names = [each.strip() for each in properties.get(PROVIDERS, "").split(",")]
        self._providers = {
            name: _provider(properties, f"{PROVIDERS}.{name}.", properties[kind])
            for name in names
            if (kind := f"{PROVIDERS}.{name}.class") in properties
        }

    def resolved(self, config: Mapping[str, str]) -> dict[str, str]:
        if not self._providers:
            return dict(config)
        wanted = self._wanted(config)
        found = {where: self._providers[where[0]].get(where[1], wanted[where]) for where in wanted}

        def value(match: re.Match[str]) -> str:
            name, _, path, key = match.groups()
            return found.get((name, path or ""), {}).get(key, match[0])

        return {
            name: REFERENCE.sub(value, text) if isinstance(text, str) else text
            for name, text in config.items()
        }

    def _wanted(self, config: Mapping[str, str]) -> dict[tuple[str, str], set[str]]:
        wanted: dict[tuple[str, str], set[str]] = {}
        for text in config.values():
            for name, _, path, key in REFERENCE.findall(text if isinstance(text, str) else ""):
                if name in self._providers:
                    wanted.setdefault((name, path or ""), set()).add(key)
        return wanted


def own(properties: Mapping[str, str]) -> dict[str, str]:
    """A worker's properties, resolved by the providers that they name (KIP-421)."""
    return Providers(properties).resolved(properties)


def referring(raw: Mapping[str, str], config: Mapping[str, str]) -> dict[str, str]:
    """A config made of a resolved one, with its references again where `raw` has them."""
    kept = {name: text for name, text in raw.items() if REFERENCE.search(text or "")}
    return {name: kept.get(name, value) for name, value in config.items()}


def hidden(text: str, raw: Mapping[str, str], resolved: Mapping[str, str]) -> str:
    """A text to be shown: values that were kept elsewhere are references again."""
    for name, value in resolved.items():
        if value != raw.get(name) and value and len(value) >= SECRET_CHARACTERS_MIN:
            text = text.replace(value, raw.get(name, ""))
    return text


def _provider(properties: Mapping[str, str], prefix: str, named: str) -> ConfigProvider:
    kind = IN_THE_BOX.get(named.removeprefix(PACKAGE)) or _imported(f"{prefix}class", named)
    params = f"{prefix}param."
    made = kind()
    made.configure(
        {
            name.removeprefix(params): value
            for name, value in properties.items()
            if name.startswith(params)
        }
    )
    return made


def _imported(setting: str, named: str) -> type[ConfigProvider]:
    module, _, name = named.partition(":")
    try:
        found: type[ConfigProvider] = getattr(import_module(module), name)
    except (ImportError, AttributeError, ValueError):
        raise ConfigException.of(setting, named, f"Class {named} could not be found.") from None
    return found
