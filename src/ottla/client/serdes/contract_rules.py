"""Rules of data contracts: conditions and transformations that a schema demands of its values.

The registry stores rules, serdes run them: domain rules before serialization and after
deserialization, migration rules where a reader wants another version than the writer's. An executor
runs the rules of one type; a serde's `rule.executors` adds more. A rule without an executor fails,
so that no record is written past it; its `onFailure` decides what happens then.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from ottla.client.serde import SerializationError

log = logging.getLogger("ottla.client")

WRITE, READ, UPGRADE, DOWNGRADE = "WRITE", "READ", "UPGRADE", "DOWNGRADE"
_BOTH: Final = {"WRITEREAD": (WRITE, READ), "UPDOWN": (UPGRADE, DOWNGRADE)}
_FIRST: Final = (WRITE, UPGRADE)
_HERE: Final = (None, "", "ALL", "CLIENT")  # values of enableAt that include us
_OPTIONAL: Final = ("CEL", "JSONATA")


@dataclass(frozen=True, slots=True)
class ContractRule:
    name: str
    type: str
    mode: str
    kind: str = "TRANSFORM"  # or CONDITION
    expr: str = ""
    doc: str = ""
    tags: tuple[str, ...] = ()
    params: Mapping[str, str] = field(default_factory=dict)
    on_success: str = ""
    on_failure: str = ""
    disabled: bool = False

    def runs_in(self, mode: str) -> bool:
        return not self.disabled and mode in _BOTH.get(self.mode, (self.mode,))

    def action(self, actions: str, mode: str) -> str:
        """Of `ERROR,NONE` the first is for writing and upgrading."""
        if self.mode in _BOTH and "," in actions:
            return actions.split(",")[0 if mode in _FIRST else 1].strip()
        return actions


@dataclass(frozen=True, slots=True)
class RuleContext:
    """What executors and actions know besides the value."""

    rule: ContractRule
    mode: str
    topic: str
    subject: str
    is_key: bool


RuleExecutor = Callable[[RuleContext, Any], Any]
"""Takes the value as dicts and lists; returns the new value, or for a CONDITION a boolean."""
RuleAction = Callable[[RuleContext, Any, Exception | None], None]
"""Takes the value and the reason of the failure; None: the rule succeeded."""


class RuleFailure(ValueError):
    """A condition that is false, or a rule that can't be run."""


class RuleSteps:
    """The active rules of one schema, in order, as one function of a value."""

    def __init__(
        self,
        rules: Sequence[tuple[str, ContractRule]],
        *,
        topic: str,
        subject: str,
        is_key: bool,
        executors: Mapping[str, RuleExecutor | None],
        actions: Mapping[str, RuleAction],
    ) -> None:
        self._contexts = [RuleContext(rule, mode, topic, subject, is_key) for mode, rule in rules]
        self._executors = {
            rule.type: _executor(rule.type, executors) for _, rule in rules if rule.type
        }
        self._off = {name.upper() for name, executor in executors.items() if executor is None}
        self._actions = actions

    def __call__(self, value: Any) -> Any:
        for context in self._contexts:
            if value is not None and context.rule.type not in self._off:
                value = self._run(context, value)
        return value

    def _run(self, context: RuleContext, value: Any) -> Any:
        rule = context.rule
        try:
            executor = self._executors.get(rule.type)
            if executor is None:
                raise RuleFailure(f"no executor for rules of type {rule.type or 'null'}")
            result = executor(context, value)
            if rule.kind == "CONDITION":
                if not result:
                    raise RuleFailure(rule.doc or f"it does not hold: {rule.expr}")
            else:
                value = result
        except SerializationError:
            raise
        except Exception as error:
            self._act(context, rule.action(rule.on_failure, context.mode) or "ERROR", value, error)
            return value
        done = "" if value is None else rule.action(rule.on_success, context.mode)
        self._act(context, done or ("ERROR" if value is None else "NONE"), value, None)
        return value

    def _act(self, context: RuleContext, name: str, value: Any, error: Exception | None) -> None:
        if name == "NONE":
            return
        words = f"rule {context.rule.name} ({context.mode}): {error or 'it gives no value'}"
        action = self._actions.get(name)
        if action is None:
            if name != "ERROR":
                words += f"; there is no action {name}: set rule.actions"
            raise SerializationError(words) from error
        try:
            action(context, value, error)
        except SerializationError:
            raise
        except Exception as failure:
            log.warning("Action %s of rule %s failed: %s", name, context.rule.name, failure)


def domain_rules(rule_set: Mapping[str, Any] | None, mode: str) -> list[tuple[str, ContractRule]]:
    """Rules for writing in their order, for reading in reverse order."""
    if _active(rule_set, "encodingRules", mode):
        raise SerializationError("the schema has encoding rules, which Ottla's serdes do not run")
    found = _active(rule_set, "domainRules", mode)
    return found if mode == WRITE else found[::-1]


def refuse_rules(rule_set: Mapping[str, Any] | None, mode: str) -> None:
    """For code that runs no rules: it must not read or write past them."""
    names = ", ".join(rule.name for _, rule in domain_rules(rule_set, mode))
    if names:
        raise SerializationError(
            f"the schema has rules for {mode} ({names}), which only serdes run: use one of them,"
            " or disable the rules"
        )


def migration_rules(
    rule_set: Mapping[str, Any] | None, mode: str
) -> list[tuple[str, ContractRule]]:
    found = _active(rule_set, "migrationRules", mode)
    return found if mode == UPGRADE else found[::-1]


def _active(
    rule_set: Mapping[str, Any] | None, group: str, mode: str
) -> list[tuple[str, ContractRule]]:
    if not rule_set or rule_set.get("enableAt") not in _HERE:
        return []
    rules = [_rule(given) for given in rule_set.get(group) or ()]
    return [(mode, rule) for rule in rules if rule.runs_in(mode)]


def _rule(rule: Mapping[str, Any]) -> ContractRule:
    return ContractRule(
        name=rule.get("name") or "",
        type=(rule.get("type") or "").upper(),
        mode=rule.get("mode") or "",
        kind=rule.get("kind") or "TRANSFORM",
        expr=rule.get("expr") or "",
        doc=rule.get("doc") or "",
        tags=tuple(rule.get("tags") or ()),
        params=rule.get("params") or {},
        on_success=rule.get("onSuccess") or "",
        on_failure=rule.get("onFailure") or "",
        disabled=bool(rule.get("disabled")),
    )


def _executor(kind: str, executors: Mapping[str, RuleExecutor | None]) -> RuleExecutor | None:
    by_name = {name.upper(): executor for name, executor in executors.items()}
    if kind in by_name or kind not in _OPTIONAL:
        return by_name.get(kind)
    from ottla.client.serdes.expression_rules import expression_executor

    return expression_executor(kind)
