"""ottla doctor: checks the installation and what is reachable."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Annotated, Final

import typer
from rich.markup import escape
from rich.table import Table

from ottla.cli.console import LOCALHOST, AsJson, CommandConfig, console, print_json
from ottla.cli.doctor.diagnosis import Diagnosis, Verdict
from ottla.cli.doctor.installation import installation
from ottla.cli.doctor.reachability import Endpoint, reachability
from ottla.cli.kafka.tool import read_properties

HELP: Final = """Check what is installed and what is reachable, and say what to do.

An address that you give, or that the environment sets, must answer; the default
addresses on this machine need not. The exit code is 1 if something is wrong.

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
        typer.Option("--bootstrap-server", "-b", help="The brokers to check.", metavar="HOST:PORT"),
    ] = "",
    registry_url: Annotated[str, typer.Option(help="A schema registry.", metavar="URL")] = "",
    sql_url: Annotated[str, typer.Option(help="A SQL server.", metavar="URL")] = "",
    connect_url: Annotated[str, typer.Option(help="A Connect worker.", metavar="URL")] = "",
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    brokers = _endpoint(bootstrap_server, "OTTLA_BOOTSTRAP_SERVER", LOCALHOST)
    services = {
        "registry": _endpoint(registry_url, "OTTLA_SCHEMA_REGISTRY_URL", "http://localhost:8081"),
        "sql": _endpoint(sql_url, "OTTLA_SQL_SERVER", "http://localhost:8088"),
        "connect": _endpoint(connect_url, "OTTLA_CONNECT_URL", "http://localhost:8083"),
    }
    settings = read_properties(command_config)
    found = [*installation(), *reachability(brokers, services, settings)]
    wrong = [diagnosis for diagnosis in found if diagnosis.verdict is Verdict.WRONG]
    if as_json:
        print_json(found)
    else:
        _print(found, wrong)
    raise typer.Exit(1 if wrong else 0)


def _endpoint(given: str, variable: str, usual: str) -> Endpoint:
    named = given or os.environ.get(variable, "")
    return Endpoint((named or usual).rstrip("/"), given=bool(named))


def _print(found: Sequence[Diagnosis], wrong: Sequence[Diagnosis]) -> None:
    out = console()
    for section in dict.fromkeys(diagnosis.section for diagnosis in found):
        out.print(f"\n[bold]{section}[/]")
        table = Table.grid(padding=(0, 1))
        table.add_column()
        table.add_column(no_wrap=True)
        table.add_column(overflow="fold")
        for diagnosis in found:
            if diagnosis.section == section:
                remedy = f"\n[dim]{escape(diagnosis.remedy)}[/]" if diagnosis.remedy else ""
                table.add_row(
                    f" {MARKS[diagnosis.verdict]}",
                    escape(diagnosis.name),
                    escape(diagnosis.words) + remedy,
                )
        out.print(table)
    if wrong:
        names = ", ".join(diagnosis.name for diagnosis in wrong)
        out.print(f"\n[bold red]{len(wrong)} wrong:[/] {escape(names)}")
    else:
        out.print("\n[green]Nothing is wrong.[/]")
