"""The transaction coordinator: what a transactional id is in the middle of, and who speaks for it.

As its neighbour for groups it has no clock, no loop and no log: an event gives an Outcome, which
`broker/transactions.py` carries out.
"""
