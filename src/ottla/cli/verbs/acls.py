"""ottla acls: list, add, remove, and why a user may or may not do something."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final

import typer
from rich.markup import escape

from ottla.auth.acls import CLUSTER_NAME, RegistryResource
from ottla.auth.authorizer import (
    DEFAULT_DENY,
    AclIndex,
    Authorizer,
    Decision,
    parse_super_users,
)
from ottla.auth.principal import Principal, user
from ottla.cli.console import (
    LOCALHOST,
    AsJson,
    Bootstrap,
    CommandConfig,
    console,
    print_json,
    print_line,
    print_table,
)
from ottla.cli.kafka.tool import ToolError, read_properties
from ottla.cli.verbs.subject_rules import SubjectRules
from ottla.client.acls import (
    Acl,
    AclFilter,
    AclOperation,
    AclPattern,
    AclPermission,
    AclResource,
)
from ottla.client.admin import Admin
from ottla.client.configs import ResourceType
from ottla.errors import ErrorCode, KafkaError
from ottla.registry.acl_records import REGISTRY_NAME
from ottla.registry.authorizer_settings import authorizer_settings

app = typer.Typer(
    help="""ACLs: list, add, remove, and why a user may or may not do something.

[dim]ottla acls list
ottla acls add alice READ topic:orders
ottla acls add alice READ 'topic:orders-*'
ottla acls remove alice READ topic:orders
ottla acls why alice WRITE topic:orders
# subjects of a schema registry
ottla acls add alice READ 'subject:orders-*'
ottla acls add alice ALTER_CONFIGS registry[/dim]

