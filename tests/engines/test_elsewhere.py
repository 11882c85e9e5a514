"""Versions on an S3 server, and versions that are a Delta table."""

import functools

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyarrow import fs
from tests.engines.fleet import batches, log, table, undisturbed
from tests.servers.fetch import s3_server
from tests.servers.running import S3Server

from paramfilter.errors import StoreError
from paramfilter.tables import Versions
from paramfilter_engines.parts import Driver, Worker

pytestmark = pytest.mark.slow

NUM_SERIES, NUM_STEPS, ROWS = 30, 12, 60


def advance_all(make, between=lambda number: None):
    """Take a log by two workers, each new for every batch."""
    versions = make()
    for number, events in enumerate(batches(log(NUM_SERIES, NUM_STEPS), ROWS)):
        with Driver(versions, parts=1).batch(number) as batch:
            Worker(make).work(batch, 0, events)
            between(number)


@pytest.fixture
def server(tmp_path):
    if not s3_server().exists():
        pytest.skip("NOT TESTED, no S3 server here: python -m tests.servers.fetch")
    with S3Server(tmp_path) as one:
        yield one


def in_bucket(server):
    files = fs.S3FileSystem(
        access_key=server.ACCESS, secret_key=server.SECRET, endpoint_override=server.address, scheme="http"
    )
    return Versions("bucket/states", table(), filesystem=files, compact_every=4)


def test_versions_on_s3_survive_a_kill_of_the_server(server):
    make = functools.partial(in_bucket, server)

    def between(number):
        if number == 2:
            server.end()
            server.start()

    advance_all(make, between)
    assert make().read().sort_by("series").equals(undisturbed(NUM_SERIES, NUM_STEPS)[0])


def test_of_two_drivers_on_s3_only_one_makes_a_version(server):
    events = log(NUM_SERIES, 4)
    one, other = in_bucket(server), in_bucket(server)
    with pytest.raises(StoreError, match="another driver"), Driver(one, parts=1).batch(0) as slow:
        Worker(lambda: one).work(slow, 0, events.slice(0, 50))
        with Driver(other, parts=1).batch(0) as fast:
            Worker(lambda: other).work(fast, 0, events.slice(0, 60))
    states, _, _ = table().advance(table().empty(), events.slice(0, 60))
    assert other.read().sort_by("series").equals(states.sort_by("series"))


def test_a_delta_table_holds_the_rows_of_the_newest_version(tmp_path):
    deltalake = pytest.importorskip("deltalake", reason="NOT TESTED, no deltalake here: use the env of tests.servers")
    from paramfilter_engines.delta import DeltaVersions

    make = lambda: DeltaVersions(tmp_path / "states", table(), compact_every=3)

    def between(number):
        if number == 3:
            deltalake.DeltaTable(tmp_path / "states" / "parts").optimize.compact()

    advance_all(make, between)
    versions, delta = make(), deltalake.DeltaTable(tmp_path / "states" / "parts")
    assert delta.transaction_version("paramfilter") == versions.newest()
    files = sorted(delta.file_uris())
    found = pa.concat_tables([pa.parquet.read_table(file) for file in files])
    last = dict(zip(found["series"].to_pylist(), found["state"].to_pylist(), strict=True))
    states = undisturbed(NUM_SERIES, NUM_STEPS)[0]
    assert versions.read().sort_by("series").equals(states)
    assert last == dict(zip(states["series"].to_pylist(), states["state"].to_pylist(), strict=True))
    assert pc.sum(pa.array([part["rows"] for part in versions.parts()])).as_py() == len(delta.to_pyarrow_table())
