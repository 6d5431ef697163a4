"""`make suites`: the test suites of other people's clients, whole, on Ottla brokers.

    python -m suites --list                          what there is
    python -m suites                                 everything, on one broker and on three
    python -m suites --only franz-go --brokers 3     one suite on a cluster
    python -m suites --peer kafka                    the same on Apache Kafka

See docs/compatibility.md for the last results and how to read them.
"""
