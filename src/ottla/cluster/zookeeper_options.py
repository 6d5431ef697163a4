"""A broker's zookeeper.* properties as options of kazoo."""

from __future__ import annotations

from typing import Any

from kazoo.security import CREATOR_ALL_ACL, READ_ACL_UNSAFE

from ottla.cluster.zookeeper_store import ZooKeeperStore
from ottla.config import ServerConfig


async def open_store(config: ServerConfig) -> ZooKeeperStore:
    """Open the store at `zookeeper.connect`; MetaStoreError if it can't be reached."""
    assert config.zookeeper_connect is not None
    session_ms = config.zookeeper_session_timeout_ms
    connection_ms = config.zookeeper_connection_timeout_ms
    return await ZooKeeperStore.open(
        config.zookeeper_connect,
        session_timeout_s=session_ms / 1000,
        connection_timeout_s=(connection_ms or session_ms) / 1000,
        options=zookeeper_options(config),
    )


def zookeeper_options(config: ServerConfig) -> dict[str, Any]:
    options: dict[str, Any] = {}
    if config.zookeeper_ssl_client_enable:
        options |= {
            "use_ssl": True,
            "ca": config.zookeeper_ssl_truststore_location,
            "certfile": config.zookeeper_ssl_keystore_location,
            "keyfile": config.zookeeper_ssl_keystore_location,
            "keyfile_password": config.zookeeper_ssl_keystore_password,
            "check_hostname": bool(config.zookeeper_ssl_endpoint_identification_algorithm),
        }
    if config.ottla_zookeeper_sasl_username is not None:
        options["sasl_options"] = {
            "mechanism": "DIGEST-MD5",
            "username": config.ottla_zookeeper_sasl_username,
            "password": config.ottla_zookeeper_sasl_password or "",
        }
    if config.zookeeper_set_acl:  # others may read, as with Kafka
        options["default_acl"] = [*CREATOR_ALL_ACL, *READ_ACL_UNSAFE]
    return options
