"""The broker's metrics for Prometheus, served at /metrics (docs/metrics.md).

Names are those of the usual JMX exporter for Kafka where Kafka has the metric, else `ottla_...`.
Most values are read from the broker's parts when the page is requested; only requests and traffic
are counted as they pass.

- `page.py`: the HTTP server and the page, which is the list of everything else.
- `metered_application.py`: the wrapper around the broker that counts and times each request.
- `partitions.py`: replicas, leaders, ISRs and logs of this broker.

The room is imported only if `metrics.port` is set, so a broker without metrics pays nothing. It
reads the broker's state and never changes it.
"""
