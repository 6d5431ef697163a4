"""OAUTHBEARER on a broker: where keys come from, and what prevents the start."""

from __future__ import annotations

import asyncio
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from test_authentication import Rig, run

from ottla.config import ConfigError

pytest.importorskip("jwt", reason="needs PyJWT and cryptography (make setup)")
import test_oauthbearer as oauth

URL = "sasl_oauthbearer_jwks_endpoint_url"
ONLY = {"sasl_enabled_mechanisms": "OAUTHBEARER", "inter_broker_listener_name": "PLAINTEXT"}


async def login(rig: Rig, token: str) -> Any:
    client = await rig.connect()
    assert (await client.handshake("OAUTHBEARER")).error_code == 0
    answer = await client.token(oauth.first(token))
    if answer.auth_bytes and not answer.error_code:
        answer = await client.token(b"\x01")
    return answer


async def until_known(rig: Rig) -> None:
    for keys in rig.broker._security._oauth._keys.values():
        await keys.settled()


def test_keys_from_a_file(tmp_path: Path) -> None:
    url = oauth.write_keys(tmp_path / "keys.json", oauth.jwk(oauth.RSA_KEY, "r"))

    async def test(rig: Rig) -> None:
        await until_known(rig)
        answer = await login(rig, oauth.signed(oauth.CLAIMS))
        assert answer.error_code == 0
        assert answer.session_lifetime == 100_000
        assert (await login(rig, oauth.signed(oauth.CLAIMS, oauth.OTHER_KEY))).error_code == 58
        assert (await login(rig, oauth.unsigned(oauth.CLAIMS))).error_code == 58

    run(tmp_path / "logs", test, **{URL: url}, **ONLY)


def test_a_new_key_of_the_provider_is_found(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    url = oauth.write_keys(path, oauth.jwk(oauth.RSA_KEY, "r"))

    async def test(rig: Rig) -> None:
        await until_known(rig)
        oauth.write_keys(path, oauth.jwk(oauth.EC_KEY, "e"))
        token = oauth.signed(oauth.CLAIMS, oauth.EC_KEY, "e", "ES256")
        assert (
            await login(rig, token)
        ).error_code == 58  # and makes the broker fetch the keys again
        await until_known(rig)
        assert (await login(rig, token)).error_code == 0
        assert (await login(rig, oauth.signed(oauth.CLAIMS))).error_code == 58
        path.write_text("no keys at all")
        rig.clock.advance(3_600_001)
        rig.broker._security.refresh()
        await until_known(rig)
        claims = {**oauth.CLAIMS, "exp": oauth.NOW_S + 9000}
        token = oauth.signed(claims, oauth.EC_KEY, "e", "ES256")
        assert (await login(rig, token)).error_code == 0  # the known keys are kept

    run(tmp_path / "logs", test, **{URL: url}, **ONLY)


class Provider(BaseHTTPRequestHandler):
    body = b""
    redirect = ""

    def do_GET(self) -> None:
        self.send_response(302 if self.redirect else 200)
        if self.redirect:
            self.send_header("Location", self.redirect)
        self.end_headers()
        self.wfile.write(self.body)

    def log_message(self, *_: Any) -> None:
        pass


def test_keys_over_http_and_no_redirects(tmp_path: Path) -> None:
    secret = oauth.write_keys(tmp_path / "keys.json", oauth.jwk(oauth.RSA_KEY, "r"))
    server = HTTPServer(("127.0.0.1", 0), Provider)
    thread = Thread(target=server.serve_forever)
    thread.start()
    Provider.body = (tmp_path / "keys.json").read_bytes()
    url = f"http://127.0.0.1:{server.server_port}/keys"

    async def found(rig: Rig) -> None:
        await until_known(rig)
        assert (await login(rig, oauth.signed(oauth.CLAIMS))).error_code == 0

    async def not_followed(rig: Rig) -> None:
        await until_known(rig)
        assert (await login(rig, oauth.signed(oauth.CLAIMS))).error_code == 58

    try:
        run(tmp_path / "a", found, **{URL: url}, **ONLY)
        Provider.redirect = secret
        run(tmp_path / "b", not_followed, **{URL: url}, **ONLY)
    finally:
        Provider.redirect = ""
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.parametrize(
    "properties",
    [
        {},
        {URL: "http://example.com/keys"},
        {URL: "https://idp/keys", "ottla_sasl_oauthbearer_unsecured": "true"},
    ],
)
def test_invalid_settings_prevent_the_start(tmp_path: Path, properties: dict[str, str]) -> None:
    async def never(rig: Rig) -> None:
        raise AssertionError

    with pytest.raises(ConfigError):
        run(tmp_path, never, **properties, **ONLY)


def test_unsecured_tokens_must_be_enabled(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def test(rig: Rig) -> None:
        assert (await login(rig, oauth.unsigned(oauth.CLAIMS))).error_code == 0
        await asyncio.sleep(0)

    run(tmp_path, test, ottla_sasl_oauthbearer_unsecured="true", **ONLY)
    assert "clients can claim to be any user" in caplog.text
