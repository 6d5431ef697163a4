"""A client of a schema registry: Ottla's, Confluent's, Karapace's.

Settings have the names of Confluent's serializers: `schema.registry.url` (several by commas),
`basic.auth.credentials.source` and `basic.auth.user.info`, `bearer.auth.*`,
`schema.registry.ssl.*`.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from ottla.auth.jaas import parse_jaas
from ottla.client.delivery import Setting
from ottla.client.oauth import OAuthTokenSettings, source_of
from ottla.client.rest_client import (
    RestClient,
    ServerUnreachable,
    basic_authorization,
    without_login,
)
from ottla.client.schema_registry_error import SchemaRegistryError as SchemaRegistryError
from ottla.client.tls import client_context, text
from ottla.errors import ErrorCode, KafkaError
from ottla.schemas.schema_types import ParsedSchema, Reference, parse

URL: Final = "schema.registry.url"
LATEST: Final = "latest"
CONTENT_TYPE: Final = "application/vnd.schemaregistry.v1+json"
TIMEOUT_S: Final = 30.0
TRIES_MAX: Final = 4
RETRY_S: Final = 0.25
SCHEMAS_MAX: Final = 10_000
DEPTH_MAX: Final = 64
_PREFIX: Final = "schema.registry."

Key = TypeVar("Key")
Kept = TypeVar("Kept")


@dataclass(frozen=True, slots=True)
class RegisteredSchema:
    """A schema from the registry. Subject and version are empty after a lookup by id."""

    id: int
    kind: str
    text: str
    references: tuple[Reference, ...] = ()
    subject: str = ""
    version: int = 0
    guid: str = ""
    metadata: Mapping[str, Any] | None = None
    rule_set: Mapping[str, Any] | None = None


class SchemaRegistry:
    """One registry. Thread-safe; schemas by id, and ids by schema, are cached."""

    def __init__(
        self,
        url: str = "",
        settings: Mapping[str, Setting] | None = None,
        *,
        timeout_s: float = TIMEOUT_S,
        tries_max: int = TRIES_MAX,
    ) -> None:
        self._tries_max = tries_max
        settings = settings or {}
        addresses = [
            address.strip()
            for address in (url or text(settings, URL)).split(",")
            if address.strip()
        ]
        if not addresses:
            raise KafkaError(
                ErrorCode.INVALID_CONFIG, f"{URL} is not set: where is the schema registry?"
            )
        pairs = [without_login(address) for address in addresses]
        stores = {
            name.removeprefix(_PREFIX): value
            for name, value in settings.items()
            if name.startswith(f"{_PREFIX}ssl.")
        }
        secure = bool(stores) and any(bare.startswith("https:") for bare, _ in pairs)
        self.url = ",".join(bare for bare, _ in pairs)
        self._rest = RestClient(
            [bare for bare, _ in pairs],
            content_type=CONTENT_TYPE,
            authorization=_authorization(settings, pairs[0][1]),
            tls=client_context(stores) if secure else None,
            timeout_s=timeout_s,
        )
        self._lock = threading.Lock()
        self._by_id: dict[tuple[str, int], RegisteredSchema] = {}
        self._by_guid: dict[str, RegisteredSchema] = {}
        self._by_version: dict[tuple[str, int], RegisteredSchema] = {}
        self._registered: dict[tuple[Any, ...], RegisteredSchema] = {}
        self._parsed: dict[tuple[Any, ...], ParsedSchema] = {}

    # One schema

    def by_id(self, id: int, subject: str = "") -> RegisteredSchema:
        """`subject` gives the context of the id."""
        context = _context(subject)
        found = self._by_id.get((context, id))
        if found is None:
            query = {"subject": subject} if subject else {}
            answer = self.get("schemas", "ids", str(id), query=query)
            found = _cache(self._by_id, (context, id), _schema({**answer, "id": id}))
        return found

    def by_guid(self, guid: str) -> RegisteredSchema:
        found = self._by_guid.get(guid)
        if found is None:
            answer = self.get("schemas", "guids", guid)
            found = _cache(self._by_guid, guid, _schema({"id": 0, **answer, "guid": guid}))
        return found

    def version(
        self, subject: str, version: int | str = LATEST, *, deleted: bool = False
    ) -> RegisteredSchema:
        query = {"deleted": "true"} if deleted else {}
        return _schema(self.get("subjects", subject, "versions", str(version), query=query))

    def with_metadata(self, subject: str, properties: Mapping[str, str]) -> RegisteredSchema:
        """The latest version that has these properties in its metadata."""
        query = {"key": list(properties), "value": list(properties.values())}
        return _schema(self.get("subjects", subject, "metadata", query=query))

    def register(
        self,
        subject: str,
        kind: str,
        text: str,
        references: Sequence[Reference] = (),
        *,
        normalize: bool = False,
    ) -> RegisteredSchema:
        """The id and version of this text in the subject, registering it if need be."""
        return self._found("POST", subject, kind, text, references, normalize, register=True)

    def look_up(
        self,
        subject: str,
        kind: str,
        text: str,
        references: Sequence[Reference] = (),
        *,
        normalize: bool = False,
    ) -> RegisteredSchema:
        """The id and version of this text in the subject.

        SchemaRegistryError 40401 or 40403 if there is none.
        """
        return self._found("POST", subject, kind, text, references, normalize, register=False)

    def associated_subject(self, topic: str, namespace: str, *, is_key: bool) -> str | None:
        """The subject that is associated with a topic's key or value, if any."""
        side = "key" if is_key else "value"
        query = {"resourceType": "topic", "associationType": side}
        try:
            found = self.get("associations", "resources", namespace, topic, query=query)
        except SchemaRegistryError as error:
            if error.status != 404:
                raise
            return None  # or the registry has no associations
        subjects = {use["subject"] for use in found}
        if len(subjects) > 1:
            raise ValueError(f"several subjects are associated with topic {topic}")
        return subjects.pop() if subjects else None

    def version_in(self, subject: str, schema: RegisteredSchema) -> int | None:
        """The version of a schema in a subject, also if it is deleted; None if it has none."""
        id = schema.id
        if not id and schema.guid:
            id = self.get("schemas", "guids", schema.guid, "ids")[0]["id"]
        query = {"subject": subject, "deleted": "true"}
        found = self.get("schemas", "ids", str(id), "versions", query=query)
        return next((use["version"] for use in found if use["subject"] == subject), None)

    def parsed(self, schema: RegisteredSchema) -> ParsedSchema:
        """The schema, with its references resolved by the registry."""
        key = (schema.kind, schema.text, schema.references)
        found = self._parsed.get(key)
        if found is None:
            texts = self.referenced_texts(schema.references)
            found = _cache(self._parsed, key, parse(schema.kind, schema.text, texts))
        return found

    def referenced_texts(
        self, references: Sequence[Reference], depth: int = DEPTH_MAX
    ) -> dict[str, str]:
        """Name to text, of all references in dependency order."""
        if not depth:
            raise ValueError(f"references of schemas are nested deeper than {DEPTH_MAX}")
        texts: dict[str, str] = {}
        for reference in references:
            at = (reference.subject, reference.version)
            found = self._by_version.get(at)
            if found is None:
                found = _cache(self._by_version, at, self.version(*at, deleted=True))
            texts |= self.referenced_texts(found.references, depth - 1)
            texts[reference.name] = found.text
        return texts

    # Subjects

    def subjects(self, prefix: str = "", *, deleted: bool = False) -> list[str]:
        query = {"subjectPrefix": prefix} if prefix else {}
        if deleted:
            query["deleted"] = "true"
        found: list[str] = self.get("subjects", query=query)
        return found

    def versions(self, subject: str) -> list[int]:
        found: list[int] = self.get("subjects", subject, "versions")
        return found

    def level(self, subject: str = "") -> str:
        """The compatibility level of a subject, or the global one."""
        path = ("config", subject) if subject else ("config",)
        found: str = self.get(*path, query={"defaultToGlobal": "true"})["compatibilityLevel"]
        return found

    def delete(
        self, subject: str, version: int | str | None = None, *, permanent: bool = False
    ) -> list[int]:
        """Returns the deleted versions. A permanent delete must follow a soft delete."""
        query = {"permanent": "true"} if permanent else {}
        path = ["subjects", subject] + ([] if version is None else ["versions", str(version)])
        answer = self.ask("DELETE", *path, query=query)
        with self._lock:
            self._registered.clear()
        return answer if isinstance(answer, list) else [answer]

    def incompatibilities(
        self,
        subject: str,
        kind: str,
        text: str,
        references: Sequence[Reference] = (),
        *,
        version: int | str | None = None,
    ) -> list[str]:
        """Why this schema can't be the next version; empty if it can.

        Without `version`, the subject's level decides which versions count, as for `register`.
        """
        path = ["compatibility", "subjects", subject, "versions"]
        answer = self.ask(
            "POST",
            *(path if version is None else [*path, str(version)]),
            body=_body(kind, text, references),
            query={"verbose": "true"},
        )
        if answer["is_compatible"]:
            return []
        return answer.get("messages") or [
            "The schema is incompatible; the registry gives no reason"
        ]

    # REST

    def get(self, *path: str, query: Mapping[str, Any] | None = None) -> Any:
        return self.ask("GET", *path, query=query)

    def ask(
        self, method: str, *path: str, body: Any = None, query: Mapping[str, Any] | None = None
    ) -> Any:
        """The registry's answer; SchemaRegistryError if it refuses.

        Server errors are retried: every request to a registry is idempotent.
        """
        for tries in range(1, self._tries_max + 1):
            try:
                status, data = self._rest.ask(method, *path, body=body, query=query)
            except ServerUnreachable as error:
                if tries == self._tries_max:
                    raise KafkaError(
                        ErrorCode.NETWORK_EXCEPTION, f"No schema registry answers: {error}"
                    ) from None
            else:
                if status < 300:
                    return json.loads(data) if data else None
                if status < 500 or tries == self._tries_max:
                    raise _refusal(status, data, self.url)
            time.sleep(RETRY_S * 2 ** (tries - 1))
        raise AssertionError("the last try returns or raises")

    def close(self) -> None:
        self._rest.close()

    def _found(
        self,
        method: str,
        subject: str,
        kind: str,
        text: str,
        references: Sequence[Reference],
        normalize: bool,
        *,
        register: bool,
    ) -> RegisteredSchema:
        key = (subject, kind, text, tuple(references), normalize)
        found = self._registered.get(key)
        if found is not None:
            return found
        query = {"normalize": "true"} if normalize else {}
        path = ["subjects", subject] + (["versions"] if register else [])
        answer = self.ask(method, *path, body=_body(kind, text, references), query=query)
        if "version" not in answer:  # registries before 8.0 answer with the id alone
            answer = self.ask(
                method, "subjects", subject, body=_body(kind, text, references), query=query
            )
        schema = _schema({"schema": text, "subject": subject, "schemaType": kind, **answer})
        with self._lock:
            return _cache(self._registered, key, schema)


