"""kafka-delegation-tokens: Kafka's tool and ours print the same, on one broker.

OTTLA_COMPAT_BROKER=apache   runs both tools against Apache Kafka
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from compat_security import SecureBroker, escaped
from compat_tools import Outcome, attempt

from ottla.cli.kafka.delegation_tokens import main

pytestmark = pytest.mark.maven

TokenTool = Callable[..., Outcome]
LIFETIME_MS = "3600000"


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureBroker]:
    made = SecureBroker(tmp_path_factory.mktemp("tokens"))
    made.start()
    yield made
    made.close()


@pytest.fixture(scope="module")
def config(secure: SecureBroker, tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("client") / "alice.properties"
    return write(file, secure.scram())


def write(file: Path, settings: dict[str, str]) -> Path:
    file.write_text("".join(f"{name}={escaped(value)}\n" for name, value in settings.items()))
    return file


@pytest.fixture
def tools(
    secure: SecureBroker, config: Path, capsys: pytest.CaptureFixture[str]
) -> dict[str, TokenTool]:
    where = ("--bootstrap-server", secure.sasl, "--command-config", str(config))

    def ours(*words: str) -> Outcome:
        code = main([*where, *words])
        printed = capsys.readouterr()
        return Outcome(code, printed.out, printed.err)

    def kafkas(*words: str) -> Outcome:
        return attempt("DelegationTokenCommand", *where, *words)

    return {"kafka": kafkas, "ours": ours}


def comparable(text: str) -> str:
    """Without what differs from token to token."""
    text = re.sub(r"[A-Za-z0-9+/]{86}==", "HMAC", text)
    text = re.sub(r"\d{4}-\d\d-\d\dT\d\d:\d\d", "DATE", text)
    return re.sub(r"\b[A-Za-z0-9_-]{22}(?=\s|$)", "ID", text)


def hmac_in(text: str) -> str:
    found = re.search(r"[A-Za-z0-9+/]{86}==", text)
    assert found is not None, text
    return found[0]


def life(tool: TokenTool) -> list[str]:
    """The complete output of one tool over the life of a token."""
    renewers = ("--renewer-principal", "User:bob", "--renewer-principal", "User:carol")
    created = tool("--create", "--max-life-time-period", LIFETIME_MS, *renewers)
    assert created.code == 0, created.errors
    hmac = hmac_in(created.output)
    steps = [
        created,
        tool("--describe", "--owner-principal", "User:alice"),
        tool("--describe", "--owner-principal", "User:nobody"),
        tool("--renew", "--hmac", hmac, "--renew-time-period", "60000"),
        tool("--expire", "--hmac", hmac, "--expiry-time-period", "-1"),
        tool("--describe", "--owner-principal", "User:alice"),
    ]
    assert [step.code for step in steps] == [0] * len(steps), [step.errors for step in steps]
    return [comparable(step.output) for step in steps]


@pytest.mark.timeout(1000)
def test_both_tools_print_the_same(tools: dict[str, TokenTool]) -> None:
    kafkas, ours = life(tools["kafka"]), life(tools["ours"])
    assert ours == kafkas
    assert "ID HMAC User:alice" in ours[1]
    assert ours[2].startswith(
        "Calling describe token operation for owners: [User:nobody]\nTotal number of tokens : 0"
    )
