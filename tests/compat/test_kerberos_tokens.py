"""GSSAPI tokens of all kinds, to a mechanism with a real key and tickets of a real KDC."""

from __future__ import annotations

import logging
import os
import time
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from compat_kerberos import ELSEWHERE, REALM, SERVICE, KerberosRealm
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.auth.gssapi import (
    NO_LAYER,
    REFUSAL,
    GssapiMechanism,
    GssFailure,
    GssStart,
    gssapi_client,
)
from ottla.auth.kerberos_login import KerberosLogin
from ottla.auth.kerberos_short_namer import KerberosShortNamer
from ottla.auth.sasl import SaslOutcome, SaslServer
from ottla.broker.authentication import SaslAuthentication
from ottla.broker.authentication_counts import AuthenticationCounts
from ottla.broker.client_session import ClientSession
from ottla.errors import ErrorCode, KafkaError
from ottla.net.gss_library import GssCredential, gss_library
from ottla.net.kerberos_tickets import KerberosTickets
from ottla.testing import ManualClock
from ottla.wire.connection import Connection
from ottla.wire.messages.api_versions import ApiVersionsResponse

EXAMPLES = 300
ODD = "ev\x1b[2Jil"
HOUR_MS, SKEW_MS = 3_600_000, 300_000

Login = Callable[..., GssStart]


@pytest.fixture(scope="module")
def realm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KerberosRealm]:
    made = KerberosRealm(tmp_path_factory.mktemp("realm"))
    with pytest.MonkeyPatch.context() as patch:
        for name, value in made.environment.items():
            patch.setenv(name, value)
        yield made
    made.close()


@pytest.fixture(scope="module")
def service(realm: KerberosRealm) -> GssCredential:
    return gss_library().acceptor(SERVICE, str(realm.keytab(SERVICE)))


@pytest.fixture(scope="module")
def log_in(realm: KerberosRealm) -> Login:
    """A login of alice at kafka/localhost, or of another user elsewhere."""
    keytabs: dict[str, Path] = {}

    def begin(who: str = "alice", service: str = "kafka") -> GssStart:
        keytab = keytabs.get(who) or realm.keytab(who)
        keytabs[who] = keytab
        return KerberosTickets(KerberosLogin(service, who, str(keytab))).begin("localhost")

    return begin


def server_of(service: GssCredential, *rules: str, max_reauth_ms: int = 0) -> SaslServer:
    names = KerberosShortNamer(rules, REALM)
    mechanism = GssapiMechanism(service.accept, names, max_reauth_ms=max_reauth_ms)
    server = SaslServer({"GSSAPI": mechanism})
    assert server.handshake("GSSAPI", 0) is ErrorCode.NONE
    return server


def through(server: SaslServer, start: GssStart) -> SaslOutcome:
    """Runs our client until the server has decided."""
    exchange = gssapi_client(start)
    token = next(exchange)
    while True:
        outcome = server.authenticate(token, 0, 0)
        if outcome.done or outcome.error:
            return outcome
        token = exchange.send(outcome.token or b"")


def to_the_layers(server: SaslServer, start: GssStart) -> None:
    """Runs the exchange up to the client's last message."""
    answer = server.authenticate(start.token, 0, 0)
    assert start.context.step(answer.token or b"") == b""
    offer = server.authenticate(b"", 0, 0)
    assert start.context.unwrap(offer.token or b"") == NO_LAYER


def refused(outcome: SaslOutcome) -> bool:
    """Refused with the same message, whatever the reason."""
    assert outcome.message == REFUSAL
    assert not outcome.done
    return outcome.error is ErrorCode.SASL_AUTHENTICATION_FAILED


def test_a_ticket_authenticates_its_user_until_it_expires(
    service: GssCredential, log_in: Login
) -> None:
    outcome = through(server_of(service), log_in())
    assert str(outcome.principal) == "User:alice"
    assert HOUR_MS * 0.9 < outcome.session_lifetime_ms <= HOUR_MS + SKEW_MS
    shorter = through(server_of(service, max_reauth_ms=5000), log_in())
    assert shorter.session_lifetime_ms == 5000


def test_only_the_same_user_can_reauthenticate_a_session(
    service: GssCredential, log_in: Login
) -> None:
    server = server_of(service)
    assert through(server, log_in()).done
    assert server.handshake("GSSAPI", 2000) is ErrorCode.NONE
    assert through(server, log_in()).done
    assert server.handshake("GSSAPI", 4000) is ErrorCode.NONE
    changed = through(server, log_in("bob"))
    assert changed.error is ErrorCode.SASL_AUTHENTICATION_FAILED
    assert "Cannot change principals" in (changed.message or "")


def test_a_token_is_accepted_once(service: GssCredential, log_in: Login) -> None:
    start = log_in()
    assert through(server_of(service), start).done
    assert refused(server_of(service).authenticate(start.token, 0, 0))


