"""The transaction coordinator: producer ids and epochs, and the state of each transaction.

    transaction.py        TransactionMetadata: the state of one transactional id, and its steps
    shard.py              one partition of `__transaction_state`; its events give results
    coordinator.py        hands requests to the shard of their transactional id
    init_producer_id.py,  the rules of InitProducerId and EndTxn, as tables
    end_txn.py
    records.py            the records of `__transaction_state`, byte for byte as Kafka's

No clock, no event loop and no log: `broker/transaction_coordinator_service.py` appends the records,
sends the replies and has the markers written. See docs/decisions/0008-transactions.md.
"""
