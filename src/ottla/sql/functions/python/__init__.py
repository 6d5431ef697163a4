"""Functions of SQL in Python, by the names of ksqlDB's functions; they take values of a row."""
