"""The exchange on one connection: handshake, mechanisms, re-authentication."""

from __future__ import annotations

import base64

import pytest

from ottla.auth.plain import PlainMechanism
from ottla.auth.principal import ANONYMOUS, Principal, user
from ottla.auth.sasl import SaslServer
from ottla.auth.scram import ScramClient, ScramCredential
from ottla.auth.scram_server import (
    ScramMechanism,
    ScramServerExchange,
    ScramShape,
    TokenCredential,
)
from ottla.errors import ErrorCode, KafkaError

SHA256 = "SCRAM-SHA-256"
SECRET = b"of the server"
FAILED = ErrorCode.SASL_AUTHENTICATION_FAILED
CREDENTIALS = {
    mechanism: ScramCredential.of_password(mechanism, "pencil")
    for mechanism in (SHA256, "SCRAM-SHA-512")
}
TOKEN = TokenCredential(ScramCredential.of_password(SHA256, "hmac"), user("bob"), 5000)


class Known:
    def scram(self, mechanism: str, name: str) -> ScramCredential | None:
        return CREDENTIALS[mechanism] if name in ("alice", "a=b,c") else None

    def token(self, mechanism: str, token_id: str) -> TokenCredential | None:
        return TOKEN if token_id == "token-1" else None

    def shapes(self, mechanism: str) -> set[ScramShape]:
        found = CREDENTIALS[mechanism]
        return {ScramShape(len(found.salt), found.iterations)}


def server(max_reauth_ms: int = 0) -> SaslServer:
    plain = PlainMechanism({"alice": "secret", "bob": "x"}, max_reauth_ms=max_reauth_ms)
    scrams = [
        ScramMechanism(name, Known(), secret=SECRET, max_reauth_ms=max_reauth_ms)
        for name in CREDENTIALS
    ]
    return SaslServer({plain.name: plain, **{scram.name: scram for scram in scrams}})


def plain_token(name: str, password: str, authzid: str = "") -> bytes:
    return f"{authzid}\0{name}\0{password}".encode()


def scram_login(
    name: str, password: str, mechanism: str = SHA256, now_ms: int = 0, token: bool = False
) -> tuple[SaslServer, KafkaError | None]:
    connection = server()
    assert connection.handshake(mechanism, now_ms) is ErrorCode.NONE
    client = ScramClient(mechanism, name, password, token=token)
    challenge = connection.authenticate(client.first(), now_ms, now_ms)
    assert challenge.error is ErrorCode.NONE
    outcome = connection.authenticate(client.final(challenge.token), now_ms, now_ms)
    if outcome.error:
        assert not outcome.done
        return connection, KafkaError(outcome.error, outcome.message or "")
    client.verify(outcome.token)
    assert outcome.done
    return connection, None


def test_a_principal_is_its_text() -> None:
    assert str(user("alice")) == "User:alice"
    assert Principal.parse("User:CN=a:b,O=c") == user("CN=a:b,O=c")
    assert str(ANONYMOUS) == "User:ANONYMOUS"
    assert Principal("User", "a", token_authenticated=True) == user("a")
    for text in ("alice", ":alice", "User:", ""):
        with pytest.raises(ValueError):
            Principal.parse(text)


def test_plain_lets_a_user_in() -> None:
    connection = server()
    assert connection.handshake("PLAIN", 0) is ErrorCode.NONE
    outcome = connection.authenticate(plain_token("alice", "secret", "alice"), 0, 0)
    assert (outcome.done, outcome.principal, outcome.session_lifetime_ms) == (
        True,
        user("alice"),
        0,
    )
    assert connection.principal == user("alice")


def test_plain_does_not_reveal_whether_a_user_exists() -> None:
    messages = set()
    for name, password in (("alice", "wrong"), ("nobody", "secret"), ("alice", "secre")):
        connection = server()
        connection.handshake("PLAIN", 0)
        outcome = connection.authenticate(plain_token(name, password), 0, 0)
        assert outcome.error is FAILED
        assert connection.principal is None
        messages.add(outcome.message)
    assert messages == {"Authentication failed: Invalid username or password"}


@pytest.mark.parametrize(
    "token",
    [
        b"",
        b"alice\0secret",
        b"\0alice\0secret\0more",
        b"\0\0secret",
        b"\0alice\0",
        b"\0\xff\0secret",
        b"\0\0\0",
    ],
)
def test_plain_refuses_malformed_logins(token: bytes) -> None:
    connection = server()
    connection.handshake("PLAIN", 0)
    assert connection.authenticate(token, 0, 0).error is FAILED


def test_cve_2017_12610_no_user_acts_for_another() -> None:
    connection = server()
    connection.handshake("PLAIN", 0)
    outcome = connection.authenticate(plain_token("bob", "x", authzid="alice"), 0, 0)
    assert outcome.error is FAILED
    assert outcome.principal is None
    connection = server()
    connection.handshake(SHA256, 0)
    assert connection.authenticate(b"n,a=bob,n=alice,r=abc", 0, 0).error is FAILED


