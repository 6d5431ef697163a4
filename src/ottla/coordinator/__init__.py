"""Groups and their offsets: state machines without I/O, whose outcomes the broker carries out."""
