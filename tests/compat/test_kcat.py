"""kcat (Debian), a widely used command line client."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable

import pytest
from compat_confluent import make_topic

TIMEOUT_S = 90


def kcat(bootstrap: str, *arguments: str, stdin: str = "") -> str:
    done = subprocess.run(
        ["kcat", "-b", bootstrap, *arguments],
        input=stdin, capture_output=True, text=True, timeout=TIMEOUT_S,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_metadata_listing(bootstrap: str, topic_name: str) -> None:
    make_topic(bootstrap, topic_name, partitions=3)
    listed = kcat(bootstrap, "-L", "-t", topic_name)
    assert "1 brokers:" in listed
    assert f'topic "{topic_name}" with 3 partitions:' in listed
    described = json.loads(kcat(bootstrap, "-L", "-J", "-t", topic_name))
    assert described["brokers"][0]["name"] == bootstrap
    (topic,) = described["topics"]
    assert [p["partition"] for p in topic["partitions"]] == [0, 1, 2]
    assert all(p["isrs"] == p["replicas"] for p in topic["partitions"])


def test_produce_and_consume_lines(bootstrap: str, topic_name: str) -> None:
    lines = [f"line {i}" for i in range(100)]
    kcat(bootstrap, "-P", "-t", topic_name, "-p", "0", stdin="\n".join(lines) + "\n")
    got = kcat(bootstrap, "-C", "-q", "-e", "-t", topic_name, "-p", "0")
    assert got.splitlines() == lines


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_codecs(bootstrap: str, topic_name: str, codec: str) -> None:
    lines = [f"{codec} {i} " * 20 for i in range(200)]
    kcat(bootstrap, "-P", "-t", topic_name, "-p", "0", "-z", codec, stdin="\n".join(lines) + "\n")
    got = kcat(bootstrap, "-C", "-q", "-e", "-t", topic_name, "-p", "0", "-X", "check.crcs=true")
    assert got.splitlines() == lines


def test_keys_headers_and_tombstones(bootstrap: str, topic_name: str) -> None:
    make_topic(bootstrap, topic_name)
    kcat(bootstrap, "-P", "-t", topic_name, "-K", ":", "-Z", "-H", "h=1", stdin="k:v\nempty:\n")
    got = kcat(bootstrap, "-C", "-q", "-e", "-t", topic_name, "-f", "%o|%k|%S|%s|%h\n")
    assert got.splitlines() == ["0|k|1|v|h=1", "1|empty|-1||h=1"]


def test_offsets_from_the_end_and_at_a_place(bootstrap: str, topic_name: str) -> None:
    make_topic(bootstrap, topic_name)
    kcat(bootstrap, "-P", "-t", topic_name, stdin="".join(f"{i}\n" for i in range(50)))

    def read(*where: str) -> list[str]:
        return kcat(bootstrap, "-C", "-q", "-e", "-t", topic_name, "-p", "0", *where).split()

    assert read("-o", "-3") == ["47", "48", "49"]
    assert read("-o", "45") == ["45", "46", "47", "48", "49"]
    assert read("-o", "beginning", "-c", "2") == ["0", "1"]


def test_query_offsets_by_timestamp(bootstrap: str, topic_name: str) -> None:
    make_topic(bootstrap, topic_name)
    kcat(bootstrap, "-P", "-t", topic_name, stdin="a\nb\nc\n")
    assert kcat(bootstrap, "-Q", "-t", f"{topic_name}:0:-1").strip().endswith("offset 3")
    assert kcat(bootstrap, "-Q", "-t", f"{topic_name}:0:-2").strip().endswith("offset 0")
    assert kcat(bootstrap, "-Q", "-t", f"{topic_name}:0:1").strip().endswith("offset 0")


def test_timestamp_window(bootstrap: str, topic_name: str) -> None:
    make_topic(bootstrap, topic_name)
    kcat(bootstrap, "-P", "-t", topic_name, stdin="a\nb\n")
    got = kcat(bootstrap, "-C", "-q", "-e", "-t", topic_name, "-p", "0", "-o", "s@1")
    assert got.split() == ["a", "b"]


def test_group_mode(bootstrap: str, unique: Callable[[str], str], group_name: str) -> None:
    topics = [make_topic(bootstrap, unique("kcat"), partitions=2) for _ in range(2)]
    for topic in topics:
        kcat(bootstrap, "-P", "-t", topic, stdin="".join(f"{topic} {i}\n" for i in range(20)))
    reset = ("-X", "auto.offset.reset=earliest")
    got = kcat(bootstrap, "-G", group_name, "-q", "-c", "40", *reset, *topics)
    assert sorted(got.splitlines()) == sorted(f"{t} {i}" for t in topics for i in range(20))
    kcat(bootstrap, "-P", "-t", topics[0], stdin="later\n")
    assert kcat(bootstrap, "-G", group_name, "-q", "-c", "1", *reset, *topics) == "later\n"


def test_idempotent_producer(bootstrap: str, topic_name: str) -> None:
    make_topic(bootstrap, topic_name)
    lines = "".join(f"{i}\n" for i in range(2000))
    kcat(bootstrap, "-P", "-t", topic_name, "-X", "enable.idempotence=true", stdin=lines)
    assert kcat(bootstrap, "-C", "-q", "-e", "-t", topic_name) == lines


def test_json_envelope(bootstrap: str, topic_name: str) -> None:
    make_topic(bootstrap, topic_name)
    kcat(bootstrap, "-P", "-t", topic_name, "-k", "key", stdin="value\n")
    (line,) = kcat(bootstrap, "-C", "-q", "-e", "-J", "-t", topic_name).splitlines()
    envelope = json.loads(line)
    assert (envelope["key"], envelope["payload"], envelope["offset"]) == ("key", "value", 0)
    assert envelope["tstype"] == "create"