def _authorization(settings: Mapping[str, Setting], of_url: str) -> Callable[[], str] | None:
    bearer = text(settings, "bearer.auth.credentials.source").upper()
    if bearer == "STATIC_TOKEN":
        token = text(settings, "bearer.auth.token")
        if not token:
            raise KafkaError(ErrorCode.INVALID_CONFIG, "bearer.auth.token is not set")
        return lambda: f"Bearer {token}"
    if bearer == "OAUTHBEARER":
        source = source_of(
            OAuthTokenSettings(
                text(settings, "bearer.auth.issuer.endpoint.url"),
                text(settings, "bearer.auth.client.id"),
                text(settings, "bearer.auth.client.secret"),
                text(settings, "bearer.auth.scope"),
            )
        )
        return lambda: f"Bearer {source.token().value}"
    if bearer:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"bearer.auth.credentials.source {bearer} is not known: STATIC_TOKEN or OAUTHBEARER",
        )
    credentials_source = text(settings, "basic.auth.credentials.source").upper() or "URL"
    if credentials_source == "SASL_INHERIT":
        inherited = basic_authorization(*_sasl_login(settings))
        return lambda: inherited
    if credentials_source == "USER_INFO" or (not of_url and text(settings, "basic.auth.user.info")):
        info = text(settings, "basic.auth.user.info")
        user, colon, password = info.partition(":")
        if not colon:
            raise KafkaError(ErrorCode.INVALID_CONFIG, "basic.auth.user.info must be USER:PASSWORD")
        header = basic_authorization(user, password)
        return lambda: header
    return (lambda: of_url) if of_url else None


