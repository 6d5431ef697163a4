"""ksqlDB's own REST cases, run against Ottla's broker, registry and `ottla sql-server`."""
