"""A run as a table: a row for each observation, for whoever works with pandas, polars or Parquet."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from paramfilter.errors import extra
from paramfilter.labels import PIT, Component, components_of
from paramfilter.results.tree import MOMENTS


def to_pandas(tree: Any) -> Any:
    """Return a pandas table with mean, sd and quantiles of each parameter and state after each observation."""
    return extra("pandas", "tables").DataFrame(columns_of(tree)).set_index("time")


def to_polars(tree: Any) -> Any:
    """Return a polars table with mean, sd and quantiles of each parameter and state after each observation."""
    return extra("polars", "tables").DataFrame(columns_of(tree))


def to_parquet(tree: Any, path: str | os.PathLike) -> None:
    """Write the same table to a Parquet file."""
    arrow, parquet = extra("pyarrow", "tables"), extra("pyarrow.parquet", "tables")
    parquet.write_table(arrow.table(columns_of(tree)), path)


def columns_of(tree: Any) -> dict[str, np.ndarray]:
    """Return the columns of the table by name."""
    columns: dict[str, np.ndarray] = {"time": _fine_enough(tree["filtered"]["time"].to_numpy())}
    for group in ("filtered", "filtered_state"):
        for name, variable in tree[group].data_vars.items():
            for one in components_of(str(name), variable.shape[2:]):
                columns |= {f"{one}_{part}": values_of(variable, one, part) for part in MOMENTS}
    stats = tree["filter_stats"].data_vars.items()
    return columns | {str(name): one.to_numpy() for name, one in stats if not str(name).startswith(PIT)}


def _fine_enough(times: np.ndarray) -> np.ndarray:
    """Count days and seconds in milliseconds: tables know nothing coarser."""
    is_coarse = times.dtype.kind == "M" and np.datetime_data(times.dtype)[0] not in ("ms", "us", "ns")
    return times.astype("datetime64[ms]") if is_coarse else times


def values_of(variable: Any, one: Component, moment: str) -> np.ndarray:
    """Return a moment (one of `MOMENTS`) of a component of a filtered variable over time."""
    return np.asarray(variable.sel(moment=moment))[:, *one.place]
