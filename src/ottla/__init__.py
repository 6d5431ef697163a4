"""Ottla: an event streaming platform in Python that speaks Kafka's wire protocol."""

from __future__ import annotations


def __getattr__(name: str) -> str:
    """`ottla.__version__`, looked up on first use: the lookup takes a tenth of a start."""
    if name != "__version__":
        raise AttributeError(f"module 'ottla' has no attribute {name!r}")
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("ottla")
    except PackageNotFoundError:  # a source tree that was never installed
        return "0.0.0"
