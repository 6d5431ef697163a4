"""Rule sets: validated at registration and in configs, merged in three layers."""

from __future__ import annotations

import pytest
from registry_records import INT, MemoryRegistry

from ottla.registry.decisions.configs import decide_config
from ottla.registry.decisions.tags import decide_tags
from ottla.registry.registry_error import RegistryError
from ottla.registry.stored_schema import StoredSchema


@pytest.fixture
def memory() -> MemoryRegistry:
    return MemoryRegistry()


def test_a_rule_set_is_checked(memory: MemoryRegistry) -> None:
    rule = {"name": "r", "type": "CEL", "mode": "WRITE", "kind": "CONDITION", "expr": "true"}
    stored = memory.register("a", INT, ruleSet={"domainRules": [rule]})
    assert stored.rule_set is not None
    assert list(stored.rule_set["domainRules"][0])[:3] == ["name", "kind", "mode"]
    assert stored.rule_set["domainRules"][0]["disabled"] is False
    loose = {
        **rule,
        "mode": None,
        "kind": None,
        "tags": ["b", "a", "b"],
        "params": {"y": "1", "x": "2"},
    }
    stored = memory.register("c", INT, ruleSet={"encodingRules": [loose], "enableAt": "CLIENT"})
    assert stored.rule_set is not None
    (kept,) = stored.rule_set["encodingRules"]
    assert (kept["kind"], kept["mode"], kept["tags"]) == ("TRANSFORM", "WRITEREAD", ["a", "b"])
    assert list(kept["params"]) == ["x", "y"]


@pytest.mark.parametrize(
    ("group", "change", "code", "message"),
    [
        ("domainRules", {"mode": "UPGRADE"}, 42210, "Domain rules can only be WRITE, READ, WRIT"),
        ("encodingRules", {"mode": "UPDOWN"}, 42210, "Encoding rules can only be WRITE, READ, W"),
        ("migrationRules", {"mode": None}, 42210, "Migration rules can only be UPGRADE, DOWNGR"),
        ("domainRules", {"type": None}, 42210, "Missing rule type"),
        ("domainRules", {"name": None}, 42210, "Missing rule name"),
        ("domainRules", {"name": ""}, 42210, "Empty rule name"),
        ("domainRules", {"name": "1"}, 42210, "Illegal initial character in rule name: 1"),
        ("domainRules", {"name": "a b"}, 42210, "Illegal character in rule name: a b"),
        ("domainRules", {"name": "n" * 257}, 42210, "Rule name too long"),
        ("domainRules", {"onFailure": "NONE,ERROR"}, 42210, "Multiple actions only valid with WR"),
        ("domainRules", {"kind": "CHECK"}, 400, "kind is CHECK"),
        ("domainRules", {"mode": "write"}, 400, "mode is write"),
        ("domainRules", {"params": {"a": 1}}, 400, "wrong type"),
        ("domainRules", {"expr": 5}, 400, "wrong type"),
    ],
)
def test_a_wrong_rule_is_refused_in_confluents_words(
    memory: MemoryRegistry, group: str, change: dict[str, object], code: int, message: str
) -> None:
    rule = {"name": "r", "type": "CEL", "mode": "WRITE", "expr": "true", **change}
    for write in (
        lambda: memory.register("b", INT, ruleSet={group: [rule]}),
        lambda: decide_config(memory.state, "b", {"defaultRuleSet": {group: [rule]}}),
        lambda: decide_config(memory.state, None, {"overrideRuleSet": {group: [rule]}}),
    ):
        with pytest.raises(RegistryError, match=message) as refused:
            write()
        assert refused.value.code == code


def test_rule_names_are_unique_in_all_groups_and_environments_are_known(
    memory: MemoryRegistry,
) -> None:
    rule = {"name": "r", "type": "CEL"}
    with pytest.raises(RegistryError, match="Found rule with duplicate name 'r'"):
        memory.register("b", INT, ruleSet={"domainRules": [rule], "encodingRules": [rule]})
    with pytest.raises(RegistryError) as refused:
        memory.register("b", INT, ruleSet={"enableAt": "MARS"})
    assert refused.value.code == 400


def test_default_and_override_rules_are_merged_by_name(memory: MemoryRegistry) -> None:
    def rules(**named: str) -> dict[str, object]:
        made = [{"name": name, "type": "CEL", "expr": expr} for name, expr in named.items()]
        return {"domainRules": made}

    body = {"defaultRuleSet": rules(a="1", b="1"), "overrideRuleSet": rules(c="3", d="3")}
    memory.write(lambda state: decide_config(state, "a", body))
    stored = memory.register("a", INT, ruleSet=rules(b="2", c="2"))
    assert stored.rule_set is not None
    found = [(entry["name"], entry["expr"]) for entry in stored.rule_set["domainRules"]]
    assert found == [("a", "1"), ("b", "2"), ("c", "3"), ("d", "3")]


def test_rules_are_merged_and_removed_in_a_new_version_that_says_its_number(
    memory: MemoryRegistry,
) -> None:
    memory.register("a", INT, ruleSet={"domainRules": [{"name": "r", "type": "CEL"}]})

    def tagged(**body: object) -> StoredSchema:
        return memory.write(lambda state: decide_tags(state, memory.schemas, "a", "latest", body))

    with pytest.raises(RegistryError, match="Missing rule name"):
        tagged(rulesToMerge={"domainRules": [{"type": "CEL"}]})
    with pytest.raises(RegistryError, match="ruleSet should be omitted"):
        tagged(rulesToRemove=["r"], ruleSet={})
    added = tagged(rulesToMerge={"domainRules": [{"name": "s", "type": "CEL"}]})
    assert (added.version, added.metadata) == (2, {"properties": {"confluent:version": "2"}})
    removed = tagged(rulesToRemove=["r"])
    assert removed.rule_set is not None
    assert [entry["name"] for entry in removed.rule_set["domainRules"]] == ["s"]
    assert tagged().version == removed.version == 3
