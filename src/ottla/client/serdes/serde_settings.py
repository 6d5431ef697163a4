"""Settings of a serde with a registry, by Confluent's names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ottla.client.serdes.contract_rules import RuleAction, RuleExecutor
from ottla.client.serdes.subject_names import (
    SubjectName,
    associated_name,
    strategy_of,
    topic_name,
)
from ottla.spelling import did_you_mean

_OF_SERDE: Final = frozenset(
    (
        "auto.register.schemas",
        "id.compatibility.strict",
        "json.fail.invalid.schema",
        "latest.cache.ttl.sec",
        "latest.compatibility.strict",
        "normalize.schemas",
        "reference.subject.name.strategy",
        "rule.actions",
        "rule.executors",
        "schema.id.deserializer",
        "schema.id.serializer",
        "subject.name.strategy",
        "subject.name.strategy.fallback.type",
        "subject.name.strategy.kafka.cluster.id",
        "subject.name.strategy.type",
        "use.latest.version",
        "use.latest.with.metadata",
        "use.schema.guid",
        "use.schema.id",
        "validate",
    )
)
_OF_SIDE: Final = ("subject.name.strategy", "schema.id.serializer", "schema.id.deserializer")
ANY_NAMESPACE: Final = "-"
_URL: Final = "schema.registry.url"
_LOGIN: Final = ("sasl.username", "sasl.password", "sasl.jaas.config")  # for SASL_INHERIT
_OF_REGISTRY: Final = ("schema.registry.", "basic.auth.", "bearer.auth.")
# Java serializers have these, where the classes given to our serdes do the job.
_ELSEWHERE: Final = frozenset(
    (
        "avro.reflection.allow.null",
        "avro.remove.java.properties",
        "avro.use.logical.type.converters",
        "derive.type",
        "json.key.type",
        "json.value.type",
        "max.schemas.per.subject",
        "schema.reflection",
        "specific.avro.key.type",
        "specific.avro.reader",
        "specific.avro.value.type",
        "specific.protobuf.key.type",
        "specific.protobuf.value.type",
    )
)


def is_serde_setting(name: str) -> bool:
    """True for a setting of serdes, not of the connection to the brokers."""
    bare = name.removeprefix("key.").removeprefix("value.")
    in_sides = bare in _OF_SIDE
    return in_sides or name in _OF_SERDE or name in _ELSEWHERE or name.startswith(_OF_REGISTRY)


def serde_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The part of a client's or application's settings that serdes use."""
    taken = {name: value for name, value in settings.items() if is_serde_setting(name)}
    if str(taken.get("basic.auth.credentials.source", "")).upper() == "SASL_INHERIT":
        taken |= {name: settings[name] for name in _LOGIN if name in settings}
    return taken


def with_own(own: Mapping[str, Any], own_url: str, of_client: Mapping[str, Any]) -> dict[str, Any]:
    """A serde's own settings win. A client's logins are for the client's registry: a serde with
    another registry does not send them there."""
    taken = serde_settings(of_client)
    theirs = str(taken.get(_URL) or "")
    url = own_url or str(own.get(_URL) or "")
    if url and theirs and url.rstrip("/") != theirs.rstrip("/"):
        taken = {name: value for name, value in taken.items() if not _is_of_registry(name)}
    return {**taken, **own}


def _is_of_registry(name: str) -> bool:
    return name.startswith(_OF_REGISTRY) or name in _LOGIN


@dataclass(frozen=True, slots=True)
class SerdeSettings:
    auto_register: bool = True
    use_latest: bool = False
    use_metadata: Mapping[str, str] = field(default_factory=dict)
    use_id: int | None = None
    use_guid: str = ""
    normalize: bool = False
    latest_strict: bool = True
    id_strict: bool = True
    latest_ttl_s: float | None = None
    subject_name: SubjectName = topic_name
    association_namespace: str = ""
    """The namespace of the registry's associations of topics with subjects; empty: not used."""
    reference_subject_name: SubjectName | None = None
    id_in_header: bool = False
    looks_at_headers: bool = True
    validate: bool = True
    rule_executors: Mapping[str, RuleExecutor | None] = field(default_factory=dict)
    rule_actions: Mapping[str, RuleAction] = field(default_factory=dict)

    @property
    def registers(self) -> bool:
        """True if a schema that the registry lacks becomes a version of its subject."""
        return self.auto_register and not self.uses_given

    @property
    def uses_given(self) -> bool:
        """True if a record's schema comes from the registry, whatever the value is."""
        return bool(
            self.use_latest or self.use_metadata or self.use_id is not None or self.use_guid
        )


