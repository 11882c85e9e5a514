"""The servers are what their names say: a log that survives a kill, and objects that are written once."""

import pytest

from tests.servers.fetch import missing, s3_server
from tests.servers.running import Broker, S3Server

pytestmark = pytest.mark.slow


@pytest.mark.skipif(bool(missing("kafka")), reason=missing("kafka"))
def test_a_broker_that_is_killed_keeps_its_messages_and_takes_more_partitions(tmp_path):
    with Broker(tmp_path) as broker:
        broker.make_topic("events", 2)
        broker.publish("events", [(f"series {number % 7}", b"%d" % number) for number in range(1000)])
        broker.end()
        broker.start()
        broker.widen("events", 3)
        broker.publish("events", [(f"series {number % 7}", b"%d" % number) for number in range(1000, 1100)])
        found = broker.read_all("events")
    assert sorted(map(int, found)) == list(range(1100))


@pytest.mark.skipif(not s3_server().exists(), reason="NOT TESTED, no S3 server here: python -m tests.servers.fetch")
def test_the_s3_server_refuses_to_create_an_object_twice(tmp_path):
    s3fs = pytest.importorskip("s3fs", reason="NOT TESTED, no s3fs here: use the environment of tests.servers.fetch")
    with S3Server(tmp_path) as server:
        files = s3fs.S3FileSystem(**server.options)
        files.pipe_file("bucket/one", b"first", mode="create")
        server.end()
        server.start()
        with pytest.raises(OSError):
            files.pipe_file("bucket/one", b"second", mode="create")
        assert files.cat_file("bucket/one") == b"first"
