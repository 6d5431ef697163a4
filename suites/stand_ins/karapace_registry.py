"""A pytest plugin: Karapace's tests against a registry that is not Karapace.

Modules that its build makes (a version, a library in Go) are not there, and its tests import them
without a call. Its clients ask for a master first, which other registries have no path for. Its
tests would start a registry each: here each finds a registry that has been emptied.
"""

from __future__ import annotations

import json
import sys
from types import ModuleType
from urllib.error import HTTPError
from urllib.parse import quote
from urllib.request import Request, urlopen

BUILT = {
    "karapace.version": ("__version__",),
    "karapace.core.protobuf.protopace.protopace": (
        *("IncompatibleError", "Proto", "check_compatibility", "format_proto"),
    ),
}
ROUNDS_MAX = 5  # a subject is deleted after those that refer to it
TIMEOUT_S = 30
for module_name, names in BUILT.items():
    module = ModuleType(module_name)
    for name in names:
        setattr(module, name, type(name, (Exception,), {}))
    sys.modules[module_name] = module


async def at_once(client):
    """Every instance answers everything."""


def pytest_collection_finish():
    sys.modules["tests.integration.conftest"].repeat_until_master_is_available = at_once


def pytest_runtest_setup(item):
    empty(item.config.getoption("registry_url"))


def empty(url):
    call(url, "PUT", "/mode", {"mode": "READWRITE"})
    for _ in range(ROUNDS_MAX):
        subjects = call(url, "GET", "/subjects?deleted=true")
        for subject in subjects:
            path = f"/subjects/{quote(subject, safe='')}"
            call(url, "DELETE", f"/mode/{quote(subject, safe='')}")
            call(url, "DELETE", path)
            call(url, "DELETE", f"{path}?permanent=true")
        if not subjects:
            break
    call(url, "DELETE", "/config")


def call(url, method, path, body=None):
    data = None if body is None else json.dumps(body).encode()
    try:
        with urlopen(Request(url + path, data, method=method), timeout=TIMEOUT_S) as answer:
            return json.load(answer)
    except HTTPError:  # there is nothing to delete
        return None
