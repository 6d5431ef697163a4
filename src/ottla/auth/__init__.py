"""Who is asking, and what they may do: exchanges and decisions, no I/O, time as an argument."""
