"""The error of all three schema languages."""

from __future__ import annotations


class InvalidSchema(ValueError):
    """The text is not a schema of its language; the message says where and why (error 42201)."""
