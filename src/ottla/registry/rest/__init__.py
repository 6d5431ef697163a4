"""Confluent's REST API over HTTP."""
