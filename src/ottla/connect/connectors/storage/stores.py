"""The target of files: a pyarrow file system, and a folder in it."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
from pyarrow import fs

from ottla.connect.errors import ConfigException, RetriableException


class FileStore:
    """Writes files atomically: readers see whole files only."""

    def __init__(self, filesystem: fs.FileSystem, root: str) -> None:
        self._filesystem = filesystem
        self._root = root
        # Object stores show a file once it is closed; a file system shows it from its first byte.
        self._moves = filesystem.type_name in ("local", "hdfs")

    def write(self, path: str, content: Any) -> None:
        """Replaces an existing file: after a crash the same records are written again."""
        target = posixpath.join(self._root, path)
        folder, name = posixpath.split(target)
        first = posixpath.join(folder, f".{name}.part") if self._moves else target
        try:
            if self._moves:
                self._filesystem.create_dir(folder, recursive=True)
            with self._filesystem.open_output_stream(first, compression=None) as stream:
                stream.write(content)
            if self._moves:
                self._filesystem.move(first, target)
        except (OSError, pa.ArrowException) as error:
            raise RetriableException(f"Writing {target} failed: {error}") from error


def store_of(settings: Mapping[str, Any]) -> FileStore:
    """The store of store.url or s3.*, at topics.dir."""
    filesystem, path = _opened(settings)
    return FileStore(filesystem, posixpath.join(path, settings["topics.dir"]))


def _opened(settings: Mapping[str, Any]) -> tuple[fs.FileSystem, str]:
    url, bucket = settings["store.url"], settings["s3.bucket.name"]
    try:
        if bucket:
            return fs.S3FileSystem(**_s3(settings)), bucket
        found: tuple[fs.FileSystem, str] = fs.FileSystem.from_uri(
            url if "://" in url else f"file://{_absolute(url)}"
        )
        return found
    except (OSError, ValueError, pa.ArrowException, NotImplementedError) as error:
        raise ConfigException.of("store.url", url or bucket, str(error)) from error


def _absolute(path: str) -> str:
    if not path.startswith("/"):
        raise ConfigException.of("store.url", path, "a path must begin with /")
    return path


def _s3(settings: Mapping[str, Any]) -> dict[str, Any]:
    arguments: dict[str, Any] = {}
    if settings["s3.region"]:
        arguments["region"] = settings["s3.region"]
    if settings["aws.access.key.id"] and settings["aws.secret.access.key"]:
        arguments["access_key"] = settings["aws.access.key.id"]
        arguments["secret_key"] = settings["aws.secret.access.key"].value
    if settings["store.url"]:
        scheme, _, endpoint = settings["store.url"].partition("://")
        arguments["endpoint_override"] = endpoint.rstrip("/")
        arguments["scheme"] = scheme
    return arguments
