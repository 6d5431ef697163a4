"""The pytest plugin: fixtures `kafka` and `kafka_session`."""
