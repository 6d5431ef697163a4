"""Ottla: an event streaming platform in Python that speaks Kafka's wire protocol."""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("ottla")
except PackageNotFoundError:  # a source tree that was never installed
    __version__ = "0.0.0"
