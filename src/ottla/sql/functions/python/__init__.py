"""The functions of the SQL in Python, on values of rows; the table of functions says of which."""
