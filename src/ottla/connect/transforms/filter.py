"""Filter: drops records."""

from __future__ import annotations

from ottla.connect.transforms.transform import R, Transform


class Filter(Transform):
    """Drops every record; use it with a predicate."""

    def apply(self, record: R) -> R | None:
        return None
