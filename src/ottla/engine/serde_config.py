"""The application's settings for serdes: where the schema registry is, and how schemas are
registered and chosen."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ottla.client.serde import Serde


class SerdeConfig:
    """Configures a serde that is used in several places once, so it queries the registry once.

    A serde's own settings win over the application's.
    """

    def __init__(self, settings: Mapping[str, Any] | None = None) -> None:
        self._settings = dict(settings or {})
        self._made: dict[tuple[int, bool], tuple[Serde[Any], Serde[Any]]] = {}

    def key(self, serde: Serde[Any]) -> Serde[Any]:
        return self._configured(serde, is_key=True)

    def value(self, serde: Serde[Any]) -> Serde[Any]:
        return self._configured(serde, is_key=False)

    def _configured(self, serde: Serde[Any], *, is_key: bool) -> Serde[Any]:
        known = self._made.get((id(serde), is_key))
        if known is None:
            # Holding the given serde keeps its id from being reused by another object.
            known = (serde, serde.configured(self._settings, is_key=is_key))
            self._made[id(serde), is_key] = known
        return known[1]

    def __getstate__(self) -> dict[str, Any]:
        """Drops the cache by id, because objects have other ids in another process."""
        return {"_settings": self._settings, "_made": {}}
