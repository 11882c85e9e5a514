"""Share the rows of large tables out over files that hold whole series."""

from __future__ import annotations

import os
import zlib
from pathlib import Path

import numpy as np

from paramfilter.errors import DataError, extra
from paramfilter_streams.backfilling.worker import EXTRA


def share_out(
    source: str | os.PathLike,
    target: str | os.PathLike,
    num_files: int,
    series: str = "series",
    rows_at_a_time: int = 1 << 20,
) -> None:
    """Read Parquet files of any order and write files that hold whole series, for `backfill`.

    Which file a series goes to depends on its id alone. Memory goes with `rows_at_a_time`, not with the data.

    Args:
        source: A Parquet file, or a directory of them.
        target: A directory that is not there yet.
        num_files: How many files to make; a few thousand series a file is a good size.
        series: The column of ids.
        rows_at_a_time: How much is read at once.
    """
    dataset, parquet = extra("pyarrow.dataset", EXTRA), extra("pyarrow.parquet", EXTRA)
    data, folder = dataset.dataset(source, format="parquet"), Path(target)
    if series not in data.schema.names:
        raise DataError(f"{source} has no column {series!r}; it has {data.schema.names}.")
    if folder.exists():
        raise DataError(f"{target} is there already; give a directory that is not, so that nothing is mixed up.")
    unfinished = folder.with_name(f".{folder.name}.{os.getpid()}")
    unfinished.mkdir(parents=True)
    writers = {}
    try:
        for batch in data.to_batches(batch_size=rows_at_a_time):
            place = _places(batch[series], num_files)
            order = np.argsort(place, kind="stable")
            ends = np.searchsorted(place[order], np.arange(num_files + 1))
            shared = batch.take(extra("pyarrow", EXTRA).array(order))
            for number in np.flatnonzero(np.diff(ends)).tolist():
                if number not in writers:
                    writers[number] = parquet.ParquetWriter(unfinished / f"part-{number:05d}.parquet", data.schema)
                writers[number].write_batch(shared.slice(ends[number], ends[number + 1] - ends[number]))
    finally:
        for writer in writers.values():
            writer.close()
    os.replace(unfinished, folder)


def _places(ids, num_files: int) -> np.ndarray:
    """Return the file that each id goes to."""
    values = ids.dictionary_encode()
    each = [zlib.crc32(repr(one).encode()) % num_files for one in values.dictionary.to_pylist()]
    return np.asarray(each, np.int64)[values.indices.to_numpy(zero_copy_only=False)]
