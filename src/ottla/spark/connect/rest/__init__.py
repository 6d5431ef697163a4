"""Kafka Connect's REST."""
