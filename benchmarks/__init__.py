"""`make bench`: Ottla and Apache Kafka side by side, in one run, under the same load.

    python -m benchmarks --quick                    a first look
    python -m benchmarks                            everything, at full length
    python -m benchmarks --rows produce,latency     some rows only
    python -m benchmarks.profile_broker requests    where Ottla's time goes

See docs/benchmarks.md for what each row measures and how it is kept fair.
"""
