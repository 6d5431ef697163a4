"""ottla certs: a CA and certificates for brokers and clients, to try TLS."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer

from ottla.cli.console import console
from ottla.cli.kafka.tool import ToolError
from ottla.testing.certificates import LOCAL_NAMES, CertificateAuthority, CertificateFiles

HELP: Final = """Make a CA and certificates for brokers and clients, to try TLS.

[dim]ottla certs
ottla certs ./certs --host broker-1.example --host 10.0.0.7 --client alice --client bob
ottla serve certs/server.properties[/dim]

An existing CA is kept; certificates are made again.
"""
SERVER_FILE: Final = "server.properties"


def certs(
    directory: Annotated[Path, typer.Argument(help="The directory to write to.")] = Path("./certs"),
    *,
    host: Annotated[
        list[str],
        typer.Option(
            "--host",
            help="A name or address of the brokers; localhost is always included.",
            metavar="HOST",
        ),
    ] = [],  # noqa: B006
    client: Annotated[
        list[str],
        typer.Option(
            "--client", help="A client; its certificate's subject is CN=NAME.", metavar="NAME"
        ),
    ] = ["client"],  # noqa: B006
    listen: Annotated[
        str, typer.Option(help="The broker's address in server.properties.")
    ] = "127.0.0.1:9093",
    days: Annotated[int, typer.Option(help="Their validity in days.", min=1)] = 365,
) -> None:
    """See HELP."""
    names = (*LOCAL_NAMES, *(_alternative_name(name) for name in host))
    try:
        authority = CertificateAuthority(directory.absolute())
        broker = authority.issue("broker", alternative_names=dict.fromkeys(names), days=days)
        clients = {name: authority.issue(name, days=days) for name in client}
    except (RuntimeError, OSError) as error:
        raise ToolError(str(error)) from None
    out = console()
    server = authority.directory / SERVER_FILE
    server.write_text(_server(authority, broker, listen))
    out.print(f"[bold]{authority.certificate}[/bold]  the CA, which both sides trust")
    out.print(f"[bold]{broker.keystore}[/bold]  the brokers' key and certificate")
    for name, files in clients.items():
        path = authority.directory / f"{name}.properties"
        path.write_text(_client(authority, files))
        out.print(f"[bold]{path}[/bold]  the settings of {name}, for --command-config")
    out.print(f"ottla serve {server}")


def _alternative_name(host: str) -> str:
    import ipaddress

    try:
        return f"IP:{ipaddress.ip_address(host)}"
    except ValueError:
        return f"DNS:{host}"


def _server(authority: CertificateAuthority, broker: CertificateFiles, listen: str) -> str:
    return (
        f"listeners=SSL://{listen}\n"
        "security.inter.broker.protocol=SSL\n"
        "ssl.keystore.type=PEM\n"
        f"ssl.keystore.location={broker.keystore}\n"
        "ssl.truststore.type=PEM\n"
        f"ssl.truststore.location={authority.certificate}\n"
        "# required: clients need a certificate, too, and its subject is their name\n"
        "ssl.client.auth=required\n"
    )


def _client(authority: CertificateAuthority, files: CertificateFiles) -> str:
    return (
        "security.protocol=SSL\n"
        "ssl.keystore.type=PEM\n"
        f"ssl.keystore.location={files.keystore}\n"
        "ssl.truststore.type=PEM\n"
        f"ssl.truststore.location={authority.certificate}\n"
    )
