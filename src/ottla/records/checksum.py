"""CRC-32C (Castagnoli), the checksum of record batches: the processor's own instruction."""

from __future__ import annotations

from collections.abc import Callable
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from typing import Final

Buffer = bytes | bytearray | memoryview


def _load_checksum() -> Callable[..., int]:
    """The C function of the package crc32c, without the package's own import.

    That looks up installed distributions and sets up a command line: 60 ms, a third of the time
    in which a broker starts.
    """
    package = PathFinder.find_spec("crc32c")
    if package is not None and package.submodule_search_locations is not None:
        spec = PathFinder.find_spec("crc32c._crc32c", package.submodule_search_locations)
        if spec is not None and spec.loader is not None:
            module = module_from_spec(spec)
            spec.loader.exec_module(module)
            function: Callable[..., int] = module.crc32c
            return function
    from crc32c import crc32c as function_of_package

    return function_of_package


# The checksum of a buffer; pass a memoryview to cover a part of one without a copy.
crc32c: Final = _load_checksum()
