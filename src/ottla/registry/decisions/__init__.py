"""State and request in, records and answer out: each change of the registry, without I/O."""
