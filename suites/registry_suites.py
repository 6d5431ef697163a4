"""Suites that judge the schema registry. `catalogue.py` has the others."""

from __future__ import annotations

from suites import registry_steps
from suites.registry_server import RegistryNeed
from suites.sources import GoCheckout
from suites.suite import Suite

MINUTE_S = 60

AXONOPS_SOURCE = GoCheckout("axonops-schema-registry", packages=("./tests/bdd",), tags="bdd")
AXONOPS = Suite(
    name="AxonOps registry",
    source=AXONOPS_SOURCE,
    steps=registry_steps.axonops,
    brokers=(1,),
    registry=RegistryNeed(),
    limit_s=40 * MINUTE_S,
)

SUITES = (AXONOPS,)
