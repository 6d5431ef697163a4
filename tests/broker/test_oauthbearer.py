"""OAUTHBEARER: messages, tokens, keys. Each token of an attacker is refused."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from pathlib import Path
from typing import Any

import pytest

from ottla.auth.bearer_token import OAuthBearerMechanism
from ottla.auth.jwt_validator import (
    JwtRules,
    SignedJwtValidator,
    UnsecuredJwtValidator,
    VerificationKey,
)
from ottla.auth.principal import user
from ottla.auth.sasl import SaslOutcome, SaslServer
from ottla.errors import ErrorCode

jwt = pytest.importorskip("jwt", reason="needs PyJWT and cryptography (make setup)")
ec = pytest.importorskip("cryptography.hazmat.primitives.asymmetric.ec")
rsa = pytest.importorskip("cryptography.hazmat.primitives.asymmetric.rsa")

NOW_S = 1_700_000_000
NOW_MS = NOW_S * 1000
CLAIMS = {"sub": "alice", "iat": NOW_S - 10, "exp": NOW_S + 100}
RSA_KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
EC_KEY = ec.generate_private_key(ec.SECP256R1())
OTHER_KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)


def jwk(key: Any, key_id: str, **more: str) -> dict[str, str]:
    kind = jwt.algorithms.RSAAlgorithm if isinstance(key, rsa.RSAPrivateKey) else None
    kind = kind or jwt.algorithms.ECAlgorithm
    return {**json.loads(kind.to_jwk(key.public_key())), "kid": key_id, **more}


class Keys:
    def __init__(self) -> None:
        self.asked: list[str | None] = []
        self.keys = {
            "r": VerificationKey("RSA", None, RSA_KEY.public_key()),
            "r256": VerificationKey("RSA", "RS256", RSA_KEY.public_key()),
            "e": VerificationKey("EC", None, EC_KEY.public_key()),
        }

    def find(self, key_id: str | None, now_ms: int) -> VerificationKey | None:
        self.asked.append(key_id)
        return self.keys.get(key_id or "")


def signed(claims: dict[str, Any], key: Any = RSA_KEY, kid: str = "r", alg: str = "RS256") -> str:
    return str(jwt.encode(claims, key, algorithm=alg, headers={"kid": kid}))


def unsigned(claims: dict[str, Any], alg: str = "none", signature: bytes = b"") -> str:
    def part(value: object) -> str:
        data = value if isinstance(value, bytes) else json.dumps(value).encode()
        return base64.urlsafe_b64encode(data).rstrip(b"=").decode()

    return f"{part({'alg': alg, 'kid': 'r'})}.{part(claims)}.{part(signature)}"


def first(token: str, before: str = "n,,", after: str = "\x01") -> bytes:
    return f"{before}\x01auth=Bearer {token}\x01{after}".encode()


def login(message: bytes, validator: Any = None, now_ms: int = NOW_MS) -> SaslOutcome:
    server = SaslServer(
        {"OAUTHBEARER": OAuthBearerMechanism(validator or SignedJwtValidator(Keys(), JwtRules()))}
    )
    assert server.handshake("OAUTHBEARER", now_ms) is ErrorCode.NONE
    outcome = server.authenticate(message, now_ms, now_ms)
    if outcome.token and not outcome.done:
        assert json.loads(outcome.token)["status"] == "invalid_token"
        outcome = server.authenticate(b"\x01", now_ms, now_ms)
        assert outcome.error is ErrorCode.SASL_AUTHENTICATION_FAILED
    return outcome


def test_a_signed_token_lets_its_subject_in_until_it_expires() -> None:
    for token in (
        signed(CLAIMS),
        signed(CLAIMS, alg="PS256"),
        signed(CLAIMS, kid="r256"),
        signed(CLAIMS, EC_KEY, "e", "ES256"),
    ):
        outcome = login(first(token))
        assert outcome.principal == user("alice")
        assert outcome.session_lifetime_ms == 100_000
    assert login(first(signed(CLAIMS), "n,a=alice,")).done
    assert login(first(signed(CLAIMS), after="traceId=1\x01\x01")).done


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"n,,\x01\x01",
        b"n,,\x01auth=Basic x\x01\x01",
        b"n,,\x01auth=Bearer \x01\x01",
        b"n,,\x01auth=Bearer x\x01",
        b"y,,\x01auth=Bearer x\x01\x01",
        b"n,,\x01auth=Bearer x\x01auth=Bearer y\x01\x01",
        b"\xff\xfe",
        b"n,,\x01auth=Bearer " + b"x" * 70_000 + b"\x01\x01",
    ],
)
def test_a_malformed_first_message_is_refused(message: bytes) -> None:
    assert login(message).error is ErrorCode.SASL_AUTHENTICATION_FAILED


def test_an_authzid_of_another_user_is_refused() -> None:
    assert login(first(signed(CLAIMS), "n,a=bob,")).error


@pytest.mark.parametrize("alg", ["none", "None", "NONE", ""])
def test_cve_2026_33557_a_token_without_a_signature_is_refused(alg: str) -> None:
    assert login(first(unsigned(CLAIMS, alg))).error
    assert login(first(unsigned(CLAIMS, alg, b"x"))).error


def test_a_public_key_is_not_accepted_as_a_shared_secret() -> None:
    """The attack on a verifier that accepts HS256 with its key, which is the public one."""
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    public = RSA_KEY.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    for alg, name in (("HS256", "sha256"), ("HS512", "sha512")):
        body = unsigned(CLAIMS, alg).rpartition(".")[0]
        signature = hmac.new(public, body.encode(), getattr(hashlib, name)).digest()
        encoded = base64.urlsafe_b64encode(signature).rstrip(b"=").decode()
        assert login(first(f"{body}.{encoded}")).error


def test_cve_2026_110985_without_keys_every_token_is_refused() -> None:
    keys = Keys()
    keys.keys = {}
    validator = SignedJwtValidator(keys, JwtRules())
    assert login(first(signed(CLAIMS)), validator).error
    assert login(first(unsigned(CLAIMS)), validator).error


def test_a_token_signed_with_another_key_is_refused() -> None:
    assert login(first(signed(CLAIMS, OTHER_KEY))).error
    assert login(first(signed(CLAIMS, kid="unknown"))).error
    assert login(first(signed(CLAIMS, EC_KEY, "r", "ES256"))).error
    assert login(first(signed(CLAIMS, kid="r256", alg="RS512"))).error
    token = signed(CLAIMS)
    head, body, signature = token.split(".")
    other = unsigned({**CLAIMS, "sub": "admin"}).split(".")[1]
    assert login(first(f"{head}.{other}.{signature}")).error
    assert login(first(f"{head}.{body}.")).error


@pytest.mark.parametrize(
    ("change", "rules"),
    [
        ({"exp": NOW_S - 31}, JwtRules()),
        ({"exp": None}, JwtRules()),
        ({"exp": "tomorrow"}, JwtRules()),
        ({"exp": True}, JwtRules()),
        ({"exp": 2**60}, JwtRules()),
        ({"iat": None}, JwtRules()),
        ({"iat": NOW_S + 31}, JwtRules()),
        ({"nbf": NOW_S + 31}, JwtRules()),
        ({"sub": None}, JwtRules()),
        ({"sub": "  "}, JwtRules()),
        ({"sub": 7}, JwtRules()),
        ({"scope": 7}, JwtRules()),
        ({}, JwtRules(issuer="https://idp")),
        ({"iss": "https://other"}, JwtRules(issuer="https://idp")),
        ({}, JwtRules(audiences=("kafka",))),
        ({"aud": "web"}, JwtRules(audiences=("kafka",))),
        ({"aud": ["web", "app"]}, JwtRules(audiences=("kafka",))),
        ({"aud": {"kafka": 1}}, JwtRules(audiences=("kafka",))),
        ({}, JwtRules(name_claim="email")),
    ],
)
def test_claims_that_are_refused(change: dict[str, Any], rules: JwtRules) -> None:
    claims = {**CLAIMS, **change}
    claims = {name: value for name, value in claims.items() if value is not None}
    assert login(first(unsigned(claims)), UnsecuredJwtValidator(rules)).error


def test_claims_that_are_accepted() -> None:
    rules = JwtRules(audiences=("kafka", "x"), issuer="https://idp", name_claim="email")
    claims = {**CLAIMS, "aud": ["kafka"], "iss": "https://idp", "email": "a@b", "scope": "r w"}
    assert login(first(signed(claims)), SignedJwtValidator(Keys(), rules)).principal == user("a@b")
    late = {**CLAIMS, "exp": NOW_S - 29}
    assert login(first(signed(late))).done  # the clocks may differ by 30 seconds


def test_unsecured_tokens_are_for_tests() -> None:
    unsecured = UnsecuredJwtValidator(JwtRules())
    assert login(first(unsigned(CLAIMS)), unsecured).principal == user("alice")
    assert login(first(signed(CLAIMS)), unsecured).error


@pytest.mark.parametrize(
    "token", ["x", "a.b", "a.b.c", "...", "e30.e30.", "bnVsbA.bnVsbA.", "W10.W10."]
)
def test_malformed_tokens_are_refused(token: str) -> None:
    assert login(first(token)).error
    assert login(first(token), UnsecuredJwtValidator(JwtRules())).error


def test_keys_of_a_document() -> None:
    from ottla.net.jwks import parse_jwks

    found = parse_jwks(
        {
            "keys": [
                jwk(RSA_KEY, "r", alg="RS256"),
                jwk(EC_KEY, "e"),
                jwk(RSA_KEY, "for encryption", use="enc"),
                {"kty": "oct", "k": "c2VjcmV0", "kid": "secret"},
                {"kty": "RSA", "kid": "broken"},
                "nonsense",
            ]
        }
    )
    assert sorted(map(str, found)) == ["e", "r"]
    assert (found["r"].type, found["r"].algorithm) == ("RSA", "RS256")
    for document in ([], {}, {"keys": {}}, None):
        with pytest.raises(ValueError):
            parse_jwks(document)


def test_cve_2025_27817_addresses_of_keys() -> None:
    """CVE-2025-27817: keys come over TLS or from a file that the operator named."""
    from ottla.net.jwks import check_url

    for url in ("https://idp/keys", "file:///etc/keys.json", "http://127.0.0.1:1/k"):
        check_url(url)
    for url in ("http://idp/keys", "ftp://idp/", "file://host/etc/passwd", "keys.json", "https:"):
        with pytest.raises(ValueError):
            check_url(url)


def write_keys(path: Path, *keys: dict[str, str]) -> str:
    path.write_text(json.dumps({"keys": keys}))
    return path.as_uri()