def _sasl_login(settings: Mapping[str, Setting]) -> tuple[str, str]:
    """The user and password of the client's Kafka connections."""
    options: Mapping[str, str] = {}
    if jaas := text(settings, "sasl.jaas.config"):
        try:
            options = parse_jaas(jaas).options
        except ValueError as error:
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"sasl.jaas.config: {error}") from None
    user = options.get("username", "") or text(settings, "sasl.username")
    if not user:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            "basic.auth.credentials.source is SASL_INHERIT, but the client has no user:"
            " sasl.username and sasl.password, or sasl.jaas.config",
        )
    return user, options.get("password", "") or str(settings.get("sasl.password") or "")


def _body(kind: str, text: str, references: Sequence[Reference]) -> dict[str, Any]:
    body: dict[str, Any] = {"schema": text}
    if kind != "AVRO":
        body["schemaType"] = kind
    if references:
        body["references"] = [
            {"name": reference.name, "subject": reference.subject, "version": reference.version}
            for reference in references
        ]
    return body


def _schema(answer: Mapping[str, Any]) -> RegisteredSchema:
    return RegisteredSchema(
        id=answer["id"],
        kind=answer.get("schemaType") or "AVRO",
        text=answer["schema"],
        references=tuple(
            Reference(reference["name"], reference["subject"], reference["version"])
            for reference in answer.get("references") or ()
        ),
        subject=answer.get("subject") or "",
        version=answer.get("version") or 0,
        guid=answer.get("guid") or "",
        metadata=answer.get("metadata"),
        rule_set=answer.get("ruleSet") or answer.get("ruleset"),
    )


def _refusal(status: int, data: bytes, url: str) -> SchemaRegistryError:
    try:
        answer = json.loads(data)
        return SchemaRegistryError(status, int(answer["error_code"]), str(answer["message"]))
    except (ValueError, TypeError, KeyError):
        return SchemaRegistryError(status, status, f"{url} answers with HTTP status {status}")


def _context(subject: str) -> str:
    return subject[: subject.index(":", 2) + 1] if subject.startswith(":.") else ""


def _cache(cache: dict[Key, Kept], key: Key, value: Kept) -> Kept:
    """A bounded cache: beyond the limit the oldest entry goes."""
    while len(cache) >= SCHEMAS_MAX:
        cache.pop(next(iter(cache)), None)
    cache[key] = value
    return value
