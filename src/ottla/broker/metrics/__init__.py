"""What an operator watches, as Prometheus reads it (docs/metrics.md).

Nothing here is imported, and nothing counts, unless `metrics.port` is set.
"""