def test_a_token_for_another_service_is_refused(
    realm: KerberosRealm, service: GssCredential, log_in: Login, caplog: pytest.LogCaptureFixture
) -> None:
    realm.keytab("HTTP/localhost")
    with caplog.at_level(logging.INFO):
        assert refused(server_of(service).authenticate(log_in(service="HTTP").token, 0, 0))
    assert f"HTTP/localhost@{REALM}" in caplog.text


def test_a_user_of_another_realm_needs_a_rule(
    service: GssCredential, log_in: Login, caplog: pytest.LogCaptureFixture
) -> None:
    who = f"mallory@{ELSEWHERE}"
    with caplog.at_level(logging.INFO):
        assert refused(through(server_of(service), log_in(who)))
    assert f"No rules apply to 'mallory@{ELSEWHERE}'" in caplog.text
    rule = f"RULE:[1:$1.$0](.*@?{ELSEWHERE})s/[.]{ELSEWHERE}/-guest/"
    assert str(through(server_of(service, rule), log_in(who)).principal) == "User:mallory-guest"


def test_a_service_of_another_realm_is_refused(
    realm: KerberosRealm,
    service: GssCredential,
    log_in: Login,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The same name, but a key that the other realm has made."""
    realm.keytab(f"{SERVICE}@{ELSEWHERE}")
    theirs = realm.folder / "theirs.conf"
    mapping = f"localhost = {ELSEWHERE}"
    theirs.write_text(realm.krb5_conf.read_text().replace(f"localhost = {REALM}", mapping))
    with monkeypatch.context() as patch:
        patch.setenv("KRB5_CONFIG", str(theirs))
        token = log_in(f"eve@{ELSEWHERE}").token
    with caplog.at_level(logging.INFO):
        assert refused(server_of(service).authenticate(token, 0, 0))
    assert f"{SERVICE}@{ELSEWHERE}" in caplog.text


def test_a_ticket_that_has_expired_is_refused(
    realm: KerberosRealm,
    service: GssCredential,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    strict = realm.folder / "strict.conf"
    strict.write_text(realm.krb5_conf.read_text().replace("clockskew = 300", "clockskew = 0"))
    keytab = realm.keytab("brief", "-maxlife", "1 second")
    start = KerberosTickets(KerberosLogin("kafka", "brief", str(keytab))).begin("localhost")
    monkeypatch.setenv("KRB5_CONFIG", str(strict))
    time.sleep(2)  # a time in a ticket is whole seconds
    with caplog.at_level(logging.INFO):
        assert refused(server_of(service).authenticate(start.token, 0, 0))
    assert "Ticket expired" in caplog.text


def test_new_keys_in_the_keytab_apply_at_once(realm: KerberosRealm, log_in: Login) -> None:
    """The operator adds a key to the file; the broker runs on, and old tickets stay good."""
    file = realm.keytab("rolled/localhost")
    service = gss_library().acceptor("rolled/localhost", str(file))
    old = log_in(service="rolled")
    realm.new_key("rolled/localhost", file)
    assert through(server_of(service), old).done
    fresh = log_in("carol", service="rolled")
    assert through(server_of(service), fresh).done


@pytest.mark.parametrize("authzid", [b"", b"alice", b"root", b"kafka@localhost", b"\xff\0"])
def test_an_authzid_cannot_change_the_user(
    service: GssCredential, log_in: Login, authzid: bytes
) -> None:
    server, start = server_of(service), log_in()
    to_the_layers(server, start)
    outcome = server.authenticate(start.context.wrap(NO_LAYER + authzid), 0, 0)
    assert str(outcome.principal) == "User:alice"


@pytest.mark.parametrize("chosen", [b"", b"\1", b"\0\0\0\0", b"\2\0\xff\xff", b"\4\0\xff\xff"])
def test_a_layer_that_was_not_offered_is_refused(
    service: GssCredential, log_in: Login, chosen: bytes
) -> None:
    server, start = server_of(service), log_in()
    to_the_layers(server, start)
    assert refused(server.authenticate(start.context.wrap(chosen), 0, 0))


def test_an_established_context_alone_does_not_authenticate(
    service: GssCredential, log_in: Login
) -> None:
    """Only the last message authenticates, because a token may have been intercepted."""
    server, start = server_of(service), log_in()
    answer = server.authenticate(start.token, 0, 0)
    assert not answer.done
    assert refused(server.authenticate(b"x", 0, 0))
    server, start = server_of(service), log_in()
    to_the_layers(server, start)
    assert refused(server.authenticate(b"", 0, 0))


# Random and damaged input


@pytest.fixture(scope="module")
def some_token(log_in: Login) -> bytes:
    return log_in().token


def changed(token: bytes, place: int, byte: int, cut: int) -> bytes:
    place %= len(token)
    return (token[:place] + bytes([byte]) + token[place + 1 :])[: len(token) - cut]


@settings(max_examples=EXAMPLES)
@given(tokens=st.lists(st.binary(max_size=400), min_size=1, max_size=4))
def test_random_bytes_are_refused(service: GssCredential, tokens: list[bytes]) -> None:
    server = server_of(service)
    assert any(server.authenticate(token, 0, 0).error for token in tokens)
    assert server.principal is None


@settings(max_examples=EXAMPLES)
@given(place=st.integers(0, 2000), byte=st.integers(0, 255), cut=st.integers(0, 900))
def test_a_modified_token_authenticates_nobody(
    service: GssCredential, some_token: bytes, place: int, byte: int, cut: int
) -> None:
    server = server_of(service)
    outcome = server.authenticate(changed(some_token, place, byte, cut), 0, 0)
    assert not outcome.done
    assert outcome.error is ErrorCode.NONE or refused(outcome)
    assert server.authenticate(b"\1\0\0\0", 0, 0).error


@settings(max_examples=50)
@given(last=st.binary(max_size=100), place=st.integers(0, 100), byte=st.integers(0, 255))
def test_a_modified_last_message_cannot_change_the_user(
    service: GssCredential, log_in: Login, last: bytes, place: int, byte: int
) -> None:
    server, start = server_of(service), log_in()
    to_the_layers(server, start)
    assert refused(server.authenticate(last, 0, 0))
    server, start = server_of(service), log_in()
    to_the_layers(server, start)
    message = changed(start.context.wrap(NO_LAYER), place, byte, 0)
    outcome = server.authenticate(message, 0, 0)
    assert str(outcome.principal) == "User:alice" if outcome.done else refused(outcome)


@settings(max_examples=50)
@given(answers=st.lists(st.binary(max_size=100), min_size=1, max_size=3))
def test_a_client_refuses_a_broker_with_malformed_answers(
    log_in: Login, answers: list[bytes]
) -> None:
    exchange = gssapi_client(log_in())
    assert next(exchange)
    with pytest.raises(KafkaError):
        deque(map(exchange.send, answers), maxlen=0)


def test_a_broker_without_the_service_key_is_refused(
    realm: KerberosRealm, service: GssCredential, log_in: Login
) -> None:
    """An attacker who intercepts a ticket can respond, but cannot prove to be the service."""
    start = log_in()
    answer = server_of(service).authenticate(start.token, 0, 0).token or b""
    exchange = gssapi_client(log_in())
    next(exchange)
    with pytest.raises(KafkaError):
        exchange.send(answer)
    other = gss_library().acceptor("kafka/other", str(realm.keytab("kafka/other")))
    assert refused(server_of(other).authenticate(log_in().token, 0, 0))


def test_after_a_handshake_v0_the_last_token_is_not_answered(
    service: GssCredential, log_in: Login
) -> None:
    """The server's last token is none at all: a client would take four zeros for a response."""
    gate = SaslAuthentication(
        ClientSession(listener="SASL", client_host="h", client_port=1),
        server_of(service),
        frame_bytes_max=100_000,
        delay_ms=0,
        clock=ManualClock(0),
        versions=lambda session, request: ApiVersionsResponse(),
        counts=AuthenticationCounts(),
    )
    gate.raw = True
    wire = Connection(gate.served, frame_bytes_max=gate.frame_bytes_max)

    def say(token: bytes) -> bytes:
        frame = len(token).to_bytes(4) + token
        wire.get_buffer(len(frame))[: len(frame)] = frame
        wire.received(len(frame))
        request = wire.next_token()
        assert request is not None
        return b"".join(bytes(part) for part in wire.reply_token(request, gate.serve(request)))

    start = log_in()
    start.context.step(say(start.token)[4:])
    start.context.unwrap(say(b"")[4:])
    assert say(start.context.wrap(NO_LAYER)) == b""
    assert gate.passed
    assert not gate.failed


def test_a_log_contains_no_control_characters(
    realm: KerberosRealm, service: GssCredential, log_in: Login, caplog: pytest.LogCaptureFixture
) -> None:
    """A ticket contains the name of its service in plaintext, chosen by the sender."""
    realm.keytab(f"{ODD}/localhost")
    with caplog.at_level(logging.INFO):
        assert refused(server_of(service).authenticate(log_in(service=ODD).token, 0, 0))
    assert "ev?[2Jil/localhost" in caplog.text
    assert "\x1b" not in caplog.text


def test_no_descriptor_is_left_open(service: GssCredential, log_in: Login) -> None:
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(20):
        assert through(server_of(service), log_in()).done
        with pytest.raises(GssFailure):
            service.accept().step(b"nothing")
    assert len(os.listdir("/proc/self/fd")) == before
