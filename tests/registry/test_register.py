"""Registrations, as decisions on a state."""

from __future__ import annotations

import pytest
from registry_records import INT, INT_AND_DEFAULT, INT_AND_MORE, MemoryRegistry

from ottla.registry.decisions.configs import decide_config
from ottla.registry.decisions.modes import decide_mode
from ottla.registry.decisions.removals import decide_subject_removal, decide_version_removal
from ottla.registry.registry_change import RegistryChange
from ottla.registry.registry_error import RegistryError
from ottla.registry.stored_schema import SchemaReference, StoredSchema
from ottla.registry.topic_records import schema_record


@pytest.fixture
def memory() -> MemoryRegistry:
    return MemoryRegistry()


def test_the_same_schema_has_one_id_and_one_version(memory: MemoryRegistry) -> None:
    first = memory.register("a", INT)
    again = memory.register("a", INT.replace(",", ", "))
    elsewhere = memory.register("b", INT)
    assert (first.id, first.version) == (again.id, again.version) == (1, 1)
    assert (elsewhere.id, elsewhere.version) == (1, 1)
    assert len(memory.log) == 2


def test_a_schema_is_found_in_its_stored_and_in_confluents_notation(
    memory: MemoryRegistry,
) -> None:
    theirs = INT.replace(":", ": ")  # as Karapace has written it
    references = [SchemaReference("X", "x", 1)]
    memory.register("x", '{"type":"fixed","name":"X","size":1}')
    for version, refers in ((1, []), (2, references)):
        stored = StoredSchema("a", version, version + 1, theirs, references=refers)
        memory.write(lambda _, it=stored: RegistryChange(None, [schema_record(it)]))
    for version, refers in ((1, []), (2, references)):
        found = memory.look_up("a", theirs, references=[reference.fields() for reference in refers])
        assert found is not None
        assert found.version == version
    assert memory.look_up("a", theirs, metadata={"properties": {"a": "b"}}) is None


def test_an_invalid_old_version_can_be_followed(memory: MemoryRegistry) -> None:
    """Older registries took names with a dash, and defaults of another type."""
    theirs = INT.replace('"name":"a","type":"int"', '"name":"a-b","type":"int","default":"x"')
    stored = StoredSchema("a", 1, 1, theirs)
    memory.write(lambda _: RegistryChange(None, [schema_record(stored)]))
    added = '{"name":"b","type":"int","default":1}'
    assert memory.register("a", INT.replace('{"name":"a","type":"int"}', added)).version == 2
    with pytest.raises(RegistryError) as refused:
        memory.register("a", INT)
    assert refused.value.status == 409
    with pytest.raises(RegistryError, match='Illegal name: "a-b"'):
        memory.register("b", theirs)


def test_an_incompatible_schema_is_refused_unless_the_level_is_none(
    memory: MemoryRegistry,
) -> None:
    memory.register("a", INT)
    with pytest.raises(RegistryError) as refused:
        memory.register("a", INT_AND_MORE)
    assert refused.value.status == 409
    memory.write(lambda state: decide_config(state, "a", {"compatibility": "none"}))
    assert memory.register("a", INT_AND_MORE).version == 2


def test_versions_continue_after_a_soft_delete_and_restart_after_a_hard_one(
    memory: MemoryRegistry,
) -> None:
    memory.register("a", INT)
    memory.write(lambda state: decide_subject_removal(state, "a", permanent=False))
    assert memory.register("a", INT_AND_DEFAULT).version == 2
    memory.write(lambda state: decide_subject_removal(state, "a", permanent=False))
    memory.write(lambda state: decide_subject_removal(state, "a", permanent=True))
    assert memory.state.subjects == {}
    assert memory.register("a", INT).version == 1


def test_a_soft_deleted_version_that_returns_is_replaced(memory: MemoryRegistry) -> None:
    memory.register("a", INT)
    memory.write(lambda state: decide_subject_removal(state, "a", permanent=False))
    back = memory.register("a", INT)
    assert (back.id, back.version) == (1, 2)
    assert list(memory.state.subjects["a"]) == [2]


def test_each_context_counts_its_own_ids(memory: MemoryRegistry) -> None:
    memory.register("a", INT)
    assert memory.register(":.c:a", INT_AND_DEFAULT).id == 1
    assert memory.register("a", INT_AND_DEFAULT).id == 2
    assert list(memory.state.contexts) == [".", ".c"]


