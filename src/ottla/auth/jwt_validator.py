"""Validation of JSON web tokens: signature, issuer, audience and expiry.

The lesson of two Kafka CVEs (2026-33557, 2026-110985): a validator without keys must refuse every
token, not skip the signature. Here a token without a signature is refused whatever its header
says, and an algorithm with a shared secret (HS*) is never tried with a public key.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from ottla.auth.bearer_token import AcceptedToken

KEY_TYPES: Final = {
    **dict.fromkeys(("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"), "RSA"),
    **dict.fromkeys(("ES256", "ES384", "ES512"), "EC"),
    "EdDSA": "OKP",
}
"""The accepted algorithms, all of them asymmetric, and the type of key that each needs."""


@dataclass(slots=True, frozen=True)
class JwtRules:
    """What a token must claim; None and () are not checked."""

    audiences: tuple[str, ...] = ()
    issuer: str | None = None
    skew_ms: int = 30_000
    name_claim: str = "sub"
    scope_claim: str = "scope"


@dataclass(slots=True, frozen=True)
class VerificationKey:
    """A public key of the provider; `algorithm` is set if it is for one algorithm only."""

    type: str
    algorithm: str | None
    key: Any

    def fits(self, algorithm: str) -> bool:
        return KEY_TYPES.get(algorithm) == self.type and self.algorithm in (None, algorithm)


class VerificationKeys(Protocol):
    def find(self, key_id: str | None, now_ms: int) -> VerificationKey | None:
        """The key with this id; None asks for the only key. May trigger a fetch of new keys."""
        ...


class SignedJwtValidator:
    """A TokenValidator for tokens that a provider has signed."""

    def __init__(self, keys: VerificationKeys, rules: JwtRules) -> None:
        """ImportError if PyJWT or cryptography are missing."""
        import cryptography  # noqa: F401  PyJWT knows only HS* without it
        import jwt

        self._jwt = jwt
        self._keys = keys
        self._rules = rules

    def validate(self, token: str, now_ms: int) -> AcceptedToken:
        header, _ = _parts(token)
        algorithm = header.get("alg")
        if not isinstance(algorithm, str) or algorithm not in KEY_TYPES:
            raise ValueError("the token is not signed by an algorithm that is accepted")
        key_id = header.get("kid")
        if key_id is not None and not isinstance(key_id, str):
            raise ValueError("the token's kid is not a string")
        key = self._keys.find(key_id, now_ms)
        if key is None or not key.fits(algorithm):
            raise ValueError("no key of the provider is known for this token")
        try:
            # `accepted` compares the times with now_ms: PyJWT would use the machine's clock.
            claims = self._jwt.decode(
                token,
                key.key,
                algorithms=[algorithm],
                options={
                    "verify_signature": True,
                    "verify_exp": False,
                    "verify_nbf": False,
                    "verify_iat": False,
                    "verify_aud": False,
                    "verify_iss": False,
                },
            )
        except self._jwt.PyJWTError as error:
            raise ValueError("the token's signature is not valid") from error
        return accepted(claims, self._rules, now_ms)


class UnsecuredJwtValidator:
    """A TokenValidator that accepts every unsigned token, for tests of clients only."""

    def __init__(self, rules: JwtRules) -> None:
        self._rules = rules

    def validate(self, token: str, now_ms: int) -> AcceptedToken:
        header, claims = _parts(token)
        if header.get("alg") != "none":
            raise ValueError("only unsecured tokens (alg none) are accepted here")
        return accepted(claims, self._rules, now_ms)


def accepted(claims: Mapping[str, Any], rules: JwtRules, now_ms: int) -> AcceptedToken:
    """ValueError unless the claims name this service, the present time and a principal."""
    expires_ms = _time_ms(claims, "exp", needed=True)
    if now_ms >= expires_ms + rules.skew_ms:
        raise ValueError("the token has expired")
    if _time_ms(claims, "iat", needed=True) > now_ms + rules.skew_ms:
        raise ValueError("the token was issued in the future")
    if _time_ms(claims, "nbf", needed=False) > now_ms + rules.skew_ms:
        raise ValueError("the token is not valid yet")
    if rules.issuer is not None and claims.get("iss") != rules.issuer:
        raise ValueError("the token has another issuer")
    audience = claims.get("aud", ())
    audiences = [audience] if isinstance(audience, str) else audience
    if rules.audiences and not (
        isinstance(audiences, list | tuple) and any(name in rules.audiences for name in audiences)
    ):
        raise ValueError("the token is for another audience")
    name = claims.get(rules.name_claim)
    if not isinstance(name, str) or not name.strip():
        raise ValueError(f"the token has no {rules.name_claim}")
    scope = claims.get(rules.scope_claim)
    if scope is not None and not isinstance(scope, str | list):
        raise ValueError(f"the token's {rules.scope_claim} is neither text nor a list")
    return AcceptedToken(name.strip(), expires_ms)


def _time_ms(claims: Mapping[str, Any], name: str, *, needed: bool) -> int:
    value = claims.get(name)
    if value is None and not needed:
        return 0
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value < 2**53:
        raise ValueError(f"the token has no {name}")
    return int(value * 1000)


def _parts(token: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Header and claims, unverified."""
    parts = token.split(".")
    if len(parts) != 3 or not parts[0] or not parts[1]:
        raise ValueError("not a JSON web token")
    try:
        header, claims = (json.loads(_decoded(part)) for part in parts[:2])
    except (ValueError, RecursionError):
        raise ValueError("not a JSON web token") from None
    if not isinstance(header, dict) or not isinstance(claims, dict):
        raise ValueError("not a JSON web token")
    return header, claims


def _decoded(part: str) -> bytes:
    return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))
