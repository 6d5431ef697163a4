"""Config providers: settings whose values are elsewhere, `${file:/etc/s.properties:key}` (KIP-297).

    config.providers=file,env
    config.providers.file.class=org.apache.kafka.common.config.provider.FileConfigProvider
    config.providers.file.param.allowed.paths=/etc/secrets
    config.providers.env.class=org.apache.kafka.common.config.provider.EnvVarConfigProvider

A worker's own properties are resolved when it starts, a connector's config when the connector
starts. The config topic and REST only ever have the references. As in Kafka, a reference that no
provider resolves is left as it is.
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
from ottla.rows.java.regular_expressions import compile_regular_expression

log = logging.getLogger("ottla.connect")

PROVIDERS: Final = "config.providers"
PACKAGE: Final = "org.apache.kafka.common.config.provider."
REFERENCE: Final = re.compile(r"\$\{([^}]*?):(([^}]*?):)?([^}]*?)\}")
SECRET_CHARACTERS_MIN: Final = 4
"""Shorter values are not masked in texts, where they would match too often by accident."""


class ConfigProvider(Protocol):
    """Instantiated without arguments; `config.providers.<name>.class` is a `module:Class`."""

    def configure(self, params: Mapping[str, str]) -> None: ...

    def get(self, path: str, keys: Collection[str]) -> Mapping[str, str]:
        """The values of those keys that exist."""


class AllowedPaths:
    """`allowed.paths`: only these files, and files in these folders, may be read."""

    def __init__(self, given: str) -> None:
        self._paths = [self._checked(path.strip()) for path in given.split(",") if path.strip()]

    def parse(self, path: str) -> Path | None:
        found = Path(os.path.normpath(path))
        if self._paths and not any(found.is_relative_to(allowed) for allowed in self._paths):
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
    """The files of a folder, with one value each: `${dir:/path:file}`."""

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
        """Only direct children of the folder: the key may contain `..`."""
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
            self._allowed = compile_regular_expression(text)
        except re.error as error:
            raise ConfigException.of("allowlist.pattern", text, str(error)) from None

    def get(self, path: str, keys: Collection[str]) -> Mapping[str, str]:
        if path:
            raise ConfigException("Path is not used for EnvVarConfigProvider and should be empty")
        names = [key for key in keys if self._allowed.fullmatch(key)]
        return {name: os.environ[name] for name in names if name in os.environ}


BUILTIN_PROVIDERS: Final[Mapping[str, type[ConfigProvider]]] = {
    kind.__name__: kind
    for kind in (FileConfigProvider, DirectoryConfigProvider, EnvVarConfigProvider)
}


class ConfigProviders:
    """The providers that a worker's properties configure."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        names = [name.strip() for name in properties.get(PROVIDERS, "").split(",")]
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


def resolve_worker_config(properties: Mapping[str, str]) -> dict[str, str]:
    """A worker's properties, resolved by the providers that they configure (KIP-421)."""
    return ConfigProviders(properties).resolved(properties)


def with_references(raw: Mapping[str, str], config: Mapping[str, str]) -> dict[str, str]:
    """Puts references back into a resolved config, wherever `raw` has them."""
    kept = {name: text for name, text in raw.items() if REFERENCE.search(text or "")}
    return {name: kept.get(name, value) for name, value in config.items()}


def hide_secrets(text: str, raw: Mapping[str, str], resolved: Mapping[str, str]) -> str:
    """Replaces resolved values in a text by their references, before it is shown."""
    for name, value in resolved.items():
        if value != raw.get(name) and value and len(value) >= SECRET_CHARACTERS_MIN:
            text = text.replace(value, raw.get(name, ""))
    return text


def _provider(properties: Mapping[str, str], prefix: str, named: str) -> ConfigProvider:
    kind = BUILTIN_PROVIDERS.get(named.removeprefix(PACKAGE)) or _imported(f"{prefix}class", named)
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