@pytest.mark.parametrize("mechanism", list(CREDENTIALS))
@pytest.mark.parametrize("name", ["alice", "a=b,c"])
def test_scram_lets_a_user_in(mechanism: str, name: str) -> None:
    connection, error = scram_login(name, "pencil", mechanism)
    assert error is None
    assert connection.principal == user(name)


def test_scram_does_not_reveal_whether_a_user_exists() -> None:
    _, wrong_password = scram_login("alice", "pen")
    _, wrong_user = scram_login("nobody", "pencil")
    assert wrong_password is not None
    assert wrong_user is not None
    assert wrong_password.message == wrong_user.message


def test_an_unknown_user_gets_the_same_salt_on_each_attempt() -> None:
    challenges = set()
    for _ in range(2):
        connection = server()
        connection.handshake(SHA256, 0)
        text = connection.authenticate(b"n,,n=nobody,r=abc", 0, 0).token.decode()
        challenges.add(text.partition(",")[2])
    assert len(challenges) == 1
    assert challenges.pop().endswith(",i=4096")


class ShapedUsers(Known):
    """Users that two tools made: Kafka's, and one with longer salts."""

    found: frozenset[ScramShape] = frozenset({ScramShape(26, 4096), ScramShape(64, 8192)})

    def shapes(self, mechanism: str) -> set[ScramShape]:
        return set(self.found)


def challenged(users: Known, name: str, extension: str = "") -> tuple[int, int]:
    """(bytes of the salt, iterations)."""
    exchange = ScramServerExchange(SHA256, users, SECRET)
    text = exchange.step(f"n,,n={name},r=abc{extension}".encode(), 0).token.decode()
    said = dict(part.split("=", 1) for part in text.split(","))
    return len(base64.b64decode(said["s"])), int(said["i"])


def test_an_unknown_user_looks_like_a_known_one() -> None:
    users = ShapedUsers()
    seen = {name: challenged(users, name) for name in (f"nobody-{number}" for number in range(40))}
    assert set(seen.values()) == {(26, 4096), (64, 8192)}
    assert {name: challenged(users, name) for name in seen} == seen  # the same on each attempt
    # With a third mechanism most of the other users keep their fake salt.
    users.found |= {ScramShape(200, 16384)}
    kept = [name for name in seen if challenged(users, name) == seen[name]]
    assert len(seen) / 3 < len(kept) < len(seen)
    for name in set(seen) - set(kept):
        assert challenged(users, name) == (200, 16384)


def test_an_unknown_token_looks_like_a_known_one() -> None:
    users, tokenauth = ShapedUsers(), ",tokenauth=true"
    real = challenged(users, "token-1", tokenauth)
    assert {challenged(users, f"t{number}", tokenauth) for number in range(9)} == {real}


def test_cve_2024_56128_an_old_proof_is_refused() -> None:
    """The final message of another exchange carries its nonce, not the one of this exchange."""
    client = ScramClient(SHA256, "alice", "pencil", "mine")
    first = ScramServerExchange(SHA256, Known(), SECRET, "theirs")
    proof = client.final(first.step(client.first(), 0).token)
    assert first.step(proof, 0).principal == user("alice")
    second = ScramServerExchange(SHA256, Known(), SECRET, "other")
    second.step(client.first(), 0)
    with pytest.raises(KafkaError):
        second.step(proof, 0)
    # The same proof with the nonce of this exchange is wrong, too.
    third = ScramServerExchange(SHA256, Known(), SECRET, "other")
    third.step(client.first(), 0)
    with pytest.raises(KafkaError):
        third.step(proof.replace(b"minetheirs", b"mineother"), 0)


@pytest.mark.parametrize(
    "first",
    [
        b"",
        b"p=tls-unique,,n=alice,r=x",
        b"y,,n=alice,r=x",
        b"n,,n=alice",
        b"n,,n=,r=x",
        b"n,,n=al=ice,r=x",
        b"n,,n=alice,r=",
        b"\xff\xfe",
        b"n,,m=ext,n=alice,r=x",
    ],
)
def test_scram_refuses_a_malformed_first_message(first: bytes) -> None:
    connection = server()
    connection.handshake(SHA256, 0)
    assert connection.authenticate(first, 0, 0).error is FAILED


@pytest.mark.parametrize("final", [b"", b"c=biws,r=x", b"c=biws,r=minetheirs,p=AAAA", b"\xff"])
def test_scram_refuses_a_malformed_final_message(final: bytes) -> None:
    exchange = ScramServerExchange(SHA256, Known(), SECRET, "theirs")
    exchange.step(b"n,,n=alice,r=mine", 0)
    with pytest.raises(KafkaError):
        exchange.step(final, 0)


