"""ottla schemas register, check, diff: a new schema and the versions of its subject."""

from __future__ import annotations

from typing import Annotated, Any, Final

import typer
from rich.markup import escape

from ottla.cli.console import AsJson, print_json, print_line
from ottla.cli.kafka.tool import ToolError
from ottla.cli.verbs.incompatibilities import (
    against,
    as_plain,
    pretty,
    print_diff,
    print_incompatibilities,
    read_incompatibilities,
)
from ottla.cli.verbs.schema_options import DEFAULT_URL, File, Kind, References, Registry, Subject

READABLE: Final = {"BACKWARD": "new readers, old records", "FORWARD": "old readers, new records"}


def register(
    subject: Subject,
    file: File,
    *,
    kind: Kind = "",
    reference: References = [],  # noqa: B006  typer copies it
    normalize: Annotated[
        bool, typer.Option("--normalize", help="Ignore order and notation.")
    ] = False,
    registry: Registry = DEFAULT_URL,
    as_json: AsJson = False,
) -> None:
    """Register a schema as the next version of a subject.

    [dim]ottla schemas register orders-value order.avsc
    ottla schemas register orders-value order.proto --reference money.proto=money:1
    cat order.json | ottla schemas register orders-value - --type json[/dim]
    """
    from ottla.cli.verbs.schema_rest import kind_of, open_registry, read_text, references_of
    from ottla.client.schema_registry import SchemaRegistryError

    language, references, content = kind_of(file, kind), references_of(reference), read_text(file)
    with open_registry(registry) as client:
        before = _versions(client, subject)
        try:
            registered = client.register(
                subject, language, content, references, normalize=normalize
            )
        except SchemaRegistryError as error:
            if error.status != 409:
                raise
            messages = client.incompatibilities(subject, language, content, references)
            _print_refusal(subject, messages, as_json)
            raise typer.Exit(1) from None
    if as_json:
        print_json(plain_schema(registered))
    elif registered.version in before:
        version = f"version {registered.version}, id {registered.id}"
        print_line(f"{escape(subject)} has this schema already: {version}")
    else:
        print_line(f"registered {escape(subject)} version {registered.version}, id {registered.id}")


def check(
    subject: Subject,
    file: File,
    *,
    version: Annotated[
        str, typer.Option("--version", "-v", help="Compare only with this version.")
    ] = "",
    kind: Kind = "",
    reference: References = [],  # noqa: B006
    registry: Registry = DEFAULT_URL,
    as_json: AsJson = False,
) -> None:
    """Check whether a schema may be the next version; exit code 1 if not.

    [dim]ottla schemas check orders-value order-2.avsc
    ottla schemas check orders-value order-2.avsc --version 1 --json[/dim]
    """
    from ottla.cli.verbs.schema_rest import kind_of, open_registry, read_text, references_of

    language, references, content = kind_of(file, kind), references_of(reference), read_text(file)
    with open_registry(registry) as client:
        if not version and not _versions(client, subject):
            raise ToolError(
                f"{subject} has no versions, so there is nothing to compare with"
                "\n      `ottla schemas list` shows the subjects there are."
            )
        messages = client.incompatibilities(
            subject, language, content, references, version=version or None
        )
    if messages:
        _print_refusal(subject, messages, as_json)
        raise typer.Exit(1)
    if as_json:
        print_json({"subject": subject, "is_compatible": True, "findings": []})
    else:
        print_line(f"[green]compatible[/]: this schema may follow in {escape(subject)}")


def diff(
    subject: Subject,
    old: Annotated[
        str, typer.Argument(help="A version, or a FILE to compare the latest with.")
    ] = "",
    new: Annotated[str, typer.Argument(help="A version, or a FILE.")] = "",
    *,
    kind: Kind = "",
    reference: References = [],  # noqa: B006
    registry: Registry = DEFAULT_URL,
    as_json: AsJson = False,
) -> None:
    """Show how two versions differ, and whether readers of each can read records of the other.

    [dim]ottla schemas diff orders-value             # the latest two
    ottla schemas diff orders-value 1 3
    ottla schemas diff orders-value order-2.avsc  # the latest, and a file[/dim]
    """
    from ottla.cli.verbs.schema_rest import open_registry
    from ottla.schemas.compatibility.incompatibilities import incompatibilities

    with open_registry(registry) as client:
        names = _sides(client.versions(subject), subject, old, new)
        sides = [_side(client, subject, version, kind, reference) for version in names]
        parsed = [client.parsed(side) for side in sides]
    reasons = {level: incompatibilities(level, parsed[1], parsed[:1]) for level in READABLE}
    if as_json:
        levels = {
            level.lower(): as_plain(read_incompatibilities(messages))
            for level, messages in reasons.items()
        }
        print_json({"subject": subject, "old": sides[0].text, "new": sides[1].text, **levels})
        return
    texts = [pretty(side.kind, side.text).splitlines() for side in sides]
    if not print_diff(texts[0], texts[1], names):
        print_line("The texts are the same.")
    for level, messages in reasons.items():
        state = "[red]no[/]" if messages else "[green]yes[/]"
        print_line(f"{level} ({READABLE[level]}): {state}")
        print_incompatibilities(messages)


def plain_schema(found: Any) -> dict[str, Any]:
    return {
        "subject": found.subject,
        "version": found.version,
        "id": found.id,
        "guid": found.guid,
        "type": found.kind,
        "references": [
            {"name": reference.name, "subject": reference.subject, "version": reference.version}
            for reference in found.references
        ],
        "schema": found.text,
    }


def _print_refusal(subject: str, messages: list[str], as_json: bool) -> None:
    if as_json:
        found = as_plain(read_incompatibilities(messages))
        print_json({"subject": subject, "is_compatible": False, "findings": found})
        return
    print_line(f"[bold red]incompatible[/] with {escape(subject)} {against(messages)}")
    print_incompatibilities(messages)


def _versions(client: Any, subject: str) -> list[int]:
    from ottla.client.schema_registry import SchemaRegistryError

    try:
        found: list[int] = client.versions(subject)
        return found
    except SchemaRegistryError as error:
        if error.status == 404:
            return []
        raise


def _sides(versions: list[int], subject: str, old: str, new: str) -> tuple[str, str]:
    """The two schemas to compare."""
    if new:
        return old, new
    if old:
        return (old, "latest") if _is_version(old) else ("latest", old)
    if len(versions) < 2:
        raise ToolError(f"{subject} has one version; give a FILE to compare it with")
    return str(versions[-2]), str(versions[-1])


def _is_version(text: str) -> bool:
    return text.isdigit() or text == "latest"


def _side(client: Any, subject: str, name: str, kind: str, reference: list[str]) -> Any:
    from ottla.cli.verbs.schema_rest import kind_of, read_text, references_of
    from ottla.client.schema_registry import RegisteredSchema

    if _is_version(name):
        return client.version(subject, name)
    return RegisteredSchema(0, kind_of(name, kind), read_text(name), references_of(reference))
