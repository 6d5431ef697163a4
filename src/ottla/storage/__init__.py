"""The log on disk, in Kafka's own formats. Synchronous, without a network and without a clock."""
