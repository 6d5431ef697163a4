"""ottla schemas register, check, diff: a schema beside those that its subject has."""

from __future__ import annotations

from typing import Annotated, Any, Final

import typer
from rich.markup import escape

from ottla.cli.kafka.tool import ToolError
from ottla.cli.output import AsJson, print_json, said
from ottla.cli.verbs.schema_findings import (
    against,
    as_plain,
    findings,
    pretty,
    print_diff,
    print_findings,
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
        bool, typer.Option("--normalize", help="Order and notation do not count.")
    ] = False,
    registry: Registry = DEFAULT_URL,
    as_json: AsJson = False,
) -> None:
    """Register a schema as the next version of a subject.

    [dim]ottla schemas register orders-value order.avsc
    ottla schemas register orders-value order.proto --reference money.proto=money:1
    cat order.json | ottla schemas register orders-value - --type json[/dim]
    """
    from ottla.cli.verbs.schema_rest import kind_of, opened, read_text, references_of
    from ottla.client.schema_registry import RegistryError

    language, references, content = kind_of(file, kind), references_of(reference), read_text(file)
    with opened(registry) as asked:
        before = _versions(asked, subject)
        try:
            made = asked.register(subject, language, content, references, normalize=normalize)
        except RegistryError as error:
            if error.status != 409:
                raise
            messages = asked.incompatibilities(subject, language, content, references)
            _print_refusal(subject, messages, as_json)
            raise typer.Exit(1) from None
    if as_json:
        print_json(plain_schema(made))
    elif made.version in before:
        said(f"{escape(subject)} has this schema already: version {made.version}, id {made.id}")
    else:
        said(f"registered {escape(subject)} version {made.version}, id {made.id}")


def check(
    subject: Subject,
    file: File,
    *,
    version: Annotated[
        str, typer.Option("--version", "-v", help="Compare with this version alone.")
    ] = "",
    kind: Kind = "",
    reference: References = [],  # noqa: B006
    registry: Registry = DEFAULT_URL,
    as_json: AsJson = False,
) -> None:
    """Ask whether a schema may be the next version; exit code 1 if not.

    [dim]ottla schemas check orders-value order-2.avsc
    ottla schemas check orders-value order-2.avsc --version 1 --json[/dim]
    """
    from ottla.cli.verbs.schema_rest import kind_of, opened, read_text, references_of

    language, references, content = kind_of(file, kind), references_of(reference), read_text(file)
    with opened(registry) as asked:
        if not version and not _versions(asked, subject):
            raise ToolError(
                f"{subject} has no versions: there is nothing to compare with"
                "\n      `ottla schemas list` shows the subjects there are."
            )
        messages = asked.incompatibilities(
            subject, language, content, references, version=version or None
        )
    if messages:
        _print_refusal(subject, messages, as_json)
        raise typer.Exit(1)
    if as_json:
        print_json({"subject": subject, "is_compatible": True, "findings": []})
    else:
        said(f"[green]compatible[/]: this schema may follow in {escape(subject)}")


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
    """Show how two versions differ, and who can read what.

    [dim]ottla schemas diff orders-value             # the latest two
    ottla schemas diff orders-value 1 3
    ottla schemas diff orders-value order-2.avsc  # the latest, and a file[/dim]
    """
    from ottla.cli.verbs.schema_rest import opened
    from ottla.schemas.compatibility.check import incompatibilities

    with opened(registry) as asked:
        names = _sides(asked.versions(subject), subject, old, new)
        sides = [_side(asked, subject, each, kind, reference) for each in names]
        parsed = [asked.parsed(each) for each in sides]
    reasons = {level: incompatibilities(level, parsed[1], parsed[:1]) for level in READABLE}
    if as_json:
        levels = {level.lower(): as_plain(findings(each)) for level, each in reasons.items()}
        print_json({"subject": subject, "old": sides[0].text, "new": sides[1].text, **levels})
        return
    texts = [pretty(each.kind, each.text).splitlines() for each in sides]
    if not print_diff(texts[0], texts[1], names):
        said("The texts are the same.")
    for level, messages in reasons.items():
        state = "[red]no[/]" if messages else "[green]yes[/]"
        said(f"{level} ({READABLE[level]}): {state}")
        print_findings(messages)


def plain_schema(found: Any) -> dict[str, Any]:
    return {
        "subject": found.subject,
        "version": found.version,
        "id": found.id,
        "guid": found.guid,
        "type": found.kind,
        "references": [
            {"name": each.name, "subject": each.subject, "version": each.version}
            for each in found.references
        ],
        "schema": found.text,
    }


def _print_refusal(subject: str, messages: list[str], as_json: bool) -> None:
    if as_json:
        found = as_plain(findings(messages))
        print_json({"subject": subject, "is_compatible": False, "findings": found})
        return
    said(f"[bold red]incompatible[/] with {escape(subject)} {against(messages)}")
    print_findings(messages)


def _versions(asked: Any, subject: str) -> list[int]:
    from ottla.client.schema_registry import RegistryError

    try:
        found: list[int] = asked.versions(subject)
        return found
    except RegistryError as error:
        if error.status == 404:
            return []
        raise


def _sides(versions: list[int], subject: str, old: str, new: str) -> tuple[str, str]:
    """What is compared with what."""
    if new:
        return old, new
    if old:
        return (old, "latest") if _is_version(old) else ("latest", old)
    if len(versions) < 2:
        raise ToolError(f"{subject} has one version; give a FILE to compare it with")
    return str(versions[-2]), str(versions[-1])


def _is_version(text: str) -> bool:
    return text.isdigit() or text == "latest"


def _side(asked: Any, subject: str, name: str, kind: str, reference: list[str]) -> Any:
    from ottla.cli.verbs.schema_rest import kind_of, read_text, references_of
    from ottla.client.schema_registry import RegisteredSchema

    if _is_version(name):
        return asked.version(subject, name)
    return RegisteredSchema(0, kind_of(name, kind), read_text(name), references_of(reference))
