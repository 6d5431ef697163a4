"""Tables of a database into topics, and topics into tables, with the settings of Confluent's JDBC
connector. Databases: PostgreSQL and SQLite."""
