"""CVEs of other projects that no other test names: `grep -rn test_cve_` finds all.

CVE-2026-35554 (a race in the Java producer's buffers) has no counterpart: librdkafka produces here.
"""

from __future__ import annotations

import ast
import hmac
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.auth.acls import AclOperation, AclResource
from ottla.auth.plain import PlainMechanism
from ottla.auth.scram import ScramClient, ScramCredential
from ottla.auth.scram_server import ScramServerExchange
from ottla.broker.authorization.api_authorizations import API_AUTHORIZATIONS
from ottla.errors import ErrorCode, KafkaError
from ottla.records.compression import decompress
from ottla.rows.errors import SqlError
from ottla.sql.evaluation import compiled
from ottla.wire.apis import ApiKey
from ottla.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest

SNAPPY = 2
SOURCE = Path(__file__).parents[1] / "src"


class OneUser:
    found = ScramCredential.of_password("SCRAM-SHA-256", "pencil")

    def scram(self, mechanism: str, name: str) -> ScramCredential | None:
        return self.found if name == "alice" else None

    def token(self, mechanism: str, token_id: str) -> None:
        return None

    def shapes(self, mechanism: str) -> tuple[()]:
        return ()


@pytest.fixture
def compared(monkeypatch: pytest.MonkeyPatch) -> list[tuple[bytes, bytes]]:
    """The values compared in constant time."""
    pairs: list[tuple[Any, Any]] = []
    original = hmac.compare_digest

    def counted(one: Any, other: Any) -> bool:
        pairs.append((one, other))
        return original(one, other)

    monkeypatch.setattr(hmac, "compare_digest", counted)
    return pairs


@pytest.mark.parametrize("name", ["alice", "nobody"])
def test_cve_2021_38153_plain_passwords_are_compared_in_constant_time(
    compared: list[tuple[bytes, bytes]], name: str
) -> None:
    exchange = PlainMechanism({"alice": "secret"}).exchange()
    with pytest.raises(KafkaError):
        exchange.step(f"\0{name}\0wrong".encode(), 0)
    assert [pair[1] for pair in compared] == [b"wrong"]


@pytest.mark.parametrize("name", ["alice", "nobody"])
def test_cve_2021_38153_scram_proofs_are_compared_in_constant_time(
    compared: list[tuple[bytes, bytes]], name: str
) -> None:
    exchange = ScramServerExchange("SCRAM-SHA-256", OneUser(), b"of the server")
    client = ScramClient("SCRAM-SHA-256", name, "wrong")
    proof = client.final(exchange.step(client.first(), 0).token)
    with pytest.raises(KafkaError):
        exchange.step(proof, 0)
    assert [len(secret) for secret, _ in compared[1:]] == [32]  # after the nonce: the stored key


def test_cve_2023_34455_a_block_of_snappy_is_as_large_as_it_says_or_refused() -> None:
    """33 bytes that claim to unpack to 2 GB: the size is checked before memory is allocated."""
    block = b"\xff\xff\xff\xff\x07" + bytes(28)
    with pytest.raises(KafkaError) as caught:
        decompress(SNAPPY, block)
    assert caught.value.code in (ErrorCode.CORRUPT_MESSAGE, ErrorCode.MESSAGE_TOO_LARGE)


def test_cve_2026_41115_consumer_group_describe_asks_for_describe() -> None:
    asked: list[tuple[AclOperation, AclResource, str]] = []

    def may(operation: AclOperation, resource: AclResource, name: str = "", **_: Any) -> bool:
        asked.append((operation, resource, name))
        return False

    ctx: Any = SimpleNamespace(may=may, api_key=ApiKey.CONSUMER_GROUP_DESCRIBE, version=1)
    request = ConsumerGroupDescribeRequest(group_ids=["g"])
    response = API_AUTHORIZATIONS[ApiKey.CONSUMER_GROUP_DESCRIBE](lambda *_: None, ctx, request)
    assert asked == [(AclOperation.DESCRIBE, AclResource.GROUP, "g")]
    assert [group.error_code for group in response.groups] == [ErrorCode.GROUP_AUTHORIZATION_FAILED]


def test_cve_2023_52251_cve_2026_5562_no_text_of_a_user_is_run_as_a_program() -> None:
    calls = [
        path.relative_to(SOURCE).as_posix()
        for path in SOURCE.rglob("*.py")
        if "eval(" in (text := path.read_text(encoding="utf-8")) or "exec(" in text
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in ("eval", "exec")
    ]
    # SQL expressions become restricted Python: see the next test.
    assert calls == ["ottla/sql/evaluation.py"]


@pytest.mark.parametrize(
    "text",
    [
        "().__class__.__base__.__subclasses__()",
        "row.__class__",
        "[item for item in row]",
        "(name := row)",
        "f'{row!r}'",
        "(lambda: (yield))()",
        "[*row]",
        "await_ if row else row.get",
    ],
)
def test_cve_2023_52251_no_expression_of_the_sql_reaches_into_python(text: str) -> None:
    with pytest.raises(SqlError, match="Not allowed in an expression"):
        compiled([text])


@pytest.mark.parametrize("text", ["__import__('os')", "open('/etc/passwd')", "eval('1')"])
def test_cve_2023_52251_the_sql_knows_no_function_of_pythons_own(text: str) -> None:
    with pytest.raises((NameError, SqlError)):
        compiled([text])({})
