"""Unauthenticated clients that send anything: none passes; at worst their connection closes."""

from __future__ import annotations

import base64
import json
import struct
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.auth.bearer_token import OAuthBearerMechanism
from ottla.auth.jwt_validator import (
    JwtRules,
    SignedJwtValidator,
    UnsecuredJwtValidator,
    VerificationKey,
)
from ottla.auth.plain import PlainMechanism
from ottla.auth.sasl import SaslOutcome, SaslServer
from ottla.auth.sasl_client import SASL_CLIENT_MECHANISMS, BearerToken, SaslLogin
from ottla.auth.scram_server import ScramMechanism
from ottla.broker.authentication import SaslAuthentication
from ottla.broker.authentication_counts import AuthenticationCounts
from ottla.broker.client_session import ClientSession
from ottla.errors import KafkaError
from ottla.testing import ManualClock
from ottla.wire.connection import Connection, ProtocolError
from ottla.wire.messages.api_versions import ApiVersionsResponse

FRAME_BYTES_MAX = 2000


class NoUsers:
    def scram(self, mechanism: str, name: str) -> None:
        return None

    def token(self, mechanism: str, token_id: str) -> None:
        return None

    def shapes(self, mechanism: str) -> tuple[()]:
        return ()


def new_gate() -> SaslAuthentication:
    mechanisms: dict[str, Any] = {
        "PLAIN": PlainMechanism({"alice": "a secret that nobody guesses"}),
        "SCRAM-SHA-256": ScramMechanism("SCRAM-SHA-256", NoUsers(), secret=b"s"),
    }
    return SaslAuthentication(
        ClientSession(listener="SASL", client_host="h", client_port=1),
        SaslServer(mechanisms),
        frame_bytes_max=FRAME_BYTES_MAX,
        delay_ms=0,
        clock=ManualClock(0),
        versions=lambda session, request: ApiVersionsResponse(),
        counts=AuthenticationCounts(),
    )


def handshake(mechanism: bytes, version: int) -> bytes:
    body = struct.pack(">hhihh", 17, version, 0, -1, len(mechanism)) + mechanism
    return struct.pack(">i", len(body)) + body


def authenticate(token: bytes) -> bytes:
    body = struct.pack(">hhihi", 36, 1, 0, -1, len(token)) + token
    return struct.pack(">i", len(body)) + body


TOKENS = st.binary(max_size=200) | st.sampled_from(
    [
        b"\0alice\0",
        b"\0\0\0",
        b"n,,n=alice,r=abc",
        b"n,a=root,n=alice,r=abc",
        b"c=biws,r=abc,p=AAAA",
    ]
)
STEPS = st.one_of(
    st.binary(max_size=100),
    TOKENS.map(authenticate),
    TOKENS.map(lambda token: struct.pack(">i", len(token)) + token),
    st.tuples(st.sampled_from([b"PLAIN", b"SCRAM-SHA-256", b"GSSAPI", b""]), st.integers(0, 2)).map(
        lambda pair: handshake(*pair)
    ),
)


def play(wire: Connection, gate: SaslAuthentication, data: bytes) -> None:
    """Feeds bytes as a connection does, until the gate closes."""
    room = wire.get_buffer(len(data))
    room[: len(data)] = data
    wire.received(len(data))
    while not gate.failed:
        bare = gate.raw
        request = wire.next_token() if bare else wire.next_request()
        if request is None:
            return
        answer = gate.serve(request)
        parts = wire.reply_token(request, answer) if bare else wire.reply(request, answer)
        assert sum(len(part) for part in parts) < FRAME_BYTES_MAX


@given(st.lists(STEPS, max_size=8))
def test_no_client_authenticates_without_the_password(steps: list[bytes]) -> None:
    gate = new_gate()
    wire = Connection(gate.served, frame_bytes_max=FRAME_BYTES_MAX)
    try:
        for step in steps:
            play(wire, gate, step)
            if gate.failed:
                break
    except ProtocolError:
        pass
    assert not gate.passed
    assert str(gate._session.principal) == "User:ANONYMOUS"


# Tokens of OAUTHBEARER

EXAMPLES = 150
NOW_MS = 1_700_000_000_000
RULES = JwtRules(audiences=("kafka",), issuer="https://idp")
GOOD = {"sub": "alice", "iat": 1_699_999_990, "exp": 1_700_000_100}
GOOD |= {"iss": "https://idp", "aud": "kafka"}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)
NAMES = st.sampled_from([*GOOD, "nbf", "scope", "kid", "alg", "crit", "b64", "typ", "jwk", "x5u"])
ALGORITHMS = st.sampled_from(["none", "RS256", "ES256", "HS256", "EdDSA", "PS512", ""])


def part(value: object) -> str:
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


HEADERS = st.builds(
    lambda more, algorithm: {**more, "alg": algorithm},
    st.dictionaries(NAMES, JSON, max_size=3),
    ALGORITHMS,
)
CLAIMS = st.dictionaries(NAMES, JSON, max_size=4).map(lambda changed: {**GOOD, **changed})
JWTS = st.one_of(
    st.builds(lambda *parts: ".".join(map(part, parts)), HEADERS, CLAIMS, st.binary(max_size=300)),
    st.builds(
        lambda *parts: ".".join(map(part, parts)),
        st.binary(max_size=50),
        st.binary(max_size=50),
        st.binary(max_size=50),
    ),
    st.text(max_size=60),
)
FIRST = st.one_of(
    JWTS.map(lambda token: f"n,,\x01auth=Bearer {token}\x01\x01"),
    st.builds(
        lambda header, name, token, end: f"{header}{name}={token}{end}",
        st.sampled_from(["n,,\x01", "n,a=alice,\x01", "y,,\x01", "p=tls,,\x01", "\x01", ""]),
        st.sampled_from(["auth", "Auth", "host", "auth=Bearer"]),
        JWTS,
        st.sampled_from(["\x01\x01", "\x01", "", "\x01auth=Bearer x\x01\x01"]),
    ),
).map(lambda text: text.encode(errors="surrogatepass")) | st.binary(max_size=100)


