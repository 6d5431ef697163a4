"""ottla doctor: what is installed, what is reachable, what is wrong, what to do."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Annotated, Final

import typer
from rich.markup import escape
from rich.table import Table

from ottla.cli.doctor.diagnosis import Diagnosis, Verdict
from ottla.cli.doctor.installation import installation
from ottla.cli.doctor.reachability import Place, reachability
from ottla.cli.kafka.tool import read_properties
from ottla.cli.output import LOCALHOST, AsJson, CommandConfig, console, print_json

HELP: Final = """Say what is installed, what is reachable, what is wrong, and what to do.

An address that you give, or that the environment names, has to answer; the
usual ones on this machine need not. The exit code is 1 if something is wrong.

[dim]ottla doctor
ottla doctor -b kafka:9092 --command-config client.properties
ottla doctor --registry-url http://registry:8081 --json[/dim]
"""
MARKS: Final = {
    Verdict.FINE: "[green]✓[/]",
    Verdict.MISSING: "[yellow]–[/]",
    Verdict.WRONG: "[bold red]✗[/]",
}


def doctor(
    *,
    bootstrap_server: Annotated[
        str,
        typer.Option("--bootstrap-server", "-b", help="Broker(s) to look at.", metavar="HOST:PORT"),
    ] = "",
    registry_url: Annotated[str, typer.Option(help="A schema registry.", metavar="URL")] = "",
    sql_url: Annotated[str, typer.Option(help="A SQL server.", metavar="URL")] = "",
    connect_url: Annotated[str, typer.Option(help="A Connect worker.", metavar="URL")] = "",
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    brokers = _place(bootstrap_server, "OTTLA_BOOTSTRAP_SERVER", LOCALHOST)
    services = {
        "registry": _place(registry_url, "OTTLA_SCHEMA_REGISTRY_URL", "http://localhost:8081"),
        "sql": _place(sql_url, "OTTLA_SQL_SERVER", "http://localhost:8088"),
        "connect": _place(connect_url, "OTTLA_CONNECT_URL", "http://localhost:8083"),
    }
    settings = read_properties(command_config)
    found = [*installation(), *reachability(brokers, services, settings)]
    wrong = [each for each in found if each.verdict is Verdict.WRONG]
    if as_json:
        print_json(found)
    else:
        _print(found, wrong)
    raise typer.Exit(1 if wrong else 0)


def _place(given: str, variable: str, usual: str) -> Place:
    named = given or os.environ.get(variable, "")
    return Place((named or usual).rstrip("/"), given=bool(named))


def _print(found: Sequence[Diagnosis], wrong: Sequence[Diagnosis]) -> None:
    out = console()
    for section in dict.fromkeys(each.section for each in found):
        out.print(f"\n[bold]{section}[/]")
        table = Table.grid(padding=(0, 1))
        table.add_column()
        table.add_column(no_wrap=True)
        table.add_column(overflow="fold")
        for each in found:
            if each.section == section:
                remedy = f"\n[dim]{escape(each.remedy)}[/]" if each.remedy else ""
                table.add_row(
                    f" {MARKS[each.verdict]}", escape(each.name), escape(each.words) + remedy
                )
        out.print(table)
    if wrong:
        names = ", ".join(each.name for each in wrong)
        out.print(f"\n[bold red]{len(wrong)} wrong:[/] {escape(names)}")
    else:
        out.print("\n[green]Nothing is wrong.[/]")
