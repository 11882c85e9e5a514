"""A driver of Ray that takes a log to its end: `python -m benchmarks.engines.ray_driver FOLDER CLUSTER 2 200`."""

from __future__ import annotations

import functools
import sys
from pathlib import Path

import pyarrow as pa
import ray
from pyarrow import feather
from tests.engines.fleet import make_versions

from paramfilter.checkpoint import write_atomically
from paramfilter_engines.ray import Stream


def main() -> None:
    folder, cluster, actors, rows = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    ray.init(address=cluster, log_to_driver=False)
    events = feather.read_table(folder / "events.arrow", memory_map=False)

    def sink(said: pa.Table, number: int) -> None:
        content = pa.BufferOutputStream()
        feather.write_feather(said, content)
        write_atomically(folder / "rows" / f"{number:06}.arrow", content.getvalue())

    stream = Stream(functools.partial(make_versions, folder / "states"), sink, actors=actors, num_cpus=0)
    while (start := stream.position or 0) < len(events):
        stream.advance(events.slice(start, rows), min(start + rows, len(events)))
    stream.close()


if __name__ == "__main__":
    main()
