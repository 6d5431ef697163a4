"""SCRAM, with the example of RFC 7677."""

from __future__ import annotations

import pytest

from ottla.auth.scram import ScramClient
from ottla.errors import ErrorCode, KafkaError

NONCE = "rOprNGfwEbeRWgbNEkqO"
CHALLENGE = (
    b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
)


@pytest.fixture
def scram() -> ScramClient:
    return ScramClient("SCRAM-SHA-256", "user", "pencil", NONCE)


def test_the_example_of_rfc_7677(scram: ScramClient) -> None:
    assert scram.first() == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    assert scram.final(CHALLENGE) == (
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
        b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    scram.verify(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")


@pytest.mark.parametrize(
    "challenge", [b"r=other,s=AAAA,i=4096", b"e=unknown-user", b"", b"r=x,s=AAAA,i=x"]
)
def test_a_malformed_challenge_is_refused(scram: ScramClient, challenge: bytes) -> None:
    with pytest.raises(KafkaError) as caught:
        scram.final(challenge)
    assert caught.value.code is ErrorCode.SASL_AUTHENTICATION_FAILED


def test_a_client_refuses_a_broker_that_does_not_know_the_password(scram: ScramClient) -> None:
    scram.final(CHALLENGE)
    for last in (b"v=AAAA", b"e=invalid-proof"):
        with pytest.raises(KafkaError):
            scram.verify(last)


def test_a_name_with_commas_is_escaped() -> None:
    assert ScramClient("SCRAM-SHA-512", "a=b,c", "p", "n").first() == b"n,,n=a=3Db=2Cc,r=n"
