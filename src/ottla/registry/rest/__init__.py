"""Confluent's REST over HTTP."""