def settings_of(settings: Mapping[str, Any], *, is_key: bool) -> SerdeSettings:
    """Settings that begin with `key.` or `value.` are for that side, and win there."""
    side = "key." if is_key else "value."
    found = {
        name: value for name, value in settings.items() if not name.startswith(("key.", "value."))
    }
    found |= {
        name.removeprefix(side): value for name, value in settings.items() if name.startswith(side)
    }
    strategy = found.get("subject.name.strategy") or found.get("subject.name.strategy.type")
    reference = found.get("reference.subject.name.strategy")
    ttl_s = float(found.get("latest.cache.ttl.sec", -1))
    use_id = int(found.get("use.schema.id") or -1)
    subject_name: SubjectName = strategy_of(strategy) if strategy else topic_name
    namespace = ""
    if subject_name is associated_name:
        subject_name = strategy_of(found.get("subject.name.strategy.fallback.type") or "TOPIC")
        namespace = str(found.get("subject.name.strategy.kafka.cluster.id") or ANY_NAMESPACE)
    result = SerdeSettings(
        auto_register=_flag(found, "auto.register.schemas", True),
        use_latest=_flag(found, "use.latest.version", False),
        use_metadata=_pairs(found.get("use.latest.with.metadata")),
        use_id=use_id if use_id >= 0 else None,
        use_guid=str(found.get("use.schema.guid") or ""),
        normalize=_flag(found, "normalize.schemas", False),
        latest_strict=_flag(found, "latest.compatibility.strict", True),
        id_strict=_flag(found, "id.compatibility.strict", True),
        latest_ttl_s=ttl_s if ttl_s >= 0 else None,
        subject_name=subject_name,
        association_namespace=namespace,
        reference_subject_name=reference if callable(reference) else None,
        id_in_header=_place(found, "schema.id.serializer", ("prefix", "header")) == "header",
        looks_at_headers=_place(found, "schema.id.deserializer", ("dual", "prefix")) == "dual",
        rule_executors=found.get("rule.executors") or {},
        rule_actions=found.get("rule.actions") or {},
        validate=_flag(found, "json.fail.invalid.schema", _flag(found, "validate", True)),
    )
    if result.use_latest and found.get("auto.register.schemas") and result.auto_register:
        raise ValueError("use.latest.version and auto.register.schemas can't both be true")
    return result


def check_names(settings: Mapping[str, Any]) -> None:
    for name in settings:
        if not is_serde_setting(name) and name not in _LOGIN:
            hint = did_you_mean(name, _OF_SERDE, alike=0.6)
            raise ValueError(f"a serde has no setting {name}{hint}")


def _flag(settings: Mapping[str, Any], name: str, default: bool) -> bool:
    value = str(settings.get(name, default)).lower()
    if value not in ("true", "false"):
        raise ValueError(f"{name} is true or false, not {value!r}")
    return value == "true"


def _pairs(value: Any) -> dict[str, str]:
    """A dict, or Java's form: `a=1,b=2`."""
    if not value:
        return {}
    if isinstance(value, Mapping):
        return {str(name): str(text) for name, text in value.items()}
    return dict(part.split("=", 1) for part in str(value).split(","))


def _place(settings: Mapping[str, Any], name: str, words: tuple[str, str]) -> str:
    """A word, or Java's class: HeaderSchemaIdSerializer is header."""
    given = str(settings.get(name, words[0])).rpartition(".")[2].lower()
    word = given.removesuffix("deserializer").removesuffix("serializer").removesuffix("schemaid")
    if word not in words:
        raise ValueError(f"{name} is {words[0]} or {words[1]}, not {settings[name]!r}")
    return word
