"""A Spark session on this machine alone, with what is here of its jars."""

from __future__ import annotations

import os
import sys
from typing import Any

from tests.servers.fetch import jars

LOOPBACK = "127.0.0.1"
DELTA = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}
QUIET = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.driver.host": LOOPBACK,
    "spark.driver.bindAddress": LOOPBACK,
    "spark.driver.memory": "2g",
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:CICompilerCount=2",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "200000",
}


def session(**more: Any) -> Any:
    """Return a session of two threads; a task is tried four times, as on a cluster."""
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    found = ",".join(map(str, jars("spark")))
    settings = QUIET | ({"spark.jars": found} | DELTA if found else {}) | more
    return SparkSession.builder.master("local[2,4]").config(map=settings).getOrCreate()
