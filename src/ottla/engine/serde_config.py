"""The settings of an application, as its serdes get them: where the schema registry is, and how
schemas are registered and chosen."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ottla.client.serde import Serde


class SerdeConfig:
    """A serde that stands in several places is configured once, so that it asks the registry once.

    What a serde was given itself wins over the application's settings.
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
            # The given serde is kept as well: its id must not become that of another one.
            known = (serde, serde.configured(self._settings, is_key=is_key))
            self._made[id(serde), is_key] = known
        return known[1]

    def __getstate__(self) -> dict[str, Any]:
        """To another process, where objects have other ids."""
        return {"_settings": self._settings, "_made": {}}
