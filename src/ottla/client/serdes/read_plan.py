"""How values are read: the version that they are read into, and the rules on the way.

Without use.latest.version, values keep the shape in which they were written. With it, they get that
of the latest version: by Avro's resolution, or by migration rules of the versions in between.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ottla.client.schema_registry_error import SchemaRegistryError
from ottla.client.serdes.contract_rules import (
    DOWNGRADE,
    READ,
    UPGRADE,
    ContractRule,
    domain_rules,
    migration_rules,
)

if TYPE_CHECKING:
    from ottla.client.schema_registry import RegisteredSchema, SchemaRegistry
    from ottla.client.serdes.serde_settings import SerdeSettings

Convert = Callable[[Any], Any]
Rules = list[tuple[str, ContractRule]]


@dataclass(slots=True)
class ReadPlan:
    """`latest` is the version that values are read into, if not the writer's; `apply` runs the
    rules, which convert values to `latest` if it `migrates`."""

    latest: RegisteredSchema | None = None
    migrates: bool = False
    rules: Rules = field(default_factory=list)
    apply: Convert | None = None


def read_plan(
    registry: SchemaRegistry,
    settings: SerdeSettings,
    topic: str,
    found: RegisteredSchema,
    *,
    is_key: bool,
) -> tuple[str, ReadPlan]:
    """The subject, if it matters, and what to do with values of this schema."""
    from ottla.schemas.record_names import record_names

    if not (settings.use_latest or settings.use_metadata or found.rule_set):
        return "", ReadPlan()
    name = min(record_names(registry.parsed(found)), default="")
    subject = subject_of(registry, settings, topic, name, is_key=is_key)
    latest = None
    if settings.use_metadata:
        latest = registry.with_metadata(subject, settings.use_metadata)
    elif settings.use_latest:
        latest = registry.version(subject)
    migrations = [] if latest is None else _migrations(registry, subject, found, latest)
    rules = [*migrations, *domain_rules((latest or found).rule_set, READ)]
    return subject, ReadPlan(latest, bool(migrations), rules)


def subject_of(
    registry: SchemaRegistry, settings: SerdeSettings, topic: str, record: str, *, is_key: bool
) -> str:
    namespace, found = settings.association_namespace, None
    if namespace:
        found = registry.associated_subject(topic, namespace, is_key=is_key)
    return found or settings.subject_name(topic, is_key, record)


def _migrations(
    registry: SchemaRegistry, subject: str, found: RegisteredSchema, latest: RegisteredSchema
) -> Rules:
    """The rules of all versions between the writer's and the reader's."""
    written = registry.version_in(subject, found)
    if written is None:
        return []  # of another subject: its versions have no order relative to this one
    low, high = sorted((written, latest.version))
    mode = UPGRADE if written < latest.version else DOWNGRADE
    rules: Rules = []
    versions = range(low + 1, high + 1)
    for version in versions if mode == UPGRADE else reversed(versions):
        schema = latest if version == latest.version else _version(registry, subject, version)
        rules += migration_rules(None if schema is None else schema.rule_set, mode)
    return rules


def _version(registry: SchemaRegistry, subject: str, version: int) -> RegisteredSchema | None:
    try:
        return registry.version(subject, version, deleted=True)
    except SchemaRegistryError as error:
        if error.status != 404:
            raise
        return None  # hard-deleted


def chained(*steps: Convert | None) -> Convert | None:
    """The composition of these functions; None if there are none."""
    found = [step for step in steps if step is not None]
    if len(found) < 2:
        return found[0] if found else None

    def convert(value: Any) -> Any:
        for step in found:
            value = step(value)
        return value

    return convert
