"""ksqlDB's own REST cases, on a broker, a registry and an `ottla sql-server` of ours."""
