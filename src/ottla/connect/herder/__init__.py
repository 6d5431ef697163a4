"""The herder: which connectors there are, which worker runs them, and how that changes.

Configs and target states are records of the config topic, statuses are records of the status topic;
every worker reads both, and the workers of a group share the connectors.

    herder.py                 reads both logs, hands this worker's connectors to the reconciler
    config_state.py           config topic -> ClusterConfigState (cluster_status.py: status topic)
    connector_reconciler.py   one thread per connector, which brings it to its desired state

assignment.py (pure) decides which worker gets which connector, worker_group_member.py joins the
group, backing_log.py is the topic or its stand-in, connector_requests.py and connector_views.py are
what REST calls. The herder starts connectors through a callable, and knows nothing of Spark.
"""
