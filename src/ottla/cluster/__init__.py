"""The cluster's metadata: where it is stored, how a broker follows it, and how it is changed.

The metadata (topics, leaders, ISRs, configs, quotas, ACLs, registrations) lives in a `MetaStore`, a
small key-value contract with two implementations: a journal inside a single broker, or ZooKeeper
for a cluster. Every broker follows the whole store and turns it into an immutable image, which
request handlers read. Changes are decided by pure functions on the newest image and committed with
the versions that they replace, so that of two brokers which decide at once only one succeeds.

- `store.py`: the contract of the store, and what both implementations guarantee.
- `metadata_cache.py`: the image of this broker (`image.py`), built from the store's entries.
- `controller.py`: the elected broker that creates topics, elects leaders and reassigns partitions.

The keys and their JSON are Kafka's (`layout.py`). This room knows nothing about logs, requests or
connections: it may not import `broker`, `replica`, `coordinator` or `storage`. All of it runs on
the broker's event loop; only kazoo has a thread, behind `zookeeper_client.py`.
"""
