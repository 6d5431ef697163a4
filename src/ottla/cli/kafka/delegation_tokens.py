"""kafka-delegation-tokens: create, renew, expire and describe delegation tokens."""

from __future__ import annotations

import base64
import binascii
import sys
import time
from collections.abc import Sequence
from typing import Final

from ottla.auth.principal import Principal
from ottla.cli.kafka.options import BOOTSTRAP, Option, Options, UsageError
from ottla.cli.kafka.tool import read_properties, run
from ottla.client.admin import Admin
from ottla.client.delegation_tokens import DelegationTokenAdmin, IssuedToken

NAME: Final = "kafka-delegation-tokens"
DESCRIPTION: Final = "This tool helps to create, renew, expire, or describe delegation tokens."
OPTIONS: Final = (
    BOOTSTRAP,
    Option(
        "command-config",
        "REQUIRED: A properties file with settings of the client: tokens are only for clients"
        " that have authenticated.",
        "file",
    ),
    Option("create", "Create a token. --renewer-principal sets its renewers."),
    Option("renew", "Renew a token, by --renew-time-period."),
    Option("expire", "Expire a token, by --expiry-time-period."),
    Option("describe", "Describe the tokens of --owner-principal, or all that you may see."),
    Option("owner-principal", "Owner, as principalType:name.", "principal", optional=True),
    Option("renewer-principal", "Renewer, as principalType:name.", "principal", optional=True),
    Option(
        "max-life-time-period",
        "Milliseconds after which the token can't be renewed. -1: the brokers'"
        " delegation.token.max.lifetime.ms.",
        "ms",
        optional=True,
    ),
    Option(
        "renew-time-period",
        "Milliseconds from now at which the token ends. -1: the brokers'"
        " delegation.token.expiry.time.ms.",
        "ms",
        optional=True,
    ),
    Option(
        "expiry-time-period",
        "Milliseconds from now at which the token ends. -1: at once.",
        "ms",
        optional=True,
    ),
    Option("hmac", "The HMAC of the token, in base64.", "hmac", optional=True),
)
ACTIONS: Final = ("create", "renew", "expire", "describe")
NEEDED: Final = {
    "create": ("max-life-time-period",),
    "renew": ("hmac", "renew-time-period"),
    "expire": ("hmac", "expiry-time-period"),
}
REFUSED: Final = {
    "create": ("hmac", "renew-time-period", "expiry-time-period"),
    "renew": ("renewer-principal", "max-life-time-period", "expiry-time-period", "owner-principal"),
    "expire": ("renew", "max-life-time-period", "renew-time-period", "owner-principal"),
    "describe": ("renew-time-period", "max-life-time-period", "hmac", "expiry-time-period"),
}
TITLES: Final = (
    "TOKENID",
    "HMAC",
    "OWNER",
    "REQUESTER",
    "RENEWERS",
    "ISSUEDATE",
    "EXPIRYDATE",
    "MAXDATE",
)
WIDTHS: Final = (15, 30, 15, 15, 25, 15, 15, 15)


def main(arguments: Sequence[str] | None = None) -> int:
    return run(NAME, DESCRIPTION, OPTIONS, work, arguments)


def work(options: Options) -> int:
    chosen = [action for action in ACTIONS if options.has(action)]
    if len(chosen) != 1:
        raise UsageError(
            "Command must include exactly one action: --create, --renew, --expire or --describe"
        )
    for name in ("bootstrap-server", "command-config", *NEEDED.get(chosen[0], ())):
        options.require(name)
    options.refuse(chosen[0], REFUSED[chosen[0]])
    settings = read_properties(options.value("command-config"))
    with Admin(options.require("bootstrap-server"), settings=dict(settings)) as admin:
        {"create": _create, "renew": _renew, "expire": _expire, "describe": _describe}[chosen[0]](
            admin.delegation_tokens, options
        )
    return 0


def _create(tokens: DelegationTokenAdmin, options: Options) -> None:
    renewers = _principals(options, "renewer-principal")
    period_ms = options.integer("max-life-time-period")
    assert period_ms is not None
    print(
        f"Calling create token operation with renewers :{_listed(renewers)} ,"
        f" max-life-time-period :{period_ms}"
    )
    owner = next(iter(_principals(options, "owner-principal")), None)
    created = tokens.create(renewers=renewers, owner=owner, max_lifetime_ms=period_ms)
    print(f"Created delegation token with tokenId : {created.token.id}")
    _print([created])


def _renew(tokens: DelegationTokenAdmin, options: Options) -> None:
    hmac, period_ms = options.require("hmac"), options.integer("renew-time-period")
    assert period_ms is not None
    print(f"Calling renew token operation with hmac :{hmac} , renew-time-period :{period_ms}")
    ends_ms = tokens.renew(_decoded(hmac), period_ms)
    print(f"Completed renew operation. New expiry date : {_date(ends_ms)}", end="")


def _expire(tokens: DelegationTokenAdmin, options: Options) -> None:
    hmac, period_ms = options.require("hmac"), options.integer("expiry-time-period")
    assert period_ms is not None
    print(f"Calling expire token operation with hmac :{hmac} , expire-time-period :{period_ms}")
    ends_ms = tokens.expire(_decoded(hmac), period_ms)
    print(f"Completed expire operation. New expiry date : {_date(ends_ms)}", end="")


def _describe(tokens: DelegationTokenAdmin, options: Options) -> None:
    owners = _principals(options, "owner-principal")
    if owners:
        print(f"Calling describe token operation for owners: {_listed(owners)}")
    else:
        print("Calling describe token operation for current user.")
    found = tokens.describe(owners or None)
    print(f"Total number of tokens : {len(found)}", end="")
    _print(found)


def _print(tokens: Sequence[IssuedToken]) -> None:
    """Kafka's table: a blank line before each row."""
    print("\n" + _row(TITLES))
    for issued in tokens:
        token = issued.token
        cells = (
            token.id,
            issued.password,
            str(token.owner),
            str(token.requester),
            _listed(token.renewers),
            *map(_date, (token.issued_ms, token.expires_ms, token.max_ms)),
        )
        print("\n" + _row(cells))


def _row(cells: Sequence[str]) -> str:
    return " ".join(cell.ljust(width) for cell, width in zip(cells, WIDTHS, strict=True))


def _listed(principals: Sequence[Principal]) -> str:
    """A list in Java's format."""
    return f"[{', '.join(map(str, principals))}]"


def _date(time_ms: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M", time.localtime(time_ms // 1000))


def _principals(options: Options, name: str) -> list[Principal]:
    try:
        return [Principal.parse(text.strip()) for text in options.values(name)]
    except ValueError as error:
        raise UsageError(str(error)) from None


def _decoded(hmac: str) -> bytes:
    try:
        return base64.b64decode(hmac, validate=True)
    except binascii.Error:
        raise UsageError("--hmac is not base64") from None


if __name__ == "__main__":
    sys.exit(main())