A resource is topic:NAME, group:NAME, transactional-id:NAME, delegation-token:ID, user:User:NAME,
cluster, subject:NAME or registry. NAME* stands for all names that begin so, and * alone for all of
them.
""",
    no_args_is_help=True,
)

KINDS: Final[dict[str, int]] = {
    "topic": AclResource.TOPIC,
    "group": AclResource.GROUP,
    "transactional-id": AclResource.TRANSACTIONAL_ID,
    "delegation-token": AclResource.DELEGATION_TOKEN,
    "user": AclResource.USER,
    "subject": RegistryResource.SUBJECT,
}
WHOLE: Final[dict[str, tuple[int, str]]] = {
    "cluster": (AclResource.CLUSTER, CLUSTER_NAME),
    "registry": (RegistryResource.REGISTRY, REGISTRY_NAME),
}
User = Annotated[str, typer.Argument(help="A user's name, or Type:name.")]
GROUP: Final = "schema-registry"
ACL_TOPIC: Final = "_schemas_acl"
Operation = Annotated[str, typer.Argument(help="READ, WRITE, DESCRIBE, ..., or ALL.")]
Resource = Annotated[str, typer.Argument(help="topic:NAME, group:NAME, cluster, ...")]
AclTopic = Annotated[
    str, typer.Option("--acl-topic", help="The topic of a registry's ACLs (kafkastore.topic_acl).")
]
Host = Annotated[str, typer.Option(help="An address, or * for all of them.")]


@dataclass(slots=True, frozen=True)
class ListedAcl:
    """One ACL in the words of the command line."""

    principal: str
    permission: str
    operation: str
    resource: str
    host: str


@app.command("list")
def list_acls(
    resource: Annotated[str | None, typer.Argument(help="Only ACLs that apply to it.")] = None,
    *,
    acl_topic: AclTopic = ACL_TOPIC,
    bootstrap_server: Bootstrap = LOCALHOST,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """List ACLs, or those that apply to one resource.

    [dim]ottla acls list
    ottla acls list topic:orders[/dim]
    """
    acl_filter = AclFilter()
    acls: list[Acl] = []
    if resource is not None:
        kind, name, _ = parse_resource(resource)
        acl_filter = AclFilter(kind, name, AclPattern.MATCH)
    if resource is None or not _is_of_registry(acl_filter.resource):
        with _admin(bootstrap_server, command_config) as admin:
            acls += _of_broker(admin, acl_filter, needed=resource is not None)
    if resource is None or _is_of_registry(acl_filter.resource):
        acls += _rules(bootstrap_server, command_config, acl_topic).find(acl_filter)
    found = [_listed(acl) for acl in sorted(acls)]
    if as_json:
        print_json(found)
        return
    print_table(
        ["user", "may", "operation", "resource", "host"],
        [
            (
                escape(acl.principal),
                "[red]never[/red]" if acl.permission == "DENY" else "yes",
                acl.operation,
                escape(acl.resource),
                acl.host,
            )
            for acl in found
        ],
    )


@app.command("add")
def add(
    who: User,
    operation: Operation,
    resource: Resource,
    *,
    deny: Annotated[
        bool, typer.Option("--deny", help="Deny it; wins over every allowing ACL.")
    ] = False,
    host: Host = "*",
    acl_topic: AclTopic = ACL_TOPIC,
    bootstrap_server: Bootstrap = LOCALHOST,
    command_config: CommandConfig = None,
) -> None:
    """Allow a user an operation on a resource, or forbid it.

    [dim]ottla acls add alice READ topic:orders
    ottla acls add '*' DESCRIBE cluster
    ottla acls add alice WRITE 'subject:orders-*'
    ottla acls add mallory ALL 'topic:*' --deny[/dim]
    """
    kind, name, pattern = parse_resource(resource)
    permission = AclPermission.DENY if deny else AclPermission.ALLOW
    acl = Acl(kind, name, pattern, _principal(who), host, _operation(operation), permission)
    if _is_of_registry(kind):
        _rules(bootstrap_server, command_config, acl_topic).add(acl)
    else:
        with _admin(bootstrap_server, command_config) as admin:
            admin.acls.create([acl])
    print_line(str(acl))


@app.command("remove")
def remove(
    who: User,
    operation: Operation,
    resource: Resource,
    *,
    acl_topic: AclTopic = ACL_TOPIC,
    bootstrap_server: Bootstrap = LOCALHOST,
    command_config: CommandConfig = None,
) -> None:
    """Remove the ACLs of a user for an operation on a resource, including denials.

    [dim]ottla acls remove alice READ topic:orders[/dim]
    """
    kind, name, pattern = parse_resource(resource)
    acl_filter = AclFilter(
        kind, name, pattern, principal=_principal(who), operation=_operation(operation)
    )
    if _is_of_registry(kind):
        gone = _rules(bootstrap_server, command_config, acl_topic).delete(acl_filter)
    else:
        with _admin(bootstrap_server, command_config) as admin:
            gone = admin.acls.delete([acl_filter])
    if not gone:
        raise ToolError("there is no such ACL; `ottla acls list` shows those that exist")
    for acl in gone:
        print_line(f"removed: {acl}")


@app.command("why")
def why(
    who: User,
    operation: Operation,
    resource: Resource,
    *,
    host: Annotated[str, typer.Option(help="The user's address.")] = "127.0.0.1",
    registry_config: Annotated[
        str | None,
        typer.Option("--registry-config", help="The registry's properties, with its super.users."),
    ] = None,
    acl_topic: AclTopic = ACL_TOPIC,
    bootstrap_server: Bootstrap = LOCALHOST,
    command_config: CommandConfig = None,
) -> None:
    """Show which ACL decides whether a user may do something; exit code 1 if denied.

    [dim]ottla acls why alice WRITE topic:orders
    ottla acls why alice WRITE subject:orders-value --registry-config registry.properties[/dim]
    """
    kind, name, _ = parse_resource(resource)
    hint = ""
    if _is_of_registry(kind):
        # A broker does not know a registry's super.users, and the registry's REST API does not show
        # them.
        authorizer = authorizer_settings(read_properties(registry_config)).authorizer()
        hint = "" if registry_config else "; --registry-config has its super.users"
        rules = _rules(bootstrap_server, command_config, acl_topic)
        authorizer.use(AclIndex(rules.find(AclFilter())))
    else:
        with _admin(bootstrap_server, command_config) as admin:
            authorizer = _authorizer(admin)
            authorizer.use(AclIndex(admin.acls.find(AclFilter())))
    principal = Principal.parse(_principal(who))
    decision = authorizer.decide(principal, host, _operation(operation), kind, name)
    verdict = "[green]allowed[/green]" if decision.allowed else "[red]denied[/red]"
    unsure = hint if decision.rule == DEFAULT_DENY else ""
    console().print(f"{verdict}: {escape(reason(decision, principal))}{unsure}")
    if not decision.allowed:
        raise typer.Exit(1)


def reason(decision: Decision, principal: Principal) -> str:
    if decision.acl is not None:
        return str(decision.acl)
    return {
        "SuperUser": f"{principal} is one of super.users",
        "DefaultAllow": "there is no ACL for this resource, and allow.everyone.if.no.acl.found",
        DEFAULT_DENY: "no ACL allows it",
    }[decision.rule]


def _authorizer(admin: Admin) -> Authorizer:
    """With the super users of the first broker that answers."""
    broker_id = min(node.id for node in admin.cluster().nodes)
    described = admin.configs.describe(ResourceType.BROKER, str(broker_id))
    values = {config.name: config.value for config in described}
    return Authorizer(
        super_users=parse_super_users(values.get("super.users") or ""),
        allow_if_no_acl=values.get("allow.everyone.if.no.acl.found") == "true",
    )


def parse_resource(text: str) -> tuple[int, str, AclPattern]:
    """`topic:orders-*` is a prefix, `topic:*` all topics, `cluster` the cluster."""
    if text in WHOLE:
        return *WHOLE[text], AclPattern.LITERAL
    kind, colon, name = text.partition(":")
    if not colon or not name or kind not in KINDS:
        names = ", ".join(f"{kind}:NAME" for kind in KINDS)
        raise ToolError(f"{text} is not a resource: {names}, cluster or registry")
    if name != "*" and name.endswith("*"):
        return KINDS[kind], name[:-1], AclPattern.PREFIXED
    return KINDS[kind], name, AclPattern.LITERAL


def _listed(acl: Acl) -> ListedAcl:
    whole = {number: name for name, (number, _) in WHOLE.items()}
    kinds = {number: name for name, number in KINDS.items()}
    resource = whole.get(acl.resource, "")
    if not resource:
        star = "*" if acl.pattern == AclPattern.PREFIXED else ""
        resource = f"{kinds[acl.resource]}:{acl.name}{star}"
    return ListedAcl(
        acl.principal,
        AclPermission(acl.permission).name,
        AclOperation(acl.operation).name,
        resource,
        acl.host,
    )


def _principal(who: str) -> str:
    return who if ":" in who else str(user(who))


def _operation(text: str) -> AclOperation:
    try:
        found = AclOperation[text.upper().replace("-", "_")]
    except KeyError:
        found = AclOperation.UNKNOWN
    if found < AclOperation.ALL:
        names = ", ".join(
            operation.name for operation in AclOperation if operation >= AclOperation.ALL
        )
        raise ToolError(f"{text} is not an operation: {names}")
    return found


def _is_of_registry(resource: int) -> bool:
    return resource in tuple(RegistryResource)


def _of_broker(admin: Admin, acl_filter: AclFilter, *, needed: bool) -> list[Acl]:
    """A broker without an authorizer has no ACLs, which is an error only if it is asked for
    them."""
    try:
        return admin.acls.find(acl_filter)
    except KafkaError as error:
        if needed or error.code != ErrorCode.SECURITY_DISABLED:
            raise
        return []


def _rules(bootstrap_server: str, command_config: str | None, acl_topic: str) -> SubjectRules:
    settings = dict(read_properties(command_config))
    return SubjectRules(bootstrap_server, settings, acl_topic, GROUP)


def _admin(bootstrap_server: str, command_config: str | None) -> Admin:
    return Admin(bootstrap_server, settings=dict(read_properties(command_config)))
