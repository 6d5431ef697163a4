"""Dataclasses and Pydantic models as schemas, and their instances as plain values."""
