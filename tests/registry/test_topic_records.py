"""Bytes of `_schemas`, as Confluent's registry has them."""

from __future__ import annotations

from ottla.registry.stored_schema import SchemaReference, StoredSchema
from ottla.registry.topic_records import (
    clear_subject_record,
    config_record,
    context_record,
    delete_subject_record,
    mode_record,
    schema_record,
    schema_tombstone,
)


def test_an_avro_schema_record_has_no_type() -> None:
    key, value = schema_record(StoredSchema("t-value", 1, 7, '"int"'))
    assert key == b'{"keytype":"SCHEMA","subject":"t-value","version":1,"magic":1}'
    assert value == (
        b'{"subject":"t-value","version":1,"id":7,"schema":"\\"int\\"","deleted":false}'
    )


def test_all_fields_of_a_schema_in_their_order() -> None:
    schema = StoredSchema(
        "s",
        2,
        3,
        "{}",
        kind="JSON",
        references=[SchemaReference("n", "other", 4)],
        metadata={"properties": {"k": "v"}},
        rule_set={"domainRules": []},
    )
    _, value = schema_record(schema, deleted=True)
    assert value == (
        b'{"subject":"s","version":2,"id":3,"schemaType":"JSON",'
        b'"references":[{"name":"n","subject":"other","version":4}],'
        b'"metadata":{"properties":{"k":"v"}},"ruleSet":{"domainRules":[]},'
        b'"schema":"{}","deleted":true}'
    )


def test_text_is_utf_8_and_not_escaped() -> None:
    _, value = schema_record(StoredSchema("s", 1, 1, '"Käse"'))
    assert value is not None
    assert "Käse".encode() in value


def test_configs_modes_and_deletes() -> None:
    assert config_record(None, {"compatibilityLevel": "FULL"}) == (
        b'{"keytype":"CONFIG","subject":null,"magic":0}',
        b'{"compatibilityLevel":"FULL"}',
    )
    assert config_record("s", {"compatibilityLevel": "NONE", "normalize": True}) == (
        b'{"keytype":"CONFIG","subject":"s","magic":0}',
        b'{"subject":"s","normalize":true,"compatibilityLevel":"NONE"}',
    )
    assert config_record("s", None)[1] is None
    assert mode_record("s", "IMPORT") == (
        b'{"keytype":"MODE","subject":"s","magic":0}',
        b'{"subject":"s","mode":"IMPORT"}',
    )
    assert delete_subject_record("s", 3) == (
        b'{"keytype":"DELETE_SUBJECT","subject":"s","magic":0}',
        b'{"subject":"s","version":3}',
    )
    assert clear_subject_record("s") == (
        b'{"keytype":"CLEAR_SUBJECT","subject":"s","magic":0}',
        b'{"subject":"s"}',
    )
    assert context_record(".c") == (
        b'{"keytype":"CONTEXT","tenant":"default","context":".c"}',
        b'{"tenant":"default","context":".c"}',
    )
    assert schema_tombstone(StoredSchema("s", 1, 1, "")) == (
        b'{"keytype":"SCHEMA","subject":"s","version":1,"magic":1}',
        None,
    )


def test_a_guid_is_the_md5_that_clients_compute() -> None:
    schema = StoredSchema("s", 1, 1, '"string"')
    assert schema.guid_text == "095d71cf-1255-6b9d-5e33-0ad575b3df5d"
    assert schema.guid != StoredSchema("s", 1, 1, '"string"', metadata={}).guid
