"""Every message, in every version, in both directions, against kio."""

from __future__ import annotations

import random
import zlib
from importlib import import_module

import kio_oracle
import pytest

INSTANCES = 4  # of each message in each version


@pytest.mark.parametrize(
    ("module", "kind", "versions"),
    [pytest.param(*message, id="-".join(message[:2])) for message in kio_oracle.all_messages()],
)
def test_kio_reads_our_messages_and_we_read_kios(
    module: str, kind: str, versions: list[int]
) -> None:
    names = import_module(f"ottla.wire.messages.{module}")
    for version in versions:
        cls = kio_oracle.kio_class(module, kind, version)
        our_class = getattr(names, cls.__name__)
        source = random.Random(zlib.crc32(f"{module} {kind} {version}".encode()))
        for _ in range(INSTANCES):
            message = kio_oracle.random_message(cls, source)
            data = kio_oracle.kio_bytes(message)

            read, position = our_class.read(data, 0, version)
            assert position == len(data)
            assert kio_oracle.our_bytes(read, version) == data

            built = kio_oracle.ours(message, names)
            assert kio_oracle.kio_read(cls, kio_oracle.our_bytes(built, version)) == message
            assert read == built
