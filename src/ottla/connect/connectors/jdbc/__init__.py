"""JDBC source and sink for PostgreSQL and SQLite, with the settings of Confluent's connector."""
