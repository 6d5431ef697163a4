"""What the REST of the SQL, of Connect and of the registry share: who may ask, and what."""
