"""The client of the verbs for schema registries: failures are ToolErrors with a remedy."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from ottla.cli.kafka.tool import ToolError, read_properties
from ottla.cli.verbs.rest_login import GIVEN, USER_INFO, RestLogin
from ottla.client.schema_registry import SchemaRegistry, SchemaRegistryError
from ottla.errors import KafkaError
from ottla.schemas.invalid_schema import InvalidSchema
from ottla.schemas.schema_types import Reference

KINDS: Final = {".avsc": "AVRO", ".avro": "AVRO", ".json": "JSON", ".proto": "PROTOBUF"}
_NO_SUBJECT: Final = 40401
_NO_VERSION: Final = 40402


@contextmanager
def open_registry(url: str) -> Iterator[SchemaRegistry]:
    login = GIVEN.get() or RestLogin()
    settings = dict(read_properties(login.config))
    for name in [setting for setting in settings if setting.startswith("ssl.")]:
        settings.setdefault(f"schema.registry.{name}", settings[name])
    if user := login.user_info():
        settings |= {"basic.auth.credentials.source": "USER_INFO", USER_INFO: user}
    try:
        registry = SchemaRegistry(url, settings)
    except ValueError as error:
        raise ToolError(f"--registry: {error}") from None
    try:
        yield registry
    except SchemaRegistryError as error:
        raise ToolError(_refusal(error)) from None
    except InvalidSchema as error:
        raise ToolError(f"the schema is not valid: {error}") from None
    except KafkaError as error:
        raise ToolError(
            f"{error}\n      `ottla serve --registry` or `ottla registry` starts one;"
            " --registry gives another address."
        ) from None
    finally:
        registry.close()


def _refusal(error: SchemaRegistryError) -> str:
    advice = ""
    if error.code == _NO_SUBJECT:
        advice = "\n      `ottla schemas list` shows the subjects there are."
    elif error.code == _NO_VERSION:
        advice = "\n      `ottla schemas show SUBJECT` shows its latest version."
    elif error.status == 401:
        advice = "\n      Log in: `ottla schemas --user NAME ...`, or USER:PASSWORD@ in --registry."
    return f"{error} (error code {error.code}){advice}"


def read_text(file: str) -> str:
    """- is standard input."""
    if file == "-":
        return sys.stdin.read()
    try:
        return Path(file).read_text(encoding="utf-8")
    except OSError as error:
        raise ToolError(f"{file}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ToolError(f"{file}: not UTF-8 text") from None


def kind_of(file: str, kind_option: str) -> str:
    if kind_option:
        kind = kind_option.upper()
        if kind not in KINDS.values():
            raise ToolError(f"--type {kind_option}: expected avro, json or protobuf")
        return kind
    suffix = Path(file).suffix.lower()
    if suffix not in KINDS:
        raise ToolError(
            f"{file}: the name does not end with one of {', '.join(KINDS)}: give"
            " --type avro, json or protobuf"
        )
    return KINDS[suffix]


def references_of(texts: Sequence[str]) -> tuple[Reference, ...]:
    """NAME=SUBJECT:VERSION; the subject may contain colons."""
    found = []
    for text in texts:
        name, equals, place = text.partition("=")
        subject, colon, version = place.rpartition(":")
        if not (name and equals and subject and colon and version.isdigit()):
            raise ToolError(f"--reference {text}: expected NAME=SUBJECT:VERSION")
        found.append(Reference(name, subject, int(version)))
    return tuple(found)
