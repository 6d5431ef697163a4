"""The registry's changes without I/O: state and request in, records and answer out."""
