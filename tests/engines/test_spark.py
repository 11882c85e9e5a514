"""A fleet in Spark gives the states and the rows of one process, to the bit."""

import functools
import json
import time

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.engines.fleet import batches, in_order, log, make_versions, undisturbed
from tests.servers.fetch import missing
from tests.servers.running import Broker

from paramfilter.errors import DataError

pytest.importorskip("pyspark", reason="NOT TESTED, no pyspark here: python -m tests.servers.fetch, then use its env")

from pyspark.sql import functions
from tests.servers.spark import session

from paramfilter_engines.spark import Advance

NUM_SERIES, NUM_STEPS = 30, 12


@pytest.fixture(scope="module")
def spark():
    one = session()
    yield one
    one.stop()


@pytest.fixture
def make(tmp_path):
    return functools.partial(make_versions, tmp_path / "states")


def to_parquet(folder):
    """Return a sink that writes the rows of a batch, in place of those that an earlier attempt wrote."""
    return lambda rows, number: rows.write.mode("overwrite").parquet(f"{folder}/batch={number}")


def rows_in(folder):
    files = sorted(folder.glob("batch=*/*.parquet"))
    return in_order(pa.concat_tables([pq.read_table(file, partitioning=None) for file in files]))


def require_as_undisturbed(make, folder):
    states, said = undisturbed(NUM_SERIES, NUM_STEPS)
    assert make().read().sort_by("series").equals(states)
    found = rows_in(folder)
    assert found.select(said.column_names).cast(said.schema).equals(said)


def test_batches_of_any_number_of_tasks_give_the_states_and_rows_of_one_process(spark, make, tmp_path):
    for number, events in enumerate(batches(log(NUM_SERIES, NUM_STEPS), 120)):
        advance = Advance(make, to_parquet(tmp_path / "rows"), parts=(2, 3, 2)[number % 3])
        advance(spark.createDataFrame(events), number)
    require_as_undisturbed(make, tmp_path / "rows")


def test_events_need_a_place(spark, make):
    events = spark.createDataFrame(log(3, 2).drop_columns("place"))
    with pytest.raises(DataError, match="give events a column place"):
        Advance(make, to_parquet("nowhere"))(events, 0)


def from_kafka(spark, broker):
    """Return the stream of events of a topic, as docs/spark.md reads it."""
    messages = spark.readStream.format("kafka").option("kafka.bootstrap.servers", broker.address)
    found = messages.option("subscribe", "events").option("startingOffsets", "earliest").load()
    event = functions.from_json(found["value"].cast("string"), "series string, seq long, y double")
    return found.select(event.alias("event"), found["offset"].alias("place")).select("event.*", "place")


def publish(broker, events):
    lines = events.select(["series", "seq", "y"]).to_pylist()
    broker.publish("events", [(line["series"], json.dumps(line).encode()) for line in lines])


def wait_for(query, make, num_rows):
    """Wait until a query has put so many rows behind it."""
    for _ in range(1800):
        if query.exception() is not None:
            raise query.exception()
        if make().newest() >= 0 and sum(one["numInputRows"] for one in query.recentProgress) >= num_rows:
            return
        time.sleep(0.1)
    raise TimeoutError(query.lastProgress)


@pytest.mark.slow
@pytest.mark.skipif(bool(missing("kafka", "spark")), reason=missing("kafka", "spark"))
def test_kafka_may_be_killed_and_have_more_partitions_later(spark, make, tmp_path):
    events, half = log(NUM_SERIES, NUM_STEPS), 200

    def start(parts):
        stored = to_parquet(tmp_path / "rows")

        def sink(rows, number):
            stored(rows, number)
            said = spark.read.parquet(f"{tmp_path}/rows/batch={number}")
            told = said.selectExpr("series AS key", "to_json(struct(*)) AS value").write.format("kafka")
            told.option("kafka.bootstrap.servers", broker.address).option("topic", "posteriors").save()

        writer = from_kafka(spark, broker).writeStream.foreachBatch(Advance(make, sink, parts=parts))
        return writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()

    with Broker(tmp_path / "kafka") as broker:
        broker.make_topic("events", 2)
        broker.make_topic("posteriors", 1)
        publish(broker, events.slice(0, 100))
        query = start(parts=2)
        wait_for(query, make, 100)
        broker.end()
        broker.start()
        publish(broker, events.slice(100, half - 100))
        wait_for(query, make, half)
        query.stop()
        # What the topic holds is done, so no series is in two partitions of one batch.
        broker.widen("events", 3)
        publish(broker, events.slice(half))
        query = start(parts=3)
        wait_for(query, make, len(events) - half)
        query.stop()
        told = [json.loads(one) for one in broker.read_all("posteriors")]
    states, said = undisturbed(NUM_SERIES, NUM_STEPS)
    assert make().read().sort_by("series").equals(states)
    found = rows_in(tmp_path / "rows").select(said.column_names).cast(said.schema)
    assert found.drop_columns("place").equals(said.drop_columns("place"))
    assert len(told) == len(said)
    assert {(one["series"], one["seq"], one["fate"]) for one in told} == {
        (one["series"], one["seq"], one["fate"]) for one in said.to_pylist()
    }
