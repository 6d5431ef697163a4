"""The common options of `ottla schemas` commands."""

from __future__ import annotations

from typing import Annotated, Final

import typer

DEFAULT_URL: Final = "http://localhost:8081"

Registry = Annotated[
    str,
    typer.Option(
        "--registry",
        "-r",
        envvar="OTTLA_SCHEMA_REGISTRY_URL",
        help="A schema registry.",
        metavar="URL",
    ),
]
Subject = Annotated[str, typer.Argument(help="The subject.", metavar="SUBJECT")]
File = Annotated[str, typer.Argument(help=".avsc, .json or .proto; - for standard input.")]
Kind = Annotated[
    str, typer.Option("--type", "-t", help="avro, json or protobuf; default: by FILE's name.")
]
References = Annotated[
    list[str],
    typer.Option(
        "--reference", help="A schema that this one refers to.", metavar="NAME=SUBJECT:VERSION"
    ),
]
Version = Annotated[str, typer.Option("--version", "-v", help="A number, or latest.")]
