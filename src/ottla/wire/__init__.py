"""Kafka's wire protocol, without I/O: bytes to messages and back."""
