"""An application whose tasks have their state on an S3 server, and in RocksDB here."""

from __future__ import annotations

from pathlib import Path

import pytest
from running_streams import Mill, last

from ottla.engine.state_folder import joined, state_folder
from ottla.streams import Long, String, Topology
from s3_server import s3_server, s3_uri

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]


def test_counts_resume_from_the_object_store_and_cleanup_deletes_them(
    mill: Mill, tmp_path: Path
) -> None:
    mill.topics(words=2, counted=1)
    topology = Topology(key=String(), value=String())
    counts = topology.stream("words").group_by_key().count(store="counts")
    counts.to_stream().to("counted", value=Long())
    with s3_server(tmp_path) as address:
        # With the password in it: Spark's workers were started before there was a server.
        place = s3_uri(address, "apps").replace("s3://", "s3://test:test@")
        config = {
            "state.dir": place,
            "statestore.memory.max.bytes": 0,
            "statestore.local.dir": str(tmp_path / "local"),
        }
        for life in (1, 2):
            app = mill.application(topology, config=config)
            mill.send("words", [("a", ""), ("b", ""), ("c", ""), ("a", "")], at_ms=life * 1000)
            app.start()
            expected = {"a": 2 * life, "b": life, "c": life}
            mill.received("counted", lambda found, wanted=expected: last(found) == wanted)  # type: ignore[misc]
            assert app.close()
        assert state_folder(joined(place, "app", "0", "tasks")).names()
        assert not (mill.state_dir / "app" / "0" / "tasks").exists()
        app = mill.application(topology, config=config)
        app.cleanup()
        assert state_folder(joined(place, "app")).names() == []
