"""A pytest plugin: Karapace's tests against a registry that is not Karapace.

Modules that its build makes (a version, a library in Go) are not there, and its tests import them
without a call. Its clients ask for a master first, which other registries have no path for.
"""

from __future__ import annotations

import sys
from types import ModuleType

BUILT = {
    "karapace.version": ("__version__",),
    "karapace.core.protobuf.protopace.protopace": (
        *("IncompatibleError", "Proto", "check_compatibility", "format_proto"),
    ),
}
for module_name, names in BUILT.items():
    module = ModuleType(module_name)
    for name in names:
        setattr(module, name, type(name, (Exception,), {}))
    sys.modules[module_name] = module


async def at_once(client):
    """Every instance answers everything."""


def pytest_collection_finish():
    sys.modules["tests.integration.conftest"].repeat_until_master_is_available = at_once
