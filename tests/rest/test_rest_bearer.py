"""Bearer tokens of a REST server: accepted and refused ones, and invalid settings."""

from __future__ import annotations

import base64
import hmac
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from ottla.errors import KafkaError
from ottla.rest.guard import RestGuard, Right, caller_of
from ottla.rest.hypercorn_server import HypercornServer
from ottla.rest.settings import access_of
from ottla.rest.users import hash_password

KEY = ec.generate_private_key(ec.SECP256R1())
OTHER_KEY = ec.generate_private_key(ec.SECP256R1())
URL = "sasl.oauthbearer.jwks.endpoint.url"


def write_keys(path: Path, **keys: Any) -> str:
    listed = [
        json.loads(jwt.algorithms.ECAlgorithm.to_jwk(key.public_key())) | {"kid": name}
        for name, key in keys.items()
    ]
    path.write_text(json.dumps({"keys": listed}))
    return path.as_uri()


def claims(**more: Any) -> dict[str, Any]:
    now = int(time.time())
    return {"sub": "ann", "aud": "registry", "iat": now, "exp": now + 60} | more


def signed(key: Any = KEY, kid: str = "a", algorithm: str = "ES256", **more: Any) -> str:
    token: str = jwt.encode(claims(**more), key, algorithm, headers={"kid": kid})
    return token


def by_secret(secret: bytes) -> str:
    """HS256 with a public key as the secret: PyJWT refuses to make such a token."""
    parts = ({"alg": "HS256", "kid": "a"}, claims())
    text = ".".join(encoded(json.dumps(part).encode()) for part in parts)
    return f"{text}.{encoded(hmac.digest(secret, text.encode(), 'sha256'))}"


def encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def properties(folder: Path, **more: str) -> dict[str, str]:
    return {
        "authentication.method": "BEARER",
        URL: write_keys(folder / "keys.json", a=KEY),
        "sasl.oauthbearer.expected.audience": "registry",
        "sasl.oauthbearer.expected.issuer": "",
    } | {name.replace("_", "."): value for name, value in more.items()}


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    async def anything(request: Request) -> Response:
        user = caller_of(request.scope)
        return PlainTextResponse(user.name if user else "nobody")

    users = tmp_path / "users.properties"
    users.write_text(f"rob={hash_password('letmein')},read-only\n")
    given = properties(
        tmp_path,
        authentication_method="BASIC,BEARER",
        ottla_authentication_users_file=str(users),
    )
    del given["sasl.oauthbearer.expected.issuer"]
    guard = RestGuard(
        Starlette(routes=[Route("/", anything, methods=["GET", "POST"])]),
        access_of(given, realm="test"),
        needs=lambda method, path: Right.READ if method == "GET" else Right.CHANGE,
        refuse=lambda status, message: PlainTextResponse(message, status),
    )
    with HypercornServer(guard) as serving:
        yield serving.url


def get(url: str, token: str) -> httpx.Response:
    return httpx.get(url, headers={"Authorization": f"Bearer {token}"})


def test_a_signed_token_authenticates_its_user(url: str) -> None:
    answer = get(url, signed())
    assert (answer.status_code, answer.text) == (200, "ann")
    assert httpx.post(url, headers={"Authorization": f"Bearer {signed()}"}).status_code == 200
    assert httpx.get(url, auth=("rob", "letmein")).text == "rob"
    assert httpx.post(url, auth=("rob", "letmein")).status_code == 403


def test_a_token_without_a_trusted_signature_is_refused(url: str) -> None:
    public = KEY.public_key().public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    now = int(time.time())
    for token in (
        jwt.encode(claims(), None, "none"),
        by_secret(public),
        signed(OTHER_KEY),
        signed(kid="unknown"),
        signed(exp=now - 3600),
        signed(aud="others"),
        signed(sub=""),
        signed() + "x",
        "not-a-token",
    ):
        answer = get(url, token)
        assert answer.status_code == 401, token
        assert answer.headers.get_list("www-authenticate") == [
            'Basic realm="test", charset="UTF-8"',
            'Bearer realm="test"',
        ]


def test_a_new_key_of_the_provider_is_found_at_once(url: str, tmp_path: Path) -> None:
    write_keys(tmp_path / "keys.json", b=OTHER_KEY)  # before the first request for keys
    assert get(url, signed(OTHER_KEY, "b")).status_code == 200
    assert get(url, signed()).status_code == 401


@pytest.mark.parametrize(
    "wrong",
    [
        {URL: None},
        {URL: "http://idp.example.org/keys"},
        {"ottla.sasl.oauthbearer.unsecured": "true"},
        {"authentication.roles": "admin"},
        {"authentication.method": "BEARER,NONE"},
        {"authentication.method": "DIGEST"},
        {"sasl.oauthbearer.clock.skew.seconds": "long"},
    ],
)
def test_unverifiable_settings_prevent_the_start(
    tmp_path: Path, wrong: dict[str, str | None]
) -> None:
    given = {**properties(tmp_path), **wrong}
    with pytest.raises(KafkaError):
        access_of({name: value for name, value in given.items() if value is not None}, realm="test")
