"""Every message of Kafka's protocol, generated: one module per API."""
