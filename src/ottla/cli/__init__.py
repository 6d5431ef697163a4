"""`ottla <verb>`, and Kafka's own tools under their own names."""
