"""Kafka Connect's REST API on Starlette.

    app.py          the routes and their handlers
    forwarding.py   requests that another worker must handle: the leader, or a connector's owner
    requests.py     bodies with a size limit, errors in Kafka Connect's JSON

Handlers run on threads, because they wait for the broker and for other workers. They call the
herder's connector_requests.py and connector_views.py and never touch topics or Spark themselves.
"""
