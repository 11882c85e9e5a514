"""A driver of Spark that takes a topic to its end: `python -m benchmarks.engines.spark_driver FOLDER BROKER 2 400`."""

from __future__ import annotations

import functools
import sys

from pyspark.sql import functions
from tests.engines.fleet import make_versions
from tests.servers.spark import session

from paramfilter_engines.spark import Advance


def main() -> None:
    folder, broker, parts, rows = sys.argv[1:]
    spark = session()
    messages = spark.readStream.format("kafka").option("kafka.bootstrap.servers", broker)
    messages = messages.option("subscribe", "events").option("startingOffsets", "earliest")
    found = messages.option("maxOffsetsPerTrigger", rows).load()
    event = functions.from_json(found["value"].cast("string"), "series string, seq long, y double")
    events = found.select(event.alias("event"), found["offset"].alias("place")).select("event.*", "place")
    sink = lambda rows, number: rows.write.mode("overwrite").parquet(f"{folder}/rows/batch={number}")
    advance = Advance(functools.partial(make_versions, f"{folder}/states"), sink, parts=int(parts))
    query = events.writeStream.foreachBatch(advance).option("checkpointLocation", f"{folder}/checkpoint")
    query.trigger(availableNow=True).start().awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main()
