"""Authentication and authorization: who a client is and what it may do. Decisions only, no I/O.

    sasl.py         the broker's side of SASL (PLAIN, SCRAM, OAUTHBEARER, GSSAPI), its sessions and
                    re-authentication (KIP-368)
    sasl_client.py  the client's side, also for connections between brokers
    authorizer.py   ACLs: Kafka's StandardAuthorizer, which allows nothing that no ACL allows

An exchange takes a token and returns the next one; `net` carries them. Where an answer depends on
something outside, a key server or a KDC, the caller passes it in as a protocol.

The room imports neither sockets nor asyncio, and time comes in as `now_ms`. Errors that go to a
client say no more than Kafka's do, so that an attacker cannot find out which users exist.
"""