def test_an_id_needs_import_mode_and_must_be_free(memory: MemoryRegistry) -> None:
    with pytest.raises(RegistryError) as refused:
        memory.register("a", INT, id=9)
    assert refused.value.code == 42205
    memory.write(lambda state: decide_mode(state, "a", "IMPORT", force=False))
    imported = memory.register("a", INT, id=9, version=4)
    assert (imported.id, imported.version) == (9, 4)
    with pytest.raises(RegistryError) as taken:
        memory.register("a", INT_AND_MORE, id=9, version=5)
    assert taken.value.code == 42205
    with pytest.raises(RegistryError) as without:
        memory.register("a", INT_AND_MORE)
    assert without.value.code == 42205
    assert memory.register("b", INT_AND_DEFAULT).id == 10


def test_a_version_must_be_the_next_one(memory: MemoryRegistry) -> None:
    memory.register("a", INT)
    with pytest.raises(RegistryError) as refused:
        memory.register("a", INT_AND_DEFAULT, version=3)
    assert refused.value.code == 42201
    stored = memory.register("a", INT_AND_DEFAULT, version=2)
    assert stored.metadata == {"properties": {"confluent:version": "2"}}


def test_references_must_exist_and_keep_what_they_name_from_deletion(
    memory: MemoryRegistry,
) -> None:
    user = '{"type":"record","name":"User","fields":[{"name":"r","type":"R"}]}'
    reference = {"name": "R", "subject": "r", "version": 1}
    with pytest.raises(RegistryError) as missing:
        memory.register("user", user, references=[reference])
    assert missing.value.code == 42201
    memory.register("r", INT)
    memory.register("user", user, references=[reference])
    with pytest.raises(RegistryError) as referred:
        memory.write(lambda state: decide_version_removal(state, "r", "1", permanent=False))
    assert referred.value.code == 42206
    memory.write(lambda state: decide_subject_removal(state, "user", permanent=False))
    memory.write(lambda state: decide_version_removal(state, "r", "1", permanent=False))
    # The referrer may come back as long as it is only soft deleted.
    for removal in (
        lambda state: decide_version_removal(state, "r", "1", permanent=True),
        lambda state: decide_subject_removal(state, "r", permanent=True),
        lambda state: decide_mode(state, "r", "IMPORT", force=False),
    ):
        with pytest.raises(RegistryError) as kept:
            memory.write(removal)
        assert kept.value.code == 42206
        assert "{magic=1,keytype=SCHEMA,subject=r,version=1}." in kept.value.message
    memory.write(lambda state: decide_subject_removal(state, "user", permanent=True))
    memory.write(lambda state: decide_version_removal(state, "r", "1", permanent=True))
    assert list(memory.state.subjects) == []


def test_versions_that_refer_to_each_other_are_deleted_together(
    memory: MemoryRegistry,
) -> None:
    user = '{"type":"record","name":"User","fields":[{"name":"r","type":"R"}]}'
    memory.write(lambda state: decide_config(state, None, {"compatibility": "NONE"}))
    memory.register("a", INT)
    memory.register("a", user, references=[{"name": "R", "subject": "a", "version": 1}])
    with pytest.raises(RegistryError) as referred:
        memory.write(lambda state: decide_version_removal(state, "a", "1", permanent=False))
    assert referred.value.code == 42206
    memory.write(lambda state: decide_subject_removal(state, "a", permanent=False))
    memory.write(lambda state: decide_subject_removal(state, "a", permanent=True))
    assert list(memory.state.subjects) == []


def test_a_compatibility_group_is_compared_within_itself(memory: MemoryRegistry) -> None:
    memory.write(lambda state: decide_config(state, None, {"compatibilityGroup": "major"}))
    memory.register("a", INT, metadata={"properties": {"major": "1"}})
    second = memory.register("a", INT_AND_MORE, metadata={"properties": {"major": "2"}})
    assert second.version == 2
    with pytest.raises(RegistryError):
        memory.register("a", INT_AND_MORE, metadata={"properties": {"major": "1"}})


def test_default_and_override_metadata_are_merged(memory: MemoryRegistry) -> None:
    body = {
        "defaultMetadata": {"properties": {"owner": "nobody", "team": "x"}},
        "overrideMetadata": {"properties": {"team": "y"}},
    }
    memory.write(lambda state: decide_config(state, "a", body))
    stored = memory.register("a", INT, metadata={"properties": {"owner": "me", "team": "z"}})
    assert stored.metadata == {"properties": {"owner": "me", "team": "y"}}


def test_read_only_refuses_writes(memory: MemoryRegistry) -> None:
    memory.register("a", INT)
    memory.write(lambda state: decide_mode(state, "a", "READONLY", force=False))
    for change in (
        lambda: memory.register("a", INT_AND_DEFAULT),
        lambda: memory.write(lambda state: decide_subject_removal(state, "a", permanent=False)),
        lambda: memory.write(lambda state: decide_config(state, "a", {"compatibility": "FULL"})),
    ):
        with pytest.raises(RegistryError) as refused:
            change()
        assert refused.value.code == 42205
    assert memory.register("a", INT).version == 1  # it is there already


