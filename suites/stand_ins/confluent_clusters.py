"""A pytest plugin: clusters with SASL that confluent-kafka-python's tests would start themselves.

For a cluster that runs already they have no asynchronous client of the schema registry: here it is.
SUITE_SASL_PLAINTEXT names the listener. `client_conf` is what trivup's clusters give to clients.
"""

from __future__ import annotations

import os

import pytest

USER = {"sasl.mechanism": "PLAIN", "sasl.username": "sasl_user", "sasl.password": "sasl_user"}
TOKEN = {
    "sasl.mechanism": "OAUTHBEARER",
    "enable.sasl.oauthbearer.unsecure.jwt": "true",
    "sasl.oauthbearer.config": "scope=requiredScope principal=admin",
}
CLUSTERS = {"sasl_cluster": USER, "oauth_trivup_cluster": TOKEN}


@pytest.hookimpl(tryfirst=True)
def pytest_fixture_setup(fixturedef, request):
    login = CLUSTERS.get(fixturedef.argname)
    if login is None:
        return None
    from tests.integration.cluster_fixture import ByoFixture

    reach = {
        "bootstrap.servers": os.environ["SUITE_SASL_PLAINTEXT"],
        "security.protocol": "SASL_PLAINTEXT",
    }
    cluster = ByoFixture({**reach, **login})
    fixturedef.cached_result = (cluster, fixturedef.cache_key(request), None)
    return (cluster,)  # not None: the hook is done; pytest takes the value from cached_result


def pytest_collection_finish():
    from confluent_kafka.schema_registry._async.schema_registry_client import (
        AsyncSchemaRegistryClient,
    )
    from tests.integration.cluster_fixture import ByoFixture

    ByoFixture.async_schema_registry = lambda self, conf=None: AsyncSchemaRegistryClient(
        {"url": self._sr_url}
    )
