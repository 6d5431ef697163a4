"""kafka-acls: list, add and remove ACLs."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from ottla.auth.acls import CLUSTER_NAME
from ottla.cli.kafka.options import BOOTSTRAP, COMMAND_CONFIG, Option, Options, UsageError
from ottla.cli.kafka.tool import read_properties, run
from ottla.client.acls import (
    Acl,
    AclAdmin,
    AclFilter,
    AclOperation,
    AclPattern,
    AclPermission,
    AclResource,
)
from ottla.client.admin import Admin

NAME: Final = "kafka-acls"
DESCRIPTION: Final = "This tool helps to manage acls on kafka."
ACTIONS: Final = ("add", "remove", "list")
O, R = AclOperation, AclResource  # noqa: E741

OPTIONS: Final = (
    BOOTSTRAP,
    COMMAND_CONFIG,
    Option("add", "Indicates you are trying to add ACLs."),
    Option("remove", "Indicates you are trying to remove ACLs."),
    Option("list", "List ACLs for the specified resource, or all of them."),
    Option("topic", "Topic to which ACLs should be added or removed; * for all.", "topic"),
    Option("group", "Consumer group; * for all.", "group"),
    Option("cluster", "The cluster."),
    Option("transactional-id", "Transactional id; * for all.", "transactional-id"),
    Option("delegation-token", "Delegation token; * for all.", "delegation-token"),
    Option("user-principal", "The owner of the delegation tokens, as principalType:name.", "user"),
    Option(
        "resource-pattern-type",
        "literal or prefixed; to list and remove also match and any.",
        "type",
        default="literal",
    ),
    Option("operation", "Operation that is allowed or denied.", "operation"),
    Option("allow-principal", "Principal, as principalType:name, that is allowed.", "principal"),
    Option("deny-principal", "Principal that is denied.", "principal"),
    Option("allow-host", "Host from which principals are allowed.", "host"),
    Option("deny-host", "Host from which principals are denied.", "host"),
    Option("principal", "With --list: only the ACLs of this principal.", "principal"),
    Option("producer", "Add or remove a producer's ACLs: WRITE, DESCRIBE, CREATE on topics."),
    Option("consumer", "Add or remove a consumer's ACLs: READ, DESCRIBE on topics and groups."),
    Option("idempotent", "With --producer: IDEMPOTENT_WRITE on the cluster."),
    Option("force", "Remove ACLs without confirmation."),
)
RESOURCES: Final = (
    ("topic", R.TOPIC),
    ("group", R.GROUP),
    ("transactional-id", R.TRANSACTIONAL_ID),
    ("delegation-token", R.DELEGATION_TOKEN),
    ("user-principal", R.USER),
)
Grants = dict[AclFilter, list[AclFilter]]
"""The ACLs of each resource, as exact filters."""


def main(arguments: Sequence[str] | None = None) -> int:
    return run(NAME, DESCRIPTION, OPTIONS, work, arguments)


def work(options: Options) -> int:
    if sum(options.has(action) for action in ACTIONS) != 1:
        raise UsageError("Command must include exactly one action: --list, --add, --remove. ")
    settings = read_properties(options.value("command-config"))
    with Admin(options.require("bootstrap-server"), settings=dict(settings)) as admin:
        if options.has("add"):
            _add(admin.acls, options)
        elif options.has("remove"):
            _remove(admin.acls, options)
        else:
            _list(admin.acls, options)
    return 0


def _add(acls: AclAdmin, options: Options) -> None:
    if _pattern(options) not in (AclPattern.LITERAL, AclPattern.PREFIXED):
        raise UsageError("A '--resource-pattern-type' value of 'Any' or 'Match' is not valid here")
    new_acls: list[Acl] = []
    for resource, rules in _grants(options, needed=True).items():
        print(f"Adding ACLs for resource `{shown(resource)}`: ")
        print(" " + "\n".join(f"\t{entry(rule)}" for rule in rules) + "\n")
        new_acls += [_acl(rule) for rule in rules]
    acls.create(new_acls)


def _remove(acls: AclAdmin, options: Options) -> None:
    for resource, rules in _grants(options, needed=False).items():
        what = "all ACLs" if not rules else "ACLs: " + ", ".join(entry(rule) for rule in rules)
        question = f"Are you sure you want to remove {what} from `{shown(resource)}`? (y/n)"
        if options.has("force") or _agreed(question):
            acls.delete(rules or [resource])


def _list(acls: AclAdmin, options: Options) -> None:
    filters = _resources(options) or [AclFilter()]
    principals: list[str | None] = [*options.values("principal")] or [None]
    for principal in principals:
        if principal is not None:
            print(f"ACLs for principal `{principal}`")
        found = {
            acl
            for acl_filter in filters
            for acl in acls.find(replace(acl_filter, principal=principal))
        }
        print_acls(found)


def print_acls(acls: Iterable[Acl]) -> None:
    groups: dict[tuple[int, str, int], list[Acl]] = {}
    for acl in sorted(acls):
        groups.setdefault((acl.resource, acl.name, acl.pattern), []).append(acl)
    for (resource, name, pattern), rules in groups.items():
        print(f"Current ACLs for resource `{shown(AclFilter(resource, name, pattern))}`:")
        print("\n".join(f"\t{entry(rule)}" for rule in rules) + "\n")


def shown(resource: AclFilter) -> str:
    kind, pattern = AclResource(resource.resource).name, AclPattern(resource.pattern).name
    return f"ResourcePattern(resourceType={kind}, name={resource.name}, patternType={pattern})"


def entry(rule: Acl | AclFilter) -> str:
    operation, permission = AclOperation(rule.operation).name, AclPermission(rule.permission).name
    return (
        f"(principal={rule.principal}, host={rule.host}, operation={operation},"
        f" permissionType={permission})"
    )


def _grants(options: Options, *, needed: bool) -> Grants:
    """The ACLs of the command line, resource by resource."""
    if options.has("producer") or options.has("consumer"):
        return _for_clients(options)
    resources = _resources(options)
    if not resources:
        raise UsageError(
            "You must specify at least one resource: --topic <topic> or --cluster or --group"
            " <group> or --delegation-token <Delegation Token ID>"
        )
    operations = [_operation(text) for text in options.values("operation")] or [O.ALL]
    grants = {
        resource: [
            rule for operation in operations for rule in _rules(options, resource, operation)
        ]
        for resource in resources
    }
    if needed and not all(grants.values()):
        raise UsageError(
            "You must specify one of: --allow-principal, --deny-principal when trying to add ACLs."
        )
    return grants


def _for_clients(options: Options) -> Grants:
    acl_filter: dict[int, list[AclOperation]] = {}
    if options.has("producer"):
        acl_filter[R.TOPIC] = [O.WRITE, O.DESCRIBE, O.CREATE]
        acl_filter[R.TRANSACTIONAL_ID] = [O.WRITE, O.DESCRIBE]
    if options.has("consumer"):
        if not options.has("topic") or not options.has("group"):
            raise UsageError("With --consumer you must specify --topic and --group.")
        acl_filter[R.TOPIC] = [*acl_filter.get(R.TOPIC, ()), O.READ, O.DESCRIBE]
        acl_filter[R.GROUP] = [O.READ]
    if not options.has("topic"):
        raise UsageError("With --producer you must specify a --topic.")
    grants = {
        resource: [
            rule
            for operation in dict.fromkeys(acl_filter.get(resource.resource, ()))
            for rule in _rules(options, resource, operation)
        ]
        for resource in _resources(options)
    }
    if options.has("idempotent"):
        cluster = AclFilter(R.CLUSTER, CLUSTER_NAME, AclPattern.LITERAL)
        grants[cluster] = list(_rules(options, cluster, O.IDEMPOTENT_WRITE))
    return grants


def _rules(options: Options, resource: AclFilter, operation: int) -> Iterable[AclFilter]:
    for kind, permission in (("allow", AclPermission.ALLOW), ("deny", AclPermission.DENY)):
        hosts = options.values(f"{kind}-host") or ["*"]
        for principal in options.values(f"{kind}-principal"):
            for host in hosts:
                yield replace(
                    resource,
                    principal=principal,
                    host=host,
                    operation=operation,
                    permission=permission,
                )


def _resources(options: Options) -> list[AclFilter]:
    pattern = _pattern(options)
    found = [
        AclFilter(kind, name.strip(), pattern)
        for option, kind in RESOURCES
        for name in options.values(option)
    ]
    if options.has("cluster"):
        found.append(AclFilter(R.CLUSTER, CLUSTER_NAME, AclPattern.LITERAL))
    return found


def _pattern(options: Options) -> AclPattern:
    text = options.value("resource-pattern-type") or ""
    try:
        return AclPattern[text.upper()]
    except KeyError:
        raise UsageError(f"Unknown resource pattern type: {text}") from None


def _operation(text: str) -> AclOperation:
    """Accepts READ, Read, DescribeConfigs and DESCRIBE_CONFIGS."""
    names = {operation.name.replace("_", ""): operation for operation in AclOperation}
    try:
        return names[text.strip().upper().replace("_", "")]
    except KeyError:
        raise UsageError(f"Unknown operation: {text}") from None


def _acl(rule: AclFilter) -> Acl:
    assert rule.name is not None
    assert rule.principal is not None
    assert rule.host is not None
    return Acl(
        rule.resource,
        rule.name,
        rule.pattern,
        rule.principal,
        rule.host,
        rule.operation,
        rule.permission,
    )


def _agreed(question: str) -> bool:
    print(question)
    return sys.stdin.readline().strip().lower() == "y"


if __name__ == "__main__":
    sys.exit(main())
