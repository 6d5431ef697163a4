"""ACLs, SCRAM credentials and delegation tokens through their APIs."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
from data_path_broker import Client, batch, code, run
from test_every_api_denied import AUTHORIZER

from ottla.auth.audit import LOGGER
from ottla.auth.plain import PlainMechanism
from ottla.auth.principal import Principal, user
from ottla.auth.sasl import SaslServer
from ottla.auth.scram import ScramClient
from ottla.auth.scram_server import ScramMechanism
from ottla.errors import ErrorCode
from ottla.testing.manual_clock import START_MS, ManualClock
from ottla.wire.apis import ApiKey
from ottla.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from ottla.wire.messages.create_acls import AclCreation, CreateAclsRequest
from ottla.wire.messages.create_delegation_token import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
)
from ottla.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from ottla.wire.messages.describe_acls import DescribeAclsRequest
from ottla.wire.messages.describe_client_quotas import DescribeClientQuotasRequest
from ottla.wire.messages.describe_delegation_token import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
)
from ottla.wire.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    UserName,
)
from ottla.wire.messages.expire_delegation_token import ExpireDelegationTokenRequest
from ottla.wire.messages.renew_delegation_token import RenewDelegationTokenRequest

READ_T = AclCreation(2, "t", 3, "User:alice", "*", 3, 3)
WRITE_T = AclCreation(2, "t", 3, "User:alice", "*", 4, 3)
ALL = (1, None, 1, None, None, 1, 1)
TOKENS = {
    "delegation_token_secret_key": "hush",
    "delegation_token_expiry_time_ms": "1000",
    "delegation_token_max_lifetime_ms": "5000",
    # No listener speaks SASL in these tests; the name of the one that the client came by does.
    "listener_security_protocol_map": "PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT",
}


def by(client: Client, name: str, listener: str = "PLAINTEXT") -> Client:
    """Another client of the same broker, authenticated as this user."""
    other = Client(client.broker)
    other._session.principal = user(name)
    other._session.listener = listener
    return other


async def create_acls(client: Client, *acls: AclCreation) -> list[str]:
    response = await client.ask(ApiKey.CREATE_ACLS, CreateAclsRequest(list(acls)))
    return [code(result) for result in response.results]


def test_acls_are_created_described_and_deleted(tmp_path: Path) -> None:
    async def act(client: Client) -> None:
        admin = by(client, "admin")
        wrong = AclCreation(4, "other", 3, "User:a", "*", 3, 3)
        assert await create_acls(admin, READ_T, wrong, WRITE_T) == [
            "NONE",
            "INVALID_REQUEST",
            "NONE",
        ]
        described = await admin.ask(ApiKey.DESCRIBE_ACLS, DescribeAclsRequest(*ALL))
        (resource,) = described.resources
        assert (resource.resource_type, resource.resource_name, resource.pattern_type) == (
            2,
            "t",
            3,
        )
        assert [(acl.operation, acl.principal) for acl in resource.acls] == [
            (3, "User:alice"),
            (4, "User:alice"),
        ]
        filters = [
            DeleteAclsFilter(2, "t", 3, None, None, 3, 1),
            DeleteAclsFilter(0, "t", 3, None, None, 3, 1),
            DeleteAclsFilter(3, None, 1, None, None, 1, 1),
        ]
        deleted = await admin.ask(ApiKey.DELETE_ACLS, DeleteAclsRequest(filters))
        first, unknown, nothing = deleted.filter_results
        assert [(acl.operation, acl.error_code) for acl in first.matching_acls] == [(3, 0)]
        assert code(unknown) == "INVALID_REQUEST"
        assert (nothing.error_code, nothing.matching_acls) == (0, [])
        left = await admin.ask(ApiKey.DESCRIBE_ACLS, DescribeAclsRequest(*ALL))
        assert [acl.operation for acl in left.resources[0].acls] == [4]

    async def after_a_restart(client: Client) -> None:
        left = await by(client, "admin").ask(ApiKey.DESCRIBE_ACLS, DescribeAclsRequest(*ALL))
        assert [acl.operation for acl in left.resources[0].acls] == [4]

    run(tmp_path, act, after_a_restart, **AUTHORIZER)


def test_acl_requests_need_an_authorizer(tmp_path: Path) -> None:
    async def act(client: Client) -> None:
        assert await create_acls(client, READ_T) == ["SECURITY_DISABLED"]
        response = await client.ask(ApiKey.DESCRIBE_ACLS, DescribeAclsRequest(*ALL))
        assert code(response) == "SECURITY_DISABLED"

    run(tmp_path, act)


def test_an_acl_takes_effect_at_once_until_it_is_deleted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def act(client: Client) -> None:
        await client.create("t")
        admin, alice = by(client, "admin"), by(client, "alice")
        with caplog.at_level(logging.INFO, LOGGER):
            assert code(await alice.produce("t", batch(b"v"))) == "TOPIC_AUTHORIZATION_FAILED"
        assert "Principal = User:alice is Denied operation = WRITE" in caplog.text
        assert "for request = Produce" in caplog.text
        await create_acls(admin, WRITE_T)
        assert code(await alice.produce("t", batch(b"v"))) == "NONE"
        assert code(await alice.fetch("t", 0)) == "TOPIC_AUTHORIZATION_FAILED"
        await create_acls(admin, READ_T)
        assert code(await alice.fetch("t", 0)) == "NONE"
        await admin.ask(ApiKey.DELETE_ACLS, DeleteAclsRequest([DeleteAclsFilter(*ALL)]))
        assert code(await alice.fetch("t", 0)) == "TOPIC_AUTHORIZATION_FAILED"
        assert code(await alice.produce("t", batch(b"v"))) == "TOPIC_AUTHORIZATION_FAILED"

    run(tmp_path, act, **AUTHORIZER)


# SCRAM


def scram_server(client: Client, mechanism: str) -> SaslServer:
    credentials = client.broker.credentials
    made = ScramMechanism(mechanism, credentials, secret=credentials.secret)
    return SaslServer({mechanism: made, "PLAIN": PlainMechanism({})})


def login(client: Client, mechanism: str, name: str, password: str, **more: Any) -> Any:
    server = scram_server(client, mechanism)
    now_ms = client.broker.clock.now_ms()
    assert server.handshake(mechanism, now_ms) is ErrorCode.NONE
    asked = ScramClient(mechanism, name, password, **more)
    challenge = server.authenticate(asked.first(), now_ms, now_ms)
    return server.authenticate(asked.final(challenge.token), now_ms, now_ms)


def upsertion(name: str, mechanism: int = 1, iterations: int = 4096) -> ScramCredentialUpsertion:
    import hashlib

    kind = {1: "sha256", 2: "sha512"}.get(mechanism, "sha256")
    salted = hashlib.pbkdf2_hmac(kind, b"pencil", b"salt", iterations)
    return ScramCredentialUpsertion(name, mechanism, iterations, b"salt", salted)


async def alter(client: Client, deletions: list[Any], upsertions: list[Any]) -> dict[str, str]:
    request = AlterUserScramCredentialsRequest(deletions, upsertions)
    response = await client.ask(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, request)
    return {result.user: code(result) for result in response.results}


def test_scram_users_are_created_and_deleted(tmp_path: Path) -> None:
    async def act(client: Client) -> None:
        reply = await alter(client, [], [upsertion("alice"), upsertion("alice", 2, 8192)])
        assert reply == {"alice": "NONE"}
        assert login(client, "SCRAM-SHA-256", "alice", "pencil").principal == user("alice")
        assert login(client, "SCRAM-SHA-512", "alice", "pencil").done
        assert login(client, "SCRAM-SHA-512", "alice", "pen").error
        key = ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS
        names = [UserName("alice"), UserName("bob"), UserName("bob")]
        described = await client.ask(key, DescribeUserScramCredentialsRequest(names))
        alice, bob = described.results
        infos = [(info.mechanism, info.iterations) for info in alice.credential_infos]
        assert infos == [(1, 4096), (2, 8192)]
        assert code(bob) == "DUPLICATE_RESOURCE"
        everybody = await client.ask(key, DescribeUserScramCredentialsRequest(None))
        assert [result.user for result in everybody.results] == ["alice"]
        quotas = await client.ask(ApiKey.DESCRIBE_CLIENT_QUOTAS, DescribeClientQuotasRequest([]))
        assert quotas.entries == []  # what lies in the same node is not a quota
        deletion = ScramCredentialDeletion("alice", 1)
        assert await alter(client, [deletion], []) == {"alice": "NONE"}
        assert login(client, "SCRAM-SHA-256", "alice", "pencil").error
        assert await alter(client, [deletion], []) == {"alice": "RESOURCE_NOT_FOUND"}

    run(tmp_path, act)


def test_invalid_credentials_are_refused(tmp_path: Path) -> None:
    async def act(client: Client) -> None:
        for wrong, expected in (
            ([upsertion("")], "UNACCEPTABLE_CREDENTIAL"),
            ([upsertion("a", iterations=4095)], "UNACCEPTABLE_CREDENTIAL"),
            ([upsertion("a", iterations=16385)], "UNACCEPTABLE_CREDENTIAL"),
            ([upsertion("a", mechanism=3)], "UNSUPPORTED_SASL_MECHANISM"),
            ([upsertion("a"), upsertion("a")], "DUPLICATE_RESOURCE"),
            ([upsertion("a"), upsertion("a", 2, 1)], "UNACCEPTABLE_CREDENTIAL"),
        ):
            assert set((await alter(client, [], wrong)).values()) == {expected}
        reply = await alter(client, [ScramCredentialDeletion("b", 1)], [upsertion("c")])
        assert reply == {"b": "RESOURCE_NOT_FOUND", "c": "NONE"}
        client._session.principal = Principal("User", "x", token_authenticated=True)
        reply = await alter(client, [], [upsertion("d")])
        assert reply == {"d": "DELEGATION_TOKEN_AUTHORIZATION_FAILED"}

    run(tmp_path, act)


# delegation tokens


async def create_token(client: Client, **fields: Any) -> Any:
    request = CreateDelegationTokenRequest(**{"max_lifetime": -1, **fields})
    return await client.ask(ApiKey.CREATE_DELEGATION_TOKEN, request)


async def described(client: Client, owners: list[str] | None = None) -> list[Any]:
    asked = None
    if owners is not None:
        asked = [DescribeDelegationTokenOwner("User", name) for name in owners]
    request = DescribeDelegationTokenRequest(asked)
    response = await client.ask(ApiKey.DESCRIBE_DELEGATION_TOKEN, request)
    assert response.error_code == 0
    return list(response.tokens)


def test_a_token_authenticates_its_owner_until_it_expires(tmp_path: Path) -> None:
    clock = ManualClock()

    async def act(client: Client) -> None:
        import base64

        alice, bob = by(client, "alice", "SASL"), by(client, "bob", "SASL")
        renewers = [CreatableRenewers("User", "bob")]
        token = await create_token(alice, renewers=renewers)
        assert code(token) == "NONE"
        assert token.expiry_timestamp == START_MS + 1000
        assert token.max_timestamp == START_MS + 5000
        password = base64.b64encode(token.hmac).decode()
        outcome = login(client, "SCRAM-SHA-256", token.token_id, password, token=True)
        assert outcome.principal == user("alice")
        assert outcome.session_lifetime_ms == 1000
        assert [found.token_id for found in await described(alice)] == [token.token_id]
        assert [found.hmac for found in await described(bob)] == [token.hmac]
        assert await described(by(client, "carol", "SASL")) == []
        assert await described(alice, ["bob"]) == []
        renew = RenewDelegationTokenRequest(token.hmac, 4000)
        renewed = await bob.ask(ApiKey.RENEW_DELEGATION_TOKEN, renew)
        assert renewed.expiry_timestamp == START_MS + 4000
        renew.renew_period = 60_000
        renewed = await bob.ask(ApiKey.RENEW_DELEGATION_TOKEN, renew)
        assert renewed.expiry_timestamp == START_MS + 5000
        clock.advance(5001)
        assert login(client, "SCRAM-SHA-256", token.token_id, password, token=True).error
        late = await bob.ask(ApiKey.RENEW_DELEGATION_TOKEN, renew)
        assert code(late) == "DELEGATION_TOKEN_EXPIRED"
        expire = ExpireDelegationTokenRequest(token.hmac, -1)
        assert code(await alice.ask(ApiKey.EXPIRE_DELEGATION_TOKEN, expire)) == "NONE"
        assert client.broker.image.tokens == {}

    run(tmp_path, act, clock=clock, **TOKENS)


def test_some_clients_may_not_request_tokens(tmp_path: Path) -> None:
    async def act(client: Client) -> None:
        alice, mallory = by(client, "alice", "SASL"), by(client, "mallory", "SASL")
        assert code(await create_token(client)) == "DELEGATION_TOKEN_REQUEST_NOT_ALLOWED"
        token = await create_token(alice)
        by_token = by(client, "alice", "SASL")
        by_token._session.principal = Principal("User", "alice", token_authenticated=True)
        refused = await create_token(by_token)
        assert code(refused) == "DELEGATION_TOKEN_REQUEST_NOT_ALLOWED"
        renew = RenewDelegationTokenRequest(token.hmac, 1)
        reply = await mallory.ask(ApiKey.RENEW_DELEGATION_TOKEN, renew)
        assert code(reply) == "DELEGATION_TOKEN_OWNER_MISMATCH"
        renew.hmac = b"nothing"
        reply = await alice.ask(ApiKey.RENEW_DELEGATION_TOKEN, renew)
        assert code(reply) == "DELEGATION_TOKEN_NOT_FOUND"
        renewers = [CreatableRenewers("Group", "g")]
        assert code(await create_token(alice, renewers=renewers)) == "INVALID_PRINCIPAL_TYPE"
        other = {"owner_principal_type": "User", "owner_principal_name": "bob"}
        refused = await create_token(alice, **other)
        assert code(refused) == "DELEGATION_TOKEN_AUTHORIZATION_FAILED"
        await create_acls(
            by(client, "admin"), AclCreation(7, "User:bob", 3, "User:alice", "*", 13, 3)
        )
        made = await create_token(alice, **other)
        assert (code(made), made.principal_name) == ("NONE", "bob")
        assert made.token_requester_principal_name == "alice"

    run(tmp_path, act, **TOKENS, **AUTHORIZER)


def test_tokens_need_a_secret(tmp_path: Path) -> None:
    async def act(client: Client) -> None:
        alice = by(client, "alice", "SASL")
        assert code(await create_token(alice)) == "DELEGATION_TOKEN_AUTH_DISABLED"
        answer = await alice.ask(ApiKey.DESCRIBE_DELEGATION_TOKEN, DescribeDelegationTokenRequest())
        assert code(answer) == "DELEGATION_TOKEN_AUTH_DISABLED"

    names = {"listener_security_protocol_map": TOKENS["listener_security_protocol_map"]}
    run(tmp_path, act, **names)


def test_expired_tokens_are_removed(tmp_path: Path) -> None:
    clock = ManualClock()

    async def act(client: Client) -> None:
        await create_token(by(client, "alice", "SASL"))
        client.broker.credentials.expire(client.broker.settings, START_MS + 999)
        assert len(client.broker.image.tokens) == 1
        client.broker.credentials.expire(client.broker.settings, START_MS + 1001)
        assert client.broker.credentials._expiring is not None
        await client.broker.credentials._expiring
        assert client.broker.image.tokens == {}

    run(tmp_path, act, clock=clock, **TOKENS)