@pytest.fixture(scope="module")
def signed_tokens() -> tuple[SignedJwtValidator, str]:
    """A validator, and one token that it accepts."""
    jwt = pytest.importorskip("jwt", reason="needs PyJWT and cryptography (make setup)")
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())

    class OneKey:
        def find(self, key_id: str | None, now_ms: int) -> VerificationKey | None:
            return VerificationKey("EC", None, key.public_key())

    token = jwt.encode(GOOD, key, algorithm="ES256", headers={"kid": "k"})
    return SignedJwtValidator(OneKey(), RULES), str(token)


def bear(validator: Any, first: bytes) -> SaslOutcome:
    server = SaslServer({"OAUTHBEARER": OAuthBearerMechanism(validator)})
    server.handshake("OAUTHBEARER", NOW_MS)
    outcome = server.authenticate(first, NOW_MS, NOW_MS)
    if not outcome.done and not outcome.error:
        assert json.loads(outcome.token)["status"]
        outcome = server.authenticate(b"\x01", NOW_MS, NOW_MS)
    assert outcome.done != bool(outcome.error)
    return outcome


def test_the_unmodified_tokens_are_accepted(
    signed_tokens: tuple[SignedJwtValidator, str],
) -> None:
    validator, token = signed_tokens
    assert bear(validator, f"n,,\x01auth=Bearer {token}\x01\x01".encode()).done
    unsigned = f"{part({'alg': 'none'})}.{part(GOOD)}."
    first = f"n,,\x01auth=Bearer {unsigned}\x01\x01".encode()
    assert bear(UnsecuredJwtValidator(RULES), first).done


@settings(max_examples=EXAMPLES, deadline=None)
@given(first=FIRST)
def test_a_token_of_an_unknown_issuer_is_refused(
    signed_tokens: tuple[SignedJwtValidator, str], first: bytes
) -> None:
    assert bear(signed_tokens[0], first).error


@settings(max_examples=EXAMPLES, deadline=None)
@given(data=st.data())
def test_a_modified_signed_token_is_refused(
    signed_tokens: tuple[SignedJwtValidator, str], data: st.DataObject
) -> None:
    validator, token = signed_tokens
    head, body, signature = token.split(".")
    which = data.draw(st.sampled_from(["header", "claims", "signature", "character"]))
    if which == "header":
        head = part(data.draw(HEADERS))
    elif which == "claims":
        body = part({**data.draw(CLAIMS), "sub": "root"})
    elif which == "signature":
        signature = part(data.draw(st.binary(max_size=80)))
    else:
        # The last character of a part may have bits that mean nothing.
        place = data.draw(st.integers(0, len(body) - 2))
        body = body[:place] + ("A" if body[place] != "A" else "B") + body[place + 1 :]
    outcome = bear(validator, f"n,,\x01auth=Bearer {head}.{body}.{signature}\x01\x01".encode())
    assert outcome.error


@settings(max_examples=EXAMPLES, deadline=None)
@given(header=HEADERS, claims=CLAIMS)
def test_an_unsecured_token_has_a_name_or_is_refused(
    header: dict[str, Any], claims: dict[str, Any]
) -> None:
    """Any claims are accepted or refused, and never raise an exception."""
    first = f"n,,\x01auth=Bearer {part(header)}.{part(claims)}.\x01\x01".encode()
    outcome = bear(UnsecuredJwtValidator(RULES), first)
    if outcome.done:
        assert outcome.principal is not None
        assert outcome.principal.name == claims["sub"].strip()


# A broker that sends anything

ANSWERS = st.binary(max_size=60) | st.builds(
    lambda nonce, salt, iterations: f"r={nonce},s={salt},i={iterations}".encode(),
    st.text(max_size=8),
    st.sampled_from(["c2FsdA==", "", "!", "\u00e9"]),
    st.sampled_from(["1", "0", "-1", "x", "9" * 30, ""]),
)


# tests/compat/test_kerberos_tokens.py has GSSAPI, which needs a KDC.
WITHOUT_TICKETS = [name for name in SASL_CLIENT_MECHANISMS if name != "GSSAPI"]


@settings(max_examples=EXAMPLES, deadline=None)
@given(mechanism=st.sampled_from(WITHOUT_TICKETS), answers=st.lists(ANSWERS, max_size=4))
def test_a_client_refuses_a_broker_with_malformed_answers(
    mechanism: str, answers: list[bytes]
) -> None:
    login = SaslLogin(mechanism, "alice", "secret")
    exchange = login.exchange(BearerToken("a.b.c", "alice", 1.0, 0.0))
    assert next(exchange)
    try:
        for answer in answers:
            exchange.send(answer)
    except KafkaError:
        return
    except StopIteration:
        assert mechanism in ("PLAIN", "OAUTHBEARER")