def test_import_mode_needs_an_empty_registry_or_force(memory: MemoryRegistry) -> None:
    memory.register("a", INT)
    with pytest.raises(RegistryError):
        memory.write(lambda state: decide_mode(state, None, "IMPORT", force=False))
    memory.write(lambda state: decide_subject_removal(state, "a", permanent=False))
    memory.write(lambda state: decide_mode(state, None, "IMPORT", force=False))
    assert memory.state.subjects == {}


def test_replay_and_compaction_give_the_same_state(memory: MemoryRegistry) -> None:
    memory.register("a", INT)
    memory.register("a", INT_AND_DEFAULT)
    memory.register("b", INT)
    memory.write(lambda state: decide_config(state, "b", {"compatibility": "FULL"}))
    memory.write(lambda state: decide_version_removal(state, "a", "1", permanent=False))
    memory.write(lambda state: decide_version_removal(state, "a", "1", permanent=True))
    memory.write(lambda state: decide_subject_removal(state, "b", permanent=False))
    for state in (memory.replayed(), memory.compacted()):
        assert {name: list(versions) for name, versions in state.subjects.items()} == {
            "a": [2],
            "b": [1],
        }
        assert state.subjects["b"][1].deleted
        assert state.configs == {"b": {"compatibilityLevel": "FULL"}}
    memory.write(lambda state: decide_subject_removal(state, "b", permanent=True))
    assert memory.state.configs == memory.compacted().configs == {}


def test_a_global_override_applies_to_a_subject_with_its_own_mode(
    memory: MemoryRegistry,
) -> None:
    memory.write(lambda state: decide_mode(state, "a", "READWRITE", force=False))
    memory.write(lambda state: decide_mode(state, None, "READONLY_OVERRIDE", force=False))
    with pytest.raises(RegistryError) as refused:
        memory.register("a", INT)
    assert refused.value.code == 42205


def test_a_reserved_field_may_be_neither_used_nor_released(memory: MemoryRegistry) -> None:
    memory.write(lambda state: decide_config(state, None, {"validateFields": True}))
    with pytest.raises(RegistryError, match="conflicts with the reserved field a"):
        memory.register("a", INT, metadata={"properties": {"confluent:reserved": "z, a"}})
    memory.register("a", INT, metadata={"properties": {"confluent:reserved": "b"}})
    with pytest.raises(RegistryError, match="reserved field b removed"):
        memory.register("a", INT_AND_DEFAULT, metadata={"properties": {"owner": "me"}})
    memory.write(lambda state: decide_config(state, None, {"validateFields": None}))
    assert memory.register("a", INT_AND_DEFAULT, metadata={"properties": {}}).version == 2


def test_an_imported_schema_that_has_another_id_is_another_version(memory: MemoryRegistry) -> None:
    memory.write(lambda state: decide_mode(state, "a", "IMPORT", force=False))
    memory.register("a", INT, id=9)
    again = memory.register("a", INT, id=10)
    assert (again.id, again.version) == (10, 2)
    assert (memory.register("a", INT, id=10)).version == 2


def test_a_look_up_by_the_text_alone_finds_the_version_with_metadata(
    memory: MemoryRegistry,
) -> None:
    memory.register("a", INT, metadata={"properties": {"owner": "ann"}})
    assert memory.look_up("a", INT) is not None
    assert memory.look_up("a", INT, metadata={"properties": {"owner": "rob"}}) is None
    memory.register("b", INT)
    owner = {"overrideMetadata": {"properties": {"owner": "ann"}}}
    memory.write(lambda state: decide_config(state, "b", owner))
    assert memory.look_up("b", INT) is not None


def test_a_confluent_version_must_be_that_of_the_version_that_is_found(
    memory: MemoryRegistry,
) -> None:
    memory.register("a", INT, version=1)
    for version, there in ((1, True), (2, False)):
        metadata = {"properties": {"confluent:version": str(version)}}
        assert (memory.look_up("a", INT, metadata=metadata) is not None) == there


def test_a_rule_for_one_way_has_one_action(memory: MemoryRegistry) -> None:
    rule = {"name": "länge", "kind": "CONDITION", "type": "CEL", "onFailure": "ERROR,NONE"}
    memory.register("a", INT, ruleSet={"domainRules": [{**rule, "mode": "WRITEREAD"}]})
    with pytest.raises(RegistryError) as refused:
        memory.register("b", INT, ruleSet={"domainRules": [{**rule, "mode": "WRITE"}]})
    assert refused.value.code == 42210
