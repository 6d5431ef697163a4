"""SCRAM users (KIP-554)."""

from __future__ import annotations

from confluent_kafka.admin import (  # type: ignore[attr-defined]
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialAlteration,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)

from ottla.client.admin_session import AdminSession
from ottla.errors import ErrorCode, KafkaError

_MECHANISMS = {
    "SCRAM-SHA-256": ScramMechanism.SCRAM_SHA_256,
    "SCRAM-SHA-512": ScramMechanism.SCRAM_SHA_512,
}
_NAMES = {mechanism: name for name, mechanism in _MECHANISMS.items()}


class UserAdmin:
    def __init__(self, session: AdminSession) -> None:
        self._session = session

    def describe(self, *names: str) -> dict[str, dict[str, int]]:
        """The mechanisms of these users (default: all), with their iterations."""
        session = self._session
        found = session.call(
            session.librdkafka.describe_user_scram_credentials,
            list(names) or None,
            request_timeout=session.timeout_s,
        )
        results = session.wait_each(found, _of) if names else _all(session.wait(found))
        known: dict[str, dict[str, int]] = {}
        for name, result in results.items():
            if isinstance(result, KafkaError):
                if result.code != ErrorCode.RESOURCE_NOT_FOUND:
                    raise result
                result = {}
            known[name] = result
        return known

    def set_password(self, name: str, mechanism: str, password: str, iterations: int) -> None:
        info = ScramCredentialInfo(_MECHANISMS[mechanism], iterations)
        self._alter(UserScramCredentialUpsertion(name, info, password.encode()))

    def delete(self, name: str, mechanism: str) -> None:
        self._alter(UserScramCredentialDeletion(name, _MECHANISMS[mechanism]))

    def _alter(self, alteration: UserScramCredentialAlteration) -> None:
        session = self._session
        futures = session.call(
            session.librdkafka.alter_user_scram_credentials,
            [alteration],
            request_timeout=session.timeout_s,
        )
        for future in futures.values():
            session.wait(future)


def _of(description: object) -> dict[str, int]:
    infos = getattr(description, "scram_credential_infos", ())
    return {_NAMES[info.mechanism]: info.iterations for info in infos}


def _all(descriptions: dict[str, object]) -> dict[str, dict[str, int]]:
    return {name: _of(description) for name, description in descriptions.items()}
