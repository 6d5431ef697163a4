"""Records of `_schemas`: JSON as Confluent's registry writes it, byte for byte.

Compaction compares keys by their bytes, so the order of fields and the lack of spaces are part of
the format. Fields of a value that are null or empty are left out.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from ottla.registry.registry_change import KeyValue
from ottla.registry.stored_schema import AVRO, StoredSchema

SCHEMA: Final = "SCHEMA"
CONFIG: Final = "CONFIG"
MODE: Final = "MODE"
DELETE_SUBJECT: Final = "DELETE_SUBJECT"
CLEAR_SUBJECT: Final = "CLEAR_SUBJECT"
CONTEXT: Final = "CONTEXT"
NOOP: Final = "NOOP"
ASSOCIATION: Final = "ASSOC"
TENANT: Final = "default"
CONFIG_FIELDS: Final = (
    *("alias", "aliasForDeks", "normalize", "validateFields", "validateNewSchemas"),
    *("validateRules", "compatibilityLevel", "compatibilityPolicy", "compatibilityGroup"),
    *("defaultMetadata", "overrideMetadata", "defaultRuleSet", "overrideRuleSet"),
)


def encoded(fields: Mapping[str, object]) -> bytes:
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode()


def schema_key(subject: str, version: int) -> bytes:
    return encoded({"keytype": SCHEMA, "subject": subject, "version": version, "magic": 1})


def schema_record(schema: StoredSchema, *, deleted: bool = False) -> KeyValue:
    value: dict[str, Any] = {
        "subject": schema.subject,
        "version": schema.version,
        "id": schema.id,
    }
    if schema.kind != AVRO:
        value["schemaType"] = schema.kind
    if schema.references:
        value["references"] = [reference.fields() for reference in schema.references]
    if schema.metadata is not None:
        value["metadata"] = schema.metadata
    if schema.rule_set is not None:
        value["ruleSet"] = schema.rule_set
    value |= {"schema": schema.text, "deleted": deleted}
    return schema_key(schema.subject, schema.version), encoded(value)


def schema_tombstone(schema: StoredSchema) -> KeyValue:
    return schema_key(schema.subject, schema.version), None


def config_record(subject: str | None, config: Mapping[str, Any] | None) -> KeyValue:
    key = encoded({"keytype": CONFIG, "subject": subject, "magic": 0})
    if config is None:
        return key, None
    present = {name: config[name] for name in CONFIG_FIELDS if config.get(name) is not None}
    return key, encoded(({} if subject is None else {"subject": subject}) | present)


def mode_record(subject: str | None, mode: str | None) -> KeyValue:
    key = encoded({"keytype": MODE, "subject": subject, "magic": 0})
    if mode is None:
        return key, None
    return key, encoded(({} if subject is None else {"subject": subject}) | {"mode": mode})


def delete_subject_record(subject: str, version: int) -> KeyValue:
    key = encoded({"keytype": DELETE_SUBJECT, "subject": subject, "magic": 0})
    return key, encoded({"subject": subject, "version": version})


def clear_subject_record(subject: str) -> KeyValue:
    key = encoded({"keytype": CLEAR_SUBJECT, "subject": subject, "magic": 0})
    return key, encoded({"subject": subject})


def context_record(context: str) -> KeyValue:
    fields = {"tenant": TENANT, "context": context}
    return encoded({"keytype": CONTEXT, **fields}), encoded(fields)


def context_tombstone(context: str) -> KeyValue:
    return encoded({"keytype": CONTEXT, "tenant": TENANT, "context": context}), None
