"""SCRAM credentials and delegation tokens as SASL asks for them, from the newest image."""

from __future__ import annotations

import asyncio
import secrets
from typing import Any, Final

from ottla.auth.scram import ScramCredential
from ottla.auth.scram_server import TOKEN_SHAPE, ScramShape, TokenCredential
from ottla.auth.tokens import token_password
from ottla.cluster.credentials import expired_tokens, scram_credential, scram_shapes
from ottla.cluster.image import MetadataImage
from ottla.cluster.runtime_settings import RuntimeSettings
from ottla.config import ServerConfig

TOKENS_MAX: Final = 10_000  # whose credential is cached: computing one takes milliseconds


class Credentials:
    """Implements `auth.scram_server.ScramUsers`."""

    def __init__(self, config: ServerConfig) -> None:
        self.token_secret = config.delegation_token_secret_key
        # The salts of users that do not exist are made from it, so that brokers with the same
        # secret give the same answer.
        self.secret = (self.token_secret or secrets.token_hex()).encode()
        self._image = MetadataImage()
        self._expiring: asyncio.Future[list[Any]] | None = None
        self._tokens: dict[tuple[str, str], ScramCredential] = {}
        self._shapes: dict[str, frozenset[ScramShape]] | None = None

    def apply(self, image: MetadataImage) -> None:
        if image.quotas is not self._image.quotas:
            self._shapes = None
        self._image = image

    def expire(self, settings: RuntimeSettings, now_ms: int) -> None:
        """Remove the tokens that have expired. Only the controller does this."""
        expired = expired_tokens(self._image, now_ms)
        if expired:
            self._expiring = asyncio.gather(
                *(settings.alter_token(token_id, lambda token: None) for token_id in expired),
                return_exceptions=True,  # what fails now is tried again the next time
            )

    def scram(self, mechanism: str, name: str) -> ScramCredential | None:
        return scram_credential(self._image, mechanism, name)

    def shapes(self, mechanism: str) -> frozenset[ScramShape]:
        if self._shapes is None:
            self._shapes = scram_shapes(self._image)
        return self._shapes[mechanism]

    def token(self, mechanism: str, token_id: str) -> TokenCredential | None:
        stored = self._image.tokens.get(token_id)
        if stored is None or self.token_secret is None:
            return None
        credential = self._tokens.get((mechanism, token_id))
        if credential is None:
            password = token_password(self.token_secret, token_id)
            credential = ScramCredential.of_password(
                mechanism, password, iterations=TOKEN_SHAPE.iterations
            )
            if len(self._tokens) >= TOKENS_MAX:
                self._tokens.clear()
            self._tokens[mechanism, token_id] = credential
        return TokenCredential(credential, stored.token.owner, stored.token.expires_ms)