def test_scram_refuses_another_channel_binding() -> None:
    exchange = ScramServerExchange(SHA256, Known(), SECRET, "theirs")
    client = ScramClient(SHA256, "alice", "pencil", "mine")
    final = client.final(exchange.step(client.first(), 0).token)
    with pytest.raises(KafkaError):
        exchange.step(final.replace(b"c=biws", b"c=eSws"), 0)


def test_a_delegation_token_stands_for_its_owner_until_it_expires() -> None:
    connection, error = scram_login("token-1", "hmac", token=True, now_ms=1000)
    assert error is None
    assert connection.principal == user("bob")
    assert connection.principal is not None
    assert connection.principal.token_authenticated
    assert connection.expires_at_ms == 5000
    for name, now_ms in (("token-1", 5000), ("token-2", 0)):
        _, error = scram_login(name, "hmac", token=True, now_ms=now_ms)
        assert error is not None
    _, error = scram_login("token-1", "hmac")  # without the extension it is the name of a user
    assert error is not None


def test_a_handshake_names_what_is_enabled() -> None:
    connection = server()
    assert connection.handshake("GSSAPI", 0) is ErrorCode.UNSUPPORTED_SASL_MECHANISM
    assert connection.mechanisms == ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]
    assert connection.handshake("PLAIN", 0) is ErrorCode.NONE
    assert connection.handshake("PLAIN", 0) is ErrorCode.ILLEGAL_SASL_STATE


def test_a_token_without_a_handshake_is_out_of_turn() -> None:
    connection = server()
    assert connection.authenticate(b"\0alice\0secret", 0, 0).error is ErrorCode.ILLEGAL_SASL_STATE
    connection.handshake("PLAIN", 0)
    connection.authenticate(b"\0alice\0secret", 0, 0)
    assert connection.authenticate(b"\0alice\0secret", 0, 0).error is ErrorCode.ILLEGAL_SASL_STATE
    assert connection.principal == user("alice")


def test_a_session_ends_and_is_renewed() -> None:
    """KIP-368."""
    connection = server(max_reauth_ms=60_000)
    connection.handshake("PLAIN", 0)
    assert connection.authenticate(b"\0alice\0secret", 0, 0).session_lifetime_ms == 60_000
    assert not connection.expired(59_999)
    assert connection.expired(60_000)
    assert connection.handshake("PLAIN", 60_001) is ErrorCode.NONE
    assert connection.authenticate(b"\0alice\0secret", 60_002, 60_002).done
    assert connection.expires_at_ms == 120_002
    assert connection.handshake("PLAIN", 60_900) is ErrorCode.ILLEGAL_SASL_STATE
    assert connection.handshake("PLAIN", 61_001) is ErrorCode.NONE


def test_a_session_ignores_changes_of_the_wall_clock() -> None:
    """Found by a storm: a broker whose clock was set back refused every renewal."""
    connection = server(max_reauth_ms=60_000)
    connection.handshake("PLAIN", 0)
    connection.authenticate(b"\0alice\0secret", 1_000_000, 0)
    assert connection.handshake("PLAIN", 50_000) is ErrorCode.NONE
    assert connection.authenticate(b"\0alice\0secret", 995_000, 50_000).done
    assert connection.expires_at_ms == 110_000
    assert connection.handshake("PLAIN", 51_000) is ErrorCode.NONE


def test_reauthentication_cannot_change_the_principal() -> None:
    connection = server()
    connection.handshake("PLAIN", 0)
    connection.authenticate(b"\0alice\0secret", 0, 0)
    connection.handshake("PLAIN", 5000)
    outcome = connection.authenticate(b"\0bob\0x", 5000, 5000)
    assert outcome.error is FAILED
    assert connection.principal is None
    assert outcome.message == (
        "Cannot change principals during re-authentication from User.alice: User.bob"
    )


def test_reauthentication_cannot_change_the_mechanism() -> None:
    connection = server()
    connection.handshake("PLAIN", 0)
    connection.authenticate(b"\0alice\0secret", 0, 0)
    assert connection.handshake(SHA256, 5000) is ErrorCode.NONE
    outcome = connection.authenticate(ScramClient(SHA256, "alice", "pencil").first(), 5000, 5000)
    assert outcome.error is FAILED
    assert outcome.message is not None
    assert "re-authentication of mechanism 'PLAIN'" in outcome.message


def test_a_credential_is_stored_in_kafkas_form() -> None:
    kept = ScramCredential.of_password(SHA256, "p", salt=b"salt", iterations=8192)
    assert str(kept).startswith("salt=c2FsdA==,stored_key=")
    assert str(kept).endswith(",iterations=8192")
    assert ScramCredential.parse(str(kept)) == kept
    for text in ("", "salt=x", "salt=c2FsdA==,stored_key=!,server_key=,iterations=1"):
        with pytest.raises(ValueError):
            ScramCredential.parse(text)
